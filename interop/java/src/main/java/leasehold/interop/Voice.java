package leasehold.interop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/** Writes the events of all threads of a worker as lines of JSON, and numbers its holds. */
final class Voice {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream out;
    private final AtomicLong nextHold;

    Voice(PrintStream out, long firstHold) {
        this.out = out;
        this.nextHold = new AtomicLong(firstHold);
    }

    long nextHold() {
        return nextHold.getAndIncrement();
    }

    /** Writes a line before it returns, so lines are in the order of the calls. */
    synchronized void say(String op, Object... fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("op", op);
        for (int i = 0; i < fields.length; i += 2) {
            line.put((String) fields[i], fields[i + 1]);
        }
        try {
            out.println(JSON.writeValueAsString(line));
            out.flush();
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }
}
