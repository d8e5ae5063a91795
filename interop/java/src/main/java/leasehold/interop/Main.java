package leasehold.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * A real Redisson that does what it is told, one JSON line at a time.
 *
 * <p>Commands come on stdin and name the thread to run on, because Redisson's
 * locks belong to threads. Commands of one thread run in order, those of
 * different threads at the same time, and answers come as they finish. The end
 * of stdin ends the process at once, with all its locks held, like a crash.
 */
public final class Main {
    private final Peer peer;
    private final Performer performer;
    private final Answers answers;
    private final Map<String, Worker> workers = new HashMap<>();

    private Main(Peer peer, Answers answers) {
        this.peer = peer;
        this.performer = new Performer(peer);
        this.answers = answers;
    }

    public static void main(String[] args) throws Exception {
        Answers answers = new Answers(System.out);
        // Output of a library must not end up among the replies.
        System.setOut(System.err);

        Peer peer;
        try {
            peer = Peer.connect(new Flags(args));
        } catch (RuntimeException e) {
            answers.notReady(e);
            Runtime.getRuntime().halt(1);
            return;
        }
        answers.ready(peer.redisson().getId(), Peer.version());

        new Main(peer, answers).serve();
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Command command = Command.parse(line);
            switch (command.op()) {
                // Both concern a thread that may be busy, so they cannot run on it.
                case "interrupt" -> answers.answer(command, () -> worker(command).interrupt());
                case "shutdown" -> {
                    answers.answer(command, this::shutdown);
                    return;
                }
                default -> worker(command).submit(() -> answers.outcome(command, () -> performer.perform(command)));
            }
        }
    }

    private Worker worker(Command command) {
        return workers.computeIfAbsent(command.text("thread", "main"), Worker::new);
    }

    private Object shutdown() {
        peer.shutdown();
        return true;
    }
}
