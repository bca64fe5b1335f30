"""Where values come from: files, environment, command line, jobs."""
