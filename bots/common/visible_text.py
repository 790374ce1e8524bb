"""The words of a payload, wherever they stand: what is not known is walked into, so that no wrapper hides a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Json = Mapping[str, Any]

# No platform nests that deep; what somebody sends may.
MAX_DEPTH = 24


@dataclass(frozen=True, slots=True)
class Walker:
    """How a platform writes what people see.

    `word_keys` are the keys of texts, in the order in which they are shown; nothing below `hidden_keys` is seen.
    `render` returns the text of an object that is read as a whole (empty: it shows none), or None to walk into it;
    `to_plain` makes plain text of the platform's marks.
    """

    word_keys: tuple[str, ...]
    hidden_keys: frozenset[str]
    render: Callable[[Json], str | None]
    to_plain: Callable[[str], str]

    def iter_texts(self, node: object, depth: int = 0) -> Iterator[str]:
        """Yield the texts in a part of a payload, from the top to the bottom."""
        if depth > MAX_DEPTH:
            return
        if isinstance(node, list):
            for child in node:
                yield from self.iter_texts(child, depth + 1)
        if not isinstance(node, Mapping):
            return
        text = self.render(node)
        if text is not None:
            yield text
            return
        for key in sorted(node, key=self._get_rank):
            value = node[key]
            if isinstance(value, str) and key in self.word_keys:
                yield self.to_plain(value)
            elif key not in self.hidden_keys:
                yield from self.iter_texts(value, depth + 1)

    def _get_rank(self, key: str) -> int:
        return self.word_keys.index(key) if key in self.word_keys else len(self.word_keys)


def join_texts(texts: Iterable[str], already_shown: str = "") -> str:
    r"""Return texts below each other, each line once: platforms send the same words in several forms.

    >>> join_texts(["*High* load", "High load", "on db-1"], "on db-1")
    '*High* load'
    """
    seen_keys = {_to_key(line) for line in already_shown.splitlines()}
    lines = list[str]()
    for line in (line for text in texts for line in text.strip().splitlines()):
        key = _to_key(line)
        if key and key not in seen_keys:
            seen_keys.add(key)
            lines.append(line)
    return "\n".join(lines)


def join_paragraphs(*texts: str) -> str:
    """Return texts with an empty line between them; those that are empty are left out."""
    return "\n\n".join(text for text in texts if text)


def format_moment(unix_time: str | float) -> str:
    """Return a moment as people read it, in UTC; empty where it is none.

    >>> format_moment(1785615300)
    '2026-08-01 20:15 UTC'
    """
    try:
        return f"{datetime.fromtimestamp(int(unix_time), UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""


def _to_key(line: str) -> str:
    """Return what makes a line the same as another one: its letters and digits, or all of it where it has none."""
    return "".join(filter(str.isalnum, line)).casefold() or line.strip()
