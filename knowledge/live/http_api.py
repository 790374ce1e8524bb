"""An HTTP API as a source: the request comes from templates, the reply is read through a mapping (JMESPath)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from core.errors import SourceError
from core.settings import HttpApiSource
from core.types import Passage
from knowledge.live.mapping import ResultMapping, rank_passages
from knowledge.live.retriever import DailyQuota, LiveResult, LiveRetriever
from knowledge.web.addresses import redact_url
from knowledge.web.client import Request, read_json

PLACEHOLDERS = frozenset({"query", "limit", "page", "api_key"})
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w+)\}")


class HttpApi(LiveRetriever):
    """One API. The rank of a result is its score (1 down to 0)."""

    def __init__(self, name: str, settings: HttpApiSource, quota: DailyQuota | None = None) -> None:
        super().__init__(name, settings, settings.url, quota)
        self._settings = settings
        self._mapping = ResultMapping(name, settings)
        for template in _collect_strings([settings.url, settings.params, settings.headers, settings.body]):
            _check_template(name, template)

    async def _search_uncached(self, query: str) -> LiveResult:
        settings = self._settings
        is_paged = any("{page}" in text for text in _collect_strings([settings.url, settings.params, settings.body]))
        page_numbers = range(settings.first_page, settings.first_page + (settings.pages if is_paged else 1))
        key = await self._resolve_key(f"source {self.name}")
        if self._quota:
            await self._quota.reserve(len(page_numbers))
        pages = await asyncio.gather(*(self._fetch_page(query, number, key) for number in page_numbers))
        passages_by_id = {passage.id: passage for page in reversed(pages) for passage in reversed(page)}
        return LiveResult(rank_passages(list(reversed(passages_by_id.values()))[: settings.limit]))

    async def _fetch_page(self, query: str, page: int, key: str) -> list[Passage]:
        try:
            response = await self._send(self._build_request(query, page, key))
            if response.status >= 400:
                raise SourceError(f"{redact_url(response.url)} answered with status {response.status}")
            return await read_json(response, self._mapping.to_passages)
        except SourceError as error:
            raise SourceError(f"source {self.name}: {error}") from error

    def _build_request(self, query: str, page: int, key: str) -> Request:
        settings = self._settings
        values = {"query": query, "limit": str(settings.limit), "page": str(page), "api_key": key}
        # A part of an address that has dots alone would climb to another resource.
        encoded = {name: quote(value, safe="") if value.strip(".") else "" for name, value in values.items()}
        params = {name: _fill_template(value, values) for name, value in settings.params.items()}
        return Request(
            _fill_template(settings.url, encoded),
            settings.method,
            {name: value for name, value in params.items() if value},
            # A header ends at a line break: what follows would be another header.
            {name: " ".join(_fill_template(value, values).split()) for name, value in settings.headers.items()},
            _fill_templates(settings.body, values) if settings.method == "POST" else None,
            settings.timeout_s,
        )


def _check_template(name: str, template: str) -> None:
    for match in _PLACEHOLDER.finditer(template):
        if match[1] and match[1] not in PLACEHOLDERS:
            placeholders = ", ".join(f"{{{placeholder}}}" for placeholder in sorted(PLACEHOLDERS))
            raise SourceError(
                f"source {name}: {{{match[1]}}} is no placeholder; they are {placeholders}. Write {{{{ for a brace"
            )


def _fill_template(template: str, values: Mapping[str, str]) -> str:
    # In one pass: a query that contains {api_key} is data.
    return _PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else match[0][0], template)


def _fill_templates(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _fill_templates(item, values) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill_templates(item, values) for item in value]
    if value in ("{limit}", "{page}"):
        return int(values[value.strip("{}")])
    return _fill_template(value, values) if isinstance(value, str) else value


def _collect_strings(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _collect_strings(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _collect_strings(item)]
    return [value] if isinstance(value, str) else []
