"""Reads Markdown as blocks, in the forms that the world writes: CommonMark, GitHub, MyST, MDX, MkDocs, VitePress."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from itertools import pairwise
from textwrap import dedent
from types import MappingProxyType
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.markup.block_parser import make_parser
from core.markup.collector import BlockCollector, make_item, split_tabs
from core.markup.components import read_source
from core.markup.directives import (
    ADMONITIONS,
    CAPTION_OPTION,
    CARD_RULE,
    CARDS,
    CELLS,
    CODES,
    SHOWN_OPTION,
    VERSIONS,
    find_language,
    find_tabs,
    is_hidden,
    list_names,
    name_directive,
    skip_options,
)
from core.markup.document import Block, BlockKind, to_plain
from core.markup.front_matter import SHOWN_DESCRIPTION, read_description, read_substitutions
from core.markup.generators import GENERATOR, PANDOC, PANDOC_BOOK
from core.markup.hidden_code import REMOVED, fill_snippets, show_rust, strip_hidden, strip_twoslash
from core.markup.inline import (
    clean_inline,
    clean_title,
    escape_tags,
    find_picture,
    is_formula,
    name_logo,
    take_notes,
    to_title,
    write_code,
)
from core.markup.pandoc import name_headings, number_references
from core.markup.tables import find_piped_rows, join_texts, make_table, split_grid, split_piped_rows
from core.markup.templates import fill_values

# Directives within directives that are read; nobody writes that many.
MAX_DEPTH = 8
# Where front matter is.
MAX_HEAD_CHARS = 2_000
Reader = Callable[[str, Mapping[str, str]], tuple[Block, ...]]

_DIRECTIVE = re.compile(r"\{([A-Za-z][\w:.+-]*)\}[ \t]*(.*)$")
# The name of a choice, or of a kind, may be right behind that of a container.
_CONTAINER = re.compile(r"\{?[ \t]*\.?(?:callout-)?([\w-]+)(?:#[\w-]+)?\}?[ \t]*(.*)$")
_ADMONISH = re.compile(r"admonish(?: (\w+)(?!=))?(?: ((?:title=)?\"[^\"]{0,200}\")| (?!title=)[\w-]{1,30}=\S+)*")
_BRACES = re.compile(r"\{[^{}]*\}")
# What Quarto reads in the first lines of a cell, and whether it hides the cell for it.
_CELL_OPTIONS = re.compile(r"(?:[ \t]*(?:#|//|--|%)\|[^\n]*(?:\n|$))+")
# Its name and its options, which R Markdown has behind the language.
_CHUNK_OPTIONS = re.compile(r"^\{(r|python|julia|bash|sql|ojs)[ ,][^{}]*\}$")
_R_CELL = re.compile(r"^`{3,}[ \t]*\{r[ ,}]", re.MULTILINE)
_HIDDEN_CELL = re.compile(r"\|[ \t]*(?:echo|include):[ \t]*false\b")
# So does R Markdown, beside the language.
_HIDDEN_CHUNK = re.compile(r"\{\w+[ ,].*\b(?:echo|include)[ ]?=[ ]?F(?:ALSE)?\b")
_CAPTION = re.compile(r"\A:(?:[ \t]+|$)")
# What Docsify writes behind a heading.
_HEADING_MARK = re.compile(r"(?<![ \t])[ \t]++(?::[a-z]+=[\w-]+|\{[a-z]+-ignore(?:-all)?\})[ \t]*+$")
# In quotes up to the end, for there may be others within.
_QUOTED = re.compile(r"([\"'])(.{1,200})\1[ \t]*$|[\"'\[]([^\"'\[\]]{1,200})[\"'\]]")
_TITLE_ATTRIBUTE = re.compile(r"\b(?:title|label|tab|(?:file)?name)=[\"']([^\"']{1,200})[\"']")
_ALERT = re.compile(r"\[!([A-Za-z][\w-]*)\][+-]?[ \t]*([^\n]*)(?:\n|$)")
# What only a line of its own can be: a target of MyST, the name of a rule, a comment, a table of contents, the meaning
# of an abbreviation, attributes, what a plug-in puts there, and a file that could not be included.
_NO_TEXT = re.compile(
    r"(?:\([^()\n]{1,200}\)=|\+{3}[^\n]*|%[ \t][^\n]*(?:\n%[^\n]*)*|\[\[?_?(?:toc|TOC)_?\]\]?"
    r"|\*\[[^\[\]\n]{1,100}\]:[^\n]*|:(?:orphan|tocdepth|no-?search|nocomments|html_theme[\w.]{0,50}):[^\n]*"
    r"|\{(?:[:#.]|[a-z-]+=)[^{}\n]{0,200}\}|::[a-z][\w-]{0,50}(?:\{[^{}\n]{0,200}\})?"
    r"|(?:<<<|-{2,}8<-{2,})[ \t][^\n]*|@\[code[^\[\]\n]{0,100}\]\([^()\n]{0,500}\))[ \t]*(?:\n|$)"
)
# What kramdown makes a table of contents of.
_CONTENTS = re.compile(r"^\{:[ ]?toc\b[^{}\n]{0,100}\}\Z", re.MULTILINE)
_NO_TEXT_SIGNS = tuple("(+%[*{<-:@")
_LABEL = re.compile(r"^\(([^()\n]{1,200})\)=[ \t]*\n(?:[ \t]*\n)?#{1,6}[ \t]+([^\n]+)", re.MULTILINE)
_BULLET = re.compile(r"[ \t]+[-*+][ \t]+\S")
# What a preprocessor could not put there.
_INCLUDE = re.compile(r"^[ \t]*\{\{#[a-z_]*include [^{}\n]{1,500}\}\}[ \t]*$", re.MULTILINE)
_LANGUAGE = re.compile(r"\{?[ ]?\.?([\w+#-]+)(?![\w+#-]*=)")
# What Fumadocs shows for each tool that installs packages.
_LANGUAGES = {"npm": "bash", "package-install": "bash"}
_INSTALLER = re.compile(r"(?:npm|npx|pnpm|yarn|bun|bunx|deno)\b")
# Code of Twoslash that other code of the page shows.
_SNIPPET = re.compile(r"(?:[\w+#-]{1,20}[ ]+)?twoslash[ ]+include[ ]+([\w-]{1,60})")
# What runs the cells of a page of MyST-NB.
_KERNEL = re.compile(
    r"^kernelspec:[ ]{0,8}\n(?:[ ]{1,8}[^\n]{0,200}\n){0,10}?[ ]{1,8}(?:language|name):[ ]{1,8}[\"']?([A-Za-z]+)",
    re.MULTILINE,
)
_LABELLED: dict[str, BlockKind] = {
    "card": "definition",
    "details": "tab",
    "dropdown": "tab",
    "grid-item-card": "definition",
    **dict.fromkeys(("group-tab", "margin", "rubric", "sidebar", "tab", "tab-item", "topic"), "tab"),
}
# Tabs of Quarto, which begin with headings.
_HEADED_TABS = "panel-tabset"
_BRACKETED_TITLE = re.compile(r"(?<=[\s}\w])\[([^\[\]]{1,200})\](?!\S)")
_CODE_GROUPS = frozenset(("code-group", "codegroup"))
_TABS = re.compile(r"(?:^|-)(?:tabs|playground|sandpack)$")
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")
_ONLY_CODE = re.compile(r"`[^`\n]+`")


def read_markdown(
    text: str,
    read_rst: Reader | None = None,
    *,
    is_mdx: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Block, ...]:
    """Return the blocks of a document in Markdown; a title in its front matter is its heading where it has no other.

    Takes linear time for any text. `read_rst` reads what Markdown holds of reStructuredText. `names` are the titles of
    what its references lead to elsewhere, by the references.

    >>> [block.text for block in read_markdown("# Start\\n\\nRead *on*, [here](a.md). <!-- no -->")]
    ['Start', 'Read *on*, here.']
    """
    text = fill_values(text, names)
    source = read_source(text, is_mdx=is_mdx, generator=names.get(GENERATOR, ""))
    body = "\n".join(source.lines)
    kernel = _KERNEL.search(text[:MAX_HEAD_CHARS])
    # In MDX, what is indented within a component is no code.
    parser = make_parser(body, has_indented_code=not source.is_mdx)
    reader = _Reader(parser, read_rst, kernel[1].lower() if kernel else "", has_cells=_R_CELL.search(body) is not None)
    blocks = reader.read_document(source.lines, source.numbers, {**names, **read_substitutions(text)})
    # A page that shows what other files say, as of an API, has nothing else to be found by.
    has_text = any(block.kind != "definition" and not _ONLY_CODE.fullmatch(block.text) for block in blocks)
    is_described = SHOWN_DESCRIPTION in names or not has_text
    description, description_line = read_description(text) if is_described else ("", 0)
    if description:
        has_heading = blocks[:1] and blocks[0].kind == "heading" and blocks[0].level == 1
        place = 1 if has_heading else 0
        blocks = (*blocks[:place], *reader.read([description], [description_line]), *blocks[place:])
    top_headings = [block for block in blocks if block.kind == "heading" and block.level == 1]
    is_only_title = len(top_headings) == 1 and top_headings[0] is blocks[0]
    top_names = {to_plain(block.text).lower() for block in top_headings}
    title, line = source.title, source.title_line
    if not title and len(top_headings) != 1:
        title, line = reader.picture_title
    if not title or is_only_title or title.lower() in top_names:
        return blocks
    # Above the headings of its parts, which may be of the first level.
    return (Block("heading", escape_tags(title), start_line=line, end_line=line), *blocks)


class _Reader:
    """Reads a document, and what its directives hold: links of both may refer to the same names."""

    def __init__(self, parser: MarkdownIt, read_rst: Reader | None, kernel: str, *, has_cells: bool) -> None:
        self._parser = parser
        self._kernel = kernel
        # In R Markdown, code is of any language for which somebody has written an engine.
        self._has_cells = has_cells
        self._read_rst = read_rst
        self._readers: dict[str, Callable[[Token, Sequence[Token]], Sequence[Block]]] = {
            "heading": self._read_heading,
            "paragraph": self._read_paragraph,
            "code_block": self._read_indented_code,
            **dict.fromkeys(("amsmath", "math_block", "math_block_label"), self._read_formula),
            "hr": lambda token, _: self._make("break", token),
            "bullet_list": self._read_list,
            "ordered_list": self._read_list,
            "list_item": self._read_item,
            "blockquote": self._read_quote,
            "table": self._read_table,
            "grid_table": self._read_grid,
            "dl": lambda _, inner: self._read_definitions(inner),
            "definition_body": self._read_definition_body,
            "footnote_reference": lambda _, inner: self._read_tokens(inner),
        }
        self._environment: MutableMapping[str, Any] = {}
        self._depth = 0
        self._lines: Sequence[str] = ()
        self._numbers: Sequence[int] = ()

    @property
    def picture_title(self) -> tuple[str, int]:
        """Return what the picture is said to show that is all of the title of the document, and its line."""
        title: tuple[str, int] = self._environment.get("picture_title", ("", 0))
        return title

    def read_document(
        self, lines: Sequence[str], numbers: Sequence[int], names: Mapping[str, str]
    ) -> tuple[Block, ...]:
        """Return the blocks of all lines, to whose parts references may lead, as to what `names` has."""
        labels = {name: to_title(title) for name, title in _LABEL.findall("\n".join(lines))}
        self._environment["labels"] = {**names, **labels}
        if (generator := names.get(GENERATOR)) in (PANDOC, PANDOC_BOOK):
            self._environment["references"] = name_headings(lines)
            self._environment["labels"] |= number_references(lines) if generator == PANDOC else {}
        return self.read(lines, numbers)

    def read(self, lines: Sequence[str], numbers: Sequence[int], group: str = "") -> tuple[Block, ...]:
        """Return the blocks of lines with these numbers."""
        if self._depth >= MAX_DEPTH:
            code = _strip_blank_lines("\n".join(lines))
            return (Block("code", code, start_line=numbers[0], end_line=numbers[-1]),) if code else ()
        outer_lines, outer_numbers = self._lines, self._numbers
        self._lines, self._numbers = lines, numbers
        self._depth += 1
        tokens, notes = take_notes(self._parser.parse("\n".join(lines), self._environment), lines)
        self._environment["labels"] |= {mark: self._clean(note) for mark, note in notes.items()}
        blocks = self._read_tokens(tokens, group)
        self._depth -= 1
        self._lines, self._numbers = outer_lines, outer_numbers
        return blocks

    def _clean(self, text: str, *, marks_ways: bool = True) -> str:
        return clean_inline(self._parser, text, self._environment, marks_ways=marks_ways)

    def _get_lines(self, token: Token) -> tuple[int, int]:
        """Return the first and the last line of a block in the document."""
        if token.map is None:
            return 0, 0
        start, end = token.map
        last = max(start, min(end, len(self._numbers)) - 1)
        while last > start and not self._lines[last].strip():
            last -= 1
        return self._numbers[start], self._numbers[last]

    def _read_tokens(self, tokens: Sequence[Token], group: str = "") -> tuple[Block, ...]:
        collector = BlockCollector()
        for token, inner in _iter_groups(tokens):
            for block in self._read_block(token, inner, collector, group):
                collector.add(block)
        blocks = collector.finish()
        if collector.picture_title:
            self._environment.setdefault("picture_title", collector.picture_title)
        return blocks

    def _read_block(
        self, token: Token, inner: Sequence[Token], collector: BlockCollector, group: str
    ) -> Sequence[Block]:
        """Return the blocks of a token with those within it; HTML goes to the collector itself."""
        kind = token.type.removesuffix("_open")
        if kind == "html_block":
            collector.add_html(token.content, self._get_lines(token)[0])
        elif kind in ("fence", "colon_fence", "indented"):
            return self._read_fence(token, group or ("code-group" if collector.is_in_group else ""))
        read = self._readers.get(kind)
        return read(token, inner) if read else ()

    def _make(self, kind: BlockKind, token: Token, text: str = "", **fields: Any) -> list[Block]:
        """Return a block with the lines of its token."""
        start, end = self._get_lines(token)
        return [Block(kind, text, start_line=start, end_line=end, **fields)]

    def _read_heading(self, token: Token, inner: Sequence[Token]) -> Sequence[Block]:
        text = clean_title(self._parser, _HEADING_MARK.sub("", inner[0].content), self._environment)
        if not text and token.tag == "h1" and (name := name_logo(find_picture(inner[0].content))):
            self._environment.setdefault("picture_title", (name, self._get_lines(token)[0]))
        return self._make("heading", token, text, level=int(token.tag[1:])) if text else ()

    def _read_indented_code(self, token: Token, _: Sequence[Token]) -> Sequence[Block]:
        code = _strip_blank_lines(token.content)
        return self._make("code", token, code) if code else ()

    def _read_formula(self, token: Token, _: Sequence[Token]) -> Sequence[Block]:
        formula = token.content.strip()
        return self._make("code", token, formula, language="math") if formula else ()

    def _read_paragraph(self, token: Token, inner: Sequence[Token]) -> Sequence[Block]:
        content = inner[0].content
        if content.endswith("}") and _CONTENTS.search(content):
            return ()
        if content.startswith("\\[") and content.endswith("\\]") and is_formula(content[2:-2]):
            return self._make("code", token, content[2:-2].strip(), language="math")
        start, end = self._get_lines(token)
        if "|" in content and (rows := self._read_piped_rows(content.split("\n"), start, end)):
            return rows
        text_start = 0
        while content[text_start : text_start + 1] in _NO_TEXT_SIGNS and (mark := _NO_TEXT.match(content, text_start)):
            start += mark[0].count("\n")
            text_start = mark.end()
        lines = content[text_start:].split("\n")
        if content[text_start : text_start + 1] == ":":
            # What is below a table of Pandoc.
            lines[0] = _CAPTION.sub("", lines[0])
        # An item that is indented further than the parser knows belongs to no paragraph for whoever wrote it.
        size = next((number for number, line in enumerate(lines) if number and _BULLET.match(line)), len(lines))
        text = self._clean("\n".join(lines[:size]))
        blocks: list[Block] = [Block("paragraph", text, start_line=start, end_line=end)] if text else []
        if size == len(lines):
            return blocks
        numbers = [min(start + number, end) for number in range(size, len(lines))]
        blocks[:1] = [replace(block, end_line=min(start + size - 1, end)) for block in blocks]
        margin = len(lines[size]) - len(lines[size].lstrip())
        return [*blocks, *self.read([_strip_margin(line, margin) for line in lines[size:]], numbers)]

    def _read_piped_rows(self, lines: list[str], start: int, end: int) -> list[Block]:
        """Return what stands above rows between pipes, and the table that they are for whoever reads them."""
        first = find_piped_rows(lines)
        if first == len(lines):
            return []
        rows = [list(map(self._clean, cells)) for cells in split_piped_rows(lines[first:])]
        numbers = [min(start + number, end) for number in range(first)]
        table = replace(make_table(rows), start_line=min(start + first, end), end_line=end)
        return [*self.read(lines[:first], numbers), table] if first else [table]

    def _read_list(self, token: Token, inner: Sequence[Token]) -> Sequence[Block]:
        level = (int(token.attrs.get("start", 1)) or -1) if token.type.startswith("ordered") else 0
        items = self._read_tokens(inner)
        return self._make("list", token, children=items, level=level) if items else []

    def _read_item(self, token: Token, inner: Sequence[Token]) -> Sequence[Block]:
        blocks = self._read_tokens(inner)
        is_contents = not blocks and any(_CONTENTS.search(part.content) for part in inner if part.type == "inline")
        return [] if is_contents else [make_item(blocks, *self._get_lines(token))]

    def _read_quote(self, token: Token, inner: Sequence[Token]) -> Sequence[Block]:
        alert = _ALERT.match(inner[1].content) if len(inner) > 1 and inner[1].type == "inline" else None
        if alert:
            inner[1].content = inner[1].content[alert.end() :]
            title = self._clean(alert[2])
            if title.endswith((*_SENTENCE_ENDS, ":", "：")):
                # Docsify takes what is beside the sign for the text.
                inner[1].content = f"{alert[2]}\n{inner[1].content}"
                title = ""
            title = title or _get_title(alert[1])
            return self._make("admonition", token, title, children=self._read_tokens(inner))
        children = self._read_tokens(inner)
        return self._make("quote", token, children=children) if children else ()

    def _read_table(self, token: Token, inner: Sequence[Token]) -> Sequence[Block]:
        rows: list[list[str]] = []
        row_lines: list[int] = []
        for part in inner:
            if part.type == "tr_open":
                rows.append([])
                row_lines.append(self._get_lines(part)[0])
            elif part.type == "inline":
                rows[-1].append(self._clean(part.content, marks_ways=False))
        start, end = self._get_lines(token)
        return [replace(make_table(rows, row_lines), start_line=start, end_line=end)]

    def _read_grid(self, token: Token, _: Sequence[Token]) -> Sequence[Block]:
        start, end = self._get_lines(token)
        parts = split_grid(token.content.split("\n"))
        texts = [[join_texts(self.read(cell, [start] * len(cell))) for cell in cells] for _, cells in parts]
        has_names = bool(parts) and parts[0][0]
        return [replace(make_table(texts if has_names else [[], *texts]), start_line=start, end_line=end)]

    def _read_definition_body(self, token: Token, _: Sequence[Token]) -> Sequence[Block]:
        start, end = token.map or (0, 0)
        lines = token.content.split("\n")[: end - start]
        return self.read(lines, self._numbers[start : start + len(lines)])

    def _read_definitions(self, inner: Sequence[Token]) -> list[Block]:
        blocks: list[Block] = []
        term = ""
        is_new = True
        for token, body in _iter_groups(inner):
            if token.type == "dt_open":
                term = self._clean(body[0].content)
                is_new = True
            elif token.type == "dd_open":
                children = self._read_tokens(body)
                if is_new:
                    blocks += self._make("definition", token, term, children=children)
                else:
                    last = blocks.pop()
                    end_line = self._get_lines(token)[1]
                    blocks.append(replace(last, children=(*last.children, *children), end_line=end_line))
                is_new = False
        return blocks

    def _read_fence(self, token: Token, group: str) -> Sequence[Block]:
        """Read what stands between two marks, or below one: code, a directive or a container."""
        start, end = self._get_lines(token)
        lines = token.content.split("\n")
        first = token.map[0] + 1 if token.map else 0
        numbers = [*self._numbers[first : first + len(lines)]]
        numbers += [end] * (len(lines) - len(numbers))
        info = token.info.strip()
        if token.type == "indented":
            return self._read_indented(token.markup, info, lines, numbers)
        if info.startswith("{=") or _HIDDEN_CHUNK.match(info) or self._keep_snippet(info, token.content):
            # What only one of several formats of Pandoc takes as it is, or what no reader sees.
            return self.read(lines, numbers) if info.startswith("{=html") else ()
        info = _CHUNK_OPTIONS.sub(r"{\1}", info)
        if directive := _DIRECTIVE.match(info):
            return self._read_directive(directive[1].lower(), directive[2].strip(), lines, numbers)
        # That of a preprocessor of mdBook.
        admonition = _ADMONISH.fullmatch(info)
        if admonition or token.type == "colon_fence":
            info = f"{admonition[1] or 'note'} {admonition[2] or ''}" if admonition else info
            return self._read_container(info, lines, numbers)
        language = named[1].lower() if (named := _LANGUAGE.match(info)) else ""
        code = _INCLUDE.sub("", token.content)
        language = "diff" if REMOVED.search(code) else language
        if "twoslash" in info:
            code = fill_snippets(code, self._environment.get("snippets", {}))
        code = _strip_blank_lines(show_rust(code) if language == "rust" else code)
        if language == "package-install" and code and not _INSTALLER.match(code):
            code = f"npm i {code}"
        code = strip_twoslash(code).strip("\n") if " twoslash" in info else code
        # Its lines are counted from its first one that is not blank.
        start += next((number for number, line in enumerate(lines) if line.strip()), 0)
        block = Block("code", code, language=_LANGUAGES.get(language, language), start_line=start, end_line=end)
        label = _find_label(info, is_tab=group in _CODE_GROUPS)
        if not code:
            return ()
        return [Block("tab", label, (block,), start_line=start, end_line=end)] if label else [block]

    def _keep_snippet(self, info: str, code: str) -> bool:
        """Keep code that is there for other code of the page: true if it is such."""
        if snippet := _SNIPPET.match(info):
            self._environment.setdefault("snippets", {})[snippet[1]] = code.rstrip("\n")
        return snippet is not None

    def _read_indented(self, mark: str, info: str, lines: list[str], numbers: list[int]) -> Sequence[Block]:
        quoted = _QUOTED.search(info)
        title = quoted[2] or quoted[3] if quoted else ""
        name = "tab" if mark.startswith("=") else info.split(maxsplit=1)[0].strip("\"'")
        if mark.startswith("?") and name not in ADMONITIONS:
            name = "details"
        return self._wrap(name, title or (info if name == "tab" else ""), self.read(lines, numbers), numbers)

    def _read_container(self, info: str, lines: list[str], numbers: list[int]) -> Sequence[Block]:
        """Read a container of VitePress, Docusaurus or Quarto: `::: name Title`, `:::name[Title]`."""
        match = _CONTAINER.match(info) if info else None
        if match is None:
            return self.read(lines, numbers)
        name = match[1].lower()
        attribute = _TITLE_ATTRIBUTE.search(info)
        title = attribute[1] if attribute else _BRACES.sub("", info if info.startswith("{") else match[2])
        title = title.strip().strip("[]\"'{}")
        blocks = self._read_tabs(lines, numbers) if _TABS.search(name) else self.read(lines, numbers, name)
        if name == _HEADED_TABS:
            blocks = split_tabs(blocks)
        return self._wrap(name, title, blocks, numbers)

    def _read_tabs(self, lines: Sequence[str], numbers: Sequence[int]) -> tuple[Block, ...]:
        """Return tabs, each of which begins with a line `== Label` or `@tab Label`."""
        labels = find_tabs(lines)
        starts = list(labels)
        blocks = self.read(lines[: starts[0]], numbers) if starts else self.read(lines, numbers)
        for start, end in pairwise([*starts, len(lines)]):
            tab = self.read(lines[start + 1 : end], numbers[start + 1 : end])
            blocks += tuple(self._wrap("tab", labels[start], tab, numbers[start:end]))
        return blocks

    def _wrap(self, name: str, title: str, blocks: tuple[Block, ...], numbers: Sequence[int]) -> Sequence[Block]:
        """Return what a container holds as the block that its name says; one that is not known only holds others."""
        title = self._clean(title)
        kind = _LABELLED.get(name) or ("tab" if " " in title else None)
        if version := VERSIONS.get(name.replace("-", "")):
            kind = "admonition"
            title = f"{version} {title}"
        elif name in ADMONITIONS:
            kind = "admonition"
            title = title or _get_title(name)
        if kind is None or not title:
            return blocks
        return [Block(kind, title, blocks, start_line=numbers[0], end_line=numbers[-1])]

    def _read_directive(self, name: str, argument: str, lines: list[str], numbers: list[int]) -> Sequence[Block]:
        """Read a directive of MyST: one that is not known keeps its text."""
        body, body_numbers = skip_options(lines, numbers)
        code = _strip_blank_lines("\n".join(body))
        options = "\n".join(lines[: len(lines) - len(body)])
        if is_hidden(name, argument, options):
            return ()
        if name == "parsed-literal":
            code = "\n".join(line[: len(line) - len(line.lstrip())] + to_plain(self._clean(line)) for line in body)
            code = _strip_blank_lines(code)
        if name in CODES or name in CELLS or (self._has_cells and name not in ADMONITIONS):
            return self._read_cell(name, argument, options, code, numbers)
        if name in ("csv-table", "list-table"):
            return self._read_table_directive(name, argument, options, body, body_numbers)
        if name == "eval-rst" and self._read_rst is not None and body_numbers:
            # Above it are as many lines as in the document.
            return self._read_rst("\n" * (body_numbers[0] - 1) + code, self._environment["labels"])
        if name == "glossary":
            return self._read_glossary(body, body_numbers)
        body = list_names(body) if name == "autosummary" else body
        if name in CARDS:
            body = ["" if CARD_RULE.match(line) else line for line in body]
        # Of what a domain describes, an option that is a sentence is shown, and what is in quotes.
        shown = SHOWN_OPTION.findall(options) if ":" in name else []
        sentences = [sentence for _, sentence, _ in shown if sentence]
        facts = [f"{option}: {value}" for option, _, value in shown if value]
        body = [*sentences, "", "; ".join(facts), "", *body]
        body_numbers = [*[numbers[0]] * (len(sentences) + 3), *body_numbers]
        name, title, argument = name_directive(name, argument)
        blocks = self.read([argument, "", *body], [numbers[0], numbers[0], *body_numbers])
        return self._wrap(name, title, blocks, numbers)

    def _read_cell(self, name: str, argument: str, options: str, code: str, numbers: Sequence[int]) -> Sequence[Block]:
        """Read code, or a cell whose name says its language, below what is said of it."""
        default = self._kernel if name == "code-cell" else ""
        language = name if name in CELLS else find_language(name, argument, default)
        options_of_cell = _CELL_OPTIONS.match(code) if name in CELLS else None
        if options_of_cell:
            code = "" if _HIDDEN_CELL.search(options_of_cell[0]) else code[options_of_cell.end() :].strip("\n")
        block = Block("code", code, language=language, start_line=numbers[0], end_line=numbers[-1])
        if not code:
            return ()
        caption = CAPTION_OPTION.search(options)
        return self._wrap("tab", caption[1], (block,), numbers) if caption else [block]

    def _read_glossary(self, lines: Sequence[str], numbers: Sequence[int]) -> Sequence[Block]:
        """Read terms, one a line, of which one or several have their meaning below them, indented."""
        lines = dedent("\n".join(lines)).split("\n")
        blocks: list[Block] = []
        terms: list[str] = []
        starts = [number for number, line in enumerate(lines) if line[:1].strip()]
        for start, end in pairwise([*starts, len(lines)]):
            # What a term is sorted by is not shown.
            terms.append(self._clean(lines[start].partition(" : ")[0]))
            body = dedent("\n".join(lines[start + 1 : end]))
            if body.strip() or end == len(lines):
                children = self.read(body.split("\n"), numbers[start + 1 : end]) if body.strip() else ()
                term = ", ".join(terms)
                terms = []
                blocks.append(Block("definition", term, children, start_line=numbers[start], end_line=numbers[end - 1]))
        return blocks

    def _read_table_directive(
        self, name: str, title: str, option_lines: str, body: list[str], numbers: list[int]
    ) -> Sequence[Block]:
        """Read a table whose rows are those of a CSV file, or lists in a list."""
        options = dict(re.findall(r":([\w-]+):[ \t]*(.*)", option_lines))
        if name == "csv-table":
            table_rows = csv.reader([options.get("header", ""), *body], skipinitialspace=True)
            rows = [[self._clean(cell) for cell in row] for row in table_rows]
        else:
            items = [item for block in self.read(body, numbers) for item in block.children]
            rows = [[join_texts([cell]) for cell in inner.children] for item in items for inner in item.children]
            rows = [[], *rows] if options.get("header-rows") == "0" else rows
        if not rows or not numbers:
            return ()
        table = replace(
            make_table([row for row in rows if row or row is rows[0]]), start_line=numbers[0], end_line=numbers[-1]
        )
        title = self._clean(title)
        caption = Block("paragraph", f"{title}:", start_line=numbers[0], end_line=numbers[0])
        return [caption, table] if title else [table]


def _strip_margin(line: str, margin: int) -> str:
    """Return a line without a margin; of one that has less, without what it has."""
    return line[min(margin, len(line) - len(line.lstrip())) :]


def _iter_groups(tokens: Sequence[Token]) -> Iterator[tuple[Token, Sequence[Token]]]:
    """Yield each token that stands beside others, with those up to the one that closes it."""
    position = 0
    while position < len(tokens):
        token = tokens[position]
        end = position
        while token.nesting == 1 and (tokens[end].nesting != -1 or tokens[end].level != token.level):
            end += 1
        yield token, tokens[position + 1 : end]
        position = end + 1


def _find_label(info: str, *, is_tab: bool) -> str:
    """Return what a site shows above code, `js title="a.js"` and `bash [npm]`; of a tab also `bash npm`."""
    named = _TITLE_ATTRIBUTE.search(info) or _BRACKETED_TITLE.search(info)
    label = named[1] if named else info.partition(" ")[2].strip() if is_tab else ""
    # The name of a file may have signs that would be markup.
    return label if to_plain(label) == label and "<" not in label else write_code(label)


def _get_title(name: str) -> str:
    return ADMONITIONS.get(name.lower(), name.capitalize())


def _strip_blank_lines(code: str) -> str:
    lines = [line.rstrip() for line in strip_hidden(code).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    start = next((number for number, line in enumerate(lines) if line), 0)
    return "\n".join(lines[start:])
