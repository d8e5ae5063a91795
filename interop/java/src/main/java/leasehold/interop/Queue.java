package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.List;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RedissonClient;

/** Executes the commands for queues. */
final class Queue {
    /** The prefix of these operations. */
    static final String OPS = "queue.";

    private Queue() {}

    static Object perform(RedissonClient redisson, Command command) throws Exception {
        RBlockingQueue<String> queue = redisson.getBlockingQueue(command.text("name"), Data.codec(command));
        return switch (command.op().substring(OPS.length())) {
            case "offer" -> queue.offer(command.text("element"));
            case "poll" -> queue.poll(command.number("wait_ms"), MILLISECONDS);
            case "takeAll" -> takeAll(queue, command.number("wait_ms"));
            case "size" -> queue.size();
            default -> throw new IllegalArgumentException("unknown op `" + command.op() + "`");
        };
    }

    /** Polls elements until no element has come for {@code millis}. */
    private static List<String> takeAll(RBlockingQueue<String> queue, long millis) throws Exception {
        List<String> taken = new ArrayList<>();
        for (String element; (element = queue.poll(millis, MILLISECONDS)) != null; ) {
            taken.add(element);
        }
        return taken;
    }
}
