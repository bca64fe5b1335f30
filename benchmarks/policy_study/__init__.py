"""A fair trial of scaling policies: loads that were written down before anything was tuned, one cost, one table."""
