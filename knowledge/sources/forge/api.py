"""The API of a forge: its items, and how they are asked for."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from core.errors import SourceError
from core.observability.logs import get_logger
from core.runtime.retry_after import parse_date, read_retry_after
from core.types.messages import OWN_COMMENT_MARKER
from knowledge.sources.forge.items import Comment, Item
from knowledge.web.addresses import is_web_address, redact_url
from knowledge.web.client import RedirectCheck, Request, Response, ResponseTooLarge, WebClient, read_json
from knowledge.web.refusals import REFUSED_STATUSES
from knowledge.web.values import dig, to_line, to_text

_log = get_logger(__name__)

# How much is asked for at once, and where strangers wrote so much that a page, or a small one, is too large.
PER_PAGE = 100
# There is no such thing any more, or not for us.
GONE_STATUSES = frozenset({404, 410})
PER_SMALL_PAGE = 10
PER_SMALLEST_PAGE = 1
MAX_PAGES = 300
NOT_MODIFIED = 304
# The pause when a rate limit names no time, and the longest pause that is accepted.
DEFAULT_WAIT_S = 60.0
MAX_WAIT_S = 7200.0
MAX_DOUBLINGS = 6
MAX_REASON_BYTES = 20_000
STATUS_HINTS = {
    401: "the token is not accepted",
    403: "the token may not read it",
    404: "it is not there, or the token may not read it",
    410: "it is switched off",
}
_NEXT_LINK = re.compile(r'<([^<>]*)>\s*;[^<>]*?\brel="?next"?', re.IGNORECASE)

# The last day of the year 9999, beyond which no date can be shown.
MAX_TIMESTAMP = 253_402_214_400.0
_BOT_NAME = re.compile(r".*\[bot\]|(?:project|group)_\d+_bot.*", re.IGNORECASE)


class RateLimited(Exception):
    """The rate limit lasts until a time, in seconds since 1970."""

    def __init__(self, until: float) -> None:
        super().__init__(f"the rate limit is reached until {format_utc(until)}")
        self.until = until


class StatusError(SourceError):
    """The service answered with a status that is no success; `reason` is what it says about it."""

    def __init__(self, text: str, status: int, reason: str) -> None:
        super().__init__(text, is_refused=status in REFUSED_STATUSES)
        self.status = status
        self.reason = reason


class QueryError(SourceError):
    """A GraphQL query was refused; `types` says why, such as `NOT_FOUND`."""

    def __init__(self, text: str, types: Collection[str]) -> None:
        super().__init__(text, is_refused=bool({"NOT_FOUND", "FORBIDDEN"} & set(types)))
        self.types = types


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """How long a request may take, in seconds, and how large a reply may be, in KB."""

    timeout_s: float
    max_page_kb: int


class ForgeApi:
    """The API of a service.

    `etags` are the ETags of earlier rounds by address; what this round got is in `received_etags`. `check_redirect`
    raises `SourceError` for a redirect that is not to be followed. `replied_at` is the time of the last reply by the
    service's own clock, in seconds since 1970; None where it did not say. `received_bytes` counts what it sent.
    """

    def __init__(
        self,
        client: WebClient,
        base: str,
        headers: Mapping[str, str],
        limits: ApiLimits,
        *,
        etags: Mapping[str, str],
        check_redirect: RedirectCheck | None = None,
    ) -> None:
        self.received_etags: dict[str, str] = {}
        self.replied_at: float | None = None
        self.received_bytes = 0
        self._client = client
        self._base = base.rstrip("/")
        self._headers = headers
        self._limits = limits
        self._etags = etags
        self._check_redirect = check_redirect
        self._rate_limited_until = 0.0
        self._refusal_count = 0

    async def find(self, path: str) -> Mapping[str, Any] | None:
        """Return what is at a path; None where nothing is, or not for us. Raises `SourceError` and `RateLimited`."""
        try:
            values = await self.get(path)
        except StatusError as error:
            if error.status in GONE_STATUSES:
                return None
            raise
        return values if isinstance(values, Mapping) else {}

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return what is at a path. Raises `SourceError` and `RateLimited`."""
        response = await self._send(Request(self._build_url(path, params or {})))
        return await read_json(response)

    async def get_content(self, path: str, params: Mapping[str, str]) -> bytes:
        """Return the file at a path. Raises as `get` does."""
        return (await self._send(Request(self._build_url(path, params)))).content

    async def change(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request that changes something, and return what the service says. Raises as `get` does."""
        result: Any = await read_json(await self._send(Request(self._build_url(path, {}), method, body=dict(body))))
        self._refusal_count = 0
        return result

    async def pages(
        self,
        path: str,
        params: Mapping[str, str | Sequence[str]],
        *,
        conditional: bool = False,
        skips_large: bool = False,
    ) -> AsyncIterator[Any]:
        """Yield the objects of a list, page by page; nothing when `conditional` and the first page is as it was.

        An object that is too large alone is left out with `skips_large`. Raises `SourceError` and `RateLimited`.
        """
        url = first_url = self._build_url(path, {**params, "per_page": str(PER_PAGE)})
        etag = self._etags.get(first_url, "") if conditional else ""
        visited_urls = set[str]()
        max_pages = MAX_PAGES
        while url not in visited_urls and len(visited_urls) < max_pages:
            visited_urls.add(url)
            try:
                response = await self._send(Request(url, headers={"If-None-Match": etag} if etag else {}))
            except ResponseTooLarge:
                max_pages = MAX_PAGES * PER_PAGE // PER_SMALL_PAGE
                smaller_url = _to_smaller_page(url)
                if not smaller_url and not skips_large:
                    raise
                if not smaller_url:
                    _log.warning("forge.item_too_large", url=redact_url(url), hint="it is left out")
                url = smaller_url or _to_next_page(url)
                continue
            if url == first_url:
                self.received_etags[first_url] = response.headers.get("etag", etag)
            if response.status == NOT_MODIFIED:
                return
            items: Any = await read_json(response)
            if not isinstance(items, list):
                raise SourceError(f"{redact_url(url)} answered with something else than a list")
            for item in items:
                yield item
            next_link = _NEXT_LINK.search(response.headers.get("link", ""))
            if next_link is None:
                return
            url = _to_larger_page(self._to_own_host_url(next_link[1]))
            etag = ""
        raise SourceError(f"{redact_url(first_url)} has more than {MAX_PAGES} pages, or its pages go round")

    async def query(self, url: str, text: str, variables: Mapping[str, Any]) -> Any:
        """Send a GraphQL query and return its data. Raises `SourceError` and `RateLimited`."""
        request = Request(url, "POST", body={"query": text, "variables": dict(variables)})
        payload: Any = await read_json(await self._send(request))
        errors = payload.get("errors") if isinstance(payload, Mapping) else None
        if errors:
            error_items = errors if isinstance(errors, list) else []
            error_types = {str(item.get("type")) for item in error_items if isinstance(item, Mapping)}
            if error_types & {"RATE_LIMITED", "RATE_LIMIT"}:
                raise RateLimited(max(self._rate_limited_until, time.time() + DEFAULT_WAIT_S))
            # Their words could hold anything; what kind they are cannot.
            type_names = (
                ", ".join(sorted(error_type for error_type in error_types if re.fullmatch(r"[A-Z_]{1,40}", error_type)))
                or "errors"
            )
            raise QueryError(f"{redact_url(url)} answered with {type_names}", error_types)
        data = payload.get("data") if isinstance(payload, Mapping) else None
        if not isinstance(data, Mapping):
            raise SourceError(f"{redact_url(url)} answered with something else than data")
        return data

    async def mutate(self, url: str, text: str, variables: Mapping[str, Any]) -> Any:
        """Send a GraphQL query that changes something, as `query` does."""
        data = await self.query(url, text, variables)
        self._refusal_count = 0
        return data

    async def _send(self, request: Request) -> Response:
        if self._rate_limited_until > time.time():
            raise RateLimited(self._rate_limited_until)
        headers = {**self._headers, **request.headers}
        limits = self._limits
        request = replace(request, headers=headers, timeout_s=limits.timeout_s, max_kb=limits.max_page_kb)
        response = await self._client.fetch(request, self._check_redirect)
        self.replied_at = parse_date(response.headers.get("date", ""))
        self.received_bytes += len(response.content)
        if _is_rate_limited(response):
            # Where the service names no time: what it lets through in between are not changes, of which it had enough.
            self._rate_limited_until = _rate_limit_reset(response.headers, DEFAULT_WAIT_S * 2**self._refusal_count)
            self._refusal_count = min(self._refusal_count + 1, MAX_DOUBLINGS)
            raise RateLimited(self._rate_limited_until)
        if _is_used_up(response.headers):
            # This reply still counts; the next request would be one too many.
            self._rate_limited_until = _rate_limit_reset(response.headers)
        if response.status >= 300 and response.status != NOT_MODIFIED:
            hint = f": {STATUS_HINTS[response.status]}" if response.status in STATUS_HINTS else ""
            text = f"{redact_url(request.url)} answered with status {response.status}{hint}"
            raise StatusError(text, response.status, _read_reason(response))
        return response

    def _build_url(self, path: str, params: Mapping[str, str | Sequence[str]]) -> str:
        return f"{self._base}{path}" + (f"?{urlencode(params, doseq=True)}" if params else "")

    def _to_own_host_url(self, url: str) -> str:
        """Return the address of a next page, on the configured host whatever it says: the token goes nowhere else."""
        try:
            base_parts = urlsplit(self._base)
            parts = urlsplit(url)
        except ValueError as error:
            raise SourceError(f"{redact_url(self._base)} leads to a next page that is no address") from error
        if not parts.path.startswith("/"):
            raise SourceError(f"{redact_url(self._base)} leads to a next page that is no address")
        return f"{base_parts.scheme}://{base_parts.netloc}{parts.path}" + (f"?{parts.query}" if parts.query else "")


def _read_page_number(url: str) -> tuple[int, int]:
    """Return how many objects a page has, and its number from 1 on."""
    query = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    size, number = (query.get(name, "")[:9] for name in ("per_page", "page"))
    return int(size) if size.isdecimal() else PER_PAGE, int(number) if number.isdecimal() else 1


def _to_page(url: str, size: int, number: int) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True)) | {"per_page": str(size), "page": str(number)}
    return parts._replace(query=urlencode(query)).geturl()


def _to_smaller_page(url: str) -> str:
    """Return the address of the first of the smaller pages that a page consists of, "" where it has one object."""
    size, number = _read_page_number(url)
    smaller_size = PER_SMALL_PAGE if size > PER_SMALL_PAGE else PER_SMALLEST_PAGE
    return _to_page(url, smaller_size, (number - 1) * size // smaller_size + 1) if size > PER_SMALLEST_PAGE else ""


def _to_next_page(url: str) -> str:
    size, number = _read_page_number(url)
    return _to_larger_page(_to_page(url, size, number + 1))


def _to_larger_page(url: str) -> str:
    """Return the address of the small page that begins with one of the smallest, or else the same address."""
    size, number = _read_page_number(url)
    if size != PER_SMALLEST_PAGE or (number - 1) % PER_SMALL_PAGE:
        return url
    return _to_page(url, PER_SMALL_PAGE, (number - 1) // PER_SMALL_PAGE + 1)


def format_utc(seconds: float) -> str:
    """Return a time as messages show it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _is_rate_limited(response: Response) -> bool:
    if response.status == 429:
        return True
    if response.status != 403:
        return False
    body = response.content[:2000].lower()
    return (
        "retry-after" in response.headers
        or _is_used_up(response.headers)
        or b"rate limit" in body
        or b"abuse detection" in body
    )


def _rate_limit_reset(headers: Mapping[str, str], default_s: float = DEFAULT_WAIT_S) -> float:
    wait_s = read_retry_after(headers, max_s=MAX_WAIT_S)
    return time.time() + (default_s if wait_s is None else max(wait_s, 1.0))


def _read_reason(response: Response) -> str:
    """Return what a service says about a request that failed, in one line; "" where it says nothing."""
    try:
        values = json.loads(response.content[:MAX_REASON_BYTES])
    except (ValueError, RecursionError):
        return ""
    reason = dig(values, "message") or dig(values, "error")
    return to_line(reason if isinstance(reason, str) else json.dumps(reason) if reason else "", 200)


def _is_used_up(headers: Mapping[str, str]) -> bool:
    """Return whether the rate limit, by GitHub's or GitLab's name, takes no further request."""
    return headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining", "")).strip() == "0"


class ForgeClient(Protocol):
    """The items of one project, as its service has them."""

    def items(self, kind: str, since: float) -> AsyncIterator[Item | None]:
        """Yield those of a kind that changed since a time (0: all), the one that changed last first.

        One that cannot be understood is None. Raises `SourceError` and `RateLimited`.
        """
        ...

    async def comments(self, item: Item) -> Sequence[Comment]:
        """Ask for the comments of an item. Raises `SourceError` and `RateLimited`."""
        ...

    async def find_gone(self, paths: Sequence[str]) -> tuple[Collection[str], Collection[str]]:
        """Ask for issues by their paths, the first ones first: return which of them are not there any more, or not for
        everybody in the project, and about which few requests have told. Raises `SourceError` and `RateLimited`.
        """
        ...

    async def probe(self) -> str:
        """Ask for the project and return its name. Raises `SourceError` and `RateLimited`."""
        ...

    async def is_private(self) -> bool | None:
        """Ask whether the project is open to some alone; None if that is not said. Raises as `probe` does."""
        ...


def parse_timestamp(value: Any) -> float:
    """Return a time as ISO 8601 writes it in seconds since 1970; 0 for what is none."""
    try:
        moment = datetime.fromisoformat(to_text(value))
        return min(max((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), 0.0), MAX_TIMESTAMP)
    except (ValueError, OverflowError):
        return 0.0


def format_iso8601(seconds: float) -> str:
    """Return a time in ISO 8601, whole seconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_url(value: Any) -> str:
    """Return a web address, or nothing for what is none."""
    address = to_line(value, 2000)
    return address if is_web_address(address) and " " not in address else ""


def is_bot(author: Any) -> bool:
    """Return whether an account belongs to a program."""
    account_types = (dig(author, "type"), dig(author, "__typename"))
    name = to_line(dig(author, "login") or dig(author, "username"))
    return "Bot" in account_types or dig(author, "bot") is True or _BOT_NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    """What a service calls the parts of an item or a comment; a name of several steps leads into objects."""

    body: str = "body"
    author: tuple[str, ...] = ("author", "login")
    created: str = "created_at"
    updated: str = "updated_at"
    url: tuple[str, ...] = ("html_url",)


def to_item(data: Mapping[str, Any], path: str, name: str, keys: ServiceKeys) -> Item:
    """Return what all kinds of items share."""
    return Item(
        path=path,
        name=name,
        title=to_line(data.get("title")) or name,
        url=to_url(dig(data, *keys.url)),
        body=to_text(data.get(keys.body)),
        author=to_line(dig(data, *keys.author), 60),
        created_at=parse_timestamp(data.get(keys.created)),
        updated_at=parse_timestamp(data.get(keys.updated)),
        stamp="",
    )


def to_release(data: Mapping[str, Any], note: str, keys: ServiceKeys) -> Item | None:
    """Return a release, with a note behind its name; None for one without a tag."""
    tag = to_line(data.get("tag_name"), 200)
    title = to_line(data.get("name")) or tag
    item = to_item(data, f"releases/{tag}", f"release {tag}{note}", keys)
    return replace(item, title=title if tag in title else f"{title} ({tag})") if tag else None


def to_comment(data: Mapping[str, Any], keys: ServiceKeys) -> Comment:
    """Return a comment; those of bots and hidden ones are excluded.

    KIMAs may write with an account like a person's. What it told there is of sources that others may not see.
    """
    text = to_text(data.get(keys.body))
    is_of_program = is_bot(data.get(keys.author[0])) or OWN_COMMENT_MARKER in text
    return Comment(
        author=to_line(dig(data, *keys.author), 60),
        text=text,
        created_at=parse_timestamp(data.get(keys.created)),
        is_excluded=is_of_program or data.get("isMinimized") is True,
    )


def to_labels(labels: Any) -> tuple[str, ...]:
    """Return names of labels; one may be given as a bare name."""
    names = [dig(label, "name") or label for label in labels] if isinstance(labels, list) else []
    return tuple(filter(None, (to_line(name, 60) for name in names)))
