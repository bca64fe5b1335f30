"""The settings of the daemon: sources, schema, checks."""
