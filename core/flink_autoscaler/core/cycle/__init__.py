"""One pass over one job."""
