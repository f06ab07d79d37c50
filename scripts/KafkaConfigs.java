import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints the topic, group and consumer configs of the Kafka on the class path as JSON. */
public class KafkaConfigs {
    /** The range around zero in which a validator without a readable range is tried. */
    private static final int REACH = 1000;

    public static void main(String[] args) throws Exception {
        TreeSet<String> deprecated = deprecated(TopicConfig.class);
        Map<String, Object> topics = new TreeMap<>();
        for (ConfigDef.ConfigKey key : LogConfig.configKeys().values()) {
            List<Object> synonyms = new ArrayList<>();
            for (ConfigSynonym synonym
                    : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(key.name, List.of())) {
                // The converted value of 1 is the factor between the two units.
                synonyms.add(synonym(synonym.name(), Long.parseLong(synonym.converter().apply("1"))));
            }
            topics.put(key.name, describe(key, synonyms, deprecated.contains(key.name)));
        }
        Map<String, Object> groups = new TreeMap<>();
        for (ConfigDef.ConfigKey key : GroupConfig.CONFIG_DEF.configKeys().values()) {
            Optional<String> broker = GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.getOrDefault(key.name, Optional.empty());
            groups.put(key.name, describe(key, broker.map(name -> List.of(synonym(name, 1L))).orElse(List.of()), false));
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
        deprecated.removeAll(topics.keySet());
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("kafka_version", AppInfoParser.getVersion());
        all.put("topics", topics);
        all.put("groups", groups);
        all.put("consumers", consumers);
        all.put("refused_consumers", refused);
        all.put("retired_topics", deprecated);
        System.out.println(new ObjectMapper().writeValueAsString(all));
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
    private static TreeSet<?> refused(String holder, String field) throws ReflectiveOperationException {
        Field declared = Class.forName("org.apache.kafka.clients.consumer." + holder).getDeclaredField(field);
        declared.setAccessible(true);
        return new TreeSet<>((List<?>) declared.get(null));
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
        switch (validator.getClass().getSimpleName()) {
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
                    : Map.of("valid_values", valid, "empty_allowed", read(validator, "isEmptyAllowed"));
            case "LambdaValidator":
                if (key.type == ConfigDef.Type.INT) {
                    return Map.of("ranges", tried(key));
                }
                break;
            case "Validator":
                return choice(key);
            case "ThrottledReplicaListValidator":
            case "NonEmptyString":
                return Map.of("format", validator.toString());
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
