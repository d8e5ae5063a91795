package leasehold.interop;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/**
 * The {@code --name value} pairs of the command line. A setting without a flag keeps Redisson's
 * default.
 */
final class Flags {
    private final Map<String, String> unread = new HashMap<>();

    Flags(String[] args) {
        for (int i = 0; i < args.length; i += 2) {
            if (!args[i].startsWith("--") || i + 1 == args.length) {
                throw new IllegalArgumentException("expected `--name value`, found `" + args[i] + "`");
            }
            unread.put(args[i].substring(2), args[i + 1]);
        }
    }

    void ifGiven(String name, Consumer<String> use) {
        String value = unread.remove(name);
        if (value != null) {
            use.accept(value);
        }
    }

    /** Returns the value of an optional flag. */
    String text(String name, String otherwise) {
        String value = unread.remove(name);
        return value == null ? otherwise : value;
    }

    /** Returns the value of a required flag. */
    String needed(String name) {
        String value = unread.remove(name);
        if (value == null) {
            throw new IllegalArgumentException("`--" + name + "` is missing");
        }
        return value;
    }

    /** Fails if a flag was not read, because a test would rely on a setting without an effect. */
    void end() {
        if (!unread.isEmpty()) {
            throw new IllegalArgumentException("unknown flags " + unread.keySet());
        }
    }
}
