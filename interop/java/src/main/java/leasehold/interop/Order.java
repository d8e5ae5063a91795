package leasehold.interop;

/** A value with two fields. Jackson reads these fields, and writes them in alphabetical order. */
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
