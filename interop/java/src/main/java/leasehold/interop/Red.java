package leasehold.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RedLock, which a majority of several servers must grant. */
final class Red {
    private static final Map<String, RedissonClient> CLIENTS = new ConcurrentHashMap<>();

    private Red() {}

    /** The lock for {@code name@port,port,port}. */
    @SuppressWarnings("deprecation")
    static RLock lock(String name) {
        String[] parts = name.split("@");
        Stream<RLock> members = Stream.of(parts[1].split(",")).map(port -> client(port).getLock(parts[0]));
        return new RedissonRedLock(members.toArray(RLock[]::new));
    }

    private static RedissonClient client(String port) {
        return CLIENTS.computeIfAbsent(port, Red::connect);
    }

    private static RedissonClient connect(String port) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port).setConnectionMinimumIdleSize(2);
        return Redisson.create(config);
    }
}
