from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bots.cli.check import check
from bots.cli.endpoints import check_base_url, check_rerank_url
from bots.cli.probes import make_probes
from core.settings import Settings
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.provider import Answer, Response, replaying


def configure(folder: Path, base_url: str, model: str = "peer", **fields: Any) -> Settings:
    """Return a configuration whose language model, embedding model and reranker are at one address."""
    endpoint = {"base_url": base_url, "model": model, **fields}
    rerank_url = base_url.strip().rstrip("/")
    return Settings.model_validate({
        "data_dir": folder,
        "models": {"main": endpoint},
        "knowledge": {
            "embedding": {"provider": "openai", "dimension": 8, **endpoint},
            "search": {"rerank": "api", "reranker": {"url": rerank_url}},
        },
    })  # fmt: skip


async def find(settings: Settings, subject: str, *, live: bool = False) -> list[str]:
    probes = make_probes(settings) if live else ()
    return [
        f"{finding.level}: {finding.text}"
        for finding in await check(settings, live=live, probes=probes)
        if finding.subject == subject
    ]


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/v1/chat/completions", "/v1"),
        ("/v1/chat/completions/", "/v1"),
        ("/v1/embeddings", "/v1"),
        ("/v1beta/openai/chat/completions", "/v1beta/openai"),
        ("/v1/completions", "/v1"),
        ("/v1/responses", "/v1"),
        ("/v1/models", "/v1"),
    ],
)
@pytest.mark.parametrize("subject", ["models.main", "knowledge.embedding"])
async def test_a_path_too_much_is_an_error_without_being_asked(
    tmp_path: Path, subject: str, path: str, left: str
) -> None:
    (text,) = await find(configure(tmp_path, f"http://localhost:11434{path}"), subject)
    assert text.startswith("error: base_url has a path too much: leave out ")
    assert text.endswith(f"; http://localhost:11434{left} is left")


@pytest.mark.parametrize(
    "base_url", [" http://localhost:11434/v1", "http://localhost:11434/v1 ", "http://localhost:11434/v1\n"]
)
async def test_white_space_around_an_address_does_not_matter(tmp_path: Path, base_url: str) -> None:
    settings = configure(tmp_path, base_url)
    for subject in ("models.main", "knowledge.embedding"):
        assert await find(settings, subject) == ["ok: peer at http://localhost:11434/v1"]


@pytest.mark.parametrize(
    ("url", "has_key", "level"),
    [
        ("https://api.openai.com/v1", True, "ok"),
        ("https://api.openai.com/v1", False, "warning"),
        ("http://192.168.0.7:8000/v1", False, "ok"),
        ("http://ollama:11434/v1", False, "ok"),
        ("http://local host/v1", False, "error"),
    ],
)
def test_a_missing_key_is_a_warning_outside_of_the_own_network(url: str, has_key: bool, level: str) -> None:
    assert check_base_url("models.main", "m", url, has_key=has_key).level == level


@pytest.mark.parametrize(
    ("url", "level", "text"),
    [
        ("http://h:80/v1/rerank", "ok", "http://h:80/v1/rerank"),
        ("http://h:80/rerank", "ok", "http://h:80/rerank"),
        ("http://h:80/my/own", "ok", "http://h:80/my/own"),
        ("http://h:80/v1", "warning", "at http://h:80/v1/rerank"),
        ("http://h:80", "warning", "at http://h:80/rerank"),
        ("http://h:80/v1/chat/completions", "error", "a reranker is at http://h:80/v1/rerank"),
        ("http://h:80/v1/embeddings", "error", "a reranker is at http://h:80/v1/rerank"),
    ],
)
def test_the_address_of_a_reranker_is_that_of_the_call(url: str, level: str, text: str) -> None:
    finding = check_rerank_url("knowledge.search.reranker", url)
    assert (finding.level, text in finding.text) == (level, True)


@pytest.mark.parametrize("extra", ["", "/v1/chat/completions", "/v1/embeddings"])
@pytest.mark.parametrize("subject", ["models.main", "knowledge.embedding"])
async def test_live_finds_the_right_address(tmp_path: Path, subject: str, extra: str) -> None:
    async with LanguageModelPeer() as peer:
        settings = configure(tmp_path, peer.base_url.removesuffix("/v1") + extra)
        text = (await find(settings, subject, live=True))[-1]
    assert text.startswith("error: ")
    assert text.endswith(f"There is a list of models at {peer.base_url}: base_url should probably be that")


@pytest.mark.parametrize("subject", ["models.main", "knowledge.embedding"])
async def test_live_names_the_models_that_there_are(tmp_path: Path, subject: str) -> None:
    async with LanguageModelPeer(models=("qwen3:8b", "bge-m3")) as peer:
        text = (await find(configure(tmp_path, peer.base_url, "qwen3:7b"), subject, live=True))[-1]
    assert "does not exist" in text
    assert f"{peer.base_url} has no model qwen3:7b; it has qwen3:8b" in text


@pytest.mark.parametrize(
    ("answer", "expected_texts"),
    [
        (Response({"error": {"message": "Missing API key"}}, 401), ("Missing API key", "set api_key")),
        (Response([{"error": {"code": 403, "message": "Billing is disabled"}}], 403), ("Billing is disabled",)),
        (Response({"detail": "Not Found"}, 404), ("status 404: Not Found",)),
        (Response("overloaded", 529, content_type="text/plain"), ("status 529: overloaded",)),
    ],
)
@pytest.mark.parametrize("subject", ["models.main", "knowledge.embedding", "knowledge.search.reranker"])
async def test_live_tells_the_providers_own_words(
    tmp_path: Path, subject: str, answer: Answer, expected_texts: tuple[str, ...]
) -> None:
    async with replaying(answer) as provider:
        settings = configure(tmp_path, provider.base_url)
        text = (await find(settings, subject, live=True))[-1]
    assert text.startswith("error: ")
    assert all(expected_text in text for expected_text in expected_texts), text
