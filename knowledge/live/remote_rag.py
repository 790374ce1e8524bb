"""A remote retrieval service as a source: several knowledge bases, queried at once, with weighted scores."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from core.errors import SourceError
from core.evidence.rendering import describe_standing
from core.observability.logs import get_logger
from core.settings import RemoteRagSource
from core.types import Passage
from knowledge.live.mapping import clean_text
from knowledge.live.retriever import DailyQuota, LiveResult, LiveRetriever
from knowledge.web.addresses import is_web_address, redact_url
from knowledge.web.client import Request, Response, read_json
from knowledge.web.values import to_line, to_text

_log = get_logger(__name__)

MAX_TEXT_CHARS = 4000
MAX_RESULTS = 200
# What the enhanced call sends unless `body` says otherwise; the standard call knows neither.
RETRIEVE_FLAGS = {"use_rerank": True, "use_compression": False}
# How long a base without the enhanced call gets the standard call before the enhanced one is tried again.
STANDARD_CALL_TTL_S = 3600.0
NOT_SUPPORTED_STATUSES = frozenset({404, 405})
LIST_KEYS = ("results", "data", "list", "records")
TEXT_KEYS = ("content", "text", "chunk")
SCORE_KEYS = ("score", "similarity")
TITLE_KEYS = ("title", "document_name", "doc_name", "file_name", "name")
NESTED_KEYS = ("metadata", "chunk", "document")
LINK_KEYS = ("url", "link", "source_url")


class RemoteRag(LiveRetriever):
    """One service. The scores of its bases are multiplied by their weights; a base that fails is logged and left out.

    Only when all bases fail, so does the search.
    """

    def __init__(self, name: str, settings: RemoteRagSource, quota: DailyQuota | None = None) -> None:
        super().__init__(name, settings, settings.base_url, quota)
        self._settings = settings
        self._standard_until: dict[str, float] = {}

    async def _search_uncached(self, query: str) -> LiveResult:
        bases = self._settings.bases
        if self._quota:
            await self._quota.reserve(len(bases))
        outcomes = await asyncio.gather(*(self._search_base(base, query) for base in bases))
        errors = [outcome for outcome in outcomes if isinstance(outcome, SourceError)]
        if len(errors) == len(outcomes):
            raise errors[0]
        candidates = [passage for outcome in outcomes if not isinstance(outcome, SourceError) for passage in outcome]
        # A result of several bases counts once, with its highest score: the last of an id stays.
        passages_by_id = {passage.id: passage for passage in sorted(candidates, key=lambda passage: passage.score)}
        passages = sorted(passages_by_id.values(), key=lambda passage: -passage.score)[: self._settings.limit]
        return LiveResult(passages, is_complete=not errors)

    def get_factor(self, passage: Passage) -> float:
        """Return the weight of the base that a result is from, relative to the heaviest one: none lifts it above 1."""
        return self._get_weight(
            max((base for base in self._settings.bases if passage.path.startswith(f"{base}/")), key=len)
        )

    def _get_weight(self, base: str) -> float:
        return self._settings.bases[base] / max(1.0, *self._settings.bases.values())

    async def _search_base(self, base: str, query: str) -> list[Passage] | SourceError:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                payload: Any = await read_json(await self._call_base(base, query))
                # Markup takes much longer to read than JSON.
                return await asyncio.to_thread(self._to_passages, base, payload)
        except TimeoutError:
            error = SourceError(
                f"source {self.name}: {self.display_url} did not answer within {self._settings.timeout_s:g} s"
            )
        except SourceError as cause:
            error = SourceError(f"source {self.name}: {cause}")
            error.__cause__ = cause
        _log.warning("remote_rag.base_failed", source=self.name, base=base, error=str(error))
        return error

    async def _call_base(self, base: str, query: str) -> Response:
        """Make the enhanced call, or the standard one where the service has no other; that is remembered once it has
        answered.
        """
        settings = self._settings
        key = await self._resolve_key(self.display_url)
        use_enhanced = self._standard_until.get(base, 0.0) <= time.monotonic()
        if use_enhanced:
            payload = {**RETRIEVE_FLAGS, **settings.body}
            response = await self._send(self._build_request(base, "retrieve", key, query, payload))
            if response.status not in NOT_SUPPORTED_STATUSES:
                return _raise_for_status(response)
        payload = {name: value for name, value in settings.body.items() if name not in RETRIEVE_FLAGS}
        response = _raise_for_status(await self._send(self._build_request(base, "search", key, query, payload)))
        if use_enhanced:
            self._standard_until[base] = time.monotonic() + STANDARD_CALL_TTL_S
        return response

    def _build_request(self, base: str, endpoint: str, key: str, query: str, payload: Mapping[str, Any]) -> Request:
        settings = self._settings
        return Request(
            f"{settings.base_url.rstrip('/')}/bases/{quote(base, safe='')}/{endpoint}",
            "POST",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            body={**payload, "limit": settings.limit, "query": query},
            timeout_s=settings.timeout_s,
        )

    def _to_passages(self, base: str, payload: Any) -> list[Passage]:
        """Return the reply of a base as passages. Those without a score get one by their rank.

        Raises `SourceError` for a reply without a list.
        """
        results = _extract_results(payload, self.display_url)[:MAX_RESULTS]
        weight = self._get_weight(base)
        standing = describe_standing(self._settings.bases[base])
        passages = []
        for result, score in zip(results, _normalize_scores(results), strict=True):
            text = clean_text(_first_text(result, TEXT_KEYS)[: 2 * MAX_TEXT_CHARS])[:MAX_TEXT_CHARS]
            if not text:
                continue
            link = to_line(_first_text(result, LINK_KEYS), 2000)
            link = link if is_web_address(link) else ""
            title = to_line(_first_text(result, TITLE_KEYS)) or base
            passage_id = hashlib.sha256("\n".join((self.name, link, text)).encode()).hexdigest()[:24]
            path = f"{base}/{link or title}"[:500]
            passages.append(
                Passage(passage_id, self.name, path, title, text, link, "web", score=score * weight, standing=standing)
            )
        return passages


def _raise_for_status(response: Response) -> Response:
    if response.status >= 300:
        raise SourceError(f"{redact_url(response.url)} answered with status {response.status}")
    return response


def _extract_results(payload: Any, display_url: str) -> list[Mapping[str, Any]]:
    """Return the list of results of a reply, which may lie one level down. Raises `SourceError` for none."""
    results = _find_list(payload)
    if results is None and isinstance(payload, Mapping):
        nested_lists = (_find_list(payload[name]) for name in LIST_KEYS if isinstance(payload.get(name), Mapping))
        results = next((items for items in nested_lists if items is not None), None)
    if results is None:
        raise SourceError(f"{display_url} answered without a list under {', '.join(LIST_KEYS)}")
    return [result for result in results if isinstance(result, Mapping)]


def _find_list(payload: Any) -> list[Any] | None:
    if isinstance(payload, list):
        return payload
    lists = (payload.get(name) for name in LIST_KEYS) if isinstance(payload, Mapping) else ()
    return next((value for value in lists if isinstance(value, list)), None)


def _first_text(result: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the first text under these names: in the result, or in an object that it holds."""
    mappings = [result, *(result[name] for name in NESTED_KEYS if isinstance(result.get(name), Mapping))]
    texts = (to_text(mapping.get(name)) for mapping in mappings for name in keys)
    return next(filter(None, texts), "")


def _normalize_scores(results: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return a score from 0 to 1 for each result: its own, divided by the highest where that is more than 1."""
    raw_scores = [
        next((score for name in SCORE_KEYS if (score := _to_float(result.get(name))) is not None), None)
        for result in results
    ]
    max_score = max([1.0, *(score for score in raw_scores if score is not None)])
    return [
        1 - rank / len(raw_scores) if score is None else max(score, 0.0) / max_score
        for rank, score in enumerate(raw_scores)
    ]


def _to_float(value: Any) -> float | None:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
