"""Finding the jobs of clusters, with their configuration."""
