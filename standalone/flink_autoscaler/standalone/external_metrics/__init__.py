"""Lag from outside of Flink: the places that know it, and asking them beside the passes."""
