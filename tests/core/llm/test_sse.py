from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import ModelError, ReplyCut
from core.llm.client import OpenAIClient
from core.llm.sse import MAX_EVENT_BYTES
from tests.support.provider import ABORT, DONE, Answer, Response, event, replaying

pytestmark = pytest.mark.usefixtures("time_lapse")

ASK = {"model": "peer", "messages": [{"role": "user", "content": "How?"}]}
USAGE = {"prompt_tokens": 500, "completion_tokens": 12}
WORDS = ("Run `apt install rocket`", " [p1].", " It needs 40 MB", " of disk space [p1].")
WHOLE = "".join(WORDS)
# Longer than the wait for the token counts.
PAUSE_S = 3.0


def words(finish: object = None, **fields: Any) -> list[bytes]:
    return [event(word, finish, **fields) for word in WORDS]


def paused(parts: list[bytes], *end: bytes | str) -> Answer:
    return [*parts[:2], PAUSE_S, *parts[2:], *end]


def completion(content: object = WHOLE, finish: object = "stop", part: str = "message") -> dict[str, Any]:
    message = content if part == "text" else {"role": "assistant", "content": content}
    return {"object": "chat.completion", "choices": [{"index": 0, part: message, "finish_reason": finish}]}


async def read(answer: Answer) -> tuple[str, ModelError | None]:
    """Return the text of a streamed reply, and the error at its end."""
    text = ""
    error = None
    async with replaying(answer) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        try:
            async for chunk in client.stream(ASK):
                text += chunk.text
        except ModelError as model_error:
            error = model_error
        finally:
            await client.close()
    return text, error


COUNTS = event(choices=[], usage=USAGE)
COMPLETE: dict[str, Answer] = {
    "null until the end": paused(words(), event(finish="stop"), DONE),
    "an empty reason until the end": paused(words(""), event(finish="stop"), DONE),
    "null as a text": paused(words("null"), event(finish="stop"), DONE),
    "None as a text, in capitals": paused(words("None"), event(finish="STOP"), DONE),
    "a reason in every event": paused(words("stop"), DONE),
    "a reason in the first event": paused([event("", "stop"), *words()], event(finish="stop"), DONE),
    "no reason, [DONE]": [*words(), DONE],
    "no reason, an empty one at the end, [DONE]": [*words(), event("", ""), DONE],
    "no reason, [DONE] without a space": [*words(), b"data:[DONE]\n\n"],
    "a reason, no [DONE]": [*words(), event(finish="stop")],
    "a reason that nobody knows": [*words(), event(finish="eos_found")],
    "the token counts in place of a reason": [*words(), COUNTS],
    "token counts at first": paused([COUNTS, *words()], event(finish="stop"), DONE),
    "token counts in the middle": paused([*words()[:2], COUNTS, *words()[2:]], event(finish="stop"), DONE),
    "token counts in every event": paused(words(usage=USAGE), event(finish="stop"), DONE),
    "a whole completion": Response(completion()),
    "a whole completion on several lines": Response(json.dumps(completion(), indent=2)),
    "a whole completion as an event": [b"data: " + json.dumps(completion()).encode() + b"\n\n", DONE],
    "a whole completion with delta": Response(completion(part="delta")),
    "a completion of the old kind": Response(completion(part="text")),
    "a list of events": Response([completion(word, finish=None) for word in WORDS[:3]] + [completion(WORDS[3])]),
    "a line of JSON per event": Response("\n".join(json.dumps(completion(word, "")) for word in WORDS[:3])
        + "\n" + json.dumps(completion(WORDS[3]))),
    "message in place of delta": [
        *(event(choices=[{"message": {"content": word}, "finish_reason": None}]) for word in WORDS),
        event(finish="stop"),
        DONE,
    ],
    "all of the message once more at the end": [
        *words(), event(choices=[{"delta": {}, "message": {"content": WHOLE}, "finish_reason": "stop"}]), DONE
    ],
    "an answer that declines": [
        *(event(choices=[{"delta": {"content": None, "refusal": word}}]) for word in WORDS), event(finish="stop")
    ],
    "a reason with the last words, and the connection breaks": [*words()[:3], event(WORDS[3], "stop"), ABORT],
    "a limit that is taken back": paused([event(WORDS[0], "length"), *words()[1:]], event(finish="stop"), DONE),
    "[DONE] as a text of JSON": [*words(), b'data: "[DONE]"\n\n'],
    "a connection that breaks after the reason": [*words(), event(finish="stop"), ABORT],
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLETE)
async def test_a_complete_answer_is_whole_and_says_nothing(name: str) -> None:
    assert await read(COMPLETE[name]) == (WHOLE, None)


