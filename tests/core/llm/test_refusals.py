from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from core.errors import EmbeddingError, ModelError
from core.llm.client import OpenAIClient
from core.llm.role_models import RoleChatModel
from core.runtime.budget import Budget
from core.settings import BudgetSettings, ModelsSettings
from core.types import Turn
from tests.support.provider import ABORT, DONE, END, Answer, Response, event, replaying

pytestmark = pytest.mark.usefixtures("time_lapse")

MESSAGES = [{"role": "user", "content": "How?"}]
ASK: dict[str, Any] = {"model": "peer", "messages": MESSAGES, "max_tokens": 50}
YES: Answer = [event("Yes."), event(finish="stop"), DONE]
FORM = {"response_format": {"type": "text"}}
VALUES = {
    "temperature": 0.2,
    "top_p": 0.5,
    "stop": ["."],
    "reasoning_effort": "low",
    "response_format": {"type": "text"},
}


def openai_error(text: str, param: str | None = None) -> Response:
    return Response({"error": {"message": text, "param": param, "code": "unsupported_parameter"}}, 400)


def refusing(*names: str, describe: Callable[[str], Response]) -> Callable[[dict[str, Any]], Answer]:
    """Return a provider that refuses the first of these parameters that it finds."""

    def answer(body: dict[str, Any]) -> Answer:
        return next((describe(name) for name in names if name in body), YES)

    return answer


async def ask(client: OpenAIClient, **fields: Any) -> str:
    return "".join([chunk.text async for chunk in client.stream({**ASK, **fields})])


