"""``/api/v1``: what the daemon knows, as JSON; described by OpenAPI 3.1 at ``/api/v1/openapi.json``."""
