"""State, orders, records and profiles in the memory of the process."""
