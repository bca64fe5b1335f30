"""Forecasts of what will arrive at the sources of a job."""
