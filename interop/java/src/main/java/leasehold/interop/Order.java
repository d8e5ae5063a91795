package leasehold.interop;

/** A value with fields. Jackson reads and writes the fields, and sorts them. */
public class Order {
    private long totalCents;
    private String note;

    Order() {}

    Order(long totalCents, String note) {
        this.totalCents = totalCents;
        this.note = note;
    }

    @Override
    public String toString() {
        return totalCents + " " + note;
    }
}