@pytest.mark.parametrize(
    ("refused", "taken"), [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")]
)
async def test_the_other_name_of_the_limit_is_learned_from_the_refusal(refused: str, taken: str) -> None:
    def describe(name: str) -> Response:
        return openai_error(f"Unsupported parameter: '{name}' is not supported with this model. Use '{taken}'.", name)

    request = {**ASK, refused: 50}
    if refused != "max_tokens":
        del request["max_tokens"]
    async with replaying(refusing(refused, describe=describe)) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        for _ in range(2):
            assert "".join([chunk.text async for chunk in client.stream(request)]) == "Yes."
        await client.close()
    assert [(body.get(refused), body.get(taken)) for body in provider.requests] == [(50, None), (None, 50), (None, 50)]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(
    "describe",
    [
        lambda name: openai_error(f"Unsupported value: '{name}' does not support that with this model."),
        lambda name: openai_error("Unsupported value.", name),
        lambda name: Response({"detail": [{"loc": ["body", name], "msg": "Extra inputs are not permitted"}]}, 422),
        lambda name: Response([{"error": {"code": 400, "message": f'Unknown name "{name}": Cannot find field.'}}], 400),
        lambda name: Response({"error": {"message": "Provider returned error", "metadata": {
            "raw": json.dumps({"message": f"`{name}` is not supported"})}}}, 400),
        lambda name: Response({"error": {"message": "the call of the model failed", "code": 400, "reason_of_it":
            json.dumps({"error": {"message": "Only the default is supported.", "param": name}})}}, 400),
        lambda name: Response(f"unexpected parameter '{name}'", 400, content_type="text/plain"),
    ],
)  # fmt: skip
async def test_a_refused_parameter_is_left_out_from_then_on(name: str, describe: Callable[[str], Response]) -> None:
    async with replaying(refusing(name, describe=describe)) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        assert [await ask(client, **VALUES) for _ in range(2)] == ["Yes.", "Yes."]
        await client.close()
    kept_names = VALUES.keys() - {name} | {"max_tokens", "stream_options"}
    assert [name in body for body in provider.requests] == [True, False, False]
    assert all(kept_names <= body.keys() for body in provider.requests)


async def test_several_refusals_in_a_row_and_of_one_model_only() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return refuse(body) if body["model"] == "peer" else YES

    refuse = refusing("max_tokens", "temperature", "stop", describe=lambda name: openai_error("No.", name))
    async with replaying(answer) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        for model in ("peer", "peer", "other"):
            assert await ask(client, **VALUES, model=model) == "Yes."
        await client.close()
    assert [body["model"] for body in provider.requests] == ["peer"] * 5 + ["other"]
    assert {"max_tokens", "temperature", "stop"} <= provider.requests[-1].keys()


async def test_a_limit_that_is_too_high_for_one_prompt_is_sent_again_with_the_next() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        is_too_long = len(body["messages"][0]["content"]) > 100 and (
            {"max_tokens", "max_completion_tokens"} & body.keys()
        )
        text = "'max_tokens' is too large: 50. This model's maximum context length is 60 tokens and your request has 30"
        return openai_error(text) if is_too_long else YES

    async with replaying(answer) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        assert await ask(client, messages=[{"role": "user", "content": "long " * 30}]) == "Yes."
        assert await ask(client) == "Yes."
        await client.close()
    assert "max_tokens" in provider.requests[-1]


@pytest.mark.parametrize("name", ["response_format", "tools"])
async def test_a_server_that_ends_over_a_form_of_the_reply_is_asked_without(name: str) -> None:
    fields = {name: {"type": "json_schema"}, "stop": ["."]}
    async with replaying(lambda body: [ABORT] if name in body else YES) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        assert [await ask(client, **fields) for _ in range(3)] == ["Yes."] * 3
        await client.close()
    # Once may be the network's fault; what ends the server again is left out from then on.
    assert [name in body for body in provider.requests] == [True, False, True, False, False]
    assert all("stop" in body for body in provider.requests)


async def test_a_server_that_is_down_after_a_form_of_the_reply_is_asked_without() -> None:
    async with replaying(lambda body: [END] if "response_format" in body else YES) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                await ask(client, **FORM)
            assert caught.value.is_unsent
            await provider.start()
        assert await ask(client, **FORM) == "Yes."
        await client.close()
    assert ["response_format" in body for body in provider.requests] == [True, True, False]


async def test_what_ends_the_requests_under_way_together_counts_once() -> None:
    async with replaying(lambda body: [ABORT] if "response_format" in body else YES) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        assert await asyncio.gather(*(ask(client, **FORM) for _ in range(2))) == ["Yes."] * 2
        assert [await ask(client, **FORM) for _ in range(2)] == ["Yes."] * 2
        await client.close()
    assert ["response_format" in body for body in provider.requests[-3:]] == [True, False, False]


async def test_closed_connections_with_replies_between_them_say_nothing_of_the_form() -> None:
    answers = iter([[ABORT], YES, YES] * 3)
    async with replaying(lambda _: next(answers)) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        assert [await ask(client, **FORM) for _ in range(6)] == ["Yes."] * 6
        await client.close()
    assert ["response_format" in body for body in provider.requests] == [True, False, True] * 3


@pytest.mark.parametrize("fields", [{}, FORM])
async def test_a_server_that_ends_over_everything_is_said_to(fields: dict[str, Any]) -> None:
    async with replaying([ABORT]) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        with pytest.raises(ModelError, match="the connection failed"):
            await ask(client, **fields)
        await client.close()
    assert len(provider.requests) == 1 + len(fields)


async def test_a_refusal_that_is_not_about_a_parameter_is_told() -> None:
    async with replaying(openai_error("The model is not allowed to talk about this; please stop.")) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        with pytest.raises(ModelError, match="status 400: The model is not allowed"):
            await ask(client, stop=["."])
        await client.close()
    assert all("stop" in body for body in provider.requests)


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        ({"error": {"message": "No such model."}}, "No such model"),
        ([{"error": {"code": 429, "message": "Resource exhausted", "status": "EXHAUSTED"}}], "Resource exhausted"),
        ({"message": "invalid token", "request_id": "7"}, "invalid token"),
        ({"errors": ["first cause", {"message": "second cause"}]}, "first cause; second cause"),
        ({"strange": 7}, '{"strange": 7}'),
        ("upstream connect error", "upstream connect error"),
        ("<html><head><title>502 Bad Gateway</title></head></html>", "502 Bad Gateway"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [403, 418, 503])
async def test_the_providers_own_words_are_told(body: object, expected_text: str, status: int) -> None:
    async with replaying(Response(body, status)) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        with pytest.raises(ModelError) as error_info:
            await client.complete(ASK)
        with pytest.raises(EmbeddingError) as embedding_error_info:
            await client.embed("peer", ["text"])
        await client.close()
    for error in (error_info.value, embedding_error_info.value):
        assert str(error).endswith(f"peer: status {status}: {expected_text}")


@pytest.mark.parametrize(("key", "hint"), [("", "none is configured; set api_key"), ("k-1", "check api_key")])
async def test_a_refused_key_and_a_missing_one_differ(key: str, hint: str) -> None:
    async with replaying(Response({"error": {"message": f"Incorrect API key provided: {key}"}}, 401)) as provider:
        client = OpenAIClient.open(provider.base_url, key, 60)
        with pytest.raises(ModelError, match=hint) as error_info:
            await client.complete(ASK)
        await client.close()
    assert "Incorrect API key" in str(error_info.value)
    assert "k-1" not in str(error_info.value)


GEMINI_DETAILS = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}]


