"""The page and the API of a running daemon: what is known about the fleet, why, and what people order."""
