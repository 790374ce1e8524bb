from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from bots.common.web_server import serve_application
from core.errors import EmbeddingError, ModelError, PlatformError
from core.llm.client import MAX_COMPLETION_BYTES, MAX_DIMENSION, MAX_NUMBER_BYTES, OpenAIClient
from core.llm.sse import (
    MAX_EVENT_BYTES,
    USAGE_TIMEOUT_S,
    ChatStreamDecoder,
    Ending,
    InvalidReplyError,
    StreamChunk,
    parse_completion,
    parse_embeddings,
)
from tests.support.peers.language_model import Body, LanguageModelPeer, Refusal
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

ASK = {"model": "big", "messages": [{"role": "user", "content": "Hello?"}]}


def token(text: str, **extra_fields: object) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": {"content": text}, **extra_fields}]}, ensure_ascii=False)


def read(raw: bytes, size: int) -> tuple[list[StreamChunk], ChatStreamDecoder]:
    """Feed a stream in pieces of so many bytes."""
    stream = ChatStreamDecoder()
    pieces = [piece for at in range(0, len(raw), size) for piece in stream.feed(raw[at : at + size])]
    return [*pieces, *stream.flush()], stream


@asynccontextmanager
async def serving(
    parts: Sequence[bytes], *, abort: bool = False, open_s: float = 0.0, pause_s: float = 0.001
) -> AsyncIterator[OpenAIClient]:
    """A server that answers every chat completion with these bytes as an event stream, part by part."""

    async def reply(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(pause_s)
        if abort and request.transport is not None:
            request.transport.abort()
        await asyncio.sleep(open_s)
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", reply)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = OpenAIClient.open(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", "", 60)
    try:
        yield endpoint
    finally:
        await endpoint.close()
        await runner.cleanup()


async def streamed_text(endpoint: OpenAIClient, request: Body = ASK) -> str:
    return "".join([piece.text async for piece in endpoint.stream(request)])


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_however_the_bytes_arrive_the_reply_is_the_same(ending: str, size: int) -> None:
    lines = [": keep-alive", "", f"data: {token('Grüße ')}", "", ": again", "event: chunk", "id: 7"]
    lines += [f"data:{token('你好', finish_reason='stop')}", "", 'data: {"choices": [],', 'data: "usage":']
    lines += ['data: {"prompt_tokens": 5, "completion_tokens": 2}}', "", "data: [DONE]", "", ""]
    pieces, stream = read(ending.join(lines).encode(), size)
    assert "".join(piece.text for piece in pieces) == "Grüße 你好"
    assert pieces[-1] == StreamChunk("", 5, 2)
    assert stream.ending(is_closed=False) is Ending.COMPLETE
    assert stream.is_done


def test_words_that_come_together_are_one_piece() -> None:
    words = "".join(f"data: {token(word)}\n\n" for word in ("So ", "it ", "is"))
    counts = 'data: {"choices": [], "usage": {"prompt_tokens": 5}}\n\n'
    assert list(ChatStreamDecoder().feed((words + counts + words).encode())) == [
        StreamChunk("So it is", events=3),
        StreamChunk("", 5),
        StreamChunk("So it is", events=3),
    ]


async def test_many_replies_at_once_are_read_more_at_a_time() -> None:
    words = [f"data: {token('word ')}\n\n".encode()] * 40
    end = f"data: {token('.', finish_reason='stop')}\n\ndata: [DONE]\n\n".encode()
    async with serving([*words, end], pause_s=0.005) as endpoint:

        async def pieces() -> int:
            return len([piece async for piece in endpoint.stream(ASK) if piece.text])

        first_pieces = await pieces()
        all_pieces = await asyncio.gather(*(pieces() for _ in range(80)))
    assert max(all_pieces) < 0.7 * first_pieces, (first_pieces, max(all_pieces))


def test_what_follows_the_end_is_not_read() -> None:
    pieces, stream = read(f"data: [DONE]\n\ndata: {token('more')}\n\ndata: {{\n\n".encode(), 5)
    assert (pieces, stream.has_begun, stream.is_done) == ([], False, True)


