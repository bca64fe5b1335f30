"""What the cluster, quotas and other jobs allow."""
