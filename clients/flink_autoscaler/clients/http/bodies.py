"""The body of an answer that httpx reads, piece by piece and within bounds."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from flink_autoscaler.clients.http.bounds import BodyReader
from flink_autoscaler.core.errors import ResponseError


async def read_body(response: httpx.Response, limit: int, what: str, take: Callable[[bytes], object]) -> None:
    """Hand on the body of an answer, decompressed; the announced length may lie, so bytes are counted.

    Args:
        response: Of which nothing has been read.
        limit: Bytes, as they come and as they are decompressed.
        what: Method and URL, for messages.
        take: Called with each piece; may raise ``ResponseError``.

    Raises:
        ResponseError: It is too long, cannot be decompressed, or is not taken.
    """
    try:
        reader = BodyReader(response.headers.get_list("content-encoding", split_commas=True), limit)
        reader.announced(response.headers.get("content-length"))
        async for piece in response.aiter_raw():
            reader.take(piece)
            take(reader.taken())
        reader.whole()
    except ResponseError as exc:
        raise ResponseError(f"{what}: {exc}") from exc


async def whole_body(response: httpx.Response, limit: int, what: str) -> bytes:
    """Return the body of an answer.

    Raises:
        ResponseError: As for :func:`read_body`.
    """
    pieces: list[bytes] = []
    await read_body(response, limit, what, pieces.append)
    return b"".join(pieces)
