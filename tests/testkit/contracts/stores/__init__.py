"""The tests that several implementations of what the daemon keeps have to pass: in memory and in a database."""
