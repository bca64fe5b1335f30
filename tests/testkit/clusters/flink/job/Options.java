package flinkcluster;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

/** The job's options: {@code --name value} pairs. */
final class Options implements Serializable {
    private static final long serialVersionUID = 1L;

    final String name;
    final String curve;
    final long startMillis;
    final int splits;
    final int keys;
    final int payloadBytes;
    final String topic;
    final boolean partitionMetrics;
    final boolean lagMetric;
    final long costMicros;
    final boolean sleeps;
    final int parallelismSource;
    final int parallelismWork;
    final int parallelismSink;
    final boolean chainSink;
    final int ballastMegabytes;
    final int alertEvery;
    final long alertCostMillis;
    final int maxParallelism;
    final long checkpointIntervalMillis;

    Options(String[] arguments) {
        Map<String, String> given = pairs(arguments);
        name = take(given, "name", "scaling-job");
        curve = take(given, "curve", "0:100");
        startMillis = Long.parseLong(take(given, "start-ms", String.valueOf(System.currentTimeMillis())));
        splits = Integer.parseInt(take(given, "splits", "8"));
        keys = Integer.parseInt(take(given, "keys", "10000"));
        payloadBytes = Integer.parseInt(take(given, "payload-bytes", "200"));
        topic = take(given, "topic", "orders");
        partitionMetrics = Boolean.parseBoolean(take(given, "partition-metrics", "false"));
        lagMetric = Boolean.parseBoolean(take(given, "lag-metric", "true"));
        costMicros = Long.parseLong(take(given, "cost-micros", "1000"));
        sleeps = "sleep".equals(take(given, "cost", "sleep"));
        parallelismSource = Integer.parseInt(take(given, "parallelism-source", "1"));
        parallelismWork = Integer.parseInt(take(given, "parallelism-work", "1"));
        parallelismSink = Integer.parseInt(take(given, "parallelism-sink", "1"));
        chainSink = Boolean.parseBoolean(take(given, "chain-sink", "false"));
        ballastMegabytes = Integer.parseInt(take(given, "ballast-megabytes", "0"));
        alertEvery = Integer.parseInt(take(given, "alert-every", "1000"));
        alertCostMillis = Long.parseLong(take(given, "alert-cost-millis", "20"));
        maxParallelism = Integer.parseInt(take(given, "max-parallelism", "128"));
        checkpointIntervalMillis = Long.parseLong(take(given, "checkpoint-interval-ms", "2000"));
        if (!given.isEmpty()) {
            throw new IllegalArgumentException("unknown options: " + given.keySet());
        }
    }

    private static String take(Map<String, String> given, String name, String otherwise) {
        String value = given.remove("--" + name);
        return value == null ? otherwise : value;
    }

    private static Map<String, String> pairs(String[] arguments) {
        if (arguments.length % 2 != 0) {
            throw new IllegalArgumentException("options are pairs of --name and value");
        }
        Map<String, String> pairs = new HashMap<>();
        for (int i = 0; i < arguments.length; i += 2) {
            pairs.put(arguments[i], arguments[i + 1]);
        }
        return pairs;
    }
}
