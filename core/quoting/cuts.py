"""Cuts passages as a person would: a section with its heading, or of a long one the statements that belong together.

What is quoted in the end is shown from the beginning of its section, which may stand in other passages of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from core.evidence.ranking import NON_CODE_KINDS
from core.language.prose import sentence_spans
from core.language.tokens import lexical_tokens
from core.markup.statements import Statement, read_statements
from core.types import Passage

# A section of so many characters is shown whole. Of a longer one, a cut goes on until it has `TARGET_CHARS`, and what
# belongs together stays together up to `MAX_CHARS`.
SECTION_CHARS = 900
TARGET_CHARS = 600
MAX_CHARS = 1000
# A line takes room, however short it is.
MIN_STATEMENT_CHARS = 20
MAX_CODE_LINES = 30
ELLIPSIS = "…"
MIN_TOKENS = 3
# What was read as blocks: only its passages continue one another.
PAGE_KIND = "markdown"
# So much of a page is shown. Of a section in which the cut begins later, half of it is the beginning.
PAGE_CHARS = 1600
# A section is looked for in so many passages before and after that of its cut.
MAX_NEIGHBOURS = 6

_CONFIGURATION_KINDS = frozenset({"text", "yaml", "toml", "ini"})
# A template or an example of a file has its name and a further suffix.
_CONFIGURATION_FILE = re.compile(r"\.(ya?ml|toml|ini|cfg|conf|properties|env)(?:\.[A-Za-z0-9-]{1,12})?$", re.IGNORECASE)
# Code that only a browser shows as what it means.
_DRAWINGS = frozenset({"mermaid", "dot", "graphviz", "plantuml"})
_COLONS = (":", "：")
_RUNNING_TEXT = frozenset({"prose", "label"})


@dataclass(frozen=True, slots=True)
class Cut:
    """Statements below a heading of the passage at a position (from 0)."""

    position: int
    heading: str
    statements: tuple[Statement, ...]

    @property
    def shown(self) -> list[Statement]:
        """Its statements without a label that names nothing: the last one, or one that is said again.

        A tab whose code is in two passages has its label in both.
        """
        shown: list[Statement] = []
        label: Statement | None = None
        for statement in self.statements:
            is_again = statement == label and shown[-1].kind == "code"
            if statement.kind == "label":
                label = statement
            if not is_again:
                shown.append(statement)
        while len(shown) > 1 and shown[-1].kind == "label":
            shown.pop()
        return shown

    @property
    def text(self) -> str:
        """All of its words, with the heading."""
        return "\n".join((self.heading, *(statement.quotation for statement in self.statements)))


@dataclass(frozen=True, slots=True)
class Section:
    """What stands below a heading, up to the next one. The level is 0 for what is above all headings of a passage."""

    heading: str
    level: int
    statements: tuple[Statement, ...]


def cut_passage(passage: Passage, position: int) -> list[Cut]:
    """Return the cuts of a passage: each of its sections, or one for each statement that a long section has."""
    return [
        Cut(position, section.heading, tuple(statements))
        for section in read_sections(passage)
        for statements in _cut_section(section.statements)
        if _says_something(statements)
    ]


def _says_something(statements: Sequence[Statement]) -> bool:
    """Return whether statements are more than a name or some signs."""
    text = " ".join(statement.text for statement in statements)
    return statements[-1].kind == "code" or len(lexical_tokens(text).split()) >= MIN_TOKENS


def read_sections(passage: Passage) -> Iterator[Section]:
    """Yield the sections of a passage; code and settings are one statement."""
    heading = passage.title.rpartition(" > ")[2]
    text = passage.text
    file = _CONFIGURATION_FILE.search(passage.path) if passage.kind in _CONFIGURATION_KINDS else None
    if file or passage.kind not in NON_CODE_KINDS:
        code = Statement("code", text, language=file[1].lower() if file else passage.kind)
        yield Section(heading, 0, tuple(_shorten([code])))
        return
    if passage.kind == "faq":
        heading, _, text = text.partition("\n\n")
    level = 0
    statements: list[Statement] = []
    for statement in read_statements(text):
        if statement.kind == "heading":
            if statements:
                yield Section(heading, level, tuple(_shorten(statements)))
            heading = statement.text
            level = statement.level
            statements = []
        elif statement.kind != "break" and statement.language not in _DRAWINGS:
            statements.append(statement)
    if statements:
        yield Section(heading, level, tuple(_shorten(statements)))


def _shorten(section: Iterable[Statement]) -> Iterator[Statement]:
    """Yield statements that can be shown: a long paragraph in parts, of long code the first lines."""
    for statement in section:
        if statement.kind == "label":
            yield replace(statement, text=f"**{statement.text.rstrip(':：')}**:")
        elif statement.kind == "code":
            lines = statement.text.expandtabs(4).rstrip().split("\n")
            rest = [ELLIPSIS] if len(lines) > MAX_CODE_LINES else []
            yield replace(statement, text="\n".join([*lines[:MAX_CODE_LINES], *rest]))
        elif statement.kind == "row" or len(statement.text) <= TARGET_CHARS:
            yield statement
        else:
            yield from (replace(statement, text=part) for part in _split_paragraph(statement.text))


def _split_paragraph(text: str) -> Iterator[str]:
    """Yield as many sentences at a time as fit."""
    start = 0
    ends = [sentence_start for sentence_start, _ in sentence_spans(text)][1:]
    for end, next_end in pairwise((*ends, len(text))):
        if next_end - start > TARGET_CHARS:
            yield text[start:end].strip()
            start = end
    yield text[start:].strip()


def _cut_section(section: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    """Yield a short section whole, of a long one the cut that begins with each of its statements."""
    is_short = sum(len(statement.quotation) for statement in section) <= SECTION_CHARS
    last_end = 0
    for start in range(len(section)):
        end = len(section) if is_short else _find_end(section, start)
        # What ends with the cut before it says less.
        if end > last_end:
            last_end = end
            yield section[start:end]


def _find_end(section: Sequence[Statement], start: int) -> int:
    length = max(MIN_STATEMENT_CHARS, len(section[start].quotation))
    for end in range(start + 1, len(section)):
        previous, statement = section[end - 1 : end + 1]
        length += max(MIN_STATEMENT_CHARS, len(statement.quotation))
        is_code = statement.kind == "code" != previous.kind
        belongs = previous.text.endswith(_COLONS) or statement.kind == previous.kind not in _RUNNING_TEXT
        if length > (MAX_CHARS if belongs else TARGET_CHARS) and not is_code:
            return end
    return len(section)


def complete(cut: Cut, passage: Passage, page: Sequence[Passage], others: Sequence[Cut] = ()) -> Cut:
    """Return a cut of a passage with what belongs to it on its page, whose passages are in order.

    A short page is shown whole. Otherwise the section is shown from its beginning, and with the sections below it, as
    far as there is room; of a long one the cut, those of the `others` that are of this section, and the beginning.
    """
    found = _find_section(cut, passage, page)
    if found is None:
        return cut
    if found.is_whole_page and _measure_all(found.sections) <= PAGE_CHARS:
        return _join(found.sections, cut.position)
    cuts = [cut, *(other for other in others if other.heading == cut.heading)]
    return _fit(found.section, found.below, cuts)


def append(cut: Cut, other: Cut, passage: Passage, page: Sequence[Passage]) -> Cut:
    """Return a cut with another one of its page below it, which is of a passage; as it was where there is no room.

    The other one is shown from the beginning of its section, if there is room for that.
    """
    found = _find_section(other, passage, page)
    begun = found.section.statements[: found.section.statements.index(other.statements[-1]) + 1] if found else ()
    for part in (begun, other.statements):
        statements = [statement for statement in part if statement not in cut.statements]
        if statements and _measure((*cut.statements, *statements)) <= PAGE_CHARS:
            heading = Statement("prose", f"**{other.heading}**" if other.heading != cut.heading else ELLIPSIS)
            return replace(cut, statements=(*cut.statements, heading, *statements))
    return cut


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a section is among those around it, and whether these are the whole page."""

    sections: Sequence[Section]
    index: int
    is_whole_page: bool
    starts_page: bool

    @property
    def section(self) -> Section:
        return self.sections[self.index]

    @property
    def below(self) -> list[Section]:
        """The sections below it. What the first passage continues may be of any level."""
        is_known = bool(self.section.level) or self.starts_page
        return _find_below(self.sections[self.index :]) if is_known else []


