"""Reads the results in a reply of JSON, whose places expressions in JMESPath name."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from core.errors import SourceError
from core.markup.inline import strip_tags
from core.markup.markdown import read_markdown
from core.markup.writer import write_markdown
from core.settings import MappedSource
from core.types import Passage
from knowledge.web.addresses import is_web_address
from knowledge.web.values import to_text

if TYPE_CHECKING:
    from jmespath.parser import ParsedResult

MAX_TEXT_CHARS = 4000
# Of a text with its markup, and of the results of one reply: more is not looked at.
MAX_MARKUP_CHARS = 50_000
MAX_RESULTS = 200
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


class ResultMapping:
    """The mapping of a source. Raises `SourceError` for what is no expression."""

    def __init__(self, name: str, settings: MappedSource) -> None:
        self._name = name
        self._results = settings.results
        self._expressions = {key: _compile_expression(name, key, getattr(settings, key)) for key in MAPPED_FIELDS}

    def to_passages(self, payload: Any) -> list[Passage]:
        """Return the results as passages without a score. Raises `SourceError` where they are no list."""
        return self.read(self.find(payload) or ())

    def find(self, payload: Any) -> Sequence[Any] | None:
        """Return the list of results; None where there is none. Raises `SourceError` for anything else there."""
        results = self._extract("results", payload)
        if results is None or isinstance(results, list):
            return results
        raise SourceError(f"results ({self._results}) is no list in the reply")

    def read(self, results: Sequence[Any]) -> list[Passage]:
        """Return results as passages without a score: those that are no objects, or have no text, are left out."""
        objects = [result for result in results if isinstance(result, dict)]
        passages = map(self._to_passage, objects[:MAX_RESULTS])
        return [passage for passage in passages if passage is not None]

    def _to_passage(self, result: Mapping[str, Any]) -> Passage | None:
        text, title, link, date = (
            _to_plain_text(self._extract(key, result)) for key in ("text", "title", "link", "date")
        )
        return make_passage(self._name, text, title, link, date) if text or title else None

    def _extract(self, key: str, data: Any) -> Any:
        from jmespath.exceptions import JMESPathError

        try:
            return self._expressions[key].search(data)
        except JMESPathError as error:
            raise SourceError(f"{key} cannot be read from the reply: {error}") from error


def make_passage(source: str, text: str, title: str, link: str, date: str = "") -> Passage:
    """Return a result as a passage without a score: what is no web address is no link."""
    link = link if is_web_address(link) else ""
    dated_text = f"{text}\n(dated {date[:40]})" if date else text
    path = link or title
    passage_id = hashlib.sha256("\n".join((source, path, text)).encode()).hexdigest()[:24]
    return Passage(passage_id, source, path[:500], title[:300] or path[:300], dated_text[:MAX_TEXT_CHARS], link, "web")


def clean_text(text: str) -> str:
    """Return a text without what a browser hides or runs; plain prose, as most results are, is left as it is."""
    return write_markdown(read_markdown(text)) if "<" in text or "](" in text or "]:" in text else text.strip()


def rank_passages(passages: Sequence[Passage]) -> Sequence[Passage]:
    """Return passages with their rank as the score (1 down to 0).

    The order is all that every service says of its results: most used first, for example.
    """
    count = len(passages)
    return [
        replace(passage, score=1 - rank / count, standing=f"{rank + 1} of {count}")
        for rank, passage in enumerate(passages)
    ]


def _compile_expression(name: str, key: str, expression: str) -> ParsedResult:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.compile(expression)
    except JMESPathError as error:
        raise SourceError(f"source {name}: {key} is no JMESPath expression: {expression}") from error


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
