"""Stored texts as documents: JSON, or the compressed YAML of the Kubernetes operator's store. Reading is bounded."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from decimal import Decimal
from typing import Any

import yaml

TEXT_LIMIT = 32 << 20
"""Characters that are read, also after decompression."""
_DEPTH_LIMIT = 32
_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Reads every scalar as text: a document says nothing about types, the reader knows them."""


class DocumentError(ValueError):
    """A stored text is not what should be there. The message never holds the text itself."""


def read_document(text: str, *, exact: bool = False) -> Any:
    """Read JSON, YAML, or either of them compressed with gzip and written in Base64.

    Args:
        text: At most ``TEXT_LIMIT`` characters.
        exact: Keep decimal numbers as they are written, instead of as floats.

    Returns:
        Dictionaries with text keys, lists, and scalars; the scalars of YAML are all text.

    Raises:
        DocumentError: It is too long, too deep, damaged, or something else.
    """
    if len(text) > TEXT_LIMIT:
        raise DocumentError(f"longer than {TEXT_LIMIT >> 20} Mi characters")
    stripped = text.lstrip()
    if not stripped.startswith(("{", "[", '"')):
        inflated = _inflated(stripped)
        stripped = stripped if inflated is None else inflated.lstrip()
    try:
        return json.loads(stripped, parse_float=Decimal if exact else None)
    except (ValueError, RecursionError) as error:
        # JSON in one line looks like YAML, too; what is damaged would only fail more slowly.
        if stripped.startswith(('{"', "[")):
            raise DocumentError(f"not JSON: {_place(error)}") from None
    return _read_yaml(stripped)


def _place(error: Exception) -> str:
    """Say what is wrong without the text around it, which may be long or confidential."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else "a number is too long"


def _inflated(text: str) -> str | None:
    """Undo Base64 and gzip; None when it is not that."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data.startswith(_GZIP):
        return None
    return _decoded(_inflated_bytes(data))


def _inflated_bytes(data: bytes) -> bytes:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        inflated = inflater.decompress(data, TEXT_LIMIT + 1)
    except zlib.error as error:
        raise DocumentError(f"damaged gzip: {error}") from None
    if len(inflated) > TEXT_LIMIT:
        raise DocumentError(f"inflates to more than {TEXT_LIMIT >> 20} MiB")
    if not inflater.eof:
        raise DocumentError("truncated gzip")
    return inflated


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise DocumentError("not UTF-8") from None


def _read_yaml(text: str) -> Any:
    try:
        _refuse_bombs(text)
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - makes nothing but text, lists and dictionaries
    except (yaml.YAMLError, RecursionError, UnicodeError) as error:
        raise DocumentError(f"neither JSON nor YAML: {type(error).__name__}") from None
    except (TypeError, ValueError) as error:
        raise DocumentError(f"YAML that is not understood: {type(error).__name__}") from error


def _refuse_bombs(text: str) -> None:
    """Refuse references, with which a short text becomes an endless document, and depth."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise DocumentError("YAML with references")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEPTH_LIMIT:
            raise DocumentError("nested too deeply")
