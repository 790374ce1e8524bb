"""What a forge holds: issues, discussions and releases, and how one reads as a document."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from knowledge.web.addresses import SCHEMES
from knowledge.web.markup import FENCE, without_hidden
from knowledge.web.replies import line_of, text_of

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
