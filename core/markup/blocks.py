"""Reads a text as blocks: paragraphs, list items, table rows, code and headings.

Markdown, MyST and reStructuredText are read alike, for a docstring or a feed may hold any of them. All patterns are
linear: passages are foreign text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.language.tokens import HAN, KANA
from core.markup.inline import clean_inline, strip_tags
from core.markup.tables import RULE, is_row, join_cells, name_cells, split_row

# Directives within directives that are read; nobody writes that many.
MAX_DEPTH = 8
MAX_PREFORMATTED_LINES = 200

BlockKind = Literal["prose", "item", "row", "code", "heading", "break"]

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*(\{?[\w:+.#-]*\}?)[^`\n]*$")
_MYST_CODE = re.compile(r"\{(?:code|code-block|code-cell|sourcecode|click:(?:example|run)|prompt|parsed-literal)\}")
_DIRECTIVE = re.compile(r"([ \t]*)\.\.[ \t]+(?:([\w:-]+)::[ \t]*(.*)|.*)$")
_CODE_DIRECTIVES = frozenset(("code", "code-block", "sourcecode", "prompt", "parsed-literal", "click:example"))
_PROSE_DIRECTIVES = frozenset(
    """
    note warning tip hint important attention caution danger seealso admonition versionadded versionchanged deprecated
    rubric topic tab tab-item tab-set container only describe
    """.split()  # noqa: SIM905 (one word a line would hide the code)
)

# Those that describe what they name, in Sphinx's domains.
_OBJECT_DIRECTIVES = frozenset(
    """
    class exception function decorator method classmethod staticmethod property attribute data option cmdoption envvar
    confval setting signal reqmeta
    """.split()  # noqa: SIM905
)
_OBJECT_NAME = re.compile(r"(?:class )?([\w.-]+)")
_OPTION = re.compile(r"[ \t]*:[\w-]+:")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}[ \t]+(.*)$")
_PREFORMATTED = re.compile(r"<pre[\s>]", re.IGNORECASE)
_PREFORMATTED_END = re.compile(r"</pre\s*>", re.IGNORECASE)

# Python refuses to read a number of thousands of digits.
_LONG_REFERENCE = re.compile(r"&#\d{8,};?")

# The name that a heading gives its link.
_ANCHOR = re.compile(r"(?<!\s)[ \t]*\{(?:#[\w.-]{1,200}|/\*[^{}\n]{0,200}\*/)\}$")
_UNDERLINE = re.compile(r"([=\-~^\"'`*+#.])\1{2,}[ \t]*$")
_ITEM = re.compile(r"([ \t]*)(?:[-*+•]|\d{1,3}[.)、]|#\.)[ \t]+(?=\S)")
_FIELD = re.compile(r":(?:param|parameter|arg|argument|keyword|kwarg)(?: [\w.\[\], |]+)? (\*{0,2}\w+): *")
_OTHER_FIELD = re.compile(r":(?:type|rtype|meta|raises?|returns?|var|ivar)\b[^:\n]*: *")
_ONE_LINK = r"\[[^\[\]\n]{1,300}\]\([^()\s]{0,500}\)"

# A link, or the way to a page: links with signs between them, and its own name at the end.
_ONLY_LINK = re.compile(
    rf"[\s*_]*{_ONE_LINK}(?:[\s*_]*[/|>»›·•][\s*_]*{_ONE_LINK})*"
    r"(?:[\s*_]*[/|>»›·•][\s*_]*[^\s\[\]]{1,60}(?:[ ][^\s\[\]]{1,60}){0,2})?[\s*_.,;]*"
)

# Signs of full width have their own space; an address needs one before it to be a link. Korean separates its words.
_CJK_BLANK = re.compile(
    rf"(?<=[{HAN}{KANA}”])[ ](?=[{HAN}{KANA}“])|(?<=[，。！？；：、）」』》】])[ ](?!https?:)"
    r"|[ ](?=[，。！？；：、（）「」『』《》【】])"
)

# The rest of a code block whose beginning is in another passage.
_LEADING_CODE = re.compile(
    r"( {4,})(?:(?:async def|def|class|from|import|return|for|if|with|elif|except) .*|(?:else|try):|@\w.*"
    r"|[\w.]++ = .*|[\w.]++\(.*)$"
)

# What a line of a block quote begins with, and the line that gives one its kind.
_QUOTE_MARK = re.compile(
    r"[ \t]*(?>(?:>(?!=)[ \t]*+)+)(?:\[!(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION)\][ \t]*$)?", re.IGNORECASE
)

# What generators of references write above a description: `**name**(parameters): type`, or a name alone.
_SIGNATURE = re.compile(r"(?:▸ )?\*\*[\w.$]{1,80}\*\*(?:\\?<[^()\n]{0,200}>)?\(")
_BARE_NAME = re.compile(r"[A-Za-z_$][\w$]*+(?:\.[\w$]++)+", re.ASCII)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document: prose in one line, or unchanged code with its language.

    `named_text` is a row of a table with the names of its columns, where there are any.
    """

    kind: BlockKind
    text: str
    language: str = ""
    named_text: str = ""

    @property
    def quotation(self) -> str:
        """The text that can be read alone."""
        return self.named_text or self.text


