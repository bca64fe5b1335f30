"""The metric history of the running daemon and of commands."""
