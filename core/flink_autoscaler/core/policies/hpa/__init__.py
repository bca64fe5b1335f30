"""The policy ``hpa``, and the filter made of it."""
