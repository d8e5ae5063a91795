package leasehold.interop;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import org.redisson.config.SingleServerConfig;

/**
 * A NameMapper that puts a prefix in front of every name.
 *
 * <p>The interface is {@code org.redisson.api.NameMapper} in Redisson 3 and {@code
 * org.redisson.config.NameMapper} in Redisson 4, so this class uses reflection, and implements the
 * parameter type of {@code setNameMapper}.
 */
final class PrefixMapper {
    private PrefixMapper() {}

    static void install(SingleServerConfig server, String prefix) {
        InvocationHandler mapper = (self, method, args) -> {
            String name = (String) args[0];
            return switch (method.getName()) {
                case "map" -> prefix + name;
                case "unmap" -> name.startsWith(prefix) ? name.substring(prefix.length()) : name;
                default -> throw new UnsupportedOperationException(method.toString());
            };
        };
        try {
            Method set = setter(server);
            Class<?> wanted = set.getParameterTypes()[0];
            set.invoke(server, Proxy.newProxyInstance(wanted.getClassLoader(), new Class<?>[] {wanted}, mapper));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this Redisson takes no NameMapper", e);
        }
    }

    private static Method setter(SingleServerConfig server) throws NoSuchMethodException {
        return Arrays.stream(server.getClass().getMethods())
                .filter(m -> m.getName().equals("setNameMapper"))
                .findFirst()
                .orElseThrow(() -> new NoSuchMethodException("setNameMapper"));
    }
}
