"""The policy ``slo``: the cheapest parallelism that keeps the lag acceptable."""
