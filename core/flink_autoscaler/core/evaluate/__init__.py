"""From the metric window to evaluated metrics, and what a rescale costs."""
