"""The peer must be as strict as the service it stands for, or the tests that rely on it prove nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import sys
import time
from typing import Any

import aiohttp
import httpx2
import numpy as np
import pytest
from openai import APIConnectionError, APIStatusError, AsyncOpenAI

from tests.support.peers.language_model import REPLY, LanguageModelPeer, ToolCall, to_vector

QUESTION: Any = [{"role": "user", "content": "What is it?"}]


def chat(peer: LanguageModelPeer, key: str = "none") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=peer.base_url, api_key=key, max_retries=0, timeout=60)


async def streamed(client: AsyncOpenAI, **extra_fields: Any) -> tuple[str, list[Any]]:
    chunks = []
    stream = await client.chat.completions.create(model="m", messages=QUESTION, stream=True, **extra_fields)
    async for chunk in stream:
        chunks.append(chunk)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), chunks


async def post(peer: LanguageModelPeer, path: str, body: Any, **extra_fields: Any) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(peer.base_url + path, json=body, **extra_fields) as reply,
    ):
        return reply.status, json.loads(await reply.text())


async def test_streams_the_reply_with_usage_at_its_end() -> None:
    async with LanguageModelPeer(reply="One two\n\n三四五。 ") as peer, chat(peer) as client:
        text, chunks = await streamed(client, stream_options={"include_usage": True})
    assert text == "One two\n\n三四五。 "
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == len(chunks) - 3
    assert peer.requests[0]["path"] == "/v1/chat/completions"
    assert peer.requests[0]["messages"] == QUESTION


async def test_replies_whole_by_a_function_of_the_request_within_max_tokens() -> None:
    async with LanguageModelPeer(reply=lambda body: body["messages"][-1]["content"]) as peer, chat(peer) as client:
        completion = await client.chat.completions.create(model="m", messages=QUESTION)
        truncated = await client.chat.completions.create(model="m", messages=QUESTION, max_tokens=2)
    assert completion.choices[0].message.content == "What is it?"
    assert (truncated.choices[0].message.content, truncated.choices[0].finish_reason) == ("What is", "length")


async def test_keeps_to_time_to_first_token_and_rate() -> None:
    async with LanguageModelPeer(reply="w " * 10, ttft_s=0.2, tokens_per_s=50) as peer, chat(peer) as client:
        started_at = time.monotonic()
        await streamed(client)
        took = time.monotonic() - started_at
        started_at = time.monotonic()
        await client.chat.completions.create(model="m", messages=QUESTION)
        took_whole = time.monotonic() - started_at
    assert 0.39 <= took < 10
    assert 0.39 <= took_whole < 10


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_embeddings_in_both_encodings(encoding: Any) -> None:
    async with LanguageModelPeer(dimension=16) as peer, chat(peer) as client:
        reply = await client.embeddings.create(model="m", input=["a red car", "b"], encoding_format=encoding)
    for item, text in zip(reply.data, ["a red car", "b"], strict=True):
        if encoding == "base64":
            vector = np.frombuffer(base64.b64decode(str(item.embedding)), np.float32)
        else:
            vector = np.array(item.embedding, np.float32)
        assert np.allclose(vector, to_vector(text, 16), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": QUESTION}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": [{"role": "bot", "content": "x"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "user"}]}, "messages[0].content"),
        ({"model": "m", "messages": QUESTION, "temprature": 1}, "temprature"),
        ({"model": "m", "messages": QUESTION, "max_tokens": 0}, "max_tokens"),
        ({"model": "m", "messages": QUESTION, "max_tokens": True}, "max_tokens"),
        ({"model": "m", "messages": QUESTION, "temperature": 3}, "temperature"),
        ({"model": "m", "messages": QUESTION, "stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
async def test_refuses_what_the_service_refuses(body: Any, param: str) -> None:
    async with LanguageModelPeer() as peer:
        status, reply = await post(peer, "/chat/completions", body)
    assert (status, reply["error"]["param"], reply["error"]["type"]) == (400, param, "invalid_request_error")


@pytest.mark.parametrize("texts", [[], [""], "", ["a", 1], ["a"] * 2049])
async def test_refuses_unusable_embedding_input(texts: Any) -> None:
    async with LanguageModelPeer() as peer:
        status, reply = await post(peer, "/embeddings", {"model": "m", "input": texts})
    assert (status, reply["error"]["param"]) == (400, "input")


async def test_refuses_wrong_keys_models_paths_and_bodies() -> None:
    async with LanguageModelPeer(api_key="right", models=["m"]) as peer:
        async with chat(peer, "right") as client:
            assert [model.id async for model in client.models.list()] == ["m"]
            assert (await streamed(client))[0] == REPLY
        valid_options = {"headers": {"Authorization": "Bearer right"}}
        assert (await post(peer, "/chat/completions", {}))[0] == 401
        assert (await post(peer, "/chat/completions", {"model": "n", "messages": QUESTION}, **valid_options))[0] == 404
        assert (await post(peer, "/completions", {}, **valid_options))[0] == 404
        assert (await post(peer, "/models", {}, **valid_options))[0] == 405
        assert (await post(peer, "/chat/completions", [1], **valid_options))[0] == 400


async def test_answers_with_the_status_it_is_told_as_often_as_told() -> None:
    async with LanguageModelPeer() as peer, chat(peer) as client:
        peer.status = 429
        peer.failures = 1
        peer.retry_after = 7
        with pytest.raises(APIStatusError) as error_info:
            await streamed(client)
        assert error_info.value.status_code == 429
        assert error_info.value.response.headers["retry-after"] == "7"
        assert (await streamed(client))[0] == REPLY
        peer.status = 500
        peer.failures = None
        for _ in range(2):
            with pytest.raises(APIStatusError):
                await streamed(client)


async def test_drops_the_connection_after_some_tokens() -> None:
    async with LanguageModelPeer(reply="a b c d") as peer, chat(peer) as client:
        peer.drop_after = 2
        text = ""
        with pytest.raises((APIConnectionError, httpx2.TransportError)):  # noqa: PT012
            async for chunk in await client.chat.completions.create(model="m", messages=QUESTION, stream=True):
                text += chunk.choices[0].delta.content or ""
        assert len(text) <= len("a b")
        with pytest.raises(APIConnectionError):
            await client.chat.completions.create(model="m", messages=QUESTION)


@pytest.mark.usefixtures("time_lapse")
async def test_stalls_and_hangs_until_the_client_leaves() -> None:
    async with LanguageModelPeer(reply="a b c d") as peer, chat(peer) as client:
        peer.stall_after = 2
        text = ""
        with pytest.raises(TimeoutError):  # noqa: PT012
            async with asyncio.timeout(1.5):
                async for chunk in await client.chat.completions.create(model="m", messages=QUESTION, stream=True):
                    text += chunk.choices[0].delta.content or ""
        assert text == "a b"
        peer.hang = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await streamed(client)
        async with asyncio.timeout(30):
            while peer.active:
                await asyncio.sleep(0.01)


async def test_sends_a_malformed_line_or_no_word_at_all() -> None:
    async with LanguageModelPeer() as peer, chat(peer) as client:
        peer.malformed_after = 1
        with pytest.raises(ValueError, match=r"Expecting|delimiter|Unterminated"):
            await streamed(client)
        peer.malformed_after = None
        peer.empty = True
        text, chunks = await streamed(client)
        assert text == ""
        assert chunks[-1].choices[0].finish_reason == "stop"


async def test_calls_a_tool() -> None:
    tool: Any = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    async with LanguageModelPeer(reply=ToolCall("search", {"query": "a long question"})) as peer, chat(peer) as client:
        request: Any = {"model": "m", "messages": QUESTION, "tools": [tool]}
        reply = (await client.chat.completions.create(**request)).choices[0]
        stream = await client.chat.completions.create(**request, stream=True)
        deltas = [chunk.choices[0].delta.tool_calls or [] async for chunk in stream]
    assert reply.finish_reason == "tool_calls"
    assert reply.message.tool_calls[0].function.name == "search"
    parts = [call.function for calls in deltas for call in calls]
    assert parts[0].name == "search"
    assert json.loads("".join(part.arguments for part in parts)) == {"query": "a long question"}
    assert json.loads(reply.message.tool_calls[0].function.arguments) == {"query": "a long question"}


@pytest.mark.usefixtures("time_lapse")
async def test_serves_hundreds_of_streams_at_once() -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with LanguageModelPeer(tokens_per_s=20) as peer, aiohttp.ClientSession(connector=connector) as session:

        async def read_reply() -> bytes:
            body = {"model": "m", "messages": QUESTION, "stream": True}
            async with session.post(peer.base_url + "/chat/completions", json=body) as reply:
                return await reply.read()

        cpu_before = time.thread_time()
        started_at = time.monotonic()
        replies = await asyncio.gather(*(read_reply() for _ in range(300)))
        took = time.monotonic() - started_at
        worked = time.thread_time() - cpu_before
    assert all(reply.endswith(b"data: [DONE]\n\n") for reply in replies)
    assert took < 30
    assert worked < 8


async def test_runs_as_a_process() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.peers.language_model",
        "--reply",
        "Hello there",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    base_url = (await process.stdout.readline()).decode().strip()
    async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        assert (await streamed(client))[0] == "Hello there"
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
