"""The selection of passages for the summarizer: weighted by source, without duplicates, neighbours merged."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, takewhile

from core.evidence.ranking import weigh
from core.evidence.rendering import MIN_PASSAGE_TOKENS, describe_standing, render_header
from core.language.facts import extract_numbers
from core.language.tokens import CJK_CHARACTERS, estimate_tokens
from core.types import Passage

# Of 490 passages that answers about three projects cite, 2 have a lower share of the best score in their prompt; 6% of
# the prompts' tokens do. With 0.4 it is 8 of 490, and 12% (`whole_prompts` in tests/lab/quality).
MIN_SCORE_SHARE = 0.3
_SHINGLE_SIZE = 3
# A passage is left out when a better one contains this share of it.
DUPLICATE_SHARE = 0.85
# An answer in a conversation selects twice among nearly the same passages, and the next answer often among them again.
_MAX_KEPT_TEXTS = 128
_MAX_BLANK_LINES = 2
TITLE_SEPARATOR = " > "
MAX_JOINED_NAMES_CHARS = 60
MAX_OF_GROUP = 2
# The signs that change the meaning of a word: -1, C++, C#, and comparison operators.
_SIGNS = r"-(?<!\w-)\d+|[<>!=]=|[<>](?<= [<>])(?= )"
_WORD = re.compile(rf"[{CJK_CHARACTERS}]|[^\W_{CJK_CHARACTERS}]+(?:\+\+|#)?|{_SIGNS}")
_ASCII_WORD = re.compile(rf"[a-z0-9]+(?:\+\+|#)?|{_SIGNS}")
_LINES_IN_LINK = re.compile(r"(?<!\d)(\d{1,9})(\D{1,8})(\d{1,9})\Z")


def apply_source_weights(
    passages: Sequence[Passage], weights: Mapping[str, float], *, is_ranked: bool = False
) -> Sequence[Passage]:
    """Return ranked passages with their scores multiplied by their sources' weights (1 at most), best first.

    Their standing says what the weights mean.

    When `is_ranked`, the passages of several searches alternate and their scores do not compare: the weight then
    applies to the rank of a passage.
    """
    if not weights:
        return passages

    factors = [weights.get(passage.source, 1.0) for passage in passages]
    standing_passages = [
        replace(passage, standing=describe_standing(factor) or passage.standing)
        for passage, factor in zip(passages, factors, strict=True)
    ]
    return weigh(standing_passages, factors, by_rank=is_ranked)


def drop_far_below_best(passages: Sequence[Passage], min_share: float = MIN_SCORE_SHARE) -> list[Passage]:
    """Return the passages with at least this share of the best score."""
    best_score = max((passage.score for passage in passages), default=0.0)
    return [passage for passage in passages if passage.score >= min_share * best_score]


@dataclass(frozen=True, slots=True)
class _ShingledPassage:
    """A passage with its shingles: every three words in a row, by which near duplicates are recognised."""

    passage: Passage
    shingles: frozenset[tuple[str, ...]]

    @classmethod
    def from_passage(cls, passage: Passage) -> _ShingledPassage:
        return cls(passage, _make_shingles(passage.text))

    def covers(self, other: _ShingledPassage, threshold: float) -> bool:
        """Return whether this passage contains what the other says. Other numbers make it different."""
        if threshold == 1:
            return self.passage.text.lower().split() == other.passage.text.lower().split()
        if len(self.shingles & other.shingles) < threshold * len(other.shingles):
            return False
        return extract_numbers(other.passage.text) <= extract_numbers(self.passage.text)


@lru_cache(maxsize=_MAX_KEPT_TEXTS)
def _make_shingles(text: str) -> frozenset[tuple[str, ...]]:
    lower_text = text.lower()
    words = (_ASCII_WORD if lower_text.isascii() else _WORD).findall(lower_text) or [lower_text.strip()]
    word_shingles = zip(words, words[1:], words[2:], strict=False) if len(words) >= _SHINGLE_SIZE else (tuple(words),)
    return frozenset(word_shingles)


def select(
    passages: Sequence[Passage],
    *,
    limit: int | None = None,
    max_tokens: int,
    duplicate_threshold: float = DUPLICATE_SHARE,
) -> list[Passage]:
    """Return the best passages, in order: at most `max_tokens` with headers, and at most `limit`, if given.

    A passage is left out when a better one contains the share `duplicate_threshold` of its shingles. It is merged with
    a better one when their lines touch; both then count as one. The first passage is always taken, however
    long it is: rendering shortens it.
    """
    selected_passages: list[_ShingledPassage] = []
    remaining_tokens = max_tokens
    for passage in passages:
        candidate = _ShingledPassage.from_passage(passage)
        if any(selected_passage.covers(candidate, duplicate_threshold) for selected_passage in selected_passages):
            continue
        token_count = estimate_tokens(passage.text) + estimate_tokens(render_header(passage, len(selected_passages)))
        if selected_passages and token_count > remaining_tokens:
            continue
        merged_selection = _merge_with_neighbours(selected_passages, passage)
        if merged_selection is None and len(selected_passages) == limit:
            continue
        selected_passages = merged_selection if merged_selection is not None else [*selected_passages, candidate]
        remaining_tokens -= token_count
        if remaining_tokens < MIN_PASSAGE_TOKENS:
            break
    return [selected_passage.passage for selected_passage in selected_passages]


def keep_best_of_groups(
    passages: Sequence[Passage], groups: Iterable[Collection[str]], *, top: int = 8
) -> list[Passage]:
    """Return ranked passages with the best two of each group of sources among the first `top`.

    They take the places of the weakest of these; otherwise the order stays.
    """
    promoted_ranks: set[int] = set()
    for sources in groups:
        ranks = (rank for rank, passage in enumerate(passages) if passage.source in sources)
        promoted_ranks.update(islice(ranks, MAX_OF_GROUP))
    other_ranks = [rank for rank in range(len(passages)) if rank not in promoted_ranks]
    top_ranks = promoted_ranks.union(other_ranks[: max(0, top - len(promoted_ranks))])
    return [passages[rank] for rank in sorted(range(len(passages)), key=lambda rank: (rank not in top_ranks, rank))]


def lost_in_the_middle_order(passages: Sequence[Passage]) -> list[Passage]:
    """Return ranked passages with the best first, the second best last, and the weakest in the middle.

    Models use the ends of a long context better than its middle.
    """
    return [*passages[::2], *reversed(passages[1::2])]


def merge_adjacent(better: Passage, other: Passage) -> Passage | None:
    """Return two passages as one if the lines of one begin where those of the other end, else None.

    The result has the id and scores of the better one, a title that covers both, the lines of both, and a link to them.
    """
    if (better.source, better.path) != (other.source, other.path) or not better.start_line or not other.start_line:
        return None
    first, second = sorted((better, other), key=lambda passage: passage.start_line)
    start = first.start_line
    end = second.end_line
    if second.start_line != first.end_line + 1:
        return None
    title = join_titles(first.title, second.title) or better.title
    text = _merge_texts(first, second)
    return replace(better, title=title, text=text, start_line=start, end_line=end, url=_build_link(better, start, end))


def join_titles(first: str, second: str) -> str:
    """Return the title of two neighbours as one: the headings that they share, and where they part both names.

    >>> join_titles("Guide > Install > Linux", "Guide > Install > Windows")
    'Guide > Install > Linux / Windows'
    """
    paths = first.split(TITLE_SEPARATOR), second.split(TITLE_SEPARATOR)
    shared_pairs = takewhile(lambda names: names[0] == names[1], zip(*paths, strict=False))
    shared_names = [name for name, _ in shared_pairs]
    parts = [path[len(shared_names)] for path in paths if len(path) > len(shared_names)]
    # Either may be a title that covers several already.
    joined_names = " / ".join(dict.fromkeys(name for part in parts for name in part.split(" / ")))
    # Where one is the chapter of the other, the chapter covers both.
    if len(parts) < len(paths) or len(joined_names) > MAX_JOINED_NAMES_CHARS:
        return TITLE_SEPARATOR.join(shared_names)
    return TITLE_SEPARATOR.join([*shared_names, joined_names])


def _merge_with_neighbours(
    selected_passages: Sequence[_ShingledPassage], passage: Passage
) -> list[_ShingledPassage] | None:
    """Return the selection with the passage merged into its neighbours, or None when it has no neighbours."""
    remaining_passages = list(selected_passages)
    position = len(remaining_passages)
    merged_passage = passage
    has_merged = True
    while has_merged:
        has_merged = False
        for index, neighbour in enumerate(remaining_passages):
            if neighbour.passage.path != merged_passage.path:
                continue
            # The better of two is the one that was selected earlier.
            better, other = (
                (neighbour.passage, merged_passage) if index < position else (merged_passage, neighbour.passage)
            )
            if joined_passage := merge_adjacent(better, other):
                merged_passage = joined_passage
                position = min(index, position)
                has_merged = True
                del remaining_passages[index]
                break
    if merged_passage is passage:
        return None
    return [
        *remaining_passages[:position],
        _ShingledPassage.from_passage(merged_passage),
        *remaining_passages[position:],
    ]


def _merge_texts(first: Passage, second: Passage) -> str:
    # What was read as blocks has a blank line between them. Other texts are without the blank lines of their ends.
    blank_lines = first.end_line - first.start_line - first.text.count("\n")
    line_breaks = 2 if first.kind == "markdown" else 1 + min(max(blank_lines, 0), _MAX_BLANK_LINES)
    return first.text + "\n" * line_breaks + second.text


def _build_link(passage: Passage, start: int, end: int) -> str:
    """Return a passage's link with another range of lines; unchanged if it does not end in the passage's own range."""
    line_range = _LINES_IN_LINK.search(passage.url)
    if not line_range or (int(line_range[1]), int(line_range[3])) != (passage.start_line, passage.end_line):
        return passage.url
    return f"{passage.url[: line_range.start()]}{start}{line_range[2]}{end}"
