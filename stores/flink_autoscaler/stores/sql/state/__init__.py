"""The state of jobs in the database."""
