"""Rescales by the number of TaskManagers, and who starts and stops them."""
