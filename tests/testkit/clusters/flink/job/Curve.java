package flinkcluster;

import java.io.Serializable;

/** Records per second over time: linear between points, the last value holds; nothing before the first point. */
final class Curve implements Serializable {
    private static final long serialVersionUID = 1L;

    private final double[] seconds;
    private final double[] rates;

    private Curve(double[] seconds, double[] rates) {
        this.seconds = seconds;
        this.rates = rates;
    }

    /** Reads {@code "0:500,60:500,90:4000"}: seconds since the start and records per second, seconds ascending. */
    static Curve parse(String text) {
        String[] points = text.split(",");
        double[] seconds = new double[points.length];
        double[] rates = new double[points.length];
        for (int i = 0; i < points.length; i++) {
            String[] point = points[i].trim().split(":");
            seconds[i] = Double.parseDouble(point[0]);
            rates[i] = Double.parseDouble(point[1]);
            if (i > 0 && seconds[i] <= seconds[i - 1]) {
                throw new IllegalArgumentException("curve must ascend in time: " + text);
            }
        }
        return new Curve(seconds, rates);
    }

    /** Records arrived until {@code second}: the integral of the curve. */
    double arrived(double second) {
        double sum = 0;
        int last = seconds.length - 1;
        for (int i = 0; i < last && seconds[i] < second; i++) {
            double until = Math.min(second, seconds[i + 1]);
            double length = until - seconds[i];
            double slope = (rates[i + 1] - rates[i]) / (seconds[i + 1] - seconds[i]);
            sum += length * (rates[i] + slope * length / 2);
        }
        return sum + Math.max(0, second - seconds[last]) * rates[last];
    }
}
