from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.errors import EmbeddingError
from core.llm.client import OpenAIClient
from core.settings import EmbeddingSettings
from knowledge.embedding.remote import RemoteEmbedder
from tests.support.provider import Answer, Response, replaying

pytestmark = pytest.mark.usefixtures("time_lapse")

Refuse = Callable[[list[str]], Answer | None]


def vectors_of(body: dict[str, Any]) -> Response:
    data = [{"index": at, "embedding": [len(text), 1.0]} for at, text in enumerate(body["input"])]
    return Response({"data": data})


def taking(refuse: Refuse) -> Callable[[dict[str, Any]], Answer]:
    return lambda body: refuse(body["input"]) or vectors_of(body)


def refusal(text: str, status: int = 400) -> Response:
    return Response({"error": {"message": text}}, status)


async def embed(texts: list[str], refuse: Refuse, times: int = 1) -> tuple[list[int], np.ndarray, list[list[str]]]:
    """Return which texts have no vector, the vectors, and the texts of each request."""
    async with replaying(taking(refuse)) as provider:
        settings = EmbeddingSettings(
            provider="openai", base_url=provider.base_url, model="vectors", dimension=2, batch=32
        )
        embedder = RemoteEmbedder(OpenAIClient.open(provider.base_url, "", 60), settings)
        try:
            for _ in range(times):
                vectors = await embedder.embed(texts)
        finally:
            await embedder.close()
    missing = [at for at, vector in enumerate(vectors) if not np.isfinite(vector).all()]
    return missing, vectors, [body["input"] for body in provider.requests]


def too_many(limit: int, answer: Answer) -> Refuse:
    return lambda texts: answer if len(texts) > limit else None


def bad(word: str, answer: Answer) -> Refuse:
    return lambda texts: answer if any(word in text for text in texts) else None


TEXTS = [f"text {number}" for number in range(32)]


@pytest.mark.parametrize(
    "answer",
    [
        refusal("batch size is invalid, it should not be larger than 10"),
        refusal("Payload Too Large", 413),
        refusal("batch size 32 > maximum allowed batch size 10", 422),
        Response("<html><title>413 Request Entity Too Large</title></html>", 413, content_type="text/html"),
    ],
)
async def test_a_batch_that_is_refused_is_halved_and_so_are_those_after_it(answer: Response) -> None:
    missing, _, requests = await embed(TEXTS, too_many(10, answer), times=2)
    assert missing == []
    assert [len(texts) for texts in requests[-4:]] == [8] * 4
    assert len(requests) <= 14


async def test_a_batch_that_takes_too_long_is_halved() -> None:
    def slow(texts: list[str]) -> Answer | None:
        return [35.0] if len(texts) > 10 else None

    missing, _, requests = await embed(TEXTS, slow, times=2)
    assert missing == []
    assert [len(texts) for texts in requests[-4:]] == [8] * 4


@pytest.mark.parametrize("status", [400, 413, 422, 500])
async def test_a_bad_text_costs_itself_alone(status: int) -> None:
    missing, vectors, requests = await embed([*TEXTS[:20], "poison", *TEXTS[20:]], bad("poison", refusal("no", status)))
    assert missing == [20]
    assert np.allclose(np.linalg.norm(np.delete(vectors, 20, axis=0), axis=1), 1)
    # The batches after it are as large as before.
    assert len(requests) < 25


@pytest.mark.parametrize("vector", [None, [], [float("nan"), 1.0], [0.0, 0.0], "gone", {"values": [1.0, 2.0]}])
async def test_a_vector_that_is_none_costs_its_text_alone(vector: object) -> None:
    def answer(texts: list[str]) -> Answer | None:
        response = vectors_of({"input": texts})
        for item, text in zip(response.body["data"], texts, strict=True):
            item["embedding"] = vector if text == "poison" else item["embedding"]
        return response

    missing, vectors, _ = await embed([*TEXTS[:20], "poison", *TEXTS[20:]], answer)
    assert missing == [20]
    assert np.allclose(np.linalg.norm(np.delete(vectors, 20, axis=0), axis=1), 1)


async def test_a_vector_in_a_list_of_its_own_is_read() -> None:
    def answer(texts: list[str]) -> Answer | None:
        response = vectors_of({"input": texts})
        for item in response.body["data"]:
            item["embedding"] = [item["embedding"]]
        return response

    missing, vectors, requests = await embed(TEXTS, answer)
    assert (missing, len(requests)) == ([], 1)
    assert vectors[:, 0] / vectors[:, 1] == pytest.approx([len(text) for text in TEXTS], rel=1e-3)


async def test_a_text_whose_vector_is_left_out_costs_itself_alone() -> None:
    def answer(texts: list[str]) -> Answer | None:
        response = vectors_of({"input": texts})
        response.body["data"] = [
            item for item, text in zip(response.body["data"], texts, strict=True) if text != "poison"
        ]
        return response

    assert (await embed([*TEXTS[:20], "poison", *TEXTS[20:]], answer))[0] == [20]


