"""Scaling policies: what each would do about a job, as pure functions of what was observed."""