_BREAK = Block("break", "")


def parse_blocks(text: str) -> list[Block]:
    """Return the blocks of a text in order. A table row is one block, its cells joined; directives are none."""
    return _parse_nested_blocks(text, 0)


def _parse_nested_blocks(text: str, depth: int) -> list[Block]:
    """Return the blocks of a text within `depth` directives. Where these are too many, the text is code as it is."""
    if depth >= MAX_DEPTH:
        return [Block("code", _dedent(text.split("\n")))] if text.strip() else []
    return _BlockReader(_COMMENT.sub("", text).replace("\t", "    ").split("\n"), depth).read()


class _BlockReader:
    """Reads lines from top to bottom; `_paragraph` holds those of a paragraph or list item that has not ended."""

    def __init__(self, lines: Sequence[str], depth: int) -> None:
        self._lines = lines
        self._depth = depth
        self._number = 0
        self._blocks: list[Block] = []
        self._paragraph: list[str] = []
        self._is_item = False
        # Of the table that is read.
        self._columns: list[str] = []

    def read(self) -> list[Block]:
        self._read_leading_code()
        while self._number < len(self._lines):
            line = self._lines[self._number]
            if not line.strip():
                self._read_blank_line()
            elif not self._read_block(line):
                self._read_prose(line)
                self._number += 1
        self._end_paragraph()
        return self._blocks

    def _read_leading_code(self) -> None:
        start = next((number for number, line in enumerate(self._lines) if line.strip()), 0)
        end = start
        while end < len(self._lines) and (match := _LEADING_CODE.match(self._lines[end])):
            _, end = _take_indented(self._lines, end, match.end(1) - 1)
        if end > start:
            self._blocks.append(Block("code", _dedent(self._lines[start:end])))
            self._number = end

    def _end_paragraph(self) -> None:
        text = " ".join(" ".join(self._paragraph).split())
        # A table of contents says nothing.
        prose = "" if _ONLY_LINK.fullmatch(text) else _CJK_BLANK.sub("", " ".join(clean_inline(text).split()))
        if prose:
            is_statement = self._is_item or not _is_signature(prose)
            self._blocks.append(Block("item" if self._is_item else "prose", prose) if is_statement else _BREAK)
        self._paragraph.clear()
        self._is_item = False

    def _read_blank_line(self) -> None:
        is_literal = bool(self._paragraph) and self._paragraph[-1].endswith("::")
        self._end_paragraph()
        self._number += 1
        if is_literal:
            code, self._number = _take_indented(self._lines, self._number, 0)
            self._blocks += [Block("code", code)] if code else []

    def _read_block(self, line: str) -> bool:
        """Read a block that starts with this line, if it is no prose."""
        stripped_line = line.strip()
        blocks: list[Block] = []
        if stripped_line.startswith(":::"):
            # The border of a container, as VitePress and MyST have them; what it holds is text like any other.
            end = self._number + 1
        elif fence := _FENCE.match(line):
            blocks, end = _read_fence(self._lines, self._number, fence, self._depth)
        elif _PREFORMATTED.match(stripped_line):
            blocks, end = _read_preformatted(self._lines, self._number)
        elif stripped_line.startswith("..") and (directive := _DIRECTIVE.match(line)):
            blocks, end = _read_directive(self._lines, self._number, directive, self._depth)
        elif stripped_line.startswith(">>>"):
            end = self._number
            while end < len(self._lines) and self._lines[end].strip():
                end += 1
            blocks = [Block("code", _dedent(self._lines[self._number : end]), "python")]
        elif heading := _read_heading(self._lines, self._number, bool(self._paragraph)):
            blocks = [Block("heading", clean_inline(heading[0]))]
            end = heading[1]
        else:
            return False
        self._end_paragraph()
        self._blocks += blocks
        self._number = end
        return True

    def _read_prose(self, line: str) -> None:
        if mark := _QUOTE_MARK.match(line):
            line = line[mark.end() :]
        stripped_line = line.strip()
        if RULE.match(line) or (_UNDERLINE.match(stripped_line) and not self._paragraph):
            self._end_paragraph()
            self._blocks.append(_BREAK)
        elif is_row(stripped_line):
            self._end_paragraph()
            self._read_row(stripped_line)
        elif item := _ITEM.match(line):
            self._end_paragraph()
            self._is_item = True
            self._paragraph.append(line[item.end() :])
        elif _FIELD.match(stripped_line) or _OTHER_FIELD.match(stripped_line):
            self._end_paragraph()
            self._paragraph.append(_OTHER_FIELD.sub("", _FIELD.sub(r"`\1`: ", stripped_line)))
        else:
            self._paragraph.append(stripped_line)

    def _read_row(self, line: str) -> None:
        """Read a row of a table. The line above a rule is the head of the rows below."""
        cells = [clean_inline(cell) for cell in split_row(line)]
        previous_lines = self._lines[max(0, self._number - 1) : self._number]
        if not any(is_row(previous_line.strip()) or RULE.match(previous_line) for previous_line in previous_lines):
            self._columns = []
        if any(map(RULE.match, self._lines[self._number + 1 : self._number + 2])):
            self._columns = cells
        else:
            self._blocks.append(Block("row", join_cells(cells), named_text=name_cells(cells, self._columns)))


