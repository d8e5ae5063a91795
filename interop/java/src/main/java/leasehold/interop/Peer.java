package leasehold.interop;

import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.Protocol;
import org.redisson.config.ReadMode;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/** Sets up the Redisson that is under observation. */
final class Peer {
    private Peer() {}

    static RedissonClient connect(Flags flags) {
        Config config = new Config();
        String url = flags.needed("url");
        if (url.startsWith(CLUSTER)) {
            cluster(config.useClusterServers(), url.substring(CLUSTER.length()));
        } else if (url.startsWith(SENTINEL)) {
            sentinels(config.useSentinelServers(), url.substring(SENTINEL.length()));
        } else {
            single(config.useSingleServer().setAddress(url), flags);
        }
        flags.ifGiven("watchdog-ms", ms -> config.setLockWatchdogTimeout(Long.parseLong(ms)));
        flags.ifGiven("protocol", name -> config.setProtocol(Protocol.valueOf(name)));
        flags.ifGiven("script-cache", on -> config.setUseScriptCache(Boolean.parseBoolean(on)));
        flags.ifGiven("codec", name -> config.setCodec(codec(name)));
        flags.end();

        return Redisson.create(config);
    }

    private static final String CLUSTER = "redis-cluster://";
    private static final String SENTINEL = "redis-sentinel://";

    private static void single(SingleServerConfig server, Flags flags) {
        // Each connection kept in reserve costs start-up time; the pool still grows to its default size.
        server.setConnectionMinimumIdleSize(2);

        flags.ifGiven("database", n -> server.setDatabase(Integer.parseInt(n)));
        flags.ifGiven("user", server::setUsername);
        flags.ifGiven("password", server::setPassword);
        flags.ifGiven("timeout-ms", ms -> server.setTimeout(Integer.parseInt(ms)));
        flags.ifGiven("retry-attempts", n -> server.setRetryAttempts(Integer.parseInt(n)));
        flags.ifGiven("name-prefix", prefix -> PrefixMapper.install(server, prefix));
    }

    private static void cluster(ClusterServersConfig cluster, String nodes) {
        cluster.setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(2);
        cluster.setReadMode(ReadMode.MASTER);
        for (String node : nodes.split(",")) {
            cluster.addNodeAddress("redis://" + node);
        }
    }

    /** {@code host:port,host:port/name}. */
    private static void sentinels(SentinelServersConfig sentinels, String place) {
        sentinels.setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(2);
        sentinels.setReadMode(ReadMode.MASTER);
        String[] parts = place.split("/");
        sentinels.setMasterName(parts[1]);
        for (String sentinel : parts[0].split(",")) {
            sentinels.addSentinelAddress("redis://" + sentinel);
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