def _find_section(cut: Cut, passage: Passage, page: Sequence[Passage]) -> _Place | None:
    """Return the section of a cut of a passage, None for what is no part of a page."""
    number = next((number for number, other in enumerate(page) if other.id == passage.id), None)
    if number is None or passage.kind != PAGE_KIND:
        return None
    start = max(0, number - MAX_NEIGHBOURS)
    around = page[start : number + MAX_NEIGHBOURS + 1]
    sections = list(read_sections(replace(around[0], text="\n\n".join(other.text for other in around))))
    for index, section in enumerate(sections):
        if section.heading == cut.heading and cut.statements[-1] in section.statements:
            return _Place(sections, index, len(around) == len(page), not start)
    return None


def _find_below(sections: Sequence[Section]) -> list[Section]:
    """Return the sections below the first of these."""
    end = 1
    while end < len(sections) and sections[end].level > sections[0].level:
        end += 1
    return list(sections[1:end])


def _fit(section: Section, below: Sequence[Section], cuts: Sequence[Cut]) -> Cut:
    """Return as much of a section, in which the first cut is, as there is room for."""
    statements = section.statements
    end = statements.index(cuts[0].statements[-1]) + 1
    if _measure(statements[:end]) > PAGE_CHARS:
        return replace(cuts[0], statements=_pick(statements, cuts))
    while end < len(statements) and _measure(statements[: end + 1]) <= PAGE_CHARS:
        end += 1
    shown = [replace(section, statements=statements[:end])]
    if end == len(statements):
        for other in below:
            if _measure_all([*shown, other]) > PAGE_CHARS:
                break
            shown.append(other)
    return _join(shown, cuts[0].position)


