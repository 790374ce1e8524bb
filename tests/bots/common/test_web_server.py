"""Serving over HTTP: silent connections end, names of other hosts are refused, taken ports are told."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress

import aiohttp
import pytest
from aiohttp import web

from bots.common import web_server
from bots.common.web_server import serve_application
from core.errors import PlatformError
from tests.support import forked
from tests.support.web_application import application


async def is_closed_despite_single_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Dribble until the other side ends the connection, by a reset or in order."""
    with suppress(OSError):
        while not reader.at_eof():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)
    return writer.is_closing() or reader.at_eof()


@pytest.mark.parametrize("request_bytes", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
async def test_a_connection_without_a_whole_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, request_bytes: bytes
) -> None:
    monkeypatch.setattr(web_server, "HEADER_TIMEOUT_S", 0.2)
    async with serve_application(application(), "127.0.0.1", 0, section="http", error_class=PlatformError) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes)
        async with asyncio.timeout(20):
            assert await is_closed_despite_single_bytes(reader, writer)
        writer.close()


async def test_a_request_in_time_is_served_however_long_the_connection_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "HEADER_TIMEOUT_S", 0.2)
    async with (
        serve_application(application(), "127.0.0.1", 0, section="http", error_class=PlatformError) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session,
    ):
        for _ in range(3):
            async with session.get(f"http://127.0.0.1:{port}/") as response:
                assert await response.text() == "hello"
            await asyncio.sleep(0.15)


@pytest.mark.parametrize("request_bytes", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
async def test_a_connection_without_another_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, request_bytes: bytes
) -> None:
    """One quick request must not buy a connection for ever."""
    monkeypatch.setattr(web_server, "IDLE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(web_server, "LOOK_S", 0.05)
    async with serve_application(application(), "127.0.0.1", 0, section="http", error_class=PlatformError) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readuntil(b"hello")
        writer.write(request_bytes)
        async with asyncio.timeout(20):
            while not reader.at_eof():
                with suppress(OSError):
                    await reader.read(100)
        writer.close()


async def test_nothing_is_kept_of_connections_that_have_ended() -> None:
    server = web.Server(application()._handle)  # type: ignore[arg-type]
    connections = web_server._Connections(server)
    ended = server()
    connections.begin_request(ended)
    connections.end_request(ended)
    closing_task = asyncio.create_task(connections.close_silent())
    await asyncio.sleep(0)
    closing_task.cancel()
    assert connections._deadlines == {}


async def test_what_is_sent_compressed_is_not_unpacked() -> None:
    """A stranger could otherwise make much of little before anybody is asked who it is."""
    sizes = []

    async def measure(request: web.Request) -> web.Response:
        sizes.append(len(await request.read()))
        return web.Response()

    application = web.Application(client_max_size=64 << 20)
    bomb = zlib.compress(bytes(32 << 20))
    application.router.add_post("/", measure)
    async with (
        serve_application(application, "127.0.0.1", 0, section="http", error_class=PlatformError) as port,
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}/", data=bomb, headers={"Content-Encoding": "deflate"}) as response,
    ):
        assert response.status == 200
    assert sizes == [len(bomb)]


@pytest.mark.parametrize(
    ("listen_host", "name", "status"),
    [
        ("127.0.0.1", "127.0.0.1", 200),
        ("127.0.0.1", "localhost", 200),
        ("::1", "[::1]:9090", 200),
        ("127.0.0.1", "metrics.example", 200),
        ("127.0.0.1", "rebound.example", 421),
        ("127.0.0.1", "127.0.0.1.rebound.example", 421),
        ("localhost", "rebound.example:80", 421),
        *(("127.0.0.1", name, 421) for name in ("127.0.0.1:99999", "127.0.0.1:port", "[::1]x", "xn--\u00c3")),
        # Whoever listens to a network is reached by names that we cannot know.
        ("0.0.0.0", "bot.example", 200),  # noqa: S104
    ],
)
async def test_names_of_other_hosts_are_refused(listen_host: str, name: str, status: int) -> None:
    served = application(listen_host, "metrics.example")
    async with (
        serve_application(served, "127.0.0.1", 0, section="metrics", error_class=PlatformError) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/", headers={"Host": name}) as response,
    ):
        assert response.status == status


async def test_a_taken_port_is_told_by_its_keys() -> None:
    async with serve_application(application(), "127.0.0.1", 0, section="http", error_class=PlatformError) as port:
        with pytest.raises(PlatformError, match=r"metrics\.host and metrics\.port cannot be listened on: 127"):
            async with serve_application(
                application(), "127.0.0.1", port, section="metrics", error_class=PlatformError
            ):
                pytest.fail("two listen")


async def test_strangers_take_no_more_than_some_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "MAX_CONNECTIONS", 5)
    # Otherwise it would end by itself.
    monkeypatch.setattr(web_server, "HEADER_TIMEOUT_S", 600.0)
    async with serve_application(application(), "127.0.0.1", 0, section="http", error_class=PlatformError) as port:
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(20):
            with suppress(ConnectionResetError):
                assert await reader.read() == b"", "one too many is closed at once"
        for _, other in [*connections, (reader, writer)]:
            other.close()
        async with asyncio.timeout(20), aiohttp.ClientSession() as session:
            while True:
                with suppress(aiohttp.ClientConnectionError):
                    async with session.get(f"http://127.0.0.1:{port}/") as response:
                        assert await response.text() == "hello"
                        break


# Serves with few descriptors, and says at the end how often none was left.
SCARCE = """
import asyncio, resource, sys
from bots.common.web_server import serve_application
from core.errors import PlatformError
from tests.support.web_application import application

async def main():
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    async with serve_application(application(), "127.0.0.1", 0, section="http", error_class=PlatformError) as port:
        resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
        print(port, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    print(len(failures), flush=True)

asyncio.run(main())
"""


async def test_without_descriptors_the_loop_is_not_filled_with_tries_to_accept() -> None:
    process = await forked.start_piped(SCARCE)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        port = int(await process.stdout.readline())
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        await asyncio.sleep(3.5)
        for _, writer in connections:
            writer.close()
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session,
            session.get(f"http://127.0.0.1:{port}/") as response,
        ):
            assert await response.text() == "hello", "it goes on by itself"
        process.stdin.write(b"\n")
        failure_count = int(await process.stdout.readline())
        assert 1 <= failure_count <= 20, "one try a second"
    finally:
        process.stdin.close()
        await process.wait()


@pytest.mark.parametrize(
    "request_bytes",
    [b"\x16\x03\x01\x02\x00", b"GET /?\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n"],
)
async def test_what_is_no_request_writes_nothing_into_the_log(
    caplog: pytest.LogCaptureFixture, request_bytes: bytes
) -> None:
    async with serve_application(application(), "127.0.0.1", 0, section="http", error_class=PlatformError) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes)
        assert b" 400 " in await reader.readline()
        writer.close()
    assert caplog.records == []


async def test_an_error_of_ours_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_request: web.Request) -> web.Response:
        raise ValueError("ours")

    failing = web.Application()
    failing.router.add_get("/", fail)
    async with (
        serve_application(failing, "127.0.0.1", 0, section="http", error_class=PlatformError) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/") as response,
    ):
        assert response.status == 500
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["ours"]