@pytest.mark.parametrize(
    ("body", "make_headers"),
    [
        ({}, lambda: {"Retry-After": "2"}),
        ({}, lambda: {"Retry-After": formatdate(time.time() + 3, usegmt=True)}),
        ({}, lambda: {"retry-after-ms": "2000"}),
        ([{"error": {"code": 429, "message": "Resource exhausted", "details": GEMINI_DETAILS}}], dict),
        ({"error": {"message": "Rate limit reached. Please try again in 2.1s. Visit our pages."}}, dict),
        ({"error": {"message": "Please retry after 2 seconds."}}, dict),
        ({"message": "slow down", "retry_after": 2.2}, dict),
    ],
)
async def test_a_busy_endpoint_is_asked_again_when_it_says(
    body: object, make_headers: Callable[[], dict[str, str]]
) -> None:
    def answer(_body: dict[str, Any]) -> Answer:
        times.append(time.monotonic())
        return Response(body, 429, make_headers()) if times[-1] - times[0] < 1.5 else YES

    times: list[float] = []
    async with replaying(answer) as provider:
        settings = {"main": {"base_url": provider.base_url, "model": "peer"}}
        models = RoleChatModel.open(ModelsSettings.model_validate(settings))
        assert models is not None
        await models.warm_up()
        budget = Budget(BudgetSettings())
        assert [piece async for piece in models.stream("", [Turn("user", "How?")], role="main", budget=budget)] == [
            "Yes."
        ]
        await models.close()
    assert len(times) == 2


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, "Only user, assistant and tool roles are supported, got system."),
        (400, "System role not supported"),
        (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
        (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    ],
)
async def test_instructions_that_have_no_role_are_sent_with_the_question(status: int, words: str) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        is_refused = body["messages"][0]["role"] == "system"
        return Response({"error": {"message": words}}, status) if is_refused else YES

    parts = [{"type": "text", "text": "How?"}]
    async with replaying(answer) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        for content in ("How?", parts):
            messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]
            assert await ask(client, messages=messages) == "Yes."
        await client.close()
    assert [body["messages"] for body in provider.requests[1:]] == [
        [{"role": "user", "content": "Be brief.\n\nHow?"}],
        [{"role": "user", "content": [{"type": "text", "text": "Be brief."}, *parts]}],
    ]


async def test_a_refusal_of_other_messages_is_told() -> None:
    refusal = Response({"error": {"message": "Conversation roles must alternate user/assistant."}}, 400)
    async with replaying(refusal) as provider:
        client = OpenAIClient.open(provider.base_url, "", 60)
        with pytest.raises(ModelError, match="must alternate"):
            await ask(client)
        await client.close()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_request_that_is_sent_elsewhere_arrives_whole(status: int) -> None:
    async with replaying(YES) as provider:
        moved = Response("", status, {"Location": f"{provider.base_url}/chat/completions"})
        async with replaying(moved) as former_provider:
            client = OpenAIClient.open(former_provider.base_url, "", 60)
            assert await ask(client) == "Yes."
            await client.close()
    assert [body["messages"] for body in provider.requests] == [MESSAGES]
