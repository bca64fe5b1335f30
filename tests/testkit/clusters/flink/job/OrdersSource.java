package flinkcluster;

import java.util.List;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** A source (FLIP-27) with a fixed number of splits whose records arrive along a scripted curve. */
final class OrdersSource implements Source<Tuple2<Long, byte[]>, OrdersSplit, List<OrdersSplit>> {
    private static final long serialVersionUID = 1L;

    private final Arrivals arrivals;
    private final Options options;

    OrdersSource(Options options) {
        this.options = options;
        this.arrivals = new Arrivals(Curve.parse(options.curve), options.startMillis, options.splits);
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<Tuple2<Long, byte[]>, OrdersSplit> createReader(SourceReaderContext context) {
        return new OrdersReader(context, arrivals, options);
    }

    @Override
    public SplitEnumerator<OrdersSplit, List<OrdersSplit>> createEnumerator(
            SplitEnumeratorContext<OrdersSplit> context) {
        return new OrdersEnumerator(context, OrdersEnumerator.allSplits(arrivals.splits));
    }

    @Override
    public SplitEnumerator<OrdersSplit, List<OrdersSplit>> restoreEnumerator(
            SplitEnumeratorContext<OrdersSplit> context, List<OrdersSplit> unassigned) {
        return new OrdersEnumerator(context, unassigned);
    }

    @Override
    public SimpleVersionedSerializer<OrdersSplit> getSplitSerializer() {
        return new OrdersSplit.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<List<OrdersSplit>> getEnumeratorCheckpointSerializer() {
        return new OrdersSplit.ListSerializer();
    }
}
