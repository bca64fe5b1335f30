from __future__ import annotations

import pytest
from installing.failures import explain


@pytest.mark.parametrize(
    ("said", "to_do"),
    [
        pytest.param("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "PIP_CERT", id="TLS is opened"),
        pytest.param("invalid peer certificate: UnknownIssuer", "PIP_CERT", id="TLS is opened, as uv says it"),
        pytest.param("ProxyError('Cannot connect to proxy.')", "correct HTTPS_PROXY", id="no proxy"),
        pytest.param("Tunnel connection failed: 407 Proxy Authentication", "correct HTTPS_PROXY", id="refused"),
        pytest.param("Temporary failure in name resolution", "check the network", id="no network"),
        pytest.param("OSError: [Errno 28] No space left on device", "the disk is full", id="no room"),
        pytest.param("error: failed to write (os error 28)", "the disk is full", id="no room, as uv says it"),
        pytest.param("Permission denied: '/root/.cache'", "may not be written", id="no rights"),
    ],
)
def test_a_usual_reason_becomes_one_sentence_that_says_what_to_do(said: str, to_do: str) -> None:
    sentence = explain(said, {})

    assert sentence is not None
    assert to_do in sentence
    assert "run the same command again" in sentence
    assert "\n" not in sentence


def test_a_refused_connection_is_blamed_on_the_proxy_that_is_configured_without_its_password() -> None:
    sentence = explain("Connection refused", {"HTTPS_PROXY": "http://me:secret@proxy.example:3128"})

    assert sentence is not None
    assert "http://proxy.example:3128" in sentence
    assert "secret" not in sentence


def test_another_reason_is_not_explained_away() -> None:
    assert explain("error: invalid command 'bdist_wheel'", {}) is None
