"""What `kimas check --live` says of a model: over a real socket, with models of different strength."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bots.cli import model_trial
from bots.cli.check import check
from bots.cli.console import Finding
from bots.cli.model_trial import ANSWER, find_room
from bots.cli.probes import make_probes
from core.errors import ModelError
from core.language.tokens import estimate_tokens
from core.llm.client import OpenAIClient
from core.settings import Settings
from tests.support.provider import DONE, Answer, Response, event, replaying

pytestmark = pytest.mark.usefixtures("time_lapse")

CITED = [event(f"On port {ANSWER}"), event(" [p1]."), DONE]


def choose(text: str = '{"strategy": "single", "query": ""}') -> Response:
    return Response({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})


async def run_trial(folder: Path, written: Answer, chosen: Answer, **fields: Any) -> list[Finding]:
    """Return what is found of a model that streams its answers, and sends its decisions whole."""

    def reply(body: dict[str, Any]) -> Answer:
        return written if body.get("stream") else chosen

    async with replaying(reply) as provider:
        endpoint = {"base_url": provider.base_url, "model": "m", **fields}
        settings = Settings.model_validate({"data_dir": folder, "models": {"main": endpoint}})
        findings = await check(settings, live=True, probes=make_probes(settings))
    return [finding for finding in findings if finding.subject == "models.main"]


async def test_a_model_that_is_fit_for_both(tmp_path: Path) -> None:
    (finding,) = await run_trial(tmp_path, CITED, choose())
    assert finding.level == "ok"
    for part in ("answers: first token after 0", "whole reply after 0", " s of 30 s; a decision after 0"):
        assert part in finding.text


async def test_the_models_of_a_set_are_tried_for_what_they_do_there(tmp_path: Path) -> None:
    """The general ones take no work off a set: its `main` writes and decides."""
    async with replaying(lambda body: CITED if body.get("stream") else choose()) as provider:
        endpoint = {"base_url": provider.base_url, "model": "m"}
        models = {"main": endpoint, "light": endpoint, "sets": {"light": {"main": endpoint}}}
        settings = Settings.model_validate({"data_dir": tmp_path, "models": models})
        findings = await check(settings, live=True, probes=make_probes(settings))
    texts = {finding.subject: finding.text for finding in findings if "answers:" in finding.text}
    does = {
        path: ("whole reply" in texts[path], "a decision" in texts[path])
        for path in ("models.main", "models.light", "models.sets.light.main")
    }
    assert list(does.values()) == [(True, False), (False, True), (True, True)]


async def test_what_this_process_loads_is_not_the_model_s_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = OpenAIClient._load
    loading_s = [0.0]

    def load_slowly(client: OpenAIClient) -> object:
        loading_s.append(500.0)
        return load(client)

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(loading_s))
    monkeypatch.setattr(OpenAIClient, "_load", load_slowly)
    monkeypatch.setattr(model_trial, "time", clock)
    (finding,) = await run_trial(tmp_path, CITED, choose())
    assert sum(loading_s) == 500
    assert "first token after 0" in finding.text


@pytest.mark.parametrize(
    ("written", "chosen", "warning"),
    [
        ([event(f"On port {ANSWER}."), DONE], choose(), "does not name the passage"),
        ([event("I do not know [p1]."), DONE], choose(), "did not find the answer in a prompt with 4,000 tokens"),
        ([*[event("The port is the port of the port. ")] * 60, DONE], choose(), "only repeats itself"),
        ([event(f"On port {ANSWER}"), event(finish="error")], choose(), "its reply broke off"),
        ([event(f"On port {ANSWER}"), *([0.5, event(" or")] * 90), DONE], choose(), "takes longer than that"),
        (CITED, choose("Hello! I am a helpful assistant."), "not answer in the form of a decision"),
    ],
)
async def test_what_a_weak_model_lacks_is_a_warning(
    tmp_path: Path, written: Answer, chosen: Answer, warning: str
) -> None:
    findings = await run_trial(tmp_path, written, chosen)
    assert findings[0].level == "ok"
    assert [finding.level for finding in findings if warning in finding.text] == ["warning"]


async def test_a_model_that_does_not_begin_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    (finding,) = await run_trial(tmp_path, [60.0, *CITED], choose())
    assert finding.level == "error"
    assert "began no answer within 30 s, with 4,000 tokens of passages" in finding.text


async def test_the_prompt_is_as_long_as_configured(tmp_path: Path) -> None:
    prompts: list[str] = []

    def reply(body: dict[str, Any]) -> Answer:
        prompts.append(body["messages"][-1]["content"])
        return CITED if body.get("stream") else choose()

    async with replaying(reply) as provider:
        for tokens in (500, 8000):
            endpoint = {"base_url": provider.base_url, "model": "m", "context_tokens": tokens}
            settings = Settings.model_validate({"data_dir": tmp_path, "models": {"main": endpoint}})
            await check(settings, live=True, probes=make_probes(settings))
    sizes = [len(prompt) for prompt in prompts if "<evidence>" in prompt]
    assert 10 < sizes[1] / sizes[0] < 20
    assert all(prompt.index(ANSWER) < 400 for prompt in prompts if "<evidence>" in prompt)


@pytest.mark.parametrize(
    ("loading_s", "tokens_per_s", "room"),
    [(0.0, 10_000, None), (20.0, 10_000, None), (0.0, 250, 2000), (0.0, 120, 1000), (0.0, 30, 500)],
    ids=["quick", "loaded first", "slow", "slower", "slowest"],
)
async def test_a_slow_model_gets_as_many_passages_as_it_can_read(
    loading_s: float, tokens_per_s: float, room: int | None
) -> None:
    prompts: list[str] = []

    def reply(body: dict[str, Any]) -> Answer:
        prompts.append(body["messages"][-1]["content"])
        reading_s = estimate_tokens(prompts[-1]) / tokens_per_s
        return [reading_s if "Lantern" in prompts[-1] else loading_s, *CITED]

    async with replaying(reply) as provider:
        assert await find_room(provider.base_url, "m", "") == room
    assert len({prompt[:4] for prompt in prompts}) == len(prompts), "nothing comes from the cache of the server"


async def test_a_model_with_a_small_window_gets_what_fits() -> None:
    def reply(body: dict[str, Any]) -> Answer:
        if estimate_tokens(body["messages"][-1]["content"]) < 1500:
            return CITED
        return Response({"error": {"message": "the request exceeds the available context size"}}, status=400)

    async with replaying(reply) as provider:
        assert await find_room(provider.base_url, "m", "") == 1000


async def test_a_model_without_room_for_passages_is_refused_in_its_own_words() -> None:
    def reply(body: dict[str, Any]) -> Answer:
        if "Lantern" not in body["messages"][-1]["content"]:
            return CITED
        return Response({"error": {"message": "the request exceeds the available context size"}}, status=400)

    async with replaying(reply) as provider:
        with pytest.raises(ModelError, match="available context size"):
            await find_room(provider.base_url, "m", "")
