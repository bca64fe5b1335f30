"""What policies share: the capacity model, bottlenecks, scalability, quantities and proposals."""
