"""Databases: connections, transactions, errors, diagnosis."""
