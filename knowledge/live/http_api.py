"""An HTTP API as a source: a request made from templates, a reply read through a mapping (JMESPath)."""

from __future__ import annotations

import asyncio
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from core.errors import SourceError
from core.settings import HttpApiSource
from core.types import Passage
from knowledge.live.cache import Found, Kept
from knowledge.live.quota import Allowance
from knowledge.web.addresses import SCHEMES, shown
from knowledge.web.client import Request, Response, WebClient, text_of
from knowledge.web.secrets import key_of

if TYPE_CHECKING:
    from jmespath.parser import ParsedResult

PLACEHOLDERS = frozenset({"query", "limit", "page", "api_key"})
MAX_TEXT = 4000
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w+)\}")
_TAG = re.compile(
    r"<(?:script|style)\b.*?</(?:script|style)\s*>|<!--.*?-->|</?[a-zA-Z][^<>]*>", re.DOTALL | re.IGNORECASE
)


_DATED = re.compile(r"\n\(dated [^\n]{1,40}\)\Z")


def split_date(text: str) -> tuple[str, str]:
    """Return the text of a result, and the line with its date that was put below it ("" where there is none)."""
    found = _DATED.search(text)
    return (text[: found.start()], found[0].strip()) if found else (text, "")


class HttpApi:
    """One API, asked at question time. `close` it in the end."""

    def __init__(self, name: str, settings: HttpApiSource, allowance: Allowance | None = None) -> None:
        self.name = name
        self._settings = settings
        self._allowance = allowance
        self._client = WebClient(settings.allow_private)
        self._mapping = {key: _compiled(name, key, getattr(settings, key)) for key in MAPPED}
        self._kept = Kept(settings.cache_s)
        for template in _texts([settings.url, settings.params, settings.headers, settings.body]):
            _check_template(name, template)

    @property
    def where(self) -> str:
        """The API's address as messages may show it."""
        return shown(self._settings.url)

    async def search(self, query: str) -> Sequence[Passage]:
        """Return what the API finds for a query, best first, with its rank as score (1 down to 0).

        Results of the same query are used again for `cache_s` seconds, and whoever asks it meanwhile waits for the same
        requests. Raises `SourceError` when the API cannot be reached, refuses, or answers with something else than what
        the mapping expects, when its key is missing, and when the requests of the day are used up.
        """
        return await self._kept.result(query, self._ask)

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        await self._client.close()

    async def _ask(self, query: str) -> Found:
        settings = self._settings
        paged = any("{page}" in text for text in _texts([settings.url, settings.params, settings.body]))
        numbers = range(settings.first_page, settings.first_page + (settings.pages if paged else 1))
        try:
            key = await key_of(settings.api_key)
        except SourceError as fault:
            raise SourceError(f"source {self.name}: {fault}") from fault
        if self._allowance:
            await self._allowance.take(len(numbers))
        pages = await asyncio.gather(*(self._page(query, number, key) for number in numbers))
        distinct = {passage.id: passage for page in reversed(pages) for passage in reversed(page)}
        return Found(list(reversed(distinct.values()))[: settings.limit])

    async def _page(self, query: str, page: int, key: str) -> list[Passage]:
        try:
            response = await self._client.fetch(self._request(query, page, key))
        except SourceError as fault:
            raise SourceError(f"source {self.name}: {fault}") from fault
        found = self._read(response)
        return [passage for passage in map(self._passage, found) if passage is not None]

    def _request(self, query: str, page: int, key: str) -> Request:
        settings = self._settings
        values = {"query": query, "limit": str(settings.limit), "page": str(page), "api_key": key}
        encoded = {name: quote(value, safe="") for name, value in values.items()}
        params = {name: _filled(value, values) for name, value in settings.params.items()}
        return Request(
            _filled(settings.url, encoded),
            settings.method,
            {name: value for name, value in params.items() if value},
            # A header ends at a line break: what follows would be another header.
            {name: " ".join(_filled(value, values).split()) for name, value in settings.headers.items()},
            _filled_deep(settings.body, values) if settings.method == "POST" else None,
            settings.timeout_s,
        )

    def _read(self, response: Response) -> Sequence[Mapping[str, Any]]:
        where = shown(response.url)
        if response.status >= 400:
            raise SourceError(f"source {self.name}: {where} answered with status {response.status}")
        try:
            reply = json.loads(response.text())
        except (ValueError, RecursionError) as fault:
            kind = response.headers.get("content-type", "nothing").split(";")[0]
            raise SourceError(f"source {self.name}: {where} answered with {kind} instead of JSON") from fault
        found = self._value("results", reply)
        if found is None:
            return []
        if not isinstance(found, list):
            raise SourceError(f"source {self.name}: results ({self._settings.results}) is no list in the reply")
        return [one for one in found if isinstance(one, dict)]

    def _passage(self, result: Mapping[str, Any]) -> Passage | None:
        text, title, link, date = (_plain(self._value(key, result)) for key in ("text", "title", "link", "date"))
        if not text and not title:
            return None
        link = link if link.split("://")[0].lower() in SCHEMES else ""
        dated = f"{text}\n(dated {date[:40]})" if date else text
        place = link or title
        identity = hashlib.sha256("\n".join((self.name, place, text)).encode()).hexdigest()[:24]
        return Passage(identity, self.name, place[:500], title[:300] or place[:300], dated[:MAX_TEXT], link, "web")

    def _value(self, key: str, data: Any) -> Any:
        from jmespath.exceptions import JMESPathError

        try:
            return self._mapping[key].search(data)
        except JMESPathError as fault:
            raise SourceError(f"source {self.name}: {key} cannot be read from the reply: {fault}") from fault


MAPPED = ("results", "title", "text", "link", "date")


def _compiled(name: str, key: str, expression: str) -> ParsedResult:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.compile(expression)
    except JMESPathError as fault:
        raise SourceError(f"source {name}: {key} is no JMESPath expression: {expression}") from fault


def _check_template(name: str, template: str) -> None:
    for match in _PLACEHOLDER.finditer(template):
        if match[1] and match[1] not in PLACEHOLDERS:
            known = ", ".join(f"{{{one}}}" for one in sorted(PLACEHOLDERS))
            raise SourceError(
                f"source {name}: {{{match[1]}}} is no placeholder; they are {known}. Write {{{{ for a brace"
            )


def _filled(template: str, values: Mapping[str, str]) -> str:
    # In one pass: a query that itself holds {api_key} is data.
    return _PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else match[0][0], template)


def _filled_deep(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled_deep(one, values) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_filled_deep(one, values) for one in value]
    if value in ("{limit}", "{page}"):
        return int(values[value.strip("{}")])
    return _filled(value, values) if isinstance(value, str) else value


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def _plain(value: Any) -> str:
    """Return a value as plain text: lists joined, tags gone, entities resolved."""
    if isinstance(value, list):
        return "\n".join(filter(None, map(_plain, value)))
    if value is None or isinstance(value, dict):
        return ""
    text = html.unescape(_TAG.sub(" ", text_of(value))) if isinstance(value, str) else str(value)
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))
