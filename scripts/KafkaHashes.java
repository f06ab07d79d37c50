import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;

/**
 * Hashes keys with Kafka's own classes: prints Utils.murmur2 and Utils.toPositive of each line of standard input,
 * a key in hexadecimal. With the arguments ADDRESS TOPIC, prints instead the partition to which KafkaProducer
 * wrote a record with this key.
 */
public class KafkaHashes {
    public static void main(String[] args) throws IOException, ExecutionException, InterruptedException {
        List<byte[]> keys = new ArrayList<>();
        try (var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII))) {
            lines.lines().map(HexFormat.of()::parseHex).forEach(keys::add);
        }
        var answer = new StringBuilder();
        if (args.length == 2) {
            for (int partition : partitions(args[0], args[1], keys)) {
                answer.append(partition).append('\n');
            }
        } else {
            for (byte[] key : keys) {
                int hash = Utils.murmur2(key);
                answer.append(hash).append(' ').append(Utils.toPositive(hash)).append('\n');
            }
        }
        System.out.print(answer);
    }

    private static List<Integer> partitions(String address, String topic, List<byte[]> keys)
            throws ExecutionException, InterruptedException {
        Map<String, Object> properties = Map.of("bootstrap.servers", address, "linger.ms", 50);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(properties, bytes, bytes)) {
            for (byte[] key : keys) {
                sent.add(producer.send(new ProducerRecord<>(topic, key, new byte[0])));
            }
        }
        List<Integer> partitions = new ArrayList<>();
        for (var record : sent) {
            partitions.add(record.get().partition());
        }
        return partitions;
    }
}
