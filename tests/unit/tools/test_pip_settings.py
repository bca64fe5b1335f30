from __future__ import annotations

from pip_settings import parse_settings


def test_variables_win_over_files_and_a_command_over_all_commands() -> None:
    settings = parse_settings(
        ":env:.index-url='https://env.example/simple/'\nglobal.index-url='https://global.example'\n"
        "global.timeout='20'\ninstall.timeout='40'\n"
    )

    assert settings.values["index-url"] == "https://env.example/simple/"
    assert settings.timeout == 40


def test_nothing_configured_names_no_index() -> None:
    assert "UV_DEFAULT_INDEX" not in parse_settings("").for_uv({})


def test_uv_is_told_where_pip_would_look() -> None:
    settings = parse_settings(
        "global.index-url='https://mirror.example/simple'\nglobal.extra-index-url='https://a.example\\nhttps://b.example'\n"
        "global.trusted-host='mirror.example'\nglobal.proxy='http://proxy.example:3128'\nglobal.cert='/etc/root.pem'\n"
    )

    told = settings.for_uv({})

    assert told["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert told["UV_INDEX"] == "https://a.example https://b.example"
    assert told["UV_INSECURE_HOST"] == "mirror.example"
    assert told["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert told["SSL_CERT_FILE"] == "/etc/root.pem"


def test_what_is_set_for_uv_already_stays() -> None:
    settings = parse_settings("global.index-url='https://mirror.example/simple'")

    assert settings.for_uv({"UV_DEFAULT_INDEX": "https://mine.example"})["UV_DEFAULT_INDEX"] == "https://mine.example"
