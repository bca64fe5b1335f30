"""The daemon as a service: schedules, reloads, signals, and what is put together for that."""
