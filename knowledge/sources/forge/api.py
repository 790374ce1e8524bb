"""What a forge holds: issues, discussions and releases, and how one reads as a document."""

from __future__ import annotations

import math
import re
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from core.errors import SourceError
from core.settings import ForgeSource
from knowledge.web.addresses import SCHEMES, shown
from knowledge.web.client import Request, Response, WebClient, line_of, read_json, text_of
from knowledge.web.markup import FENCE, without_hidden

PER_PAGE = 100
MAX_PAGES = 300
UNCHANGED = 304
# How long a limit without a time holds, and the longest that is believed.
USUAL_WAIT_S = 60.0
LONGEST_WAIT_S = 7200.0
HINTS = {
    401: "the token is not accepted",
    403: "the token may not read it",
    404: "it is not there, or the token may not read it",
    410: "it is switched off",
}
_NEXT = re.compile(r'<([^<>]*)>\s*;[^<>]*?\brel="?next"?', re.IGNORECASE)


class RateLimited(Exception):
    """The service wants to be left alone until a time, in seconds since 1970."""

    def __init__(self, until: float) -> None:
        super().__init__(f"the rate limit is reached until {clock(until)}")
        self.until = until


class ForgeApi:
    """One project's API. `tags` are the ETags of earlier rounds by address; what this round got is in `seen`."""

    def __init__(
        self, client: WebClient, base: str, headers: Mapping[str, str], settings: ForgeSource, tags: Mapping[str, str]
    ) -> None:
        self.seen: dict[str, str] = {}
        self._client = client
        self._base = base.rstrip("/")
        self._headers = headers
        self._settings = settings
        self._tags = tags
        self._spent_until = 0.0

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return what is at a path. Raises `SourceError` and `RateLimited`."""
        response = await self._send(Request(self._address(path, params or {})))
        return await read_json(response)

    async def pages(self, path: str, params: Mapping[str, str], *, conditional: bool = False) -> AsyncIterator[Any]:
        """Yield the objects of a list, page by page; nothing when `conditional` and the first page is as it was.

        Raises `SourceError` and `RateLimited`.
        """
        address = first = self._address(path, {**params, "per_page": str(PER_PAGE)})
        tag = self._tags.get(first, "") if conditional else ""
        visited = set[str]()
        while address not in visited and len(visited) < MAX_PAGES:
            visited.add(address)
            response = await self._send(Request(address, headers={"If-None-Match": tag} if tag else {}))
            if address == first:
                self.seen[first] = response.headers.get("etag", tag)
            if response.status == UNCHANGED:
                return
            found = await read_json(response)
            if not isinstance(found, list):
                raise SourceError(f"{shown(address)} answered with something else than a list")
            for one in found:
                yield one
            following = _NEXT.search(response.headers.get("link", ""))
            if following is None:
                return
            address, tag = self._here(following[1]), ""
        raise SourceError(f"{shown(first)} has more than {MAX_PAGES} pages, or its pages go round")

    async def query(self, address: str, text: str, variables: Mapping[str, Any]) -> Any:
        """Send a GraphQL query and return its data. Raises `SourceError` and `RateLimited`."""
        request = Request(address, "POST", body={"query": text, "variables": dict(variables)})
        reply = await read_json(await self._send(request))
        errors = reply.get("errors") if isinstance(reply, Mapping) else None
        if errors:
            told = errors if isinstance(errors, list) else []
            kinds = {str(one.get("type")) for one in told if isinstance(one, Mapping)}
            if kinds & {"RATE_LIMITED", "RATE_LIMIT"}:
                raise RateLimited(max(self._spent_until, time.time() + USUAL_WAIT_S))
            # Their words could hold anything; what kind they are cannot.
            named = ", ".join(sorted(kind for kind in kinds if re.fullmatch(r"[A-Z_]{1,40}", kind))) or "errors"
            raise SourceError(f"{shown(address)} answered with {named}")
        data = reply.get("data") if isinstance(reply, Mapping) else None
        if not isinstance(data, Mapping):
            raise SourceError(f"{shown(address)} answered with something else than data")
        return data

    async def _send(self, request: Request) -> Response:
        if self._spent_until > time.time():
            raise RateLimited(self._spent_until)
        settings = self._settings
        response = await self._client.fetch(
            Request(
                request.url,
                request.method,
                headers={**self._headers, **request.headers},
                body=request.body,
                timeout_s=settings.timeout_s,
                kb=settings.max_page_kb,
            )
        )
        if _is_limit(response):
            raise RateLimited(_limit_ends(response.headers))
        if _number(response.headers, "remaining") == 0:
            # This reply still counts; the next request would be one too many.
            self._spent_until = _limit_ends(response.headers)
        if response.status >= 300 and response.status != UNCHANGED:
            hint = HINTS.get(response.status, "")
            told = f"{shown(request.url)} answered with status {response.status}" + (f": {hint}" if hint else "")
            raise SourceError(told)
        return response

    def _address(self, path: str, params: Mapping[str, str]) -> str:
        return f"{self._base}{path}" + (f"?{urlencode(params)}" if params else "")

    def _here(self, address: str) -> str:
        """Return the address of a next page, on the configured host whatever it says: the token goes nowhere else."""
        try:
            own, parts = urlsplit(self._base), urlsplit(address)
        except ValueError as fault:
            raise SourceError(f"{shown(self._base)} leads to a next page that is no address") from fault
        if not parts.path.startswith("/"):
            raise SourceError(f"{shown(self._base)} leads to a next page that is no address")
        return f"{own.scheme}://{own.netloc}{parts.path}" + (f"?{parts.query}" if parts.query else "")


def clock(seconds: float) -> str:
    """Return a time as messages show it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _is_limit(response: Response) -> bool:
    if response.status == 429:
        return True
    if response.status != 403:
        return False
    told = response.content[:2000].lower()
    return (
        "retry-after" in response.headers
        or _number(response.headers, "remaining") == 0
        or b"rate limit" in told
        or b"abuse detection" in told
    )


