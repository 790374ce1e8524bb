"""A Weaviate server that is not there, or only half: the daemon waits for it, so it has to be recognised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.errors import StoreUnreachable
from core.settings import WeaviateSettings
from knowledge.stores.weaviate import open_weaviate

REPLIES = {
    "closes": b"",
    "breaks off": b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n{",
    "no HTTP": b"\x00\x01\r\n\r\n",
    "502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "503": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    "504": b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n",
    "hangs": None,
}


@asynccontextmanager
async def listening(reply: bytes | None) -> AsyncIterator[int]:
    """Listen on a port: each connection gets these bytes and ends, or nothing ever."""
    writers = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.read(1000)
        if reply is not None:
            writer.write(reply)
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
async def test_a_server_that_is_away_is_told_from_one_that_refuses(reply: bytes | None) -> None:
    async with listening(reply) as http_port, listening(reply) as grpc_port:
        settings = WeaviateSettings(
            host="127.0.0.1", http_port=http_port, grpc_port=grpc_port, read_timeout_s=1, write_timeout_s=1
        )
        with pytest.raises(StoreUnreachable, match="could not be opened"):
            await open_weaviate(settings, "test", 8)
