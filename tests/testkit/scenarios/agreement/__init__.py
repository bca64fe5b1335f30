"""Whether the simulator and real Flink agree about a job under the same curve of arrivals."""
