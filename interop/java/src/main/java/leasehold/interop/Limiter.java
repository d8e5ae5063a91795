package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateLimiterConfig;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

/** Executes the commands for rate limiters. */
final class Limiter {
    /** The prefix of these operations. */
    static final String OPS = "limiter.";

    private Limiter() {}

    static Object perform(RedissonClient redisson, Command command) throws Exception {
        RRateLimiter limiter = redisson.getRateLimiter(command.text("name"));
        long permits = command.number("permits", 1);
        return switch (command.op().substring(OPS.length())) {
            case "trySetRate" -> limiter.trySetRate(
                    type(command), command.number("rate"), command.number("interval_ms"), RateIntervalUnit.MILLISECONDS);
            case "setRate" -> {
                limiter.setRate(
                        type(command),
                        command.number("rate"),
                        command.number("interval_ms"),
                        RateIntervalUnit.MILLISECONDS);
                yield true;
            }
            case "acquire" -> {
                limiter.acquire(permits);
                yield true;
            }
            case "tryAcquire" -> command.has("wait_ms")
                    ? limiter.tryAcquire(permits, command.number("wait_ms"), MILLISECONDS)
                    : limiter.tryAcquire(permits);
            case "release" -> {
                // Redisson 3.29 does not have this method.
                RRateLimiter.class.getMethod("release", long.class).invoke(limiter, permits);
                yield true;
            }
            case "available" -> limiter.availablePermits();
            case "config" -> config(limiter.getConfig());
            case "delete" -> limiter.delete();
            default -> throw new IllegalArgumentException("unknown op `" + command.op() + "`");
        };
    }

    private static RateType type(Command command) {
        return command.is("per_client") ? RateType.PER_CLIENT : RateType.OVERALL;
    }

    private static List<Object> config(RateLimiterConfig config) {
        return List.of(config.getRate(), config.getRateInterval(), config.getRateType() == RateType.PER_CLIENT);
    }
}
