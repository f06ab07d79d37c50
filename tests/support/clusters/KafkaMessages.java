import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Prints the fields of every request and response of Kafka's protocol, in every version, as Kafka's own classes
 * have them: a line of JSON each, with key, version, whether it is flexible, request and response. A structure is
 * an object of its fields in their order, without tagged ones; an array is a list of its element. Both, and a
 * type, are in an object "nullable" if they may be null.
 */
public class KafkaMessages {
    public static void main(String[] args) {
        for (ApiMessageType api : ApiMessageType.values()) {
            for (short version = api.lowestSupportedVersion(); version <= api.highestSupportedVersion(true); version++) {
                System.out.printf(
                    "[%d, %d, %b, %s, %s]%n", api.apiKey(), version, api.requestHeaderVersion(version) >= 2,
                    describe(api.requestSchemas()[version]), describe(api.responseSchemas()[version]));
            }
        }
    }

    private static String describe(Type type) {
        String text;
        if (type instanceof Schema schema) {
            var fields = new StringBuilder();
            for (BoundField field : schema.fields()) {
                if (!(field.def.type instanceof TaggedFields)) {
                    fields.append(fields.isEmpty() ? "" : ", ");
                    fields.append("\"" + field.def.name + "\": " + describe(field.def.type));
                }
            }
            text = "{" + fields + "}";
        } else if (type.isArray()) {
            text = "[" + describe(type.arrayElementType().get()) + "]";
        } else {
            text = "\"" + type.toString().replace("COMPACT_", "").replace("NULLABLE_", "") + "\"";
        }
        return type.isNullable() ? "{\"nullable\": " + text + "}" : text;
    }
}
