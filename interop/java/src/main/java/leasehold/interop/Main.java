package leasehold.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * A process with a real Redisson client, which executes commands. Each command is one line of JSON.
 *
 * <p>Commands are read from stdin and name a thread, because Redisson's locks belong to threads.
 * Commands of one thread are executed in order. Commands of different threads are executed at the
 * same time. Each reply is written when its command completes. The end of stdin kills the process,
 * like a crash, so its holds stay until their leases end.
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
        // Redisson writes to stdout, too. This output must not appear between the replies.
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
                // The thread of these commands may be busy, so they run on the main thread.
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
