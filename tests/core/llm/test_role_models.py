from __future__ import annotations

import json
import time

import pytest
from aiohttp import web

from core.errors import EmbeddingError, ModelError, ServiceError
from core.llm.client import OpenAIClient
from core.llm.role_models import RoleChatModel
from core.runtime.budget import Budget
from core.settings import BudgetSettings, ModelsSettings
from core.types import Turn
from tests.support.peers.language_model import LanguageModelPeer

pytestmark = pytest.mark.usefixtures("time_lapse")

ASK = [Turn("user", "Hello?")]


def open_models(peer: LanguageModelPeer, **light: object) -> RoleChatModel:
    main = {"base_url": peer.base_url, "model": "big", "api_key": {"env": "TEST_KEY"}, "temperature": 0.2}
    settings = {"main": main, **({"light": {**main, "model": "small", **light}} if light else {})}
    models = RoleChatModel.open(ModelsSettings.model_validate(settings))
    assert models is not None
    return models


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "right")


async def test_no_model_is_configured_means_none() -> None:
    assert RoleChatModel.open(ModelsSettings()) is None


async def test_each_role_goes_to_its_model_and_tokens_are_counted() -> None:
    async with LanguageModelPeer(reply="Good day to you.", api_key="right") as peer:
        models = open_models(peer, max_tokens=50)
        budget = Budget(BudgetSettings())
        peer.tokens_per_s = 50
        pieces = [piece async for piece in models.stream("Be kind.", ASK, role="main", budget=budget)]
        reply_text = await models.complete("Be kind.", ASK, role="light", budget=budget)
        await models.close()
    assert "".join(pieces) == reply_text == "Good day to you."
    assert len(pieces) > 1
    assert [body["model"] for body in peer.requests] == ["big", "small"]
    assert peer.requests[0]["messages"][0] == {"role": "system", "content": "Be kind."}
    assert peer.requests[0]["temperature"] == 0.2
    assert peer.requests[1]["max_tokens"] == 50
    assert budget.tokens["main.completion"] > 0
    assert budget.tokens["light.prompt"] > 0


async def test_neighbours_of_one_role_become_one_message() -> None:
    async with LanguageModelPeer(api_key="right") as peer:
        models = open_models(peer)
        turns = [Turn("user", "Quoted."), Turn("user", "Why?"), Turn("assistant", "So."), Turn("user", "Really?")]
        # Some servers refuse a message without text.
        turns[1:1] = [Turn("assistant", ""), Turn("user", " \n")]
        await models.complete("", turns, role="main", budget=Budget(BudgetSettings()))
        await models.close()
    messages = [(message["role"], message["content"]) for message in peer.requests[0]["messages"][1:]]
    assert messages == [("user", "Quoted.\n\nWhy?"), ("assistant", "So."), ("user", "Really?")]


@pytest.mark.parametrize(
    ("failure_mode", "expected_text"),
    [
        ({"status": 500}, "status 500"),
        ({"status": 429}, "status 429"),
        ({"api_key": "another"}, "API key was refused"),
        ({"drop_after": 2}, "big"),
    ],
)
async def test_failures_are_model_errors_that_name_the_endpoint(
    failure_mode: dict[str, object], expected_text: str
) -> None:
    async with LanguageModelPeer() as peer:
        for name, value in failure_mode.items():
            setattr(peer, name, value)
        models = open_models(peer)
        with pytest.raises(ModelError, match=expected_text) as error_info:
            async for _ in models.stream("", ASK, role="main", budget=Budget(BudgetSettings())):
                pass
        await models.close()
    assert peer.base_url in str(error_info.value)
    assert "right" not in str(error_info.value)


@pytest.mark.parametrize(
    ("failure_mode", "expected_text"),
    [({"hang": True}, "did not answer in time"), ({"stall_after": 2}, "did not finish in time")],
)
async def test_silence_ends_with_the_budget(failure_mode: dict[str, object], expected_text: str) -> None:
    async with LanguageModelPeer() as peer:
        for name, value in failure_mode.items():
            setattr(peer, name, value)
        models = open_models(peer)
        # Loading the client takes longer than this budget.
        await models.warm_up()
        started_at = time.monotonic()
        with pytest.raises(ModelError, match=expected_text):
            async for _ in models.stream("", ASK, role="main", budget=Budget(BudgetSettings(deadline_s=0.7))):
                pass
        await models.close()
    assert time.monotonic() - started_at < 30


async def test_an_unreachable_endpoint_is_named() -> None:
    endpoint = OpenAIClient.open("http://127.0.0.1:9/v1", "", 2)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9.*connection failed"):
        await endpoint.complete({"model": "big", "messages": [{"role": "user", "content": "Hello?"}]})
    with pytest.raises(EmbeddingError, match="connection failed"):
        await endpoint.embed("big", ["Hello?"])
    await endpoint.close()


async def test_embeddings_come_in_order() -> None:
    async with LanguageModelPeer(dimension=4) as peer:
        endpoint = OpenAIClient.open(peer.base_url, "", 5)
        vectors = await endpoint.embed("vectors", ["one", "two"])
        single_vector = await endpoint.embed("vectors", ["two"])
        await endpoint.close()
    assert [len(vector) for vector in vectors] == [4, 4]
    assert vectors[1] == single_vector[0]


async def test_an_endpoint_that_refuses_stream_options_still_streams() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        questions.append("stream_options" in body)
        if questions[-1]:
            return web.json_response({"error": {"message": "unknown field stream_options"}}, status=422)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for choice in ({"delta": {"content": "Hi"}}, {"delta": {}, "finish_reason": "stop"}):
            chunk = {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, **choice}]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    questions: list[bool] = []
    app = web.Application()
    app.router.add_post("/v1/chat/completions", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = OpenAIClient.open(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", "", 5)
    request = {"model": "old", "messages": [{"role": "user", "content": "Hello?"}]}
    for _ in range(2):
        assert "".join([piece.text async for piece in endpoint.stream(request)]) == "Hi"
    await endpoint.close()
    await runner.cleanup()
    assert questions == [True, False, False], "the refusal is remembered"


async def test_an_address_that_is_none_is_a_clear_error() -> None:
    endpoint = OpenAIClient.open("http://[::1", "", 5)
    await endpoint.warm_up()
    with pytest.raises(ServiceError, match="no client can be made"):
        await endpoint.complete({"model": "big", "messages": []})
    await endpoint.close()
