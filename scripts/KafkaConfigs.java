import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.utils.AppInfoParser;

/** Prints the topic, group and consumer configs of the Kafka on the class path, 2.8 or later, as JSON. */
@SuppressWarnings("unchecked")
public class KafkaConfigs {
    /** The range around zero in which a validator without a readable range is tried. */
    private static final int REACH = 1000;
    private static final String GROUPS = "org.apache.kafka.coordinator.group.GroupConfig";

    public static void main(String[] args) throws Exception {
        TreeSet<String> deprecated = deprecated(TopicConfig.class);
        Map<String, Object> topics = new TreeMap<>();
        Map<?, ?> brokers = (Map<?, ?>) constant("org.apache.kafka.server.config.ServerTopicConfigSynonyms",
            "ALL_TOPIC_CONFIG_SYNONYMS").orElse(Map.of());
        for (ConfigDef.ConfigKey key : topicKeys()) {
            List<Object> synonyms = new ArrayList<>();
            for (Object synonym : brokers.containsKey(key.name) ? (List<?>) brokers.get(key.name) : List.of()) {
                // The converted value of 1 is the factor between the two units.
                Function<String, String> converter = (Function<String, String>) call(synonym, "converter");
                synonyms.add(synonym((String) call(synonym, "name"), Long.parseLong(converter.apply("1"))));
            }
            topics.put(key.name, describe(key, synonyms, deprecated.contains(key.name)));
        }
        Map<String, Object> groups = new TreeMap<>();
        Optional<Object> defined = constant(GROUPS, "CONFIG_DEF").or(() -> constant(GROUPS, "CONFIG"));
        Map<?, ?> ofBrokers = (Map<?, ?>) constant(GROUPS, "ALL_GROUP_CONFIG_SYNONYMS").orElse(Map.of());
        if (defined.isPresent()) {
            for (ConfigDef.ConfigKey key : ((ConfigDef) defined.get()).configKeys().values()) {
                List<Object> synonyms = ofBrokers.get(key.name) instanceof Optional<?> broker && broker.isPresent()
                    ? List.of(synonym((String) broker.get(), 1L)) : List.of();
                groups.put(key.name, describe(key, synonyms, false));
            }
        }
        TreeSet<String> leaving = deprecated(ConsumerConfig.class);
        Map<String, Object> consumers = new TreeMap<>();
        for (ConfigDef.ConfigKey key : ConsumerConfig.configDef().configKeys().values()) {
            consumers.put(key.name, describe(key, List.of(), leaving.contains(key.name)));
        }
        Map<String, Object> refused = new TreeMap<>();
        refused.put("classic", refused("ConsumerConfig", "CLASSIC_PROTOCOL_UNSUPPORTED_CONFIGS"));
        refused.put("consumer", refused("ConsumerConfig", "CONSUMER_PROTOCOL_UNSUPPORTED_CONFIGS"));
        refused.put("share", refused("ShareConsumerConfig", "SHARE_GROUP_UNSUPPORTED_CONFIGS"));
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("kafka_version", AppInfoParser.getVersion());
        all.put("topics", topics);
        all.put("groups", groups);
        all.put("consumers", consumers);
        all.put("refused_consumers", refused);
        System.out.println(new ObjectMapper().writeValueAsString(all));
    }

    /** The keys of topic configs; until 3.4 they are in a Scala object. */
    private static Collection<ConfigDef.ConfigKey> topicKeys() throws ReflectiveOperationException {
        try {
            Object keys = Class.forName("org.apache.kafka.storage.internals.log.LogConfig")
                .getMethod("configKeys").invoke(null);
            return ((Map<String, ConfigDef.ConfigKey>) keys).values();
        } catch (ClassNotFoundException absent) {
            Object companion = Class.forName("kafka.log.LogConfig$").getField("MODULE$").get(null);
            return ((ConfigDef) call(companion, "configDefCopy")).configKeys().values();
        }
    }

    /** The value of a static field; empty in a Kafka without the class or the field. */
    private static Optional<Object> constant(String holder, String field) {
        try {
            Field declared = Class.forName(holder).getDeclaredField(field);
            declared.setAccessible(true);
            return Optional.of(declared.get(null));
        } catch (ClassNotFoundException | NoSuchFieldException absent) {
            return Optional.empty();
        } catch (IllegalAccessException unexpected) {
            throw new IllegalStateException(holder, unexpected);
        }
    }

    private static Object call(Object object, String method) throws ReflectiveOperationException {
        return object.getClass().getMethod(method).invoke(object);
    }

    private static Object synonym(String name, long factor) {
        return Map.of("name", name, "factor", factor);
    }

    /** Names with a deprecated constant in the clients; the broker may not have them any more. */
    private static TreeSet<String> deprecated(Class<?> holder) throws IllegalAccessException {
        TreeSet<String> names = new TreeSet<>();
        for (Field field : holder.getFields()) {
            if (field.getName().endsWith("_CONFIG") && field.isAnnotationPresent(Deprecated.class)) {
                names.add((String) field.get(null));
            }
        }
        return names;
    }

