package flinkcluster;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;

/** Emits what has arrived at its splits, in turn, as fast as it is taken; then waits. */
final class OrdersReader implements SourceReader<Tuple2<Long, byte[]>, OrdersSplit> {
    private static final long WAIT_MILLIS = 10;

    private final SourceReaderContext context;
    private final Arrivals arrivals;
    private final Options options;
    private final byte[] payload;
    private final Counter recordsIn;
    private final List<OrdersSplit> splits = new CopyOnWriteArrayList<>();
    private int turn;
    private long nowMillis;

    OrdersReader(SourceReaderContext context, Arrivals arrivals, Options options) {
        this.context = context;
        this.arrivals = arrivals;
        this.options = options;
        this.payload = new byte[options.payloadBytes];
        this.recordsIn = context.metricGroup().getIOMetricGroup().getNumRecordsInCounter();
    }

    @Override
    public void start() {
        if (options.lagMetric) {
            context.metricGroup().setPendingRecordsGauge(this::pending);
        }
    }

    @Override
    public void addSplits(List<OrdersSplit> added) {
        splits.addAll(added);
        if (options.partitionMetrics) {
            added.forEach(this::registerOffset);
        }
    }

    /** Records that have arrived at this reader's splits and were not emitted. */
    private long pending() {
        long now = System.currentTimeMillis();
        return splits.stream().mapToLong(split -> pending(split, now)).sum();
    }

    private long pending(OrdersSplit split, long now) {
        return Math.max(0, arrivals.arrived(split.number, now) - split.emitted);
    }

    /** Named the way the Kafka reader names it: the offset of the last record, -1 before the first. */
    private void registerOffset(OrdersSplit split) {
        MetricGroup reader = context.metricGroup().addGroup("KafkaSourceReader");
        MetricGroup topic = reader.addGroup("topic", options.topic);
        MetricGroup partition = topic.addGroup("partition", String.valueOf(split.number));
        partition.gauge("currentOffset", () -> split.emitted - 1);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<Tuple2<Long, byte[]>> output) {
        OrdersSplit split = nextWithRecords();
        if (split == null) {
            nowMillis = System.currentTimeMillis();
            split = nextWithRecords();
        }
        if (split == null) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        long record = split.emitted * arrivals.splits + split.number;
        output.collect(Tuple2.of(key(record), payload));
        split.emitted++;
        recordsIn.inc();
        return InputStatus.MORE_AVAILABLE;
    }

    private OrdersSplit nextWithRecords() {
        for (int i = 0; i < splits.size(); i++) {
            OrdersSplit split = splits.get(Math.floorMod(turn++, splits.size()));
            if (split.emitted < arrivals.arrived(split.number, nowMillis)) {
                return split;
            }
        }
        return null;
    }

    /** A uniform key that depends on the record only, so that a replay repeats it (mixer of SplitMix64). */
    private long key(long record) {
        long mixed = (record + 1) * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return Math.floorMod(mixed ^ (mixed >>> 31), options.keys);
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return new CompletableFuture<Void>().completeOnTimeout(null, WAIT_MILLIS, TimeUnit.MILLISECONDS);
    }

    @Override
    public List<OrdersSplit> snapshotState(long checkpointId) {
        List<OrdersSplit> copies = new ArrayList<>();
        splits.forEach(split -> copies.add(new OrdersSplit(split.number, split.emitted)));
        return copies;
    }

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public void close() {}
}
