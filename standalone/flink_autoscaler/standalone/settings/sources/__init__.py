"""Sources of values: files, environment, command line, jobs."""
