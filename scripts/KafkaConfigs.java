import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints, as JSON, what the Kafka on the class path knows of topic and group configs. */
public class KafkaConfigs {
    /** How far from zero a validator that does not tell its range is tried. */
    private static final int REACH = 1000;

    public static void main(String[] args) throws Exception {
        TreeSet<String> deprecated = deprecatedTopicConfigs();
        Map<String, Object> topics = new TreeMap<>();
        for (ConfigDef.ConfigKey key : LogConfig.configKeys().values()) {
            List<Object> synonyms = new ArrayList<>();
            for (ConfigSynonym synonym
                    : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(key.name, List.of())) {
                // What the converter makes of 1 is the factor between the two units.
                synonyms.add(synonym(synonym.name(), Long.parseLong(synonym.converter().apply("1"))));
            }
            topics.put(key.name, describe(key, synonyms, deprecated.contains(key.name)));
        }
        Map<String, Object> groups = new TreeMap<>();
        for (ConfigDef.ConfigKey key : GroupConfig.CONFIG_DEF.configKeys().values()) {
            Optional<String> broker = GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.getOrDefault(key.name, Optional.empty());
            groups.put(key.name, describe(key, broker.map(name -> List.of(synonym(name, 1L))).orElse(List.of()), false));
        }
        deprecated.removeAll(topics.keySet());
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("kafka_version", AppInfoParser.getVersion());
        all.put("topics", topics);
        all.put("groups", groups);
        all.put("retired_topics", deprecated);
        System.out.println(new ObjectMapper().writeValueAsString(all));
    }

    private static Object synonym(String name, long factor) {
        return Map.of("name", name, "factor", factor);
    }

    /** Names that clients still hold a deprecated constant for; the broker may have dropped them already. */
    private static TreeSet<String> deprecatedTopicConfigs() throws IllegalAccessException {
        TreeSet<String> names = new TreeSet<>();
        for (Field field : TopicConfig.class.getFields()) {
            if (field.getName().endsWith("_CONFIG") && field.isAnnotationPresent(Deprecated.class)) {
                names.add((String) field.get(null));
            }
        }
        return names;
    }

    private static Map<String, Object> describe(ConfigDef.ConfigKey key, Object synonyms, boolean deprecated)
            throws ReflectiveOperationException {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("type", key.type.name());
        facts.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
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
            case "ValidList":
                return Map.of(
                    "valid_values", read(read(validator, "validString"), "validStrings"),
                    "empty_allowed", read(validator, "isEmptyAllowed"));
            case "LambdaValidator":
                if (key.type == ConfigDef.Type.INT) {
                    return Map.of("ranges", tried(key));
                }
                break;
            case "ThrottledReplicaListValidator":
            case "Validator":
                return Map.of("format", validator.toString());
            default:
                break;
        }
        throw new IllegalStateException(
            key.name + ": no way is known to describe " + validator.getClass().getName() + " " + validator);
    }

    private static Object read(Object object, String field) throws ReflectiveOperationException {
        Field declared = object.getClass().getDeclaredField(field);
        declared.setAccessible(true);
        return declared.get(object);
    }

    /** The ranges of integers that an opaque validator accepts. */
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
            throw new IllegalStateException(key.name + ": the range of " + key.validator + " is beyond what is tried");
        }
        return ranges;
    }

    private static boolean accepts(ConfigDef.ConfigKey key, int number) {
        try {
            key.validator.ensureValid(key.name, number);
            return true;
        } catch (ConfigException refused) {
            return false;
        }
    }
}