def _is_signature(prose: str) -> bool:
    """Return whether a paragraph is the signature of a function, or a name: it states nothing."""
    is_signature = "): " in prose and _SIGNATURE.match(prose) and not prose.endswith((".", "!", "?", "。"))
    return bool(is_signature or _BARE_NAME.fullmatch(prose))


def _read_fence(lines: Sequence[str], number: int, fence: re.Match[str], depth: int) -> tuple[list[Block], int]:
    """Return the blocks of a fence, and the line after it. A MyST directive that is no code holds prose."""
    marker = fence[2]
    info = fence[3]
    end = number + 1
    while end < len(lines):
        closing = lines[end].strip()
        if closing.startswith(marker) and not closing.strip(marker[0]):
            break
        end += 1
    body = list(lines[number + 1 : end])
    if info.startswith("{"):
        while body and (_OPTION.match(body[0]) or not body[0].strip()):
            body.pop(0)
        if not _MYST_CODE.match(info):
            return _parse_nested_blocks("\n".join(body), depth + 1), end + 1
        words = lines[number].split("}", 1)[1].split()
        info = "python" if info.startswith("{click") else words[0] if words else ""
    code = _dedent(body)
    return ([Block("code", code, info.lower())] if code.strip() else []), end + 1


def _read_preformatted(lines: Sequence[str], number: int) -> tuple[list[Block], int]:
    """Return the code of an HTML block for it, and the line after it: Markdown may hold HTML.

    Without an end, it reaches to the next blank line.
    """
    limit = min(number + MAX_PREFORMATTED_LINES, len(lines))
    end = next((end for end in range(number, limit) if _PREFORMATTED_END.search(lines[end])), None)
    if end is None:
        end = next((end for end in range(number, len(lines)) if not lines[end].strip()), len(lines)) - 1
    html_text, *rest = _PREFORMATTED_END.split("\n".join(lines[number : end + 1]), maxsplit=1)
    code = _dedent(html.unescape(_LONG_REFERENCE.sub("", strip_tags(html_text))).split("\n"))
    blocks = [Block("code", code)] if code.strip() else []
    prose = clean_inline("".join(rest))
    return [*blocks, *([Block("prose", prose)] if prose else [])], end + 1


def _read_directive(lines: Sequence[str], number: int, directive: re.Match[str], depth: int) -> tuple[list[Block], int]:
    """Return the blocks of a directive of reStructuredText, and the line after it; comments and labels have none."""
    indent = len(directive[1])
    name = (directive[2] or "").lower()
    argument = directive[3] or ""
    start = number + 1
    while start < len(lines) and _OPTION.match(lines[start]):
        start += 1
    body, end = _take_indented(lines, start, indent)
    if name in _CODE_DIRECTIVES:
        language = "python" if name == "click:example" else argument.split(" ")[0].lower()
        return ([Block("code", body, language)] if body else []), end
    if name.rpartition(":")[2] in _OBJECT_DIRECTIVES:
        described_object = _OBJECT_NAME.match(argument)
        subject = f"`{described_object[1].rpartition('.')[2]}`: " if described_object else ""
        return (_parse_nested_blocks(f"{subject}{body}", depth + 1) if body else []), end
    if name not in _PROSE_DIRECTIVES:
        return [], end
    introduction = argument if name in ("note", "warning", "tip", "hint", "important", "seealso", "rubric") else ""
    return _parse_nested_blocks(f"{introduction}\n{body}", depth + 1), end


def _take_indented(lines: Sequence[str], start: int, indent: int) -> tuple[str, int]:
    """Return the lines from `start` that are blank or deeper than `indent`, dedented, and the line after them."""
    end = start
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
        end += 1
    return _dedent(lines[start:end]), end


def _dedent(lines: Sequence[str]) -> str:
    widths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(widths, default=0)
    return "\n".join(line[margin:].rstrip() for line in lines).strip("\n")


def _read_heading(lines: Sequence[str], number: int, is_in_paragraph: bool) -> tuple[str, int] | None:
    if match := _HEADING.match(lines[number]):
        return _ANCHOR.sub("", match[1].rstrip("#").rstrip(" \t")), number + 1
    if is_in_paragraph or number + 1 >= len(lines) or lines[number][:1].isspace():
        return None
    line = lines[number].strip()
    underline = lines[number + 1].strip()
    if _UNDERLINE.match(underline) and not _UNDERLINE.match(line) and not line.startswith("|"):
        return line, number + 2
    return None
