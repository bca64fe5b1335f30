"""Supply chain: known vulnerabilities and licences of what the lock files pin (``make check-supply``)."""