@pytest.mark.parametrize(
    ("chunk", "texts", "ending"),
    [
        ({"choices": []}, [], Ending.OPEN),
        ({"choices": None}, [], Ending.OPEN),
        ({"choices": [{"delta": None, "finish_reason": None}]}, [], Ending.OPEN),
        ({"choices": [{"delta": {"content": None, "role": "assistant"}}]}, [], Ending.OPEN),
        ({"choices": [{"delta": {}, "finish_reason": "length"}]}, [], Ending.LIMIT),
        ({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, [""], Ending.OPEN),
        ({"choices": [{"delta": {"content": [{"type": "text", "text": "part"}]}}]}, ["part"], Ending.OPEN),
        ({"choices": [{"delta": {"content": "half \ud83d"}}]}, ["half ?"], Ending.OPEN),
    ],
)
def test_chunks_of_every_kind(chunk: Body, texts: list[str], ending: Ending) -> None:
    pieces, stream = read(f"data: {json.dumps(chunk)}\n\n".encode(), 10_000)
    assert [piece.text for piece in pieces] == texts
    assert stream.ending(is_closed=True) is ending


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        ([], "no object"),
        ({"choices": []}, "without choices"),
        ({"error": "overloaded"}, "overloaded"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_reply_is_refused(body: object, expected_text: str) -> None:
    with pytest.raises(InvalidReplyError, match=expected_text):
        parse_completion(body)


def test_tool_calls_become_text() -> None:
    call = {"type": "function", "function": {"name": "look", "arguments": '{"query": "x"}'}}
    message = {"content": None, "tool_calls": [call, {"type": "custom"}, call]}
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    assert parse_completion({"choices": [{"message": message}], "usage": usage}) == (
        StreamChunk('look({"query": "x"})\nlook({"query": "x"})', 3, 4),
        "",
    )


async def test_an_error_inside_a_stream_comes_after_the_text_before_it() -> None:
    error = json.dumps({"error": {"message": "out of memory", "code": 503}})
    async with serving([f"data: {token('So far')}\n\nevent: error\ndata: {error}\n\n".encode()]) as endpoint:
        pieces = endpoint.stream(ASK)
        assert await anext(pieces) == StreamChunk("So far", events=1)
        with pytest.raises(ModelError, match="out of memory") as error_info:
            await anext(pieces)
    assert error_info.value.status == 503


@pytest.mark.parametrize(
    ("parts", "abort", "expected_text"),
    [
        ([f"data: {token('So')}\n\n".encode()], False, "broke off before its end"),
        ([f"data: {token('So')}\n\n".encode()], True, "the connection failed"),
        ([b'data: {"choices": [{"delta"\n\n'], False, "JSONDecodeError"),
        ([b"<html>Bad gateway</html>"], False, "broke off before its end"),
    ],
)
async def test_a_reply_that_does_not_end_is_an_error(parts: list[bytes], abort: bool, expected_text: str) -> None:
    async with serving(parts, abort=abort) as endpoint:
        with pytest.raises(ModelError, match=expected_text):
            await streamed_text(endpoint)


async def test_a_connection_that_breaks_after_the_reply_takes_nothing_away() -> None:
    parts = [f"data: {token('Yes')}\n\n".encode(), f"data: {token('', finish_reason='stop')}\n\n".encode()]
    async with serving(parts, abort=True) as endpoint:
        assert await streamed_text(endpoint) == "Yes"


async def test_a_server_that_is_silent_after_the_reply_delays_nobody() -> None:
    parts = [f"data: {token('Yes', finish_reason='stop')}\n\n".encode()]
    async with serving(parts, open_s=30) as endpoint, asyncio.timeout(USAGE_TIMEOUT_S + 20):
        assert await streamed_text(endpoint) == "Yes"


async def test_json_that_is_nested_too_deep_is_an_error_of_the_endpoint() -> None:
    async with serving([b"data: " + b"[" * 200_000 + b"\n\n"]) as endpoint:
        with pytest.raises(ModelError, match="RecursionError"):
            await streamed_text(endpoint)
        with pytest.raises(ModelError):
            await endpoint.complete(ASK)


@pytest.mark.parametrize(("count", "expected_count"), [(7, 7), (7.0, 7), (-7, 0), (10**30, 0), ("7", 0), (None, 0)])
def test_a_count_that_cannot_be_one_counts_nothing(count: object, expected_count: int) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}
    assert parse_completion({"choices": [{"message": {"content": "Yes"}}], "usage": usage})[0] == StreamChunk(
        "Yes", expected_count, expected_count
    )


async def test_a_server_that_stays_after_the_end_holds_nobody_up() -> None:
    parts = [f"data: {token('Yes', finish_reason='stop')}\n\n".encode(), b"data: [DONE]\n\n"]
    async with serving(parts, open_s=30) as endpoint, asyncio.timeout(20):
        assert await streamed_text(endpoint) == "Yes"


@asynccontextmanager
async def speaking(words: bytes | None) -> AsyncIterator[OpenAIClient]:
    """A server that answers every request with these bytes and hangs up; with None it waits until the client does."""
    handlers: list[asyncio.Task[None]] = []

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        while words is None and await reader.read(1024):
            pass
        writer.write(words or b"")
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.create_task(handle_connection(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    patience_s = 0.3 if words is None else 30
    endpoint = OpenAIClient.open(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "", patience_s)
    try:
        yield endpoint
    finally:
        await endpoint.close()
        server.close()
        await asyncio.gather(*handlers)


async def test_a_kept_connection_that_is_gone_costs_no_reply() -> None:
    reply = b'{"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]}'
    is_read = threading.Event()
    is_gone = threading.Event()

    def serve(listener: socket.socket) -> None:
        for count in range(2):
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as request:
                head = b"".join(iter(request.readline, b"\r\n"))
                request.read(int(re.findall(rb"(?i)content-length: (\d+)", head)[0]))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                connection.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(reply), reply))
                if count == 0:
                    assert is_read.wait(30)
                    # Reset, as by a router that forgot it.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            is_gone.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        endpoint = OpenAIClient.open(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", "", 30)
        assert (await endpoint.complete(ASK)).text == "Yes"
        is_read.set()
        # The event loop stands still meanwhile, so that the client does not see it.
        assert is_gone.wait(30)
        assert (await endpoint.complete(ASK)).text == "Yes"
        await endpoint.close()
        thread.join()


async def test_a_request_that_a_server_worked_on_is_not_paid_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if more time had gone by: the clock of these tests stands still.
    monkeypatch.setattr("core.llm.client.MAX_RESET_S", -1.0)
    requests: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as request:
                    head = b"".join(iter(request.readline, b"\r\n"))
                    requests.append(request.read(int(re.findall(rb"(?i)content-length: (\d+)", head)[0])))
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        endpoint = OpenAIClient.open(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", "", 30)
        with pytest.raises(ModelError, match="the connection failed") as caught:
            await endpoint.complete(ASK)
        await endpoint.close()
        listener.shutdown(socket.SHUT_RDWR)
    assert len(requests) == 1
    assert not caught.value.is_unsent, "its tokens are counted"


@pytest.mark.parametrize(
    ("words", "expected_text"),
    [
        (b"", "big: the connection failed"),
        (None, "big did not answer in time"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "big: the connection failed"),
    ],
)
async def test_a_closed_connection_is_no_time_out_and_silence_is_one(words: bytes | None, expected_text: str) -> None:
    async with speaking(words) as endpoint:
        with pytest.raises(ModelError, match=expected_text) as caught:
            await endpoint.complete(ASK)
        # Its tokens are used, whatever came back.
        assert not caught.value.is_unsent
        with pytest.raises(ModelError, match=expected_text):
            await streamed_text(endpoint)


@pytest.mark.parametrize(("status", "retry_after"), [(429, 2.5), (500, None), (401, None)])
async def test_a_refusal_keeps_its_status_and_its_wish(status: int, retry_after: float | None) -> None:
    async with LanguageModelPeer() as peer:
        peer.status = status
        peer.retry_after = 2.5
        endpoint = OpenAIClient.open(peer.base_url, "", 60)
        for call in (endpoint.complete(ASK), streamed_text(endpoint)):
            with pytest.raises(ModelError) as error_info:
                await call
            assert (error_info.value.status, error_info.value.retry_after) == (status, retry_after)
        await endpoint.close()


async def test_extra_fields_reach_the_body() -> None:
    async with LanguageModelPeer(extra=("top_k",)) as peer:
        endpoint = OpenAIClient.open(peer.base_url, "", 60)
        request = {**ASK, "extra_body": {"top_k": 20}}
        await endpoint.complete(request)
        assert [piece async for piece in endpoint.stream(request)]
        await endpoint.close()
    assert [body.get("top_k") for body in peer.requests] == [20, 20]
    assert not any("extra_body" in body for body in peer.requests)


async def test_an_endpoint_in_the_own_network_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with embedding(b'{"data": [{"embedding": [0.5]}]}') as endpoint:
        assert await endpoint.embed("m", ["text"]) == [[0.5]]
    foreign_endpoint = OpenAIClient.open("http://models.example.com/v1", "", 5)
    with pytest.raises(EmbeddingError, match=r"'127\.0\.0\.1', 9"):
        await foreign_endpoint.embed("m", ["text"])
    await foreign_endpoint.close()


async def test_who_stops_listening_closes_the_connection() -> None:
    async with LanguageModelPeer(tokens_per_s=20, reply="word " * 200) as peer:
        endpoint = OpenAIClient.open(peer.base_url, "", 60)
        pieces = endpoint.stream(ASK)
        await anext(pieces)
        await pieces.aclose()
        await until(lambda: not peer.active)
        assert not peer.active
        await endpoint.close()


async def test_two_hundred_conversations_at_once_do_not_mix() -> None:
    def echo(body: Body) -> str:
        number = re.findall(r"\d+", body["messages"][-1]["content"])[0]
        return f"[{number}] " * 20

    async def converse(number: int) -> str:
        request = {"model": "big", "messages": [{"role": "user", "content": f"I am number {number}."}]}
        return "".join([piece.text async for piece in endpoint.stream(request)])

    async with LanguageModelPeer(reply=echo, ttft_s=0.1, tokens_per_s=100) as peer:
        endpoint = OpenAIClient.open(peer.base_url, "", 100)
        replies = await asyncio.gather(*map(converse, range(200)))
        await endpoint.close()
    assert replies == [f"[{number}] " * 20 for number in range(200)]


@pytest.mark.parametrize(
    ("content_type", "body", "expected_text"),
    [
        ("text/html", "<html>maintenance</html>", "text/html instead of JSON"),
        ("application/json", '"later"', "a reply that is no object but str"),
        ("application/json", "\n\n ", "sent nothing instead of JSON"),
        ("application/json", '{"data": [{"embedding": [[0.5], [0.5]]}]}', "an embedding that is no list of numbers"),
        ("application/json", '{"error": {"message": "no such model"}}', "no such model"),
        ("application/json", '{"data": [{"embedding": null}]}', "an embedding that is no list of numbers"),
        ("application/json", '{"data": [{"embedding": ["a"]}]}', "an embedding that is no list of numbers"),
        ("application/json", '{"data": [{"embedding": "AAAA?AA="}]}', "an embedding that is no list of numbers"),
        ("application/json", '{"data": [{"embedding": "AAAA"}]}', "an embedding that is no list of numbers"),
        ("application/json", '{"data": [{"embedding": ""}]}', "an embedding that is no list of numbers"),
        (
            "application/json",
            '{"data": [{"embedding": [0.5], "index": "0"}]}',
            "an embedding that is no list of numbers",
        ),
        ("application/json", '{"data": []}', "sent 0 vectors for 1 texts"),
    ],
)
async def test_what_is_no_embedding_is_an_error_of_the_endpoint(
    content_type: str, body: str, expected_text: str
) -> None:
    async with embedding(body.encode(), content_type) as endpoint:
        with pytest.raises(EmbeddingError, match=re.escape(expected_text)):
            await endpoint.embed("m", ["text"])


async def test_a_web_page_names_the_address_that_is_probably_wrong() -> None:
    """Beside the API, many servers answer with their start page and status 200."""
    async with embedding(b"<html>Welcome to nginx</html>", "text/html") as endpoint:
        for call in (streamed_text(endpoint), endpoint.complete(ASK), endpoint.list_models()):
            with pytest.raises(
                ModelError, match=r"127\.0\.0\.1.* sent text/html .*check base_url, it often ends with /v1"
            ):
                await call


async def test_a_server_that_calls_every_reply_a_web_page_is_read() -> None:
    """As small servers do that leave the type of their responses to a framework."""
    body = {"choices": [{"message": {"content": "Yes."}, "delta": {"content": "Yes."}, "finish_reason": "stop"}]}
    async with embedding(json.dumps(body).encode(), "text/html") as endpoint:
        assert (await endpoint.complete(ASK)).text == "Yes."
    async with embedding(f"data: {json.dumps(body)}\n\ndata: [DONE]\n\n".encode(), "text/html") as endpoint:
        assert await streamed_text(endpoint) == "Yes."


@pytest.mark.parametrize(
    ("body", "expected_names"),
    [
        (b'{"object": "list", "data": [{"id": "qwen3:8b", "object": "model"}, {"id": 7}, "llama"]}', ["qwen3:8b"]),
        # As Ollama answers before the first model is there.
        (b'{"object": "list", "data": null}', []),
        (b"{}", []),
    ],
)
async def test_the_models_of_an_endpoint(body: bytes, expected_names: list[str]) -> None:
    async with embedding(body) as endpoint:
        assert await endpoint.list_models() == expected_names


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_an_endpoint_without_a_list_of_models_has_none(status: int) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=status)

    async with replying(refuse) as endpoint:
        assert await endpoint.list_models() == []


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        (b'{"data": [' + b" " * (MAX_COMPLETION_BYTES + 1) + b"]}", "a reply of more than 4096 kB"),
        (b'{"data": [' + b"{}," * 200_000 + b"{}]}", "more than 100000 values"),
        (b'["qwen3:8b"]', "a reply that is no object but list"),
    ],
)
async def test_a_list_of_models_has_a_longest_length(body: bytes, expected_text: str) -> None:
    async with embedding(body) as endpoint:
        with pytest.raises(ModelError, match=rf"the list of models sent .*{re.escape(expected_text)}"):
            await endpoint.list_models()


