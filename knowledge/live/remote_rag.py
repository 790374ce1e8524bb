"""A remote retrieval service as a source: several knowledge bases, asked at once, their scores weighted."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from core.errors import SourceError
from core.observability.logs import logger
from core.settings import RemoteRagSource
from core.types import Passage
from knowledge.live.cache import Found, Kept
from knowledge.live.quota import Allowance
from knowledge.web.addresses import SCHEMES, shown
from knowledge.web.client import Request, Response, WebClient, line_of, read_json, text_of
from knowledge.web.markup import without_hidden
from knowledge.web.secrets import key_of

MAX_TEXT = 4000
# How long a base without the enhanced call is asked in the standard way before it is tried again.
STANDARD_S = 3600.0
ABSENT = frozenset({404, 405})
LISTS = ("results", "data", "list", "records")
TEXTS = ("content", "text", "chunk")
SCORES = ("score", "similarity")
TITLES = ("title", "document_name", "doc_name", "file_name", "name")
NESTED = ("metadata", "chunk", "document")
LINKS = ("url", "link", "source_url")


class RemoteRag:
    """One service, asked at question time. `close` it in the end."""

    def __init__(self, name: str, settings: RemoteRagSource, allowance: Allowance | None = None) -> None:
        self.name = name
        self._settings = settings
        self._allowance = allowance
        self._client = WebClient(settings.allow_private)
        self._standard_until: dict[str, float] = {}
        self._kept = Kept(settings.cache_s)

    @property
    def where(self) -> str:
        """The service's address as messages may show it."""
        return shown(self._settings.base_url)

    async def search(self, query: str) -> Sequence[Passage]:
        """Return what all bases find for a query, best first, their scores (0 to 1) multiplied with the bases' weights.

        A base that fails is logged and left out. Results of the same query are used again for `cache_s` seconds, unless
        a base failed, and whoever asks it meanwhile waits for the same requests. Raises `SourceError` when all bases
        fail, when the key is missing, and when the requests of the day are used up.
        """
        return await self._kept.result(query, self._find)

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        await self._client.close()

    async def _find(self, query: str) -> Found:
        bases = self._settings.bases
        if self._allowance:
            await self._allowance.take(len(bases))
        outcomes = await asyncio.gather(*(self._outcome(base, query) for base in bases))
        failures = [outcome for outcome in outcomes if isinstance(outcome, SourceError)]
        if len(failures) == len(outcomes):
            raise failures[0]
        found = [passage for outcome in outcomes if not isinstance(outcome, SourceError) for passage in outcome]
        # What several bases hold counts once, with its higher score: the last of an id stays.
        distinct = {passage.id: passage for passage in sorted(found, key=lambda passage: passage.score)}
        passages = sorted(distinct.values(), key=lambda passage: -passage.score)[: self._settings.limit]
        return Found(passages, whole=not failures)

    async def _outcome(self, base: str, query: str) -> list[Passage] | SourceError:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                found = _results(await read_json(await self._ask(base, query)), self.where)
        except TimeoutError:
            fault = SourceError(
                f"source {self.name}: {self.where} did not answer within {self._settings.timeout_s:g} s"
            )
        except SourceError as reason:
            fault = SourceError(f"source {self.name}: {reason}")
            fault.__cause__ = reason
        else:
            return self._passages(base, found)
        logger(__name__).warning("remote_rag.base_failed", source=self.name, base=base, error=str(fault))
        return fault

    async def _ask(self, base: str, query: str) -> Response:
        """Make the enhanced call; the standard one where there is none, which is remembered once it has answered."""
        settings = self._settings
        try:
            key = await key_of(settings.api_key)
        except SourceError as fault:
            raise SourceError(f"{self.where}: {fault}") from fault
        tried = settings.enhanced and self._standard_until.get(base, 0.0) <= time.monotonic()
        if tried:
            flags = {"use_rerank": settings.use_rerank, "use_compression": settings.use_compression}
            response = await self._client.fetch(self._request(base, "retrieve", key, {"query": query, **flags}))
            if response.status not in ABSENT:
                return _checked(response)
        response = _checked(await self._client.fetch(self._request(base, "search", key, {"query": query})))
        if tried:
            self._standard_until[base] = time.monotonic() + STANDARD_S
        return response

    def _request(self, base: str, call: str, key: str, asked: Mapping[str, Any]) -> Request:
        settings = self._settings
        return Request(
            f"{settings.base_url.rstrip('/')}/bases/{quote(base, safe='')}/{call}",
            "POST",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            body={**settings.body, "limit": settings.limit, **asked},
            timeout_s=settings.timeout_s,
        )

    def _passages(self, base: str, found: Sequence[Mapping[str, Any]]) -> list[Passage]:
        """Return the results of a base as passages. Those without a score get one by their rank."""
        # Relative to the heaviest base: no weight lifts a score above 1.
        share = self._settings.bases[base] / max(1.0, *self._settings.bases.values())
        passages = []
        for result, score in zip(found, _scores(found), strict=True):
            text = without_hidden(_text(result, TEXTS)[: 2 * MAX_TEXT]).strip()[:MAX_TEXT]
            if not text:
                continue
            link = line_of(_text(result, LINKS), 2000)
            link = link if link.split("://", maxsplit=1)[0].lower() in SCHEMES else ""
            title = line_of(_text(result, TITLES)) or base
            identity = hashlib.sha256("\n".join((self.name, link, text)).encode()).hexdigest()[:24]
            path = f"{base}/{link or title}"[:500]
            passages.append(Passage(identity, self.name, path, title, text, link, "web", score=score * share))
        return passages


def _checked(response: Response) -> Response:
    if response.status >= 300:
        raise SourceError(f"{shown(response.url)} answered with status {response.status}")
    return response


def _results(reply: Any, where: str) -> list[Mapping[str, Any]]:
    """Return the list of results of a reply, which may lie one level down. Raises `SourceError` for none."""
    found = _list_in(reply)
    if found is None and isinstance(reply, Mapping):
        inner = (_list_in(reply[name]) for name in LISTS if isinstance(reply.get(name), Mapping))
        found = next((one for one in inner if one is not None), None)
    if found is None:
        raise SourceError(f"{where} answered without a list under {', '.join(LISTS)}")
    return [one for one in found if isinstance(one, Mapping)]


def _list_in(reply: Any) -> list[Any] | None:
    if isinstance(reply, list):
        return reply
    lists = (reply.get(name) for name in LISTS) if isinstance(reply, Mapping) else ()
    return next((one for one in lists if isinstance(one, list)), None)


def _text(result: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first text under these names: in the result, or in an object that it holds."""
    places = [result, *(result[name] for name in NESTED if isinstance(result.get(name), Mapping))]
    found = (text_of(place.get(name)) for place in places for name in names)
    return next(filter(None, found), "")


def _scores(results: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return a score from 0 to 1 for each result: its own, divided by the highest where that is more than 1."""
    own = [
        next((score for name in SCORES if (score := _number(result.get(name))) is not None), None) for result in results
    ]
    highest = max([1.0, *(score for score in own if score is not None)])
    return [1 - rank / len(own) if score is None else max(score, 0.0) / highest for rank, score in enumerate(own)]


def _number(value: Any) -> float | None:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