CUT: dict[str, tuple[Answer, str]] = {
    "the connection drops": ([*words()[:3], 0.1, ABORT], "the connection failed"),
    "it drops after empty reasons": ([*words("")[:3], 0.1, ABORT], "the connection failed"),
    "it drops after reasons in every event": ([*words("stop")[:3], 0.1, ABORT], "the connection failed"),
    "it drops after token counts in every event": ([*words(usage=USAGE)[:3], 0.1, ABORT], "the connection failed"),
    "neither reason nor [DONE]": (words()[:3], "broke off before its end"),
    "an error without choices": (
        [*words()[:3], b'event: error\ndata: {"code": "Throttled", "message": "try later"}\n\n'], "end: try later"),
    "an error": ([*words()[:3], event(error={"message": "no memory", "code": 503})], "no memory"),
    "an error, then [DONE]": ([*words()[:3], event(error={"message": "no memory"}), DONE], "no memory"),
    "an error, and a reason": (
        [*words()[:3], event(error={"message": "no memory"}), event(finish="stop"), DONE], "no memory"),
    "an error as a text": ([*words()[:3], event(error="worker died")], "worker died"),
    "the provider gives up": (
        [*words()[:3], event(finish="insufficient_system_resource")], "broken off by the provider"),
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
async def test_an_answer_that_broke_off_says_so(name: str) -> None:
    answer, expected_text = CUT[name]
    text, error = await read(answer)
    assert text == "".join(WORDS[:3])
    assert not isinstance(error, ReplyCut)
    assert expected_text in str(error)


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS", "model_length"])
async def test_a_limit_of_the_length_is_named(reason: str) -> None:
    for answer in ([*words()[:3], event(finish=reason), DONE], Response(completion("".join(WORDS[:3]), reason))):
        text, error = await read(answer)
        assert text == "".join(WORDS[:3])
        assert isinstance(error, ReplyCut)
        assert f"cut at the limit of its length (finish reason {reason.lower()}); max_tokens raises it" in str(error)


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "sensitive", "refusal"])
@pytest.mark.parametrize("count", [0, 3])
async def test_a_filter_is_named(reason: str, count: int) -> None:
    text, error = await read([*words()[:count], event("", finish=reason), DONE])
    assert text == "".join(WORDS[:count])
    assert isinstance(error, ReplyCut)
    assert "cut by the provider's filter" in str(error)


@pytest.mark.parametrize(
    "unreadable",
    [
        b'data: {"id": "c1", "choices": [{"delta"\n\n',
        b"data: Internal note\n\n",
        b"data: 7\n\n",
        b'data: {"choices": "none"}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"data: " + b"9" * 5000 + b"\n\n",
        b'data: {"padding": "' + b"x" * (2 * MAX_EVENT_BYTES) + b'"}\n\n',
        b"data: \xff\xfe\n\n",
    ],
)
async def test_an_event_that_cannot_be_read_loses_itself_only(unreadable: bytes) -> None:
    assert await read([*words()[:2], unreadable, *words()[2:], event(finish="stop"), DONE]) == (WHOLE, None)


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        ({"error": {"message": "quota exceeded"}}, "quota exceeded"),
        ({"error": "quota exceeded"}, "quota exceeded"),
        ([{"error": {"code": 429, "message": "quota exceeded"}}], "quota exceeded"),
        ({"object": "error", "message": "quota exceeded"}, "quota exceeded"),
        ({"detail": "quota exceeded"}, "quota exceeded"),
        ({"base_resp": {"status_code": 1008, "status_msg": "quota exceeded"}}, "quota exceeded"),
    ],
)
async def test_an_error_in_place_of_a_stream_is_told_in_the_providers_words(body: object, expected_text: str) -> None:
    text, error = await read(Response(body))
    assert text == ""
    assert expected_text in str(error)
    async with replaying(Response(body)) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        with pytest.raises(ModelError, match=expected_text):
            await client.complete(ASK)
        await client.close()


