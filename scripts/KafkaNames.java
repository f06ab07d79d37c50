import java.lang.reflect.InvocationTargetException;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** Prints, as JSON, the names of the topic, group and consumer configs of any Kafka from 3.3 on. */
public class KafkaNames {
    /** The classes that had the names, the newest first; a Kafka without any of them has no such configs. */
    private static final Map<String, List<String>> PLACES = Map.of(
        "topics", List.of("org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig"),
        "groups", List.of("org.apache.kafka.coordinator.group.GroupConfig"),
        "consumers", List.of("org.apache.kafka.clients.consumer.ConsumerConfig"));

    public static void main(String[] args) throws ReflectiveOperationException {
        System.out.println(new TreeMap<>(PLACES).entrySet().stream()
            .map(KafkaNames::line)
            .collect(Collectors.joining(",\n", "{\n", "\n}")));
    }

    private static String line(Map.Entry<String, List<String>> kind) {
        String names = names(kind.getValue()).stream()
            .map(name -> '"' + name + '"')
            .collect(Collectors.joining(", "));
        return "\"" + kind.getKey() + "\": [" + names + "]";
    }

    private static TreeSet<String> names(List<String> places) {
        for (String place : places) {
            try {
                Object found = Class.forName(place).getMethod("configNames").invoke(null);
                // Until 3.4 topic configs are a Scala sequence.
                Object names = found instanceof Collection<?> list
                    ? list.stream().map(String::valueOf).collect(Collectors.joining(","))
                    : found.getClass().getMethod("mkString", String.class).invoke(found, ",");
                return new TreeSet<>(List.of(names.toString().split(",")));
            } catch (ClassNotFoundException absent) {
                continue;
            } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException unexpected) {
                throw new IllegalStateException(place, unexpected);
            }
        }
        return new TreeSet<>();
    }
}
