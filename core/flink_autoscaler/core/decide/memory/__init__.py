"""Memory of TaskManagers: tuning, Flink's model of it, network buffers."""
