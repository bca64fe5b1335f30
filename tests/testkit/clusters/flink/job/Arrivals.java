package flinkcluster;

import java.io.Serializable;

/** What has arrived at each split by now, like the end offsets of a topic's partitions. */
final class Arrivals implements Serializable {
    private static final long serialVersionUID = 1L;

    final int splits;
    private final Curve curve;
    private final long startMillis;

    Arrivals(Curve curve, long startMillis, int splits) {
        this.curve = curve;
        this.startMillis = startMillis;
        this.splits = splits;
    }

    /** Records that have arrived at one split; over all splits they add up to the integral of the curve. */
    long arrived(int split, long nowMillis) {
        long total = (long) curve.arrived((nowMillis - startMillis) / 1000.0);
        return (total + splits - 1 - split) / splits;
    }
}