@pytest.mark.parametrize(
    "end",
    [
        [event(finish="stop", usage=USAGE)],
        [event(finish="stop"), COUNTS, event(choices=[])],
        [event(finish="stop", x_groq={"id": "r1", "usage": USAGE})],
        [event(choices=[{"delta": {}, "finish_reason": "stop", "usage": USAGE}])],
    ],
)
async def test_token_counts_are_found_where_servers_have_them(end: list[bytes]) -> None:
    async with replaying([*words(usage=None), *end, DONE]) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        chunks = [chunk async for chunk in client.stream(ASK)]
        await client.close()
    assert [(chunk.prompt_tokens, chunk.completion_tokens) for chunk in chunks if not chunk.events] == [(500, 12)]


async def test_a_stream_in_place_of_a_whole_completion_is_read() -> None:
    async with replaying([*words(), event(finish="stop"), COUNTS, DONE]) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        reply = await client.complete(ASK)
        await client.close()
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == (WHOLE, 500, 12)


@pytest.mark.parametrize("line_break", ["\n ", "\n", "\r\n\t"])
async def test_data_that_begins_or_goes_on_in_a_line_of_its_own_is_read(line_break: str) -> None:
    body = json.dumps({"choices": [{"delta": {"content": WHOLE}, "finish_reason": "stop"}]}, indent=1)
    answer = f"data:{line_break}{body}\n\ndata:{line_break}[DONE]\n\n"
    assert await read([answer.encode()]) == (WHOLE, None)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", " \n"])
async def test_events_without_empty_lines_between_them_are_read_as_they_come(line_end: str) -> None:
    events = [*words(), event(finish="stop"), COUNTS, DONE]
    lines = [part.strip() + line_end.encode() for part in events]
    assert await read([b"".join(lines)]) == (WHOLE, None)
    text, error = await read([*lines[:3], 5.0, ABORT])
    assert (text, type(error)) == (WORDS[0] + WORDS[1], ModelError)


def piece(call_id: str | None, index: int | None, name: str | None, arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    fields = {"id": call_id, "index": index, "function": function}
    return {name: value for name, value in fields.items() if value is not None}


TWO_CALLS = 'find({"a": 1})\nfind({"b": 2})'
ONE_CALL = 'find({"a": 1})'


@pytest.mark.parametrize(
    ("pieces", "expected_text"),
    [
        ([piece("x", 0, "find", ""), piece(None, 0, None, '{"a": '), piece(None, 0, None, "1}")], ONE_CALL),
        ([piece("x", 0, "find", None), piece("x", 0, None, '{"a": 1}')], ONE_CALL),
        ([piece("x", 0, "find", '{"a": '), piece(None, 1, None, "1}")], ONE_CALL),
        ([piece("x", 0, "find", '{"a": 1'), piece(None, 0, "find", "}")], ONE_CALL),
        ([piece(None, None, "find", {"a": 1})], ONE_CALL),
        ([piece("x", 0, "find", '{"a": 1}'), piece("y", 0, "find", '{"b": 2}')], TWO_CALLS),
        ([piece("x", None, "find", '{"a": 1}'), piece("y", None, "find", '{"b": 2}')], TWO_CALLS),
        ([piece("x", 0, "find", '{"a": 1}'), piece("y", 0, "find", ""), piece(None, 1, None, '{"b": 2}')], TWO_CALLS),
        ([piece(None, 0, "find", '{"a": 1}'), piece(None, 1, "find", '{"b": 2}')], TWO_CALLS),
        (
            [piece("x", 0, "find", "{"), piece("y", 1, "find", "{"), piece(None, 0, None, '"a": 1}'),
             piece(None, 1, None, '"b": 2}')],
            TWO_CALLS,
        ),
        ([{"index": 0, "function": None}, {"index": 0}], ""),
    ],
)  # fmt: skip
async def test_calls_of_tools_are_read_from_a_stream_too(pieces: list[dict[str, Any]], expected_text: str) -> None:
    events = [event(choices=[{"delta": {"tool_calls": [part]}}]) for part in pieces]
    async with replaying([*events, event(None, "tool_calls"), DONE]) as provider:
        client = OpenAIClient.open(provider.base_url, "", 10)
        reply = await client.complete(ASK)
        await client.close()
    assert reply.text == expected_text
