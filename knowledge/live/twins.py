"""What standing queries have found and a live search finds again: each page once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from core.types import Passage


def without_twins(stored: Sequence[Passage], live: Sequence[Passage], standing: Mapping[str, str]) -> list[Passage]:
    """Return stored and live passages, those of a page that is among both from one side only: the more similar one.

    `standing` names the live source of each source of standing queries. A result without an address goes by its title.
    Passages of one side are never told to be twins: they are pieces of a document.
    """
    sides: dict[tuple[str, str], dict[bool, list[Passage]]] = defaultdict(lambda: {True: [], False: []})
    others = []
    asked = set(standing.values())
    for passage in (*stored, *live):
        source = standing.get(passage.source, passage.source)
        if source in asked:
            sides[source, _page(passage)][passage.source in standing].append(passage)
        else:
            others.append(passage)
    for side in sides.values():
        others += side[_best(side[True]) >= _best(side[False])]
    return others


def _best(passages: Sequence[Passage]) -> float:
    return max((passage.similarity for passage in passages), default=-2.0)


def _page(passage: Passage) -> str:
    """Return what is the same for two addresses of one page: host in lower case, no fragment, no slash at the end."""
    if not passage.url:
        return passage.title
    try:
        parts = urlsplit(passage.url)
    except ValueError:
        return passage.url
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}"
