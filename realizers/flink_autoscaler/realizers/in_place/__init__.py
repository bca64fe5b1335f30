"""Rescales by resource requirements (FLIP-291)."""
