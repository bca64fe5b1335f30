"""From a reading to the metric window."""
