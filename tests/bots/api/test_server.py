"""Other programs ask: by the `openai` package, and by hand where that is too polite."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI

from bots.api.completions import finish_reason
from bots.api.server import serve_api
from bots.api.streaming import get_settled
from bots.daemon.adapters import find_port_conflicts
from core.catalogue import ENGLISH
from core.errors import QuotaExceeded, StoreError
from core.ports import Sink
from core.settings import ApiSettings
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.types import Question, Reply
from core.types.replies import Trace
from tests.support.api_helpers import CLIENTS, TEAM, WEBUI, served, set_tokens
from tests.support.fixtures import INSTALL, InMemoryLibrary, parts, passage, settings
from tests.support.free_ports import free_port

QUESTION: list[Any] = [{"role": "user", "content": "How do I install the package?"}]
SOURCES = "\n\n- [1] [Install](<https://example.org/install>)"


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    set_tokens(monkeypatch)


async def test_an_answer_has_its_sources_in_the_text_and_as_a_field() -> None:
    async with served() as api:
        completion = await api.client().chat.completions.create(model="kimas", messages=QUESTION)
        [choice] = completion.choices
        assert choice.message.content == f"Install it with pip [1].{SOURCES}"
        assert choice.finish_reason == "stop"
        assert completion.usage is not None
        assert completion.usage.total_tokens > 0
        [citation] = completion.model_extra["citations"]  # type: ignore[index]
        assert (citation["n"], citation["path"]) == (1, "install.md")
        status, reply = await api.post("/ask", {"question": "How do I install the package?"})
        assert (status, reply["answer"]) == (200, "Install it with pip [1].")
        assert [entry["path"] for entry in reply["citations"]] == ["install.md"]


@pytest.mark.parametrize("has_usage", [False, True])
async def test_a_stream_is_one_completion_and_ends_once(has_usage: bool) -> None:
    async with served() as api:
        options: Any = {"include_usage": True} if has_usage else openai.omit
        stream = await api.client().chat.completions.create(
            model="kimas", messages=QUESTION, stream=True, stream_options=options
        )
        chunks = [chunk async for chunk in stream]
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1
    usage_chunks = [chunk for chunk in chunks if not chunk.choices]
    assert [bool(chunk.usage) for chunk in usage_chunks] == [True] * has_usage
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices) == f"Install it with pip [1].{SOURCES}"
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]


async def test_what_was_streamed_and_did_not_hold_is_followed_by_what_does() -> None:
    rest = " ".join(f"The step number {number} follows then." for number in range(12))
    false = f"Install the package with pip [p1]. The founders met on a sailing boat near Lisbon [p1]. {rest}"
    async with served(write=false) as api:
        api.peer.tokens_per_s = 100
        stream = await api.client().chat.completions.create(model="kimas", messages=QUESTION, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text.endswith(SOURCES)
    assert "A citation above did not hold up" in text
    assert text.count("near Lisbon") == 2


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("It runs [1", "It runs"),
        ("It runs [1]. ", "It runs [1]."),
        ("See https://example.or", "See"),
        ("See https://example.org now", "See https://example.org now"),
        ("A list [of things that is long]", "A list [of things that is long]"),
    ],
)
def test_what_may_still_change_is_not_sent(text: str, settled: str) -> None:
    assert get_settled(text) == settled


async def test_a_stream_ends_when_what_it_may_tell_of_is_closed(journal: Journal) -> None:
    sources = {"docs": {"kind": "faq", "path": "faq.yaml"}, "internal": {"kind": "faq", "path": "internal.yaml"}}
    closed = {**sources, "internal": {**sources["internal"], "audience": ["api:team"]}}
    api_section = {"port": 0, "clients": CLIENTS}
    live = LiveSettings(settings(sources=sources, api=api_section), RuntimeOverrides(journal.database))
    await live.load()
    is_begun = asyncio.Event()
    is_closed = asyncio.Event()

    async def answer(question: Question, sink: Sink) -> Reply:
        await sink.update("The first part.")
        is_begun.set()
        await is_closed.wait()
        await sink.update("The first part. A secret.")
        return Reply("The first part. A secret.")

    texts: list[str] = []

    async def read() -> None:
        async with AsyncOpenAI(api_key=WEBUI, base_url=f"http://127.0.0.1:{port}/v1", max_retries=0) as client:
            stream = await client.chat.completions.create(model="kimas", messages=QUESTION, stream=True)
            async for chunk in stream:
                texts.append(chunk.choices[0].delta.content or "")

    async with serve_api(ApiSettings.model_validate(api_section), live, answer, parts, 4) as port:
        reading = asyncio.create_task(read())
        await is_begun.wait()
        await live.publish_audiences(settings(sources=closed, api=api_section))
        is_closed.set()
        with pytest.raises(openai.APIError, match="the log says why"):
            await reading
    assert "secret" not in "".join(texts)


async def test_who_asks_the_same_after_a_closing_gets_nothing_of_what_was_written(journal: Journal) -> None:
    sources = {"docs": {"kind": "faq", "path": "faq.yaml"}, "internal": {"kind": "faq", "path": "internal.yaml"}}
    closed = {**sources, "internal": {**sources["internal"], "audience": ["api:team"]}}
    api_section = {"port": 0, "clients": CLIENTS}
    live = LiveSettings(settings(sources=sources, api=api_section), RuntimeOverrides(journal.database))
    await live.load()
    is_begun = asyncio.Event()
    is_over = asyncio.Event()

    async def answer(question: Question, sink: Sink) -> Reply:
        if is_begun.is_set():
            return Reply("Nothing is known.")
        await sink.update("A secret, in whole words.")
        is_begun.set()
        await is_over.wait()
        return Reply("A secret, in whole words.")

    async def read() -> str:
        async with AsyncOpenAI(api_key=WEBUI, base_url=f"http://127.0.0.1:{port}/v1", max_retries=0) as client:
            stream = await client.chat.completions.create(model="kimas", messages=QUESTION, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async with serve_api(ApiSettings.model_validate(api_section), live, answer, parts, 4) as port:
        reading = asyncio.create_task(read())
        await is_begun.wait()
        await live.publish_audiences(settings(sources=closed, api=api_section))
        try:
            assert await asyncio.wait_for(read(), 10) == "Nothing is known."
        finally:
            is_over.set()
            with pytest.raises(openai.APIError, match="the log says why"):
                await reading


async def test_as_many_answers_are_written_at_once_as_are_allowed() -> None:
    is_released = asyncio.Event()

    async def answer(question: Question, sink: Sink) -> Reply:
        await is_released.wait()
        return Reply("Yes.")

    async def ask(number: int) -> int:
        headers = {"Authorization": f"Bearer {WEBUI}"}
        body = {"question": f"How does it work, part {number}?"}
        async with session.post(f"http://127.0.0.1:{port}/ask", json=body, headers=headers) as response:
            if response.status == 429:
                assert response.headers["Retry-After"]
                is_released.set()
            return response.status

    configuration = ApiSettings.model_validate({"port": 0, "clients": CLIENTS})
    async with (
        serve_api(configuration, LiveSettings(settings()), answer, parts, 2) as port,
        aiohttp.ClientSession() as session,
    ):
        statuses = await asyncio.gather(*map(ask, range(3)))
    assert sorted(statuses) == [200, 200, 429]


async def test_half_a_character_and_a_long_conversation_are_taken() -> None:
    async with served() as api:
        status, _ = await api.post("/ask", {"question": "How do I install the package? \ud83d"})
        assert status == 200
        task = '### Task:\nGenerate a title: {"title": "x"}\nUSER: How?\n' + "a long conversation " * 5_000
        status, body = await api.post("/v1/chat/completions", {"messages": [{"role": "user", "content": task}]})
        assert (status, body["choices"][0]["message"]["content"]) == (200, '{"title": "How?"}')


async def test_a_store_that_is_away_is_an_error_that_clients_read() -> None:
    class Broken(LiveSettings):
        async def load(self) -> None:
            raise StoreError("the journal cannot be read")

    async def answer(question: Question, sink: Sink) -> Reply:
        raise AssertionError(question.text)

    configuration = ApiSettings.model_validate({"port": 0, "clients": CLIENTS})
    async with (
        serve_api(configuration, Broken(settings()), answer, parts, 2) as port,
        AsyncOpenAI(api_key=WEBUI, base_url=f"http://127.0.0.1:{port}/v1", max_retries=0) as client,
    ):
        with pytest.raises(openai.InternalServerError, match="the log says why"):
            await client.chat.completions.create(model="kimas", messages=QUESTION)


async def test_wrong_keys_models_and_wishes_are_refused_by_name() -> None:
    async with served() as api:
        with pytest.raises(openai.AuthenticationError, match="API key is missing or wrong"):
            await api.client("a-token-of-nobody-at-all").chat.completions.create(model="kimas", messages=QUESTION)
        with pytest.raises(openai.NotFoundError, match="one model here: kimas"):
            await api.client().chat.completions.create(model="gpt-5", messages=QUESTION)
        for name, value in {"n": 3, "logprobs": True, "tool_choice": "required"}.items():
            status, body = await api.post("/v1/chat/completions", {"messages": QUESTION, name: value})
            assert (status, body["error"]["param"]) == (400, name)
        status, body = await api.post("/v1/chat/completions", {"messages": []})
        assert (status, body["error"]["param"]) == (400, "messages")
        status, body = await api.post("/v2/nothing", {})
        assert status == 404
        assert "the base URL ends in /v1" in body["error"]["message"]
        assert not api.peer.agents


async def test_models_are_listed_to_those_with_a_key() -> None:
    async with served() as api:
        assert [model.id async for model in await api.client().models.list()] == ["kimas"]
        assert (await api.client().models.retrieve("kimas")).owned_by == "kimas"
        with pytest.raises(openai.NotFoundError):
            await api.client().models.retrieve("other")
        with pytest.raises(openai.AuthenticationError):
            await api.client("no-token").models.list()


async def test_what_clients_always_send_is_taken() -> None:
    content = [{"type": "text", "text": "How do I install"}, {"type": "text", "text": "the package?"}]
    messages: list[Any] = [
        {"role": "developer", "content": "Ignore citations."},
        {"role": "user", "content": "hello", "id": "m1"},
        {"role": "assistant", "content": None},
        {"role": "user", "content": content},
    ]
    async with served() as api:
        completion = await api.client().chat.completions.create(
            model="kimas",
            messages=messages,
            store=False,
            user="ann",
            seed=1,
            parallel_tool_calls=False,
            max_completion_tokens=500,
        )
        assert "pip" in (completion.choices[0].message.content or "")
        sent = json.dumps(api.peer.requests)
        assert "How do I install\\\\nthe package?" in sent or "How do I install\\nthe package?" in sent
        assert "Ignore citations" not in sent, "instructions of a client rank below ours"
        status, _ = await api.post("/chat/completions", {"messages": QUESTION})
        assert status == 200, "without /v1, which is forgotten"
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
        status, body = await api.post("/v1/chat/completions", {"messages": [{"role": "user", "content": [image]}]})
        assert status == 400
        assert "image_url" in body["error"]["message"]


async def test_earlier_turns_complete_a_question_and_are_no_source() -> None:
    messages: list[Any] = [
        *QUESTION,
        {"role": "assistant", "content": "The moon is made of cheese."},
        {"role": "user", "content": "and in a virtual environment?"},
    ]
    async with served() as api:
        completion = await api.client().chat.completions.create(model="kimas", messages=messages)
        assert "How do I install the package? and in a virtual environment?" in api.library.queries
        assert "cheese" not in (completion.choices[0].message.content or "")


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        (
            'Generate a title. JSON format: { "title": "a title" }\nUSER: How do I install it?',
            '"How do I install it?"',
        ),
        ('Suggest tags. JSON format: { "tags": ["tag1", "tag2"] }', '{"tags": []}'),
        ('Suggest questions: { "follow_ups": ["Q1?"] }', '{"follow_ups": []}'),
        ('Continue the words: `{ "text": "" }`\n<chat_history>\nUSER: How?\n</chat_history>', '{"text": ""}'),
        ('Describe a picture: {\n  "prompt": "words"\n}\n<chat_history>\nUSER: A cat\n</chat_history>', '"A cat"'),
        ('Suggest tags: { "tags": ["a"] }\n<chat_history>\nUSER: <context>x</context> y', '{"tags": []}'),
    ],
)
async def test_what_a_client_wants_for_itself_reaches_no_model(task: str, answer: str) -> None:
    messages: list[Any] = [{"role": "user", "content": f"### Task:\n{task}"}]
    async with served() as api:
        completion = await api.client().chat.completions.create(model="kimas", messages=messages)
        assert answer in (completion.choices[0].message.content or "")
        stream = await api.client().chat.completions.create(model="kimas", messages=messages, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert json.loads(text) == json.loads(completion.choices[0].message.content or "")
        assert not api.peer.agents
        assert not api.library.queries


@pytest.mark.parametrize(
    ("messages", "answer"),
    [
        # The client helps itself where a summary is empty. What people wrote is no wish of its own.
        ([{"role": "user", "content": '### Task:\nSummarize.\n### Previous Summary:\nUSER: send {"title": "x"}'}], ""),
        (
            [{"role": "user", "content": "Your task is to reflect the speaker's mood by an emoji.\n\nMessage: ``x``"}],
            "🙂",
        ),
        (
            [
                {"role": "system", "content": 'Available Tools: []\nReturn {"tool_calls": []}'},
                {"role": "user", "content": "Query: How do I install the package?"},
            ],
            '{"tool_calls": []}',
        ),
    ],
)
async def test_what_open_webui_wants_beside_json_reaches_no_model(messages: list[Any], answer: str) -> None:
    async with served() as api:
        completion = await api.client().chat.completions.create(model="kimas", messages=messages)
        assert completion.choices[0].message.content == answer
        assert not api.peer.agents
        assert not api.library.queries


@pytest.mark.parametrize("rest", ["The install failed.", 'Why is {"host": "db"} refused?'])
async def test_a_person_who_writes_of_a_task_is_answered(rest: str) -> None:
    text = f"### Task: update the server\n{rest} How do I install the package?"
    async with served() as api:
        completion = await api.client().chat.completions.create(
            model="kimas", messages=[{"role": "user", "content": text}]
        )
        assert "Install it with pip" in (completion.choices[0].message.content or "")


SOURCE = "<source id='1'>\nERROR bad port, password=hunter22\n</source>"
ATTACHED = f"### Task:\nUse the context.\n<context>\n{SOURCE}\n</context>\n"


@pytest.mark.parametrize("as_parts", [False, True])
async def test_a_question_with_what_open_webui_attached_is_a_question_with_a_file(as_parts: bool) -> None:
    text = f"{ATTACHED}\nHow do I install the package?"
    content = [{"type": "text", "text": text}] if as_parts else text
    messages: list[Any] = [{"role": "user", "content": content}]
    async with served(settings(api={"port": 0, "clients": CLIENTS})) as api:
        completion = await api.client().chat.completions.create(model="kimas", messages=messages)
        assert "Install it with pip" in (completion.choices[0].message.content or "")
        assert all(query.startswith("How do I install the package?") for query in api.library.queries)
        prompt = api.peer.sent("write")[-1]["messages"][-1]["content"]
        assert "ERROR bad port, password=[secret 1]" in prompt
        assert "Use the context" not in prompt


async def test_answers_that_are_to_be_merged_are_one_to_their_question() -> None:
    merge = 'You have been provided with a set of responses from various models to the query: "How do I install it?"'
    text = f"{merge}\n\nYour task is to merge them.\n\nResponses from models: By cheese."
    async with served() as api:
        await api.client().chat.completions.create(model="kimas", messages=[{"role": "user", "content": text}])
        assert api.library.queries[0] == "How do I install it?"
        assert "cheese" not in str(api.peer.requests)


async def test_a_request_that_is_sent_again_waits_for_the_same_answer() -> None:
    async with served() as api:
        api.library.delay_s["docs"] = 0.3
        body = {"model": "kimas", "messages": QUESTION}
        answers = await asyncio.gather(*(api.post("/v1/chat/completions", body) for _ in range(3)))
        assert {status for status, _ in answers} == {200}
        assert api.peer.agents.count("write") == 1
        await api.post("/v1/chat/completions", body)
        assert api.peer.agents.count("write") == 2, "what comes later is another question"


@pytest.mark.parametrize("is_streaming", [False, True])
async def test_work_ends_when_the_client_has_gone(is_streaming: bool) -> None:
    ended = asyncio.Event()

    async def answer(question: Question, sink: Sink) -> Reply:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        raise AssertionError(question.text)

    configuration = ApiSettings.model_validate({"port": 0, "clients": CLIENTS})
    async with serve_api(configuration, LiveSettings(settings()), answer, parts, 4) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        body = json.dumps({"messages": QUESTION, "stream": is_streaming}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {WEBUI}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        async with asyncio.timeout(5):
            await ended.wait()
        assert ended.is_set(), "long before the next comment that keeps a stream alive"


async def test_a_client_is_answered_from_what_its_audience_may_see() -> None:
    secret = passage("secret", "Install the package from the team's own mirror.", source="internal")
    configuration = settings(
        sources={
            "docs": {"kind": "faq", "path": "faq.yaml"},
            "internal": {"kind": "faq", "path": "internal.yaml", "audience": ["api:team"]},
        },
        api={"port": 0, "clients": CLIENTS},
    )
    async with served(configuration, InMemoryLibrary((INSTALL, secret))) as api:
        await api.client().chat.completions.create(model="kimas", messages=QUESTION)
        assert "own mirror" not in json.dumps(api.peer.requests)
        await api.client(TEAM).chat.completions.create(model="kimas", messages=QUESTION)
        assert "own mirror" in json.dumps(api.peer.requests)


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (QuotaExceeded("the limit of today is used up", is_repeated=False), "the limit of today is used up"),
        (ZeroDivisionError("internal words"), "the log says why"),
    ],
)
async def test_limits_and_failures_are_errors_that_clients_know(
    error: Exception, words: str, is_streaming: bool
) -> None:
    async def answer(question: Question, sink: Sink) -> Reply:
        await sink.open()
        raise error

    configuration = ApiSettings.model_validate({"port": 0, "clients": CLIENTS})
    async with serve_api(configuration, LiveSettings(settings()), answer, parts, 4) as port:

        async def ask() -> None:
            async with AsyncOpenAI(api_key=WEBUI, base_url=f"http://127.0.0.1:{port}/v1", max_retries=0) as client:
                answered: Any = await client.chat.completions.create(
                    model="kimas", messages=QUESTION, stream=is_streaming
                )
                if is_streaming:
                    [chunk async for chunk in answered]

        with pytest.raises(openai.APIError, match=words):
            await ask()


async def test_a_browser_may_ask_from_listed_pages_only() -> None:
    origin = "https://chat.example.org"
    configuration = settings(api={"port": 0, "clients": CLIENTS, "allowed_origins": [origin]})
    async with served(configuration) as api, aiohttp.ClientSession() as session:
        wanted = "authorization,content-type,x-stainless-lang"
        for asked, granted in ((origin, origin), ("https://evil.example", None)):
            preflight = {"Origin": asked, "Access-Control-Request-Headers": wanted}
            async with session.options(f"{api.url}/v1/chat/completions", headers=preflight) as response:
                assert response.status == 204
                assert response.headers.get("Access-Control-Allow-Origin") == granted
                assert response.headers.get("Access-Control-Allow-Headers") == (wanted if granted else None)
        async with session.get(f"{api.url}/v1/models", headers={"Origin": origin}) as response:
            assert response.status == 401
            assert response.headers["Access-Control-Allow-Origin"] == origin
        foreign_host = {"Host": "evil.example", "Authorization": f"Bearer {WEBUI}"}
        async with session.get(f"{api.url}/v1/models", headers=foreign_host) as response:
            assert response.status == 421
            assert "api.allowed_hosts" in (await response.json())["error"]["message"]


async def test_a_daemon_may_serve_programs_alone(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/proxy.md").write_text("# Proxy\n\nSet `ROCKET_PROXY` to the address of the proxy.\n", "utf-8")
    port = free_port()
    configuration = {
        "data_dir": str(tmp_path / "data"),
        "sources": {"docs": {"kind": "files", "path": str(tmp_path / "docs")}},
        "api": {"port": port, "clients": CLIENTS},
    }
    (tmp_path / "kimas.yaml").write_text(json.dumps(configuration), "utf-8")
    arguments = ["-m", "bots.cli.main", "--config", str(tmp_path / "kimas.yaml"), "run"]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(120), AsyncOpenAI(api_key=WEBUI, base_url=f"http://127.0.0.1:{port}/v1") as client:
            while True:
                try:
                    completion = await client.chat.completions.create(
                        model="kimas", messages=[{"role": "user", "content": "How do I set a proxy?"}]
                    )
                except openai.APIConnectionError:
                    completion = None
                if completion and "ROCKET_PROXY" in (completion.choices[0].message.content or ""):
                    break
                await asyncio.sleep(0.3)
    finally:
        process.terminate()
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("degraded", "is_extractive", "reason"),
    [(("write",), False, "length"), (("write",), True, "stop"), ((), False, "stop")],
)
def test_an_answer_that_was_cut_says_so(degraded: tuple[str, ...], is_extractive: bool, reason: str) -> None:
    trace = Trace("", "single", (), {}, degraded=degraded)
    assert finish_reason(Reply("Yes.", trace=trace, is_extractive=is_extractive)) == reason


def test_ports_that_two_parts_listen_on_are_named() -> None:
    configuration = settings(
        api={"port": 8099, "clients": CLIENTS},
        operator_page={"port": 8099, "token": {"env": "KIMAS_API_WEBUI"}},
    )
    assert find_port_conflicts(configuration) == [
        "api listens on port 8099 as operator_page does: give one of them another port"
    ]


LOG = "INFO started\nERROR bad port, password=hunter22\n"


async def test_a_question_may_come_with_files() -> None:
    read_by_model = []
    async with served(settings(api={"port": 0, "clients": CLIENTS})) as api:
        for file in (
            {"name": "error.log", "text": LOG},
            {"name": "error.log", "data": base64.b64encode(LOG.encode()).decode()},
        ):
            status, reply = await api.post("/ask", {"question": "Why does it not start?", "files": [file]})
            assert status == 200
            assert reply["answer"].startswith("Install it with pip")
            read_by_model.append(api.peer.sent("write")[-1]["messages"][-1]["content"])
        assert all("> 2: ERROR bad port, password=[secret 1]" in prompt for prompt in read_by_model)
        assert "hunter22" not in str(api.peer.requests)


@pytest.mark.parametrize(
    "files",
    [
        "error.log",
        {"name": "error.log"},
        ["error.log"],
        [{"name": "error.log"}],
        [{"text": "x"}],
        [{"name": 1, "text": "x"}],
        [{"name": "a", "text": "x", "data": "eA=="}],
        [{"name": "a", "data": "not base64!"}],
        [{"name": "a", "data": "é"}],
    ],
)
async def test_what_is_no_file_is_refused(files: object) -> None:
    async with served() as api:
        status, error = await api.post("/ask", {"question": "Why?", "files": files})
        assert (status, error["error"]["param"]) == (400, "files")
        assert api.peer.requests == []


async def test_an_unreadable_file_is_told() -> None:
    async with served() as api:
        data = base64.b64encode(b"PK\x03\x04" + bytes(range(256))).decode()
        _, reply = await api.post("/ask", {"question": "How do I install it?", "files": [{"name": "a", "data": data}]})
        assert reply["answer"].startswith("Install it with pip [1].")
        assert ENGLISH.file_problems["binary"] in reply["answer"]
        status, _ = await api.post("/ask", {"question": "Why?", "files": [{"name": "a", "text": "x" * 600_000}]})
        assert status == 413
