"""The options of the HTTP endpoint: where it listens, and who may do what."""

from __future__ import annotations

from flink_autoscaler.standalone.settings.schema.types import Count, Flag, OptionSection, Text, Texts, option


class HttpSettings(OptionSection):
    """The HTTP endpoint with health, metrics and status."""

    enabled: Flag = option(True, "Whether there is an HTTP endpoint.")
    host: Text = option("127.0.0.1", "Address to listen on; anything but loopback shows job names to the network.")
    port: Count = option(8484, "Port to listen on; 0 takes any free one.", ge=0, le=65535)
    allowed_hosts: Texts = option(
        (),
        "Host names under which the page is reached, besides loopback; '*' for any. Others are refused, so that no "
        "foreign site can lead a browser here. Of no account for /healthz, /readyz and /metrics.",
    )
    viewer_token_file: Text | None = option(
        None, "File whose first line lets its bearer see page and API; without any token everybody may look."
    )
    viewer_token_env_variable: Text | None = option(None, "Name of the environment variable with the viewers' token.")
    operator_token_file: Text | None = option(
        None, "File whose first line lets its bearer give orders; without it nobody may over HTTP."
    )
    operator_token_env_variable: Text | None = option(
        None, "Name of the environment variable with the operators' token."
    )
    user_header: Text | None = option(
        None, "Header in which a trusted proxy hands on the name of the user, such as X-Forwarded-User."
    )
    trusted_proxies: Texts = option(("127.0.0.1", "::1"), "Addresses or networks whose user-header is believed.")
    operators: Texts = option((), "Users of user-header who may give orders; the others may look.")
    tls_cert_file: Text | None = option(None, "Certificate chain, PEM; with tls-key-file the endpoint speaks HTTPS.")
    tls_key_file: Text | None = option(None, "Private key of the certificate, PEM.")
    metrics_max_jobs: Count = option(
        10_000, "Jobs that /metrics shows with series of their own; those that come later are only counted.", ge=0
    )
    metrics_max_vertices: Count = option(
        20_000, "Vertices that /metrics shows; the jobs whose vertices would exceed it are shown without them.", ge=0
    )
