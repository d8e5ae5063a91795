package leasehold.bench;

import java.util.stream.Stream;
import org.redisson.config.Config;

/** The addresses of the servers, from a URL of the form that Leasehold accepts. */
final class Where {
    private static final String CLUSTER = "redis-cluster://";
    private static final String SENTINEL = "redis-sentinel://";

    private Where() {}

    static Config of(String url) {
        Config config = new Config();
        if (url.startsWith(CLUSTER)) {
            config.useClusterServers().addNodeAddress(addresses(url.substring(CLUSTER.length())));
        } else if (url.startsWith(SENTINEL)) {
            String[] parts = url.substring(SENTINEL.length()).split("/");
            config.useSentinelServers().addSentinelAddress(addresses(parts[0])).setMasterName(parts[1]);
        } else {
            config.useSingleServer().setAddress(url);
        }
        return config;
    }

    private static String[] addresses(String list) {
        return Stream.of(list.split(",")).map(address -> "redis://" + address).toArray(String[]::new);
    }
}
