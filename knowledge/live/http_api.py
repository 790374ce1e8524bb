"""An HTTP API as a source: the request comes from templates, the reply is read through a mapping (JMESPath)."""

from __future__ import annotations

import asyncio
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from core.errors import SourceError
from core.markup.inline import strip_tags
from core.settings import HttpApiSource
from core.types import Passage
from knowledge.live.retriever import DailyQuota, LiveResult, LiveRetriever
from knowledge.web.addresses import is_web_address, redact_url
from knowledge.web.client import Request, read_json, to_text

if TYPE_CHECKING:
    from jmespath.parser import ParsedResult

PLACEHOLDERS = frozenset({"query", "limit", "page", "api_key"})
MAX_TEXT_CHARS = 4000
# Of a text with its markup, and of the results of one reply: more is not looked at.
MAX_MARKUP_CHARS = 50_000
MAX_RESULTS = 200
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w+)\}")
# What stands between these is not shown: pairs of an opening and a closing.
_HIDDEN = (
    (re.compile(r"<(?:script|style)\b", re.IGNORECASE), re.compile(r"</(?:script|style)\s*>", re.IGNORECASE)),
    (re.compile("<!--"), re.compile("-->")),
)
_DATE_LINE = re.compile(r"\n\(dated [^\n]{1,40}\)\Z")

MAPPED_FIELDS = ("results", "title", "text", "link", "date")


def split_date(text: str) -> tuple[str, str]:
    """Return the text of a result, and the line with its date that was put below it ("" where there is none)."""
    match = _DATE_LINE.search(text)
    return (text[: match.start()], match[0].strip()) if match else (text, "")


class HttpApi(LiveRetriever):
    """One API. The rank of a result is its score (1 down to 0)."""

    def __init__(self, name: str, settings: HttpApiSource, quota: DailyQuota | None = None) -> None:
        super().__init__(name, settings, settings.url, quota)
        self._settings = settings
        self._expressions = {key: _compile_expression(name, key, getattr(settings, key)) for key in MAPPED_FIELDS}
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
        passages = list(reversed(passages_by_id.values()))[: settings.limit]
        # The order is all that every service says of its results: most used first, for example.
        count = len(passages)
        return LiveResult(
            [
                replace(passage, score=1 - rank / count, standing=f"{rank + 1} of {count}")
                for rank, passage in enumerate(passages)
            ]
        )

    async def _fetch_page(self, query: str, page: int, key: str) -> list[Passage]:
        try:
            response = await self._client.fetch(self._build_request(query, page, key))
            if response.status >= 400:
                raise SourceError(f"{redact_url(response.url)} answered with status {response.status}")
            return await read_json(response, self._to_passages)
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

    def _to_passages(self, payload: Any) -> list[Passage]:
        passages = map(self._to_passage, self._parse_results(payload)[:MAX_RESULTS])
        return [passage for passage in passages if passage is not None]

    def _parse_results(self, payload: Any) -> Sequence[Mapping[str, Any]]:
        results = self._extract("results", payload)
        if results is None:
            return []
        if not isinstance(results, list):
            raise SourceError(f"results ({self._settings.results}) is no list in the reply")
        return [result for result in results if isinstance(result, dict)]

    def _to_passage(self, result: Mapping[str, Any]) -> Passage | None:
        text, title, link, date = (
            _to_plain_text(self._extract(key, result)) for key in ("text", "title", "link", "date")
        )
        if not text and not title:
            return None
        link = link if is_web_address(link) else ""
        dated_text = f"{text}\n(dated {date[:40]})" if date else text
        path = link or title
        passage_id = hashlib.sha256("\n".join((self.name, path, text)).encode()).hexdigest()[:24]
        return Passage(
            passage_id, self.name, path[:500], title[:300] or path[:300], dated_text[:MAX_TEXT_CHARS], link, "web"
        )

    def _extract(self, key: str, data: Any) -> Any:
        from jmespath.exceptions import JMESPathError

        try:
            return self._expressions[key].search(data)
        except JMESPathError as error:
            raise SourceError(f"{key} cannot be read from the reply: {error}") from error


def _compile_expression(name: str, key: str, expression: str) -> ParsedResult:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.compile(expression)
    except JMESPathError as error:
        raise SourceError(f"source {name}: {key} is no JMESPath expression: {expression}") from error


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


def _strip_markup(text: str) -> str:
    """Return a text of `MAX_MARKUP_CHARS` at most without tags, scripts and comments, a blank for each."""
    text = text[:MAX_MARKUP_CHARS]
    for opening, closing in _HIDDEN:
        pieces = []
        position = 0
        while (start := opening.search(text, position)) and (end := closing.search(text, start.end())):
            pieces.append(text[position : start.start()])
            position = end.end()
        text = " ".join([*pieces, text[position:]])
    return strip_tags(text, " ")


def _to_plain_text(value: Any) -> str:
    """Return a value as plain text: lists joined, tags removed, entities resolved."""
    if isinstance(value, list):
        return "\n".join(filter(None, map(_to_plain_text, value)))
    if value is None or isinstance(value, dict):
        return ""
    text = html.unescape(_strip_markup(to_text(value))) if isinstance(value, str) else str(value)
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))
