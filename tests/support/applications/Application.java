import java.io.FileInputStream;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * An application that runs until its stdin ends, or until it fails: then it prints why.
 *
 * Arguments: a file of client properties, the topic to read, and for a Streams application the topic to write to:
 * it counts values, or with a fourth argument copies records. Without the third, it is a member of a share group,
 * which prints what it reads.
 */
public class Application {
    private static final CountDownLatch ENDED = new CountDownLatch(1);

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        Thread stdin = new Thread(() -> {
            try {
                System.in.read();
            } catch (IOException closed) {
                // It ends, too.
            }
            ENDED.countDown();
        });
        stdin.setDaemon(true);
        stdin.start();
        if (arguments.length > 2) {
            stream(properties, build(arguments[1], arguments[2], arguments.length > 3));
        } else {
            share(properties, arguments[1]);
        }
    }

    /** Copies, or counts by a repartition topic, a changelog, and transactions if the properties say so. */
    private static Topology build(String from, String to, boolean copies) {
        StreamsBuilder builder = new StreamsBuilder();
        var text = Serdes.String();
        KStream<String, String> records = builder.stream(from, Consumed.with(text, text));
        if (!copies) {
            records = records.groupBy((key, value) -> value, Grouped.with("values", text, text))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                    .withKeySerde(text)
                    .withValueSerde(Serdes.Long()))
                .toStream()
                .mapValues(String::valueOf);
        }
        records.to(to, Produced.with(text, text));
        return builder.build();
    }

    private static void stream(Properties properties, Topology topology) throws InterruptedException {
        try (KafkaStreams streams = new KafkaStreams(topology, properties)) {
            streams.setUncaughtExceptionHandler(exception -> {
                fail(exception);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            ENDED.await();
        }
    }

    private static void share(Properties properties, String from) {
        var text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties, text, text)) {
            consumer.subscribe(List.of(from));
            while (ENDED.getCount() > 0) {
                consumer.poll(Duration.ofMillis(500)).forEach(record -> System.out.println(record.value()));
            }
        } catch (RuntimeException exception) {
            fail(exception);
        }
    }

    private static void fail(Throwable exception) {
        for (Throwable cause = exception; cause != null; cause = cause.getCause()) {
            System.out.println(cause.getClass().getSimpleName());
        }
        ENDED.countDown();
    }
}
