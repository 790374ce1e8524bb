"""Which passages reach the summarizer, and in which order: weighed by source, none twice, neighbours as one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from core.grounding.evidence import Layout, estimate_tokens, header
from core.grounding.fact_extraction import count_denials, numbers
from core.types import Passage

_SHINGLE = 3
_MOST_BLANK_LINES = 2
# Of signs those that make it another word: -1, C++, C#, and what compares.
_SIGNS = r"-(?<!\w-)\d+|[<>!=]=|[<>](?<= [<>])(?= )"
_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_WIDE}]|[^\W_{_WIDE}]+(?:\+\+|#)?|{_SIGNS}")
_ASCII_WORD = re.compile(rf"[a-z0-9]+(?:\+\+|#)?|{_SIGNS}")
_LINES_IN_LINK = re.compile(r"(\d+)(\D{1,8})(\d+)\Z")


def weigh(passages: Sequence[Passage], weights: Mapping[str, float], *, ordered: bool = False) -> Sequence[Passage]:
    """Return ranked passages in the order that their sources' weights give them, scores multiplied (1 at most).

    `ordered` says that a strategy has dealt them in turn, so that scores of different searches do not compare: the
    weight then moves a passage by its place.
    """
    if not weights:
        return passages

    def key(ranked: tuple[int, Passage]) -> float:
        place, passage = ranked
        weight = weights.get(passage.source, 1.0)
        return (place + 1) / weight if ordered else -passage.score * weight

    return [
        replace(passage, score=min(1.0, passage.score * weights.get(passage.source, 1.0)))
        for _, passage in sorted(enumerate(passages), key=key)
    ]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A passage with its shingles: every three words in a row, by which near copies are told."""

    passage: Passage
    shingles: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, passage: Passage) -> _Chosen:
        text = passage.text.lower()
        words = (_ASCII_WORD if text.isascii() else _WORD).findall(text) or [text.strip()]
        rows = zip(words, words[1:], words[2:], strict=False) if len(words) >= _SHINGLE else (tuple(words),)
        return cls(passage, frozenset(rows))

    def covers(self, other: _Chosen, threshold: float) -> bool:
        """Say whether this passage says what the other says. Another number or a denial makes it say something else."""
        if threshold == 1:
            return self.passage.text.lower().split() == other.passage.text.lower().split()
        shared = len(self.shingles & other.shingles)
        if shared < threshold * len(other.shingles):
            return False
        mine, yours = self.passage.text, other.passage.text
        return shared == len(other.shingles) or (
            numbers(yours) <= numbers(mine) and count_denials(yours) == count_denials(mine)
        )


def select(
    passages: Sequence[Passage],
    *,
    limit: int,
    tokens: int,
    duplicates: float = 0.85,
    layout: Layout = "structured",
) -> list[Passage]:
    """Return the best passages, in order, that fit: at most `limit`, at most `tokens` together with their headers.

    A passage is left out when a better one already says `duplicates` of it (three words in a row counted at a time),
    and joined to a better one when their lines touch or overlap: it then counts as one with it. The first passage is
    always taken, however long: `render` shortens it.
    """
    chosen: list[_Chosen] = []
    left = tokens
    for passage in passages:
        candidate = _Chosen.of(passage)
        if any(one.covers(candidate, duplicates) for one in chosen):
            continue
        need = estimate_tokens(passage.text) + estimate_tokens(header(passage, len(chosen), layout))
        if chosen and need > left:
            continue
        joined = _with_neighbours(chosen, passage)
        if joined is None and len(chosen) == limit:
            continue
        chosen = joined if joined is not None else [*chosen, candidate]
        left -= need
    return [one.passage for one in chosen]


def ends_first(passages: Sequence[Passage]) -> list[Passage]:
    """Return ranked passages with the best first, the second best last, and the weakest in the middle.

    Models use what stands at the ends of a long context better than its middle.
    """
    return [*passages[::2], *reversed(passages[1::2])]


def join(better: Passage, other: Passage) -> Passage | None:
    """Return two passages as one where their lines touch or overlap, else None.

    It has the id, title and scores of the better one, all lines of both, none of them twice, and a link to them. Where
    the texts do not show which lines they share (a digest, a very long line cut in pieces) they stay apart.
    """
    if (better.source, better.path) != (other.source, other.path) or not better.start_line or not other.start_line:
        return None
    first, second = sorted((better, other), key=lambda one: (one.start_line, one.end_line))
    text = _joined_text(first, second)
    if text is None:
        return None
    start, end = first.start_line, max(first.end_line, second.end_line)
    return replace(better, text=text, start_line=start, end_line=end, url=_link(better, start, end))


def _with_neighbours(chosen: Sequence[_Chosen], passage: Passage) -> list[_Chosen] | None:
    """Return what is chosen with the passage joined to its neighbours, or None when it has none."""
    rest = list(chosen)
    place = len(rest)
    whole = passage
    found = True
    while found:
        found = False
        for at, one in enumerate(rest):
            if one.passage.path != whole.path:
                continue
            # The better of two is the one that was chosen earlier.
            better, other = (one.passage, whole) if at < place else (whole, one.passage)
            if joined := join(better, other):
                whole, place, found = joined, min(at, place), True
                del rest[at]
                break
    if whole is passage:
        return None
    return [*rest[:place], _Chosen.of(whole), *rest[place:]]


def _joined_text(first: Passage, second: Passage) -> str | None:
    blank = second.start_line - first.end_line - 1
    if blank >= 0:
        return first.text + "\n" * (blank + 1) + second.text if blank <= _MOST_BLANK_LINES else None
    mine, yours = first.text.split("\n"), second.text.split("\n")
    if len(mine) != first.end_line - first.start_line + 1 or len(yours) != second.end_line - second.start_line + 1:
        return None
    shared = mine[second.start_line - first.start_line :]
    count = min(len(shared), len(yours))
    if [line.rstrip() for line in shared[:count]] != [line.rstrip() for line in yours[:count]]:
        return None
    return "\n".join([*mine, *yours[count:]])


def _link(passage: Passage, start: int, end: int) -> str:
    """Return a passage's link for more lines, where it ends in the passage's own; else as it is."""
    lines = _LINES_IN_LINK.search(passage.url)
    if not lines or (int(lines[1]), int(lines[3])) != (passage.start_line, passage.end_line):
        return passage.url
    return f"{passage.url[: lines.start()]}{start}{lines[2]}{end}"
