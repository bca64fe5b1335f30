"""Credentials, TLS and Kerberos."""
