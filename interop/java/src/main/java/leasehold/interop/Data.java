package leasehold.interop;

import java.time.Duration;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RMap;
import org.redisson.api.RSet;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.LocalCachedMapOptions;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.TypedJsonJacksonCodec;

/** Executes the commands for maps and sets. Keys are strings. */
final class Data {
    /** The prefixes of the operations on maps and of the operations on sets. */
    static final String MAP = "map.";

    static final String SET = "set.";

    /** Maps with a local cache, which later commands use again. */
    private static final Map<String, RMap<String, Object>> CACHED = new ConcurrentHashMap<>();

    private Data() {}

    static Object map(RedissonClient redisson, Command command) throws Exception {
        RMap<String, Object> map = map(redisson, command.text("name"), codec(command), command);
        String key = command.text("key", "");
        return switch (command.op().substring(MAP.length())) {
            case "get" -> shown(map.get(key));
            case "put" -> shown(map.put(key, value(command, "value")));
            case "putFor" -> shown(map.getClass()
                    .getMethod("put", Object.class, Object.class, Duration.class)
                    .invoke(map, key, value(command, "value"), Duration.ofMillis(command.number("ttl_ms"))));
            case "putIfAbsent" -> shown(map.putIfAbsent(key, value(command, "value")));
            case "replace" -> map.replace(key, value(command, "old"), value(command, "value"));
            case "removeIf" -> map.remove(key, value(command, "value"));
            case "remove" -> shown(map.remove(key));
            case "addAndGet" -> shown(map.addAndGet(key, command.number("value")));
            case "size" -> map.size();
            case "computeIfAbsent" -> shown(map.computeIfAbsent(key, absent -> slowly(command)));
            case "lock" -> {
                map.getLock(key).lock();
                yield true;
            }
            case "tryLock" -> map.getLock(key).tryLock();
            case "unlock" -> {
                map.getLock(key).unlock();
                yield true;
            }
            case "lockName" -> map.getLock(key).getName();
            default -> throw new IllegalArgumentException("unknown op `" + command.op() + "`");
        };
    }

    @SuppressWarnings("unchecked")
    private static RMap<String, Object> map(RedissonClient redisson, String name, Codec codec, Command command)
            throws ReflectiveOperationException {
        if (command.is("cached")) {
            return CACHED.computeIfAbsent(name, absent -> redisson.getLocalCachedMap(
                    LocalCachedMapOptions.<String, Object>name(name).codec(codec)));
        } else if (command.is("native")) {
            // Redisson 3.29 does not have this method.
            return (RMap<String, Object>) redisson.getClass()
                    .getMethod("getMapCacheNative", String.class, Codec.class)
                    .invoke(redisson, name, codec);
        }
        return redisson.getMap(name, codec);
    }

    static Object set(RedissonClient redisson, Command command) {
        RSet<String> set = redisson.getSet(command.text("name"), codec(command));
        String value = command.text("value", "");
        return switch (command.op().substring(SET.length())) {
            case "add" -> set.add(value);
            case "contains" -> set.contains(value);
            case "remove" -> set.remove(value);
            case "tryAdd" -> set.tryAdd(value);
            case "readAll" -> new TreeSet<>(set.readAll()).toString();
            case "lockName" -> set.getLock(value).getName();
            default -> throw new IllegalArgumentException("unknown op `" + command.op() + "`");
        };
    }

    private static Object slowly(Command command) {
        try {
            Thread.sleep(command.number("sleep_ms"));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        return value(command, "value");
    }

    /** The codec that a command names. Default: the codec for texts. */
    static Codec codec(Command command) {
        Class<?> values = command.is("order") ? Order.class : command.is("long") ? Long.class : String.class;
        return switch (command.text("codec", "text")) {
            case "text" -> StringCodec.INSTANCE;
            case "json" -> json(new TypedJsonJacksonCodec(values, String.class, values));
            case "tagged" -> new JsonJacksonCodec();
            case "kryo" -> new Kryo5Codec();
            default -> throw new IllegalArgumentException("unknown codec: " + command.text("codec"));
        };
    }

    /** Keys are plain strings. Values of maps and elements of sets use the codec {@code values}. */
    private static Codec json(Codec values) {
        return new CompositeCodec(StringCodec.INSTANCE, values, values);
    }

    private static Object value(Command command, String field) {
        if (command.is("order")) {
            return new Order(command.number(field), null);
        }
        return command.is("long") ? (Object) command.number(field) : command.text(field);
    }

    private static String shown(Object value) {
        return value == null ? "nothing" : value.toString();
    }
}
