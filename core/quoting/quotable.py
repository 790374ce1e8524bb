"""Finds what can be quoted of a text: sentences, list items and table rows, with the code and lists they announce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.language.prose import CODE_SPAN, change_outside_code, cut_into_sentences
from core.markup.blocks import Block, parse_blocks

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


def get_quotables(text: str, heading: str = "") -> list[Quotable]:
    """Return everything quotable in a text: windows of sentences, items, rows, and code with what announces it."""
    quotables: list[Quotable] = []
    blocks = parse_blocks(text)
    sentence_count = 0
    rank = 0
    for index, block in enumerate(blocks):
        if block.kind == "heading":
            heading = block.text
            rank = 0
        elif block.kind == "code":
            if index == 0 or blocks[index - 1].kind not in ("prose", "item"):
                numbers = frozenset((sentence_count,))
                quotables.append(Quotable("", heading, block.text, block.language, (), numbers, rank))
                sentence_count = sentence_count + 1
                rank = rank + 1
        elif block.text:
            sentences = _get_sentences(block)
            context = Quotable("", heading, rank=rank, named_text=block.named_text if len(sentences) == 1 else "")
            following_blocks = blocks[index + 1 : index + 2 + MAX_LIST_ITEMS]
            quotables += _to_quotables(sentences, sentence_count, context, following_blocks)
            sentence_count = sentence_count + len(sentences)
            rank = rank + 1
    return quotables


def _get_sentences(block: Block) -> list[str]:
    """Return the sentences of a block. A row of a table is one, as far as it may be quoted as a whole."""
    if block.kind == "row" and len(block.quotation) <= MAX_PROSE_CHARS:
        return [block.text]
    return cut_into_sentences(block.text.rstrip("".join(_COMMAS)) if block.kind == "item" else block.text)


def _to_quotables(
    sentences: Sequence[str], first_number: int, context: Quotable, following_blocks: Sequence[Block]
) -> list[Quotable]:
    """Return windows of the sentences of one block; what the last sentence announces belongs to it."""
    is_open = sentences[-1].rstrip().endswith((*_OPEN_ENDS, *_COMMAS))
    code, items = _get_announced(following_blocks, is_open)
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


def _get_announced(following_blocks: Sequence[Block], is_open: bool) -> tuple[Block | None, tuple[str, ...]]:
    """Return the code right after a block, or, after a colon, the list or rows that follow it."""
    if following_blocks and following_blocks[0].kind == "code":
        return following_blocks[0], ()
    items: list[str] = []
    for block in following_blocks if is_open else ():
        is_too_long = sum(map(len, items)) + len(block.quotation) > MAX_LIST_CHARS
        is_listed = block.kind in ("item", "row") or (block.kind == "prose" and not items)
        if is_too_long or not is_listed:
            break
        items.append(block.quotation)
        if block.kind == "prose":
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