@asynccontextmanager
async def embedding(body: bytes, content_type: str = "application/json") -> AsyncIterator[OpenAIClient]:
    """A server that answers every request for vectors or a whole completion with these bytes."""

    async def reply(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type)

    async with replying(reply) as endpoint:
        yield endpoint


@asynccontextmanager
async def replying(handler: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[OpenAIClient]:
    """A server that lets a function answer every request for vectors or a whole completion."""
    application = web.Application()
    application.router.add_post("/v1/embeddings", handler)
    application.router.add_post("/v1/chat/completions", handler)
    application.router.add_get("/v1/models", handler)
    async with serve_application(application, "127.0.0.1", 0, section="test", error_class=PlatformError) as port:
        endpoint = OpenAIClient.open(f"http://127.0.0.1:{port}/v1", "key", 60)
        try:
            yield endpoint
        finally:
            await endpoint.close()


@pytest.mark.parametrize("rejects_base64", [False, True])
async def test_vectors_come_in_base64_unless_the_endpoint_rejects_it(rejects_base64: bool) -> None:
    async def reply(request: web.Request) -> web.Response:
        encoding = (await request.json()).get("encoding_format", "float")
        encodings.append(encoding)
        if encoding == "base64" and rejects_base64:
            return web.json_response({"error": {"message": "encoding_format: only float"}}, status=422)
        # 0.5 and -2 as float32.
        value = "AAAAPwAAAMA=" if encoding == "base64" else [0.5, -2]
        return web.json_response({"data": [{"index": 0, "embedding": value}]})

    encodings: list[str] = []
    async with replying(reply) as endpoint:
        vectors = [await endpoint.embed("m", ["text"]) for _ in range(2)]
    assert [list(vector) for (vector,) in vectors] == [[0.5, -2], [0.5, -2]]
    assert encodings == (["base64", "float", "float"] if rejects_base64 else ["base64", "base64"])


async def test_the_numbers_of_many_vectors_are_not_read_on_the_event_loop() -> None:
    rows = [[number / 7] * 1024 for number in range(1, 385)]
    body = json.dumps({"data": [{"index": at, "embedding": row} for at, row in enumerate(rows)]}).encode()
    started_at = time.thread_time()
    parse_embeddings(json.loads(body))
    reading_s = time.thread_time() - started_at
    async with embedding(body) as endpoint:
        await endpoint.embed("m", ["first"] * len(rows))
        started_at = time.thread_time()
        assert await endpoint.embed("m", ["text"] * len(rows)) == rows
        # The server runs in this thread, too.
        assert time.thread_time() - started_at < 0.7 * reading_s


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        (b'{"data": [' + b'"' + b"x" * (MAX_DIMENSION * MAX_NUMBER_BYTES) + b'"]}', "a reply of more than 640 kB"),
        (b"[" + b"[]," * (2 * MAX_DIMENSION) + b"[]]", "a reply of more than 16384 values"),
        (b"[" * 15_000, "a reply of JSON that is nested too deeply"),
        ("{}".encode("utf-16"), "sent 0 vectors for 1 texts"),
    ],
)
async def test_a_reply_to_a_text_has_a_longest_length(body: bytes, expected_text: str) -> None:
    async with embedding(body) as endpoint:
        with pytest.raises(EmbeddingError, match=re.escape(expected_text)):
            await endpoint.embed("m", ["text"])


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        (b'{"choices": [{"message": {"content": "' + b"x" * MAX_COMPLETION_BYTES + b'"}}]}', "more than 4096 kB"),
        (b'{"choices": [' + b"{}," * 200_000 + b"{}]}", "more than 100000 values"),
        (b"<html>later</html>", "application/json instead of JSON"),
        (b"\xff\xfe", "instead of JSON"),
    ],
)
async def test_a_whole_completion_has_a_longest_length(body: bytes, expected_text: str) -> None:
    async with embedding(body) as endpoint:
        with pytest.raises(ModelError, match=re.escape(expected_text)):
            await endpoint.complete(ASK)


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
async def test_of_a_refusal_without_end_only_the_beginning_is_read(headers: Mapping[str, str]) -> None:
    part = b"x" * (1 << 20)
    sent_bytes = 0
    packer = zlib.compressobj(wbits=31)

    async def refuse(request: web.Request) -> web.StreamResponse:
        nonlocal sent_bytes
        response = web.StreamResponse(status=400, headers=headers)
        await response.prepare(request)
        while sent_bytes < 300 << 20:
            sent_bytes += len(part)
            await response.write(packer.compress(part) if headers else part)
            await asyncio.sleep(0)
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", refuse)
    async with serve_application(app, "127.0.0.1", 0, section="t", error_class=PlatformError) as port:
        endpoint = OpenAIClient.open(f"http://127.0.0.1:{port}/v1", "", 10.0)
        with pytest.raises(ModelError, match="status 400"):
            await endpoint.complete({"model": "big", "messages": []})
        await endpoint.close()
    assert sent_bytes < 300 << 20