@pytest.mark.parametrize(
    "answer",
    [
        refusal("This model's maximum context length is 512 tokens, however you requested 2100 tokens"),
        refusal("input must have less than 512 tokens", 413),
        refusal("input is too large to process. increase the physical batch size", 500),
    ],
)
async def test_a_long_text_is_cut(answer: Response) -> None:
    def refuse(texts: list[str]) -> Answer | None:
        return answer if any(len(text) > 2000 for text in texts) else None

    missing, vectors, requests = await embed([*TEXTS, "word " * 2000], refuse)
    assert missing == []
    assert np.isfinite(vectors).all()
    assert max(len(text) for text in requests[-1]) <= 2000


@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_an_endpoint_that_refuses_everything_is_to_blame_itself(status: int) -> None:
    with pytest.raises(EmbeddingError, match=f"vectors: (.*)status {status}: not you"):
        await embed(TEXTS, lambda texts: refusal("not you", status))


async def test_a_busy_endpoint_is_waited_for() -> None:
    times: list[float] = []

    def busy(texts: list[str]) -> Answer | None:
        times.append(time.monotonic())
        text = "Rate limit reached. Please try again in 7s."
        return refusal(text, 429) if times[-1] - times[0] < 5 else None

    missing, _, requests = await embed(TEXTS, busy)
    assert (missing, len(requests)) == ([], 2)


@pytest.mark.parametrize("answer", [refusal("still warming", 429), refusal("Loading model", 503)])
async def test_an_endpoint_that_loads_its_model_is_waited_for(answer: Response) -> None:
    started_at = time.monotonic()
    missing, _, _ = await embed(TEXTS, lambda _: answer if time.monotonic() - started_at < 40 else None)
    assert missing == []
    with pytest.raises(EmbeddingError, match=f"status {answer.status}"):
        await embed(TEXTS, lambda _: answer)
    assert time.monotonic() - started_at < 200


async def test_a_text_without_words_is_not_sent() -> None:
    missing, _, requests = await embed(["one", "", "\n\n", " ", "two"], lambda _: None)
    assert (missing, requests) == ([1, 2, 3], [["one", "two"]])
    assert await embed([""], lambda _: None) == ([0], pytest.approx(np.full((1, 2), np.nan), nan_ok=True), [])


@pytest.mark.parametrize("numbers", [[None] * 3, [0] * 3, [0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 1, 1]])
async def test_a_vector_never_belongs_to_another_text(numbers: list[int | None]) -> None:
    def answer(texts: list[str]) -> Answer | None:
        data = vectors_of({"input": texts}).body["data"]
        if len(texts) < 3:
            return None
        by_number = [data[number or 0] for number in numbers] if len(set(numbers)) == 3 else data
        return Response({"data": [{**item, "index": at} for item, at in zip(by_number, numbers, strict=True)]})

    texts = ["a", "bb", "ccc"]
    missing, vectors, requests = await embed(texts, answer)
    assert (missing, len(requests) > 1) == ([], numbers == [0, 1, 1])
    assert vectors[:, 0] / vectors[:, 1] == pytest.approx([len(text) for text in texts])


@pytest.mark.parametrize(
    ("settings", "expected_texts", "expected_fields"),
    [
        ({"model": "intfloat/multilingual-e5-small"}, ["query: a", "passage: a"], [{}, {}]),
        ({"model": "bge-base-en-v1.5", "query_prefix": "Q "}, ["Q a", "a"], [{}, {}]),
        (
            {"model": "embed-english-v3.0"},
            ["a", "a"],
            [{"input_type": "search_query"}, {"input_type": "search_document"}],
        ),
        (
            {"model": "own", "input_type": {"field": "task", "query": "q", "passage": "p"}, "passage_prefix": "P "},
            ["a", "P a"],
            [{"task": "q"}, {"task": "p"}],
        ),
    ],
)
async def test_queries_are_told_from_passages(
    settings: dict[str, Any], expected_texts: list[str], expected_fields: list[dict[str, str]]
) -> None:
    async with replaying(vectors_of) as provider:
        embedding = EmbeddingSettings(provider="openai", base_url=provider.base_url, dimension=2, **settings)
        embedder = RemoteEmbedder(OpenAIClient.open(provider.base_url, "", 60), embedding)
        await embedder.embed(["a"], "query")
        await embedder.embed(["a"])
        await embedder.close()
    assert [body["input"][0] for body in provider.requests] == expected_texts
    fields = [{name: body[name] for name in ("input_type", "task") if name in body} for body in provider.requests]
    assert fields == expected_fields


async def test_an_endpoint_that_refuses_the_kind_of_a_text_gets_it_without() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return refusal("Unknown field: 'input_type'", 422) if "input_type" in body else vectors_of(body)

    async with replaying(answer) as provider:
        embedding = EmbeddingSettings(provider="openai", base_url=provider.base_url, model="embed-v4.0", dimension=2)
        embedder = RemoteEmbedder(OpenAIClient.open(provider.base_url, "", 60), embedding)
        for _ in range(2):
            await embedder.embed(["a"], "query")
        await embedder.close()
    assert ["input_type" in body for body in provider.requests] == [True, False, False]
