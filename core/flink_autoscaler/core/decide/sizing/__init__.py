"""From what a policy proposes to the parallelism of vertices."""
