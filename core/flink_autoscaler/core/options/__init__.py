"""One declaration per option: of the autoscaler, its policies and forecasts, and of Flink where it is read."""
