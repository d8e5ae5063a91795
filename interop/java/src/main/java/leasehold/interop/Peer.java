package leasehold.interop;

import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.config.BaseConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.Protocol;
import org.redisson.config.ReadMode;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/**
 * The Redisson client under test, and the Redisson client for the counters of crowds.
 *
 * <p>If the counters have no separate server, both components are the same client.
 */
record Peer(RedissonClient redisson, RedissonClient counters) {
    private static final String CLUSTER = "redis-cluster://";
    private static final String SENTINEL = "redis-sentinel://";

    static Peer connect(Flags flags) {
        Config config = new Config();
        servers(config, flags);
        flags.ifGiven("watchdog-ms", ms -> config.setLockWatchdogTimeout(Long.parseLong(ms)));
        flags.ifGiven("protocol", name -> config.setProtocol(Protocol.valueOf(name)));
        flags.ifGiven("script-cache", on -> config.setUseScriptCache(Boolean.parseBoolean(on)));
        flags.ifGiven("codec", name -> config.setCodec(codec(name)));
        String counters = flags.text("counter-url", "");
        flags.end();

        RedissonClient redisson = Redisson.create(config);
        return new Peer(redisson, counters.isEmpty() ? redisson : counting(counters));
    }

    private static void servers(Config config, Flags flags) {
        String url = flags.needed("url");
        if (url.startsWith(CLUSTER)) {
            cluster(config.useClusterServers(), url.substring(CLUSTER.length()), flags);
        } else if (url.startsWith(SENTINEL)) {
            sentinel(config.useSentinelServers(), url.substring(SENTINEL.length()), flags);
        } else {
            single(config.useSingleServer().setAddress(url), flags);
        }
    }

    private static void single(SingleServerConfig server, Flags flags) {
        // Each idle connection makes the start slower. The pool can still grow to its default size.
        server.setConnectionMinimumIdleSize(2);

        base(server, flags);
        flags.ifGiven("database", n -> server.setDatabase(Integer.parseInt(n)));
        flags.ifGiven("name-prefix", prefix -> PrefixMapper.install(server, prefix));
    }

    private static void cluster(ClusterServersConfig cluster, String nodes, Flags flags) {
        cluster.setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(2);
        base(cluster, flags);
        flags.ifGiven("read-mode", mode -> cluster.setReadMode(ReadMode.valueOf(mode)));
        for (String node : nodes.split(",")) {
            cluster.addNodeAddress("redis://" + node);
        }
    }

    /** Parses {@code host:port,host:port/master}. */
    private static void sentinel(SentinelServersConfig master, String sentinels, Flags flags) {
        master.setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(2);
        base(master, flags);
        flags.ifGiven("read-mode", mode -> master.setReadMode(ReadMode.valueOf(mode)));
        String[] parts = sentinels.split("/");
        master.setMasterName(parts[1]);
        for (String sentinel : parts[0].split(",")) {
            master.addSentinelAddress("redis://" + sentinel);
        }
    }

    private static void base(BaseConfig<?> servers, Flags flags) {
        flags.ifGiven("user", servers::setUsername);
        flags.ifGiven("password", servers::setPassword);
        flags.ifGiven("timeout-ms", ms -> servers.setTimeout(Integer.parseInt(ms)));
        flags.ifGiven("retry-attempts", n -> servers.setRetryAttempts(Integer.parseInt(n)));
    }

    private static RedissonClient counting(String url) {
        Config config = new Config();
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(2);
        return Redisson.create(config);
    }

    void shutdown() {
        redisson.shutdown();
        if (counters != redisson) {
            counters.shutdown();
        }
    }

    private static Codec codec(String name) {
        try {
            return (Codec) Class.forName(name).getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException("no codec " + name, e);
        }
    }

    /** The version of Redisson on the class path. */
    static String version() throws IOException {
        String place = "/META-INF/maven/org.redisson/redisson/pom.properties";
        try (InputStream in = Redisson.class.getResourceAsStream(place)) {
            Properties about = new Properties();
            about.load(in);
            return about.getProperty("version");
        }
    }
}