async def test_a_refusal_says_why() -> None:
    async def refuse(_request: web.Request) -> web.Response:
        response = web.json_response({"error": {"message": "no such model"}}, status=404)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", refuse)
    async with serve_application(app, "127.0.0.1", 0, section="t", error_class=PlatformError) as port:
        endpoint = OpenAIClient.open(f"http://127.0.0.1:{port}/v1", "", 10.0)
        with pytest.raises(ModelError, match=r"status 404: .*no such model"):
            await endpoint.complete(ASK)
        await endpoint.close()


async def test_an_error_does_not_repeat_what_was_told() -> None:
    """It goes into the log, the journal and the chat: services that check their input repeat it."""
    told = "The key of the launcher is numbatological today"

    def refuse(body: Body) -> str:
        raise Refusal(422, f"Input should be shorter: {body['messages'][-1]['content'][4:]}, at most 10 characters")

    async with LanguageModelPeer(reply=refuse) as peer:
        peer.moderation = {"error": {"message": f"it has said {told!r}"}}
        endpoint = OpenAIClient.open(peer.base_url, "", 60)
        request = {"model": "peer", "messages": [{"role": "user", "content": told}]}
        for call in (endpoint.complete(request), streamed_text(endpoint, request)):
            with pytest.raises(ModelError, match="status 422: Input should be shorter: …, at most 10 characters"):
                await call
        with pytest.raises(ModelError, match="it has said '…'"):
            await endpoint.moderate("peer", told)
        await endpoint.close()


@pytest.mark.parametrize("line", [b"x", b"data: x\n"])
async def test_an_event_that_does_not_end_is_refused(line: bytes) -> None:
    """Otherwise each part would be joined to all before it."""
    part = line * (2 * MAX_EVENT_BYTES // len(line) // 8)
    async with serving([part] * 12) as endpoint:
        with pytest.raises(ModelError, match="an event of more than 256 kB"):
            await streamed_text(endpoint)
