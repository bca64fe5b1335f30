"""``make demo``: a real Flink job being scaled up and down while you watch."""
