"""Filters that keep rescales few and safe."""
