from __future__ import annotations

import pytest

from flink_autoscaler.standalone.notifications.targets import redact_url
from flink_autoscaler.standalone.settings.secrets import mask_target_url, mask_value

URLS = [
    pytest.param("slack://s3cr3tA/s3cr3tB/s3cr3tC/#s3cr3tD", id="tokens as host and path"),
    pytest.param("tgram://123456789:s3cr3tBot/s3cr3tChat/", id="a token with a colon"),
    pytest.param("mailtos://s3cr3tUser:s3cr3t%21pass@mail.example.com?to=s3cr3t@example.com", id="a password"),
    pytest.param("https://hooks.example.com/services/s3cr3tT/s3cr3tB?key=s3cr3tK#s3cr3tF", id="a webhook"),
    pytest.param("https://s3cr3tUser:s3cr3tPass@hooks.example.com/s3cr3t", id="a webhook with a password"),
    pytest.param("http://[s3cr3t", id="half an address"),
    pytest.param("s3cr3t", id="no URL at all"),
]


@pytest.mark.parametrize("url", URLS)
def test_no_part_of_a_url_is_told(url: str) -> None:
    parts = [part for part in url.replace("%21", "!").split("/") if part]

    for text in (url, f"failed: {url}!", *(f"no such {part} here" for part in parts)):
        assert "s3cr3t" not in redact_url(text, url)


@pytest.mark.parametrize("url", URLS)
def test_where_a_target_is_can_be_shown(url: str) -> None:
    assert "s3cr3t" not in mask_target_url(url)
    assert "s3cr3t" not in mask_value("autoscaler.notifications.targets.0.url", url)
    assert "s3cr3t" not in mask_value("notifications.targets.0.url", url)


def test_the_host_of_a_web_address_stays() -> None:
    url = "https://hooks.example.com:8443/s3cr3t"

    assert mask_target_url(url) == "https://hooks.example.com:8443/******"
    assert "hooks.example.com:8443" in redact_url("POST https://hooks.example.com:8443: refused", url)


def test_keys_are_not_told_and_texts_are_bounded() -> None:
    text = redact_url("the key s3cr3tKey" + "x" * 5000, "https://hooks.example.com", "s3cr3tKey")

    assert "s3cr3t" not in text
    assert len(text) < 400


def test_where_a_secret_is_may_be_told() -> None:
    assert mask_value("autoscaler.notifications.targets.0.url-file", "/run/secrets/chat") == "/run/secrets/chat"
    assert mask_value("autoscaler.notifications.targets.3.key-env-variable", "HOOK_KEY") == "HOOK_KEY"
    assert mask_value("autoscaler.notifications.targets.3.auth.token-file", "/run/secrets/t") == "/run/secrets/t"
    assert mask_value("autoscaler.notifications.targets.3.headers.X-Key", "s3cr3t") == "******"
