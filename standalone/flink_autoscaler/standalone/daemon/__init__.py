"""The loop, the pass over a cluster, and how their parts are connected."""
