"""The options of how a service is reached: credentials, certificates and headers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from flink_autoscaler.standalone.settings.schema.fields import Flag, OptionalText, Syntax, TextMap, member_of
from flink_autoscaler.standalone.settings.schema.section import Section


class AuthKind(StrEnum):
    """How requests prove who sends them."""

    NONE = "none"
    BASIC = "basic"
    BEARER = "bearer"
    SIMPLE = "simple"
    KERBEROS = "kerberos"


Auth = Annotated[AuthKind, member_of(AuthKind), Syntax("none, basic, bearer, simple or kerberos")]


class TlsSettings(Section):
    """Certificates and keys for https."""

    ca_file: OptionalText = Field(default=None, description="Certificates to trust, PEM; unset trusts the system's.")
    certificate_file: OptionalText = Field(
        default=None, description="Certificate that the daemon shows, with its chain, PEM; may hold the key, too."
    )
    key_file: OptionalText = Field(default=None, description="Key of that certificate, PEM.")
    key_password_env_variable: OptionalText = Field(
        default=None, description="Name of the environment variable with the password of the key."
    )
    key_password_file: OptionalText = Field(default=None, description="File whose first line is the key's password.")
    verify_host: Flag = Field(default=True, description="Whether the certificate has to name the host of the URL.")


class AuthSettings(Section):
    """Who the daemon is."""

    kind: Auth = Field(
        default=AuthKind.NONE,
        description="basic: user and password; bearer: a token; simple: Hadoop's user.name; kerberos: SPNEGO, needs "
        "the extra flink-autoscaler[kerberos].",
    )
    username: OptionalText = Field(default=None, description="User of basic and simple authentication.")
    password_env_variable: OptionalText = Field(
        default=None, description="Name of the environment variable with the password of basic authentication."
    )
    password_file: OptionalText = Field(
        default=None, description="File whose first line is the password of basic authentication."
    )
    token_env_variable: OptionalText = Field(
        default=None, description="Name of the environment variable with the bearer token."
    )
    token_file: OptionalText = Field(
        default=None, description="File whose first line is the bearer token; read again in every pass."
    )
    principal: OptionalText = Field(
        default=None, description="Kerberos principal; unset takes the one of the ticket cache."
    )
    keytab: OptionalText = Field(
        default=None, description="Keytab with the key of the principal; unset takes the ticket cache."
    )
    service_host: OptionalText = Field(
        default=None, description="Host in the server's principal HTTP/host; unset takes the host of the URL."
    )


class AccessSettings(Section):
    """How a service is reached; part of clusters and of their ResourceManagers."""

    auth: AuthSettings = AuthSettings()
    tls: TlsSettings = TlsSettings()
    headers: TextMap = Field(default_factory=dict, description="Value of a header sent with every request.")
    headers_env: TextMap = Field(
        default_factory=dict, description="Name of the environment variable with the value of a header."
    )
    headers_file: TextMap = Field(
        default_factory=dict,
        description="File whose first line is the value of a header; read again in every pass.",
    )
