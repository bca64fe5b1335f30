package flinkcluster;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/** Two sources whose keyed work goes to an archive record by record, and to one sink of alerts once in a while. */
public final class AlertsJob {
    private static final TypeInformation<Tuple2<Long, Long>> WORKED = Types.TUPLE(Types.LONG, Types.LONG);
    private static final OutputTag<Tuple2<Long, Long>> ALERTS = new OutputTag<>("alerts", WORKED);

    private AlertsJob() {}

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setMaxParallelism(options.maxParallelism);
        if (options.checkpointIntervalMillis > 0) {
            env.enableCheckpointing(options.checkpointIntervalMillis);
        }
        DataStream<Tuple2<Long, Long>> alerts = branch(env, "left", options).union(branch(env, "right", options));
        alerts.rebalance()
                .process(new Alert(options.alertCostMillis))
                .sinkTo(new DiscardingSink<>())
                .name("alerts")
                .uid("alerts")
                .setParallelism(options.parallelismSink);
        env.execute(options.name);
    }

    private static DataStream<Tuple2<Long, Long>> branch(StreamExecutionEnvironment env, String side, Options options) {
        TypeInformation<Tuple2<Long, byte[]>> type = TypeInformation.of(new TypeHint<Tuple2<Long, byte[]>>() {});
        SingleOutputStreamOperator<Tuple2<Long, Long>> worked = env.fromSource(
                        new OrdersSource(options), WatermarkStrategy.noWatermarks(), "orders " + side, type)
                .uid("orders-" + side)
                .setParallelism(options.parallelismSource)
                .keyBy(order -> order.f0, Types.LONG)
                .process(new Work(options), WORKED)
                .name("work " + side)
                .uid("work-" + side)
                .setParallelism(options.parallelismWork)
                .process(new Split(options.alertEvery), WORKED)
                .name("split " + side)
                .uid("split-" + side)
                .setParallelism(options.parallelismWork);
        worked.rebalance()
                .sinkTo(new DiscardingSink<>())
                .name("archive " + side)
                .uid("archive-" + side)
                .setParallelism(1);
        return worked.getSideOutput(ALERTS);
    }

    /** Hands everything on, and every so many records an alert besides. */
    private static final class Split extends ProcessFunction<Tuple2<Long, Long>, Tuple2<Long, Long>> {
        private static final long serialVersionUID = 1L;

        private final int every;
        private transient long seen;

        Split(int every) {
            this.every = every;
        }

        @Override
        public void processElement(Tuple2<Long, Long> record, Context context, Collector<Tuple2<Long, Long>> out) {
            out.collect(record);
            if (++seen % every == 0) {
                context.output(ALERTS, record);
            }
        }
    }

    /** Takes its time for an alert. */
    private static final class Alert extends ProcessFunction<Tuple2<Long, Long>, Tuple2<Long, Long>> {
        private static final long serialVersionUID = 1L;

        private final long costMillis;

        Alert(long costMillis) {
            this.costMillis = costMillis;
        }

        @Override
        public void processElement(Tuple2<Long, Long> alert, Context context, Collector<Tuple2<Long, Long>> out)
                throws InterruptedException {
            Thread.sleep(costMillis);
            out.collect(alert);
        }
    }
}
