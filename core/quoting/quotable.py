"""Finds what can be quoted of a text: sentences, list items and table rows, with the code and lists they announce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.language.prose import CODE_SPAN, change_outside_code, cut_into_sentences
from core.markup.statements import Statement, read_statements

MAX_LIST_ITEMS = 8
MAX_LIST_CHARS = 700
# A window has no more sentences than people write in so many characters.
WINDOW_CHARS = 300
WINDOW_SENTENCES = 20
MAX_PROSE_CHARS = 500
_OPEN_ENDS = (":", "：", "::")

_COMMAS = ("，", ",", "、")


@dataclass(frozen=True, slots=True)
class Quotable:
    """A piece of a passage that can be quoted alone.

    `sentences` are the numbers of its sentences in the passage, by which overlapping pieces are known; `heading` is
    the heading above it, as the piece of that number from 0 (`rank`). `code` and `items` are what it announces,
    `language` is that of the code. `named_text` is what is shown of a row of a table: the names of its columns, which
    all rows share, do not tell which of them fits. `is_setting`: its code is a setting of a configuration file.
    """

    text: str
    heading: str = ""
    code: str = ""
    language: str = ""
    items: tuple[str, ...] = ()
    sentences: frozenset[int] = frozenset()
    rank: int = 0
    named_text: str = ""
    is_setting: bool = False

    @property
    def shown_text(self) -> str:
        """The text as it is quoted."""
        return self.named_text or self.text

    @property
    def content(self) -> str:
        """All of its words, without the heading."""
        return "\n".join((self.text, *self.items, self.code))


def get_quotables(text: str, heading: str = "", *, is_docstring: bool = False) -> list[Quotable]:
    """Return everything quotable in a text: windows of sentences, items, rows, and code with what announces it."""
    quotables: list[Quotable] = []
    statements = read_statements(text, is_docstring=is_docstring)
    sentence_count = 0
    rank = 0
    section = heading
    for index, statement in enumerate(statements):
        previous_kind = statements[index - 1].kind if index else "break"
        if statement.kind in ("heading", "label"):
            heading = statement.text
            section = heading if statement.kind == "heading" else section
            rank = 0
            continue
        if previous_kind == "code" and statement.kind != "code":
            # A label names no more than the code below it.
            heading = section
        if statement.kind == "code":
            if previous_kind not in ("prose", "item"):
                numbers = frozenset((sentence_count,))
                quotables.append(Quotable("", heading, statement.text, statement.language, (), numbers, rank))
                sentence_count = sentence_count + 1
                rank = rank + 1
        elif statement.text:
            sentences = _get_sentences(statement)
            context = Quotable("", heading, rank=rank, named_text=statement.named_text if len(sentences) == 1 else "")
            following = statements[index + 1 : index + 2 + MAX_LIST_ITEMS]
            quotables += _to_quotables(sentences, sentence_count, context, following)
            sentence_count = sentence_count + len(sentences)
            rank = rank + 1
    return quotables


def _get_sentences(statement: Statement) -> list[str]:
    """Return the sentences of a statement. A row of a table is one, as far as it may be quoted as a whole."""
    if statement.kind == "row" and len(statement.quotation) <= MAX_PROSE_CHARS:
        return [statement.text]
    return cut_into_sentences(statement.text.rstrip("".join(_COMMAS)) if statement.kind == "item" else statement.text)


def _to_quotables(
    sentences: Sequence[str], first_number: int, context: Quotable, following_statements: Sequence[Statement]
) -> list[Quotable]:
    """Return windows of the sentences of one block; what the last sentence announces belongs to it."""
    is_open = sentences[-1].rstrip().endswith((*_OPEN_ENDS, *_COMMAS))
    code, items = _get_announced(following_statements, is_open)
    if is_open and not code and not items:
        # What it announces is in another passage.
        sentences = sentences[:-1]
    windows: list[Quotable] = []
    last_end = 0
    for start in range(len(sentences)):
        end = _get_window_end(sentences, start)
        # A window that ends with the one before it says less.
        if end == last_end:
            continue
        last_end = end
        text = _remove_open_bold("".join(sentences[start:end]).strip())
        numbers = frozenset(range(first_number + start, first_number + end))
        window = replace(context, text=text, sentences=numbers)
        if end == len(sentences) and code:
            window = replace(window, code=code.text, language=code.language)
        elif end == len(sentences):
            window = replace(window, items=items)
        if len(text) <= MAX_PROSE_CHARS or window.code:
            windows.append(window)
    return windows


def _get_announced(
    following_statements: Sequence[Statement], is_open: bool
) -> tuple[Statement | None, tuple[str, ...]]:
    """Return the code right after a statement, or, after a colon, the list or rows that follow it."""
    if following_statements and following_statements[0].kind == "code":
        return following_statements[0], ()
    items: list[str] = []
    for statement in following_statements if is_open else ():
        is_too_long = sum(map(len, items)) + len(statement.quotation) > MAX_LIST_CHARS
        is_listed = statement.kind in ("item", "row") or (statement.kind == "prose" and not items)
        if is_too_long or not is_listed:
            break
        items.append(statement.quotation)
        if statement.kind == "prose":
            break
    return None, tuple(item for item in items if not item.endswith(_OPEN_ENDS))


def _get_window_end(sentences: Sequence[str], start: int) -> int:
    """Return where a window ends that starts with this sentence: after as many as fit."""
    end = start + 1
    length = len(sentences[start].rstrip())
    max_end = min(len(sentences), start + WINDOW_SENTENCES)
    while end < max_end and length + len(sentences[end].rstrip()) <= WINDOW_CHARS:
        length += len(sentences[end].rstrip())
        end += 1
    return end


def _remove_open_bold(text: str) -> str:
    """Return a text without its signs of bold if it was cut out of a bold one, so that one of them has no other."""
    if CODE_SPAN.sub(" ", text).count("**") % 2 == 0:
        return text
    return change_outside_code(text, lambda piece: piece.replace("**", ""))
