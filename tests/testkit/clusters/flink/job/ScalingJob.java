package flinkcluster;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** Orders along a scripted curve, keyed work of a known cost, a sink: a job that is worth scaling. */
public final class ScalingJob {
    private ScalingJob() {}

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setMaxParallelism(options.maxParallelism);
        if (options.checkpointIntervalMillis > 0) {
            env.enableCheckpointing(options.checkpointIntervalMillis);
        }
        sink(work(orders(env, options), options), options);
        env.execute(options.name);
    }

    private static DataStream<Tuple2<Long, byte[]>> orders(StreamExecutionEnvironment env, Options options) {
        TypeInformation<Tuple2<Long, byte[]>> type = TypeInformation.of(new TypeHint<Tuple2<Long, byte[]>>() {});
        return env.fromSource(new OrdersSource(options), WatermarkStrategy.noWatermarks(), "orders", type)
                .uid("orders")
                .setParallelism(options.parallelismSource);
    }

    private static SingleOutputStreamOperator<Tuple2<Long, Long>> work(
            DataStream<Tuple2<Long, byte[]>> orders, Options options) {
        return orders.keyBy(order -> order.f0, Types.LONG)
                .process(new Work(options), Types.TUPLE(Types.LONG, Types.LONG))
                .name("work")
                .uid("work")
                .setParallelism(options.parallelismWork);
    }

    private static void sink(DataStream<Tuple2<Long, Long>> worked, Options options) {
        DataStream<Tuple2<Long, Long>> arranged = options.chainSink ? worked : worked.rebalance();
        arranged.sinkTo(new DiscardingSink<>())
                .name("sink")
                .uid("sink")
                .setParallelism(options.chainSink ? options.parallelismWork : options.parallelismSink);
    }
}
