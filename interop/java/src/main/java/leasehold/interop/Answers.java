package leasehold.interop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;

/**
 * The replies of all threads on stdout: one line for each command.
 *
 * <p>Times are microseconds of the wall clock, so that another process on this
 * host can compare them with its own times.
 */
final class Answers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream out;

    Answers(PrintStream out) {
        this.out = out;
    }

    void ready(String id, String version) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("ready", true);
        line.put("id", id);
        line.put("version", version);
        line.put("pid", ProcessHandle.current().pid());
        send(line);
    }

    void notReady(Throwable e) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("ready", false);
        line.put("error", e.getClass().getName());
        line.put("message", String.valueOf(e.getMessage()));
        send(line);
    }

    /** Runs {@code work} on the calling thread and sends its result. */
    void answer(Command command, Callable<Object> work) {
        outcome(command, work).run();
    }

    /** Runs {@code work} on the calling thread. Returns a task that sends the result. */
    Runnable outcome(Command command, Callable<Object> work) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", command.id());
        long beganAt = now();
        try {
            Object value = work.call();
            long at = now();
            line.put("ok", true);
            line.put("value", value);
            line.put("began_at", beganAt);
            line.put("at", at);
        } catch (Throwable e) {
            long at = now();
            line.put("ok", false);
            line.put("error", e.getClass().getName());
            line.put("message", String.valueOf(e.getMessage()));
            line.put("began_at", beganAt);
            line.put("at", at);
        }
        return () -> send(line);
    }

    static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    private synchronized void send(Map<String, Object> line) {
        try {
            out.println(JSON.writeValueAsString(line));
            out.flush();
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }
}
