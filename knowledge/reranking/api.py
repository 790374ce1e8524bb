"""Reranking by a service: Cohere, Jina, vLLM, Infinity and Text Embeddings Inference speak nearly the same."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from core.errors import ServiceError, SourceError
from core.evidence.ranking import fuse, logistic
from core.llm.refusals import describe_error, read_refusal
from core.runtime.leaving import require_leave
from core.settings.knowledge import RerankerSettings
from core.types import Passage
from knowledge.web.addresses import redact_url
from knowledge.web.client import Request, Response, WebClient, read_json, resolve_secret

RESULT_KEYS = ("results", "data", "list")
# The share of the stage bounds the call as well.
TIMEOUT_S = 2.0
KEY_STATUSES = frozenset({401, 403})
MISSING_STATUSES = frozenset({404, 405})
SCORE_KEYS = ("relevance_score", "score")

# Rerankers read about 512 tokens; longer passages are cut to this many characters.
MAX_CHARACTERS = 4000
# A service that finds a request too large gets it in halves, of halved texts, at most so often.
MAX_HALVINGS = 3
SIZE_STATUSES = frozenset({200, 400, 413, 422, 500})
_ABOUT_SIZE = re.compile(
    r"\bbatch|\btokens?\b|\btoo (?:large|long|many)|\blength\b|\bexceed|\bmaximum\b", re.IGNORECASE
)


class _TooLargeError(SourceError):
    """A service refused a request for its size: too many texts, or one that is too long."""


class ApiReranker:
    """Asks a service for the order of the best passages; the others follow in the fused order. Call `close` at the end.

    The passages' texts and the query are sent to that service.
    """

    def __init__(self, settings: RerankerSettings, alpha: float) -> None:
        self._settings = settings
        self._alpha = alpha
        # The operator's own service may be on this machine; a redirect may not lead there.
        self._client = WebClient({urlsplit(settings.url).hostname or ""})
        # What the service takes in one request, as far as is known by now.
        self._max_texts = settings.top_n
        self._max_characters = MAX_CHARACTERS

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages best first.

        Raises `ServiceError` when the service fails, is late or makes no sense, and when its key is missing.
        """
        fused_passages = fuse(passages, self._alpha)
        candidates = fused_passages[: self._settings.top_n]
        if len(fused_passages) < 2 or not query.strip():
            return fused_passages
        try:
            key = await resolve_secret(self._settings.api_key)
            scores = await self._score(query, list(map(rerank_input, candidates)), key)
        except SourceError as error:
            raise ServiceError(f"the reranker failed: {error}") from error
        return order_by_scores(fused_passages, scores)

    async def _score(self, query: str, texts: Sequence[str], key: str) -> Mapping[int, float]:
        """Return the scores by position, at least one, in requests that the service takes. Raises `SourceError`.

        It judges each text by itself, so that the scores of several requests are comparable.
        """
        max_texts, max_characters = self._max_texts, self._max_characters
        for halving_count in range(MAX_HALVINGS + 1):
            scores: dict[int, float] = {}
            try:
                for start in range(0, len(texts), max_texts):
                    part = [text[:max_characters] for text in texts[start : start + max_texts]]
                    part_scores = await self._ask(query, part, key)
                    scores.update({start + position: score for position, score in part_scores.items()})
            except _TooLargeError:
                # Which of the two was too large is not said in one way.
                if halving_count == MAX_HALVINGS:
                    raise
                max_texts, max_characters = -(-max_texts // 2), max_characters // 2
            else:
                self._max_texts, self._max_characters = max_texts, max_characters
                return scores
        raise AssertionError("unreachable")

    async def _ask(self, query: str, texts: Sequence[str], key: str) -> Mapping[int, float]:
        await require_leave()
        response = await self._client.fetch(self._make_request(query, texts, key))
        url = redact_url(response.url)
        scores: Mapping[int, float] = {}
        if response.status >= 400:
            problem = f"{url} answered with {self._describe_refusal(response, key)}"
        else:
            scores, words = await read_json(response, lambda reply: (_parse_scores(reply, len(texts)), _say(reply)))
            problem = f"{url} named no passage with a score: {words}".removesuffix(": ")
        if scores:
            return scores
        is_too_large = response.status in SIZE_STATUSES and _ABOUT_SIZE.search(problem)
        raise _TooLargeError(problem) if is_too_large or response.status == 413 else SourceError(problem)

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        await self._client.close()

    def _make_request(self, query: str, texts: Sequence[str], key: str) -> Request:
        settings = self._settings
        body: dict[str, Any] = {"query": query[:MAX_CHARACTERS], settings.texts_key: list(texts)}
        if settings.texts_key == "documents":
            body["top_n"] = len(texts)
        else:
            body["truncate"] = True
        if settings.model:
            body["model"] = settings.model
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return Request(settings.url, "POST", {}, headers, body, TIMEOUT_S)

    def _describe_refusal(self, response: Response, key: str) -> str:
        """Return the service's own words, and the way out where the status tells it."""
        refusal = read_refusal(response.status, response.content, response.headers)
        words = refusal.words.replace(key, "***") if key else refusal.words
        hint = ""
        if refusal.status in MISSING_STATUSES:
            hint = "; is the path of url right, for example /v1/rerank, and the model?"
        elif refusal.status in KEY_STATUSES:
            hint = "; check api_key" if key else "; it wants an API key: set api_key"
        return f"status {refusal.status}: {words}".removesuffix(": ") + hint


def _say(reply: object) -> str:
    return describe_error(reply) if isinstance(reply, Mapping) else ""


def _parse_scores(reply: object, count: int) -> Mapping[int, float]:
    """Return the scores by position: none for nonsense."""
    if isinstance(reply, Mapping):
        reply = next((reply[key] for key in RESULT_KEYS if isinstance(reply.get(key), list)), None)
    scores: dict[int, float] = {}
    for result in reply if isinstance(reply, list) else ():
        position, score = _parse_result(result)
        if position is not None and score is not None and 0 <= position < count:
            scores.setdefault(position, score)
    return scores


def _parse_result(result: object) -> tuple[int | None, float | None]:
    if not isinstance(result, Mapping):
        return None, None
    score = next((result[key] for key in SCORE_KEYS if key in result), None)
    position = result.get("index")
    is_valid_score = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < math.inf
    return (
        position if isinstance(position, int) and not isinstance(position, bool) else None,
        float(score) if is_valid_score and score is not None else None,
    )


def order_by_scores(passages: Sequence[Passage], scores: Mapping[int, float]) -> Sequence[Passage]:
    """Return fused passages in the order of their new scores, by position; at least one is scored.

    Those without a new score stay behind those with one, in their order. Scores that are not all from 0 to 1 are a
    model's raw ones: the logistic function makes them so.
    """
    ranking = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    is_raw = not all(0 <= score <= 1 for score in scores.values())
    scored_passages = [
        replace(passages[position], score=logistic(score) if is_raw else score) for position, score in ranking
    ]
    unscored_passages = [passage for position, passage in enumerate(passages) if position not in scores]
    return scored_passages + [
        replace(passage, score=passage.score * scored_passages[-1].score) for passage in unscored_passages
    ]


def rerank_input(passage: Passage) -> str:
    """Return the text of a passage that is judged, its title included."""
    return f"{passage.title}\n{passage.text}"[:MAX_CHARACTERS]