def _pick(statements: Sequence[Statement], cuts: Sequence[Cut]) -> tuple[Statement, ...]:
    """Return the statements of a section in order that there is room for: first those of the cuts, then from its start.

    A gap is shown as one.
    """
    wanted = [_find_places(statements, cut) for cut in cuts]
    shown = set(wanted[0])
    for places in [*wanted[1:], *({place} for place in range(max(shown)))]:
        if _measure(statements[place] for place in shown | places) <= PAGE_CHARS:
            shown |= places
        elif len(places) == 1:
            break
    # What only announces what has no room.
    gaps = (place for place in shown if place + 1 < len(statements) and place + 1 not in shown)
    shown -= {place for place in gaps if statements[place].text.endswith(_COLONS)}
    picked: list[Statement] = []
    for place in sorted(shown):
        if picked and place - 1 not in shown:
            picked.append(Statement("prose", ELLIPSIS))
        picked.append(statements[place])
    return tuple(picked)


def _find_places(statements: Sequence[Statement], cut: Cut) -> set[int]:
    """Return where the statements of a cut are among these, none where its last one is not."""
    if cut.statements[-1] not in statements:
        return set()
    end = statements.index(cut.statements[-1]) + 1
    start = end
    while start and statements[start - 1] in cut.statements:
        start -= 1
    return set(range(start, end))


def _join(sections: Sequence[Section], position: int) -> Cut:
    statements = list(sections[0].statements)
    for section in sections[1:]:
        statements += [Statement("prose", f"**{section.heading}**"), *section.statements]
    return Cut(position, sections[0].heading, tuple(statements))


def _measure_all(sections: Iterable[Section]) -> int:
    return sum(_measure(section.statements) for section in sections)


def _measure(statements: Iterable[Statement]) -> int:
    return sum(max(MIN_STATEMENT_CHARS, len(statement.quotation)) for statement in statements)
