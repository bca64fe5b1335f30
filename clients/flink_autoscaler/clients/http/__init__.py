"""Bounded HTTP requests, and the clients that are kept for them."""
