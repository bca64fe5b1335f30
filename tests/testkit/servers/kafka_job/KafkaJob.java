package flinkcluster;

import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/** Reads a topic of Kafka, and does work of a known cost on each record: name, brokers, topic, group, microseconds. */
public final class KafkaJob {
    private static final int CHECKPOINT_MILLIS = 2000;

    private KafkaJob() {}

    public static void main(String[] arguments) throws Exception {
        String name = arguments[0];
        String topic = arguments[2];
        String group = arguments[3];
        Options options = new Options(new String[] {"--cost-micros", arguments[4]});
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setMaxParallelism(options.maxParallelism);
        env.enableCheckpointing(CHECKPOINT_MILLIS);
        // What a job's parameters usually are: those of its command line.
        env.getConfig().setGlobalJobParameters(Configuration.fromMap(Map.of("group.id", group)));
        KafkaSource<Tuple2<Long, byte[]>> source =
                KafkaSource.<Tuple2<Long, byte[]>>builder()
                        .setBootstrapServers(arguments[1])
                        .setTopics(topic)
                        .setGroupId(group)
                        .setProperty("partition.discovery.interval.ms", "5000")
                        .setProperty("commit.offsets.on.checkpoint", "true")
                        .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
                        .setDeserializer(KafkaRecordDeserializationSchema.valueOnly(new Orders()))
                        .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
                .uid("orders")
                .setParallelism(1)
                .keyBy(order -> order.f0, Types.LONG)
                .process(new Work(options), Types.TUPLE(Types.LONG, Types.LONG))
                .name("work")
                .uid("work")
                .setParallelism(1)
                .rebalance()
                .sinkTo(new DiscardingSink<>())
                .name("sink")
                .uid("sink")
                .setParallelism(1);
        env.execute(name);
    }

    /** A record is the text of its key. */
    private static final class Orders extends AbstractDeserializationSchema<Tuple2<Long, byte[]>> {
        private static final long serialVersionUID = 1L;

        Orders() {
            super(new TypeHint<Tuple2<Long, byte[]>>() {});
        }

        @Override
        public Tuple2<Long, byte[]> deserialize(byte[] message) {
            return Tuple2.of(Long.parseLong(new String(message)), message);
        }
    }
}
