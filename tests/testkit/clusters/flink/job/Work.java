package flinkcluster;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Counts records per key at a set cost per record, so that capacity is a known number of records per second. */
final class Work extends KeyedProcessFunction<Long, Tuple2<Long, byte[]>, Tuple2<Long, Long>> {
    private static final long serialVersionUID = 1L;

    /** Shorter pauses would cost more than they pretend to. */
    private static final long SMALLEST_SLEEP_NANOS = 1_000_000;

    private static final long SMALLEST_SPIN_NANOS = 20_000;

    private final long costNanos;
    private final boolean sleeps;
    private final int ballastMegabytes;

    /** Heap that only goes with the subtask. */
    private transient byte[][] ballast;

    private transient ValueState<Long> count;
    private transient long owedNanos;

    Work(Options options) {
        this.costNanos = options.costMicros * 1000;
        this.sleeps = options.sleeps;
        this.ballastMegabytes = options.ballastMegabytes;
    }

    @Override
    public void open(OpenContext context) {
        ballast = new byte[ballastMegabytes][1 << 20];
        count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Long.class));
    }

    @Override
    public void processElement(Tuple2<Long, byte[]> order, Context context, Collector<Tuple2<Long, Long>> out)
            throws Exception {
        Long before = count.value();
        long counted = before == null ? 1 : before + 1;
        count.update(counted);
        pay();
        out.collect(Tuple2.of(order.f0, counted));
    }

    /** Spends what is owed, and owes less next time if that took longer than wanted. */
    private void pay() throws InterruptedException {
        owedNanos += costNanos;
        if (owedNanos < (sleeps ? SMALLEST_SLEEP_NANOS : SMALLEST_SPIN_NANOS)) {
            return;
        }
        long started = System.nanoTime();
        if (sleeps) {
            Thread.sleep(owedNanos / 1_000_000, (int) (owedNanos % 1_000_000));
        } else {
            while (System.nanoTime() - started < owedNanos) {
                Thread.onSpinWait();
            }
        }
        // A stop of the whole machine is not work done in advance, but for one record.
        long ahead = Math.max(SMALLEST_SLEEP_NANOS, costNanos);
        owedNanos = Math.max(owedNanos - (System.nanoTime() - started), -ahead);
    }
}
