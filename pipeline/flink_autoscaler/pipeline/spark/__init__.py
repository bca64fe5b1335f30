"""Passes on Spark: sessions, the driver, what travels to workers and what runs there."""
