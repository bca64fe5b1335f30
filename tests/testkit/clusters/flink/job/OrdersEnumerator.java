package flinkcluster;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;

/**
 * Deals the splits out evenly once all readers are there.
 *
 * <p>After a rescale it has nothing to deal: the readers' state holds the splits, and Flink spreads that
 * state over the new readers.
 */
final class OrdersEnumerator implements SplitEnumerator<OrdersSplit, List<OrdersSplit>> {
    private final SplitEnumeratorContext<OrdersSplit> context;
    private final List<OrdersSplit> unassigned;

    OrdersEnumerator(SplitEnumeratorContext<OrdersSplit> context, List<OrdersSplit> unassigned) {
        this.context = context;
        this.unassigned = new ArrayList<>(unassigned);
    }

    static List<OrdersSplit> allSplits(int count) {
        List<OrdersSplit> splits = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            splits.add(new OrdersSplit(number, 0));
        }
        return splits;
    }

    @Override
    public void start() {}

    @Override
    public void addReader(int subtask) {
        if (context.registeredReaders().size() < context.currentParallelism()) {
            return;
        }
        for (OrdersSplit split : unassigned) {
            context.assignSplit(split, split.number % context.currentParallelism());
        }
        unassigned.clear();
    }

    @Override
    public void addSplitsBack(List<OrdersSplit> splits, int subtask) {
        unassigned.addAll(splits);
    }

    @Override
    public List<OrdersSplit> snapshotState(long checkpointId) {
        return unassigned;
    }

    @Override
    public void handleSplitRequest(int subtask, String host) {}

    @Override
    public void close() {}
}