def _limit_ends(headers: Mapping[str, str]) -> float:
    now = time.time()
    try:
        wait = float(headers["retry-after"])
    except (KeyError, ValueError):
        reset = _number(headers, "reset")
        wait = reset - now if reset else USUAL_WAIT_S
    # A clock that is off, or a server that jokes, must not stop us for ever.
    return now + (min(max(wait, 1.0), LONGEST_WAIT_S) if math.isfinite(wait) else USUAL_WAIT_S)


def _number(headers: Mapping[str, str], name: str) -> int | None:
    """Return one of the rate limit's numbers: GitHub's, or GitLab's name for it."""
    value = headers.get(f"x-ratelimit-{name}", headers.get(f"ratelimit-{name}", ""))
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None


MAX_TEXT = 60_000
MAX_COMMENT = 20_000
# The last day of the year 9999, beyond which no date can be shown.
LATEST = 253_402_214_400.0
_CODE_OR_HEADING = re.compile(rf"{FENCE}|^ {{0,3}}(?P<heading>#{{1,4}})(?=[ \t])", re.MULTILINE | re.DOTALL)
_BOT = re.compile(r".*\[bot\]|(?:project|group)_\d+_bot.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment. `written` is in seconds since 1970. `unwanted` tells that a bot wrote it, or that it was hidden."""

    author: str
    text: str
    written: float
    accepted: bool = False
    unwanted: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One issue, discussion or release, without the comments that have to be asked for.

    `updated` and `written` are in seconds since 1970; `stamp` changes whenever the item or the number of its comments
    does. `comments` is None where they have to be asked for; an accepted answer comes first. `state` is open, closed,
    or empty where there is none. `unwanted` says why it is passed over, whatever the settings.
    """

    path: str
    name: str
    title: str
    url: str
    body: str
    author: str
    written: float
    updated: float
    stamp: str
    state: str = ""
    labels: tuple[str, ...] = ()
    comments: Sequence[Comment] | None = ()
    unwanted: str = ""

    def read_as(self, comments: Sequence[Comment], skipped: Collection[str]) -> str:
        """Return the item as Markdown: its text, what it is, its comments in their order.

        Comments of bots and of the `skipped` names are left out.
        """
        parts = [clean(self.body[:MAX_TEXT]), f"({self._facts()})"]
        names = {name.casefold() for name in skipped}
        for comment in comments:
            text = clean(comment.text[:MAX_COMMENT])
            if text and not comment.unwanted and comment.author.casefold() not in names:
                what = "Accepted answer" if comment.accepted else "Comment"
                parts.append(f"## {what} by {comment.author or 'somebody'}, {day(comment.written)}\n\n{text}")
        return "\n\n".join(part for part in parts if part)[:MAX_TEXT]

    def _facts(self) -> str:
        by = f" by {self.author}" if self.author else ""
        labels = f"labels: {', '.join(self.labels)}" if self.labels else ""
        return "; ".join(filter(None, (f"{self.name}{by}, {day(self.written)}", self.state, labels)))


class Forge(Protocol):
    """The items of one project, as its service has them."""

    def items(self, kind: str, since: float) -> AsyncIterator[Item | None]:
        """Yield those of a kind that changed since a time (0: all), the one that changed last first.

        One that cannot be understood is None. Raises `SourceError` and `RateLimited`.
        """
        ...

    async def comments(self, item: Item) -> Sequence[Comment]:
        """Ask for the comments of an item. Raises `SourceError` and `RateLimited`."""
        ...

    async def probe(self) -> str:
        """Ask for the project and return its name. Raises `SourceError` and `RateLimited`."""
        ...


def moment(value: Any) -> float:
    """Return a time as ISO 8601 writes it in seconds since 1970; 0 for what is none."""
    try:
        parsed = datetime.fromisoformat(text_of(value))
        return min(max((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp(), 0.0), LATEST)
    except (ValueError, OverflowError):
        return 0.0


def day(seconds: float) -> str:
    """Return the day of a time, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d") if seconds else "at an unknown time"


def written_as(seconds: float) -> str:
    """Return a time in ISO 8601, whole seconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def link(value: Any) -> str:
    """Return a web address, or nothing for what is none."""
    address = line_of(value, 2000)
    return address if address.split("://", maxsplit=1)[0].lower() in SCHEMES and " " not in address else ""


def within(data: Any, *keys: str) -> Any:
    """Return what lies at the end of some keys, or None."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def listed(data: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; nothing for what is none."""
    return [one for one in data if isinstance(one, Mapping)] if isinstance(data, list) else []


def number_of(data: Mapping[str, Any], key: str) -> int:
    """Return a whole number, or 0."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def is_bot(author: Any) -> bool:
    """Say whether an account belongs to a program."""
    kinds = (within(author, "type"), within(author, "__typename"))
    name = line_of(within(author, "login") or within(author, "username"))
    return "Bot" in kinds or within(author, "bot") is True or _BOT.fullmatch(name) is not None


def clean(text: str) -> str:
    """Return what people wrote without what nobody sees, its headings below those of the document."""
    shown = without_hidden(text)
    return _CODE_OR_HEADING.sub(lambda match: f"##{match['heading']}" if match["heading"] else match[0], shown).strip()
