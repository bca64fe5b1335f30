"""The options of the daemon, declared once."""