    /** The configs that prevent a consumer of one protocol from starting. */
    private static TreeSet<?> refused(String holder, String field) {
        return new TreeSet<>((List<?>) constant("org.apache.kafka.clients.consumer." + holder, field).orElse(List.of()));
    }

    private static String defaultOf(ConfigDef.ConfigKey key) {
        if (!key.hasDefault()) {
            return null;
        }
        if (key.defaultValue instanceof List<?> list) {
            // A list of classes would be written with "class " before each.
            return list.stream()
                .map(each -> each instanceof Class<?> type ? type.getName() : String.valueOf(each))
                .collect(Collectors.joining(","));
        }
        return ConfigDef.convertToString(key.defaultValue, key.type);
    }

    private static Map<String, Object> describe(ConfigDef.ConfigKey key, Object synonyms, boolean deprecated)
            throws ReflectiveOperationException {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("type", key.type.name());
        facts.put("default", defaultOf(key));
        facts.put("importance", key.importance.name());
        facts.put("documentation", key.documentation);
        facts.put("internal", key.internalConfig);
        facts.put("deprecated", deprecated);
        facts.put("synonyms", synonyms);
        if (key.validator != null) {
            facts.putAll(constraint(key));
        }
        return facts;
    }

    private static Map<String, Object> constraint(ConfigDef.ConfigKey key) throws ReflectiveOperationException {
        ConfigDef.Validator validator = key.validator;
        // The class of a Scala object has a dollar sign at its end.
        switch (validator.getClass().getSimpleName().replace("$", "")) {
            case "Range":
                List<Object> range = new ArrayList<>();
                range.add(read(validator, "min"));
                range.add(read(validator, "max"));
                return Map.of("ranges", List.of(range));
            case "ValidString":
                return Map.of("valid_values", read(validator, "validStrings"));
            case "CaseInsensitiveValidString":
                return Map.of(
                    "valid_values", inCaseOf(key, (Set<?>) read(validator, "validStrings")), "ignores_case", true);
            case "ValidList":
                List<?> valid = (List<?>) read(read(validator, "validString"), "validStrings");
                return valid.isEmpty()
                    ? Map.of()
                    : Map.of("valid_values", valid, "empty_allowed", accepts(key, List.of()));
            case "LambdaValidator":
            case "":
                if (key.type == ConfigDef.Type.INT) {
                    return Map.of("ranges", tried(key));
                }
                break;
            case "Validator":
                return choice(key);
            case "ThrottledReplicaListValidator":
            case "NonEmptyString":
                return Map.of("format", validator.toString());
            case "NonNullValidator":
            // Each release has its own versions of the message format.
            case "ApiVersionValidator":
            case "MetadataVersionValidator":
                return Map.of();
            default:
                break;
        }
        throw new IllegalStateException(
            key.name + ": unknown validator " + validator.getClass().getName() + " " + validator);
    }

    /** The values of a validator that are only in its description; the description if they are not a fixed choice. */
    private static Map<String, Object> choice(ConfigDef.ConfigKey key) {
        String text = key.validator.toString();
        List<String> values = List.of(text.substring(1, text.length() - 1).split(", "));
        if (!values.stream().allMatch(value -> accepts(key, value))) {
            return Map.of("format", text);
        }
        boolean any = values.stream().allMatch(value -> accepts(key, value.toUpperCase(Locale.ROOT)));
        return any
            ? Map.of("valid_values", inCaseOf(key, new TreeSet<>(values)), "ignores_case", true)
            : Map.of("valid_values", values);
    }

    /** Values that ignore case, in the case of Kafka's default. */
    private static List<String> inCaseOf(ConfigDef.ConfigKey key, Set<?> values) {
        String usual = String.valueOf(key.defaultValue);
        boolean lower = usual.equals(usual.toLowerCase(Locale.ROOT));
        return values.stream()
            .map(String::valueOf)
            .map(value -> lower ? value.toLowerCase(Locale.ROOT) : value.toUpperCase(Locale.ROOT))
            .sorted()
            .toList();
    }

    private static Object read(Object object, String field) throws ReflectiveOperationException {
        Field declared = object.getClass().getDeclaredField(field);
        declared.setAccessible(true);
        return declared.get(object);
    }

    /** The ranges of integers that a validator without a readable range accepts. */
    private static List<List<Integer>> tried(ConfigDef.ConfigKey key) {
        List<List<Integer>> ranges = new ArrayList<>();
        Integer start = null;
        for (int number = -REACH; number <= REACH + 1; number++) {
            boolean valid = number <= REACH && accepts(key, number);
            if (valid && start == null) {
                start = number;
            } else if (!valid && start != null) {
                ranges.add(List.of(start, number - 1));
                start = null;
            }
        }
        boolean whole = accepts(key, -REACH) || accepts(key, REACH)
            || accepts(key, Integer.MIN_VALUE) || accepts(key, Integer.MAX_VALUE);
        if (ranges.isEmpty() || whole) {
            throw new IllegalStateException(key.name + ": the range of " + key.validator + " exceeds the tried range");
        }
        return ranges;
    }

    private static boolean accepts(ConfigDef.ConfigKey key, Object value) {
        try {
            key.validator.ensureValid(key.name, value);
            return true;
        } catch (ConfigException refused) {
            return false;
        }
    }
}
