"""Rewrites what stands around Markdown as lines of it: front matter, MDX, and the tags of templates.

A component becomes a tag of HTML on a line of its own, with nothing but its label. All patterns are linear, for
documents are foreign text.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.markup.attributes import (
    describe_field,
    find_code,
    find_commands,
    find_strings,
    read_attributes,
    show_attributes,
    show_objects,
    split_fields,
    strip_objects,
)
from core.markup.component_tokens import TOKEN
from core.markup.front_matter import read_front_matter, read_scalars
from core.markup.hidden_code import MDX_BLOCK, unwrap_mdx
from core.markup.inline import is_formula
from core.markup.templates import show_escaped

# Nobody writes inline code, or a tag of a template, that is longer.
MAX_SPAN_CHARS = 2000
# A picture or a font in the text itself: as long as a book, and nothing to read.
_EMBEDDED_DATA = re.compile(r"data:[\w/+.-]{1,100}(?:;[\w=.-]{1,100}){0,5};base64,[A-Za-z0-9+/%=_-]{500,}")

# The head of a table whose columns have no names, as that of redcarpet may be written, above its rule.
_BARE_HEAD = re.compile(
    r"^[ \t]{0,20}\|[ \t]{0,20}\n(?=(:?-{3,20}:?[ \t]{0,20}(?:\|[ \t]{0,20}:?-{3,20}:?[ \t]{0,20}){1,20})\|?$)",
    re.MULTILINE,
)

# Braces within braces, which nobody nests deeper.
_MAX_BRACES = 6
_BRACES = re.compile(r"\{(?>(?:[^{}]+|" * _MAX_BRACES + r"\{[^{}]*\}" + r")*)\}" * _MAX_BRACES)
_REST_OF_TAG = re.compile(
    rf"(?>(?:[^<>\"'{{}}]+|\"[^\"]{{0,{MAX_SPAN_CHARS}}}\"|'[^']{{0,{MAX_SPAN_CHARS}}}'|{_BRACES.pattern})*)>"
)
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[\w.+-]{1,60}")
_CODE_TEMPLATES = frozenset(("highlight", "code-toggle"))
_HIGHLIGHT_END = re.compile(r"\{(?:%|\{[%<])-?[ \t]*(?:/|end)[ \t]*(?:highlight|code-toggle)\b[^{}\n]*\}\}?")
_ITEM_START = re.compile(r"[ \t]*+(?>(?:[-*+:]|\d{1,9}[.)])[ \t]++)*")
# What is kept by a name, and handed to what is included below.
_CAPTURE_END = re.compile(r"\{%-?[ \t]*endcapture\b[^{}\n]*%\}")
_HANDED = re.compile(r"([\w-]{1,60})=([A-Za-z_][\w-]{0,80})(?=[\s%]|$)")
_COMMENT_END = re.compile(r"\{(?:%|\{[%<])-?[ \t]*(?:/|end)[ \t]*comment\b[^{}\n]*\}\}?")
_CLOSING_TEMPLATE = re.compile(r"\{(?:%|\{[%<])-?[ \t]*+(?:/|end)[ \t]*+([A-Za-z][\w-]*+)")
# Code that a component has as a string, and what says its language.
_CODE_STRING = re.compile(r"\s*\{\s*`((?:[^`\\]|\\.){0,20000})`\s*\}\s*(?=</)", re.DOTALL)
_CODE_LANGUAGE = re.compile(r"\blanguage-([\w+#-]+)|\blang(?:uage)?=[{\"'`]*([\w+#-]+)")
_STRING = re.compile(r"\{\s*+(?:\"([^\"]{0,2000})\"|'([^']{0,2000})'|`([^`]{0,2000})`)\s*+\}")
_NUMBER = re.compile(r"\{\s*(-?\d[\d.]{0,30})\s*\}")
# A constant of a page of MDX, whose value it shows by its name.
_CONSTANT = re.compile(
    r"^export const (\w{1,80})(?::[ ]?\w{1,30})? = "
    r"(?:\"([^\"\n]{0,500})\"|'([^'\n]{0,500})'|`([^`$\n]{0,500})`|(-?\d[\d.]{0,30}));?$",
    re.MULTILINE,
)
_NAME = re.compile(r"\{{1,3}\s*\.?(?:[A-Za-z_$][\w$]*\.)*([A-Za-z_$][\w$]*)\s*\}{1,3}")
_TAG_OR_END = re.compile(r"[^\S\n]*+(?:<|\{[{%]|\n|\Z)")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
# What Markdown reads up to their end.
_RAW_TAGS = frozenset(("pre", "script", "style", "textarea"))
_ONLY_TAGS = re.compile(r"(?:</?(?!pre\b)[a-z][^<>]{0,300}>[ ]?){1,9}")
# What holds blocks, or stands between them.
_BLOCK_TAGS = frozenset(
    """
    address article aside blockquote br center dd details div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header hr
    li main nav ol p section summary table tbody td tfoot th thead tr ul
    """.split()  # noqa: SIM905 (one word a line would hide the code)
)
_INLINE_TAGS = frozenset("a abbr b em i ins kbd mark small span strong sub sup u".split())  # noqa: SIM905 (as above)
# What describes a parameter, or a field of a response.
_FIELD = re.compile(r"(?:Field|Param|Parameter|Property|Prop|Argument)$")
# What can be a block without others around it.
_TEXT_TAGS = frozenset(("article", "aside", "div", "figcaption", "p", "section"))
_MIXED = re.compile(r"\smarkdown(?:=[\"']?(?:1|span|block)\b|[\s>])")
_LINE_END = re.compile(r"[ \t]*+$", re.MULTILINE)
_LINE_BREAKS = re.compile(r"\n\s*")
_PAGE = re.compile(r"\s+(?:link|to|href)=\"(?!https?:|#)([\w./#-]{1,300})\"\s*/>")
_EVENT = re.compile(r"\s@[\w.:-]{1,60}=(?:\"[^\"]{0,500}\"|'[^']{0,500}')")
_SLOT = re.compile(r"\s+(?:#|v-slot)")
_SCRIPTS = frozenset(("script", "style"))
# What stands behind the tag that ends a block, and is none of it.
_STRAY_END = re.compile(r"[ \t]*+[.,;:][ \t]*+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MarkdownSource:
    """Lines of Markdown with their 1-based `numbers` in the document, and the title that its front matter gives."""

    lines: list[str]
    numbers: list[int]
    title: str = ""
    title_line: int = 0
    is_mdx: bool = False


def read_source(text: str, *, is_mdx: bool = False, generator: str = "") -> MarkdownSource:
    """Return a document as lines of Markdown without front matter, comments, and the syntax of MDX and templates.

    What is not known to be MDX is read as such where it uses it.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\u00ad", "")
    text = _EMBEDDED_DATA.sub("data:,", text) if ";base64," in text else text
    text = _BARE_HEAD.sub(lambda head: "|" * (head[1].count("|") + 2) + "\n", text)
    lines = text.split("\n")
    lines = list(unwrap_mdx(lines)) if MDX_BLOCK in text else lines
    first_line, title, title_line = read_front_matter(lines)
    body = "\n".join(lines[first_line - 1 :])
    # As a page of Docusaurus names them.
    values = {f"frontMatter.{name}": value for name, value in read_scalars(lines[: first_line - 1]).items()}
    rewriter = _Rewriter(body, first_line, is_mdx=is_mdx, values=values, generator=generator)
    rewriter.run()
    if rewriter.has_components and not is_mdx:
        rewriter = _Rewriter(body, first_line, is_mdx=True, values=values, generator=generator)
        rewriter.run()
    return MarkdownSource(rewriter.lines, rewriter.numbers, title, title_line, rewriter.is_mdx)


def _make_fence(code: str) -> str:
    return "`" * (max(2, *map(len, re.findall("`*", code))) + 1)


@dataclass(slots=True)
class _Rewriter:
    """Goes through a text once; `has_components` says afterwards whether it is MDX."""

    text: str
    number: int
    is_mdx: bool
    values: Mapping[str, str]
    generator: str = ""
    has_components: bool = False
    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    _line: str = ""
    # What follows in a line that has begun: adding to a long text would copy it each time.
    _tail: list[str] = field(default_factory=list)
    # Blanks that follow a tag are no indent.
    _is_after_tag: bool = False
    _line_number: int = 0
    _checked_line: tuple[int, int, bool] = (0, -1, False)
    _closed: frozenset[str] = frozenset()
    _unclosed: set[str] = field(default_factory=set)
    _has_mixed: bool = False
    # The components that were opened within a line.
    _inline_names: Counter[str] = field(default_factory=Counter)
    # Of the tabs that were opened last: their labels by their names.
    _tab_labels: dict[str, str] = field(default_factory=dict)
    _constants: Mapping[str, str] = field(default_factory=dict)
    _handed: frozenset[str] = frozenset()
    _captured: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        self._closed = frozenset(_CLOSING_TEMPLATE.findall(self.text))
        handed = _HANDED.findall(self.text) if "endcapture" in self.text else ()
        self._handed = frozenset(name for _, name in handed)
        self._line_number = self.number
        constants = {name: "".join(values) for name, *values in _CONSTANT.findall(self.text)}
        self._constants = {**self.values, **constants}
        position = 0
        while token := TOKEN.search(self.text, position):
            self._emit(self.text[position : token.start()])
            position = self._rewrite(token)
        self._emit(self.text[position:])
        self._end_line()

    def _emit(self, text: str) -> None:
        first, *others = text.split("\n")
        self._append(first)
        if others:
            self.lines += [self._line + "".join(self._tail), *others[:-1]]
            self._tail = []
            self._is_after_tag = False
            self.numbers += [self._line_number, *range(self.number + 1, self.number + len(others))]
            self.number += len(others)
            self._line_number = self.number
            self._line = others[-1]

    def _append(self, text: str) -> None:
        if self._is_after_tag:
            text = text.lstrip(" \t")
            self._is_after_tag = not text
        if len(self._line) > MAX_SPAN_CHARS and not self._line.isspace():
            self._tail.append(text)
        else:
            self._line += text

    def _skip(self, text: str) -> None:
        self.number += text.count("\n")
        if not self._line.strip():
            self._line_number = self.number

    def _end_line(self) -> None:
        self.lines.append(self._line + "".join(self._tail))
        self.numbers.append(self._line_number)
        self._tail = []
        self._line = ""
        self._line_number = self.number

    def _rewrite(self, token: re.Match[str]) -> int:
        """Emit what stands for a token, and return where the text goes on."""
        if token["fence"] or token["ticks"] or token["formula"]:
            above = self.lines[-1].strip() if token["fence"] and self.lines and ">" not in token["lead"] else ""
            if above and (self.is_mdx or _ONLY_TAGS.fullmatch(above)):
                # Code ends what is above it: also HTML, which Markdown reads up to a blank line, and at any indent.
                self._end_line()
            end = self._find_code_end(token)
            self._emit(show_escaped(self.text[token.start() : end], self.generator))
            return end
        if token["comment"]:
            return self._skip_comment(token)
        if definition := token["definition"]:
            # Where it leads is not known; without an address, the definition below would be that.
            self._emit(f"{definition}#")
        elif token["helper"]:
            return self._rewrite_helper(token)
        elif token["note"] or token["line_note"]:
            # A note for editors.
            self._skip(token[0])
        elif token["template"]:
            return self._rewrite_template(token)
        elif token["fragment"]:
            # In MDX it holds others, and is nothing itself.
            self._emit("" if self.is_mdx else token[0])
        else:
            return self._rewrite_tag(token) if token["tag"] else self._rewrite_script(token)
        return token.end()

    def _find_code_end(self, token: re.Match[str]) -> int:
        if fence := token["fence"]:
            closing = re.compile(rf"^[ \t>]*{fence}[`~]*[ \t]*$", re.MULTILINE).search(self.text, token.end())
            return closing.end() if closing else len(self.text)
        if formula := token["formula"]:
            # Braces in it are those of TeX.
            return token.end() if is_formula(formula.strip("$")) else token.start() + 1
        limit = token.end() + MAX_SPAN_CHARS
        span_end = re.compile(f"(?<!`){token['ticks']}(?!`)").search(self.text, token.end(), limit)
        if span_end is None or _BLANK_LINE.search(self.text, token.end(), span_end.start()):
            return token.end()
        return span_end.end()

    def _skip_comment(self, token: re.Match[str]) -> int:
        mark = token["comment"]
        closing_mark = "-->" if mark == "<!--" else "*/}"
        self.has_components |= mark != "<!--"
        end = -1 if mark in self._unclosed else self.text.find(closing_mark, token.end())
        # What is indented may be code: the parser knows.
        if end < 0 or (not self.is_mdx and self._line.startswith("    ") and not self._line.strip()):
            self._unclosed |= {mark} if end < 0 else set()
            self._emit(mark)
            return token.end()
        end += len(closing_mark)
        self._skip(self.text[token.start() : end])
        return end

    def _rewrite_tag(self, token: re.Match[str]) -> int:
        name = token["tag"]
        is_component = name[0].isupper() or "." in name
        rest = _REST_OF_TAG.match(self.text, token.end())
        code = None
        if rest is not None:
            code = _CODE_STRING.match(self.text, rest.end()) if is_component else None
            # A string of several lines is code in any component.
            code = code if code and ("code" in name.lower() or "\n" in code[1].strip()) else None
            starts_block = is_component and self._is_at_start() and (code or self._ends_line(rest.end()))
            self.has_components |= bool(starts_block) or "={" in rest[0]
        if rest is not None and (text := self._find_shown(name, rest)) is not None:
            self._append(text)
            self._skip(rest[0])
            return rest.end()
        if name.lower() in _SCRIPTS and not token["close"] and (end := self._find_script_end(token)):
            # What is in it looks like Markdown, or like a module.
            self._skip(self.text[token.start() : end])
            return end
        is_plain = name in _BLOCK_TAGS and "{" not in (rest[0] if rest else "")
        if (
            rest is not None
            and is_plain
            and self._mixes_markdown(name, rest)
            and (not self._line.strip() or token["close"])
        ):
            # So the text in it is Markdown, and what is below it.
            self._emit(f"{self.text[token.start() : rest.end()]}\n\n")
            self.number -= 2
            self._line_number = self.number
            return rest.end()
        if rest is None or not self.is_mdx or name.lower() in _RAW_TAGS:
            self._emit(token[0])
            return token.end()
        if code:
            return self._rewrite_code(rest[0], code)
        if is_component or "{" in rest[0]:
            self._emit_component(rest.end(), name, bool(token["close"]), rest[0])
        else:
            # On one line, for a line that begins with its end would be a quotation.
            self._append(token[0] + _LINE_BREAKS.sub(" ", rest[0]))
        self._skip(rest[0])
        return rest.end()

    def _find_shown(self, name: str, rest: re.Match[str]) -> str | None:
        """Return what a tag shows without being one; None for the others.

        Vue only puts what a slot holds into its place. Within a sentence, a component that leads to a page shows its
        title.
        """
        page = _PAGE.fullmatch(rest[0]) if name[0].isupper() else None
        if page and not (self._is_at_start() and self._ends_line(rest.end())):
            return f"[]({page[1]})"
        if name[0].islower() and _EVENT.search(rest[0]):
            # With such an attribute, it would be no tag for Markdown.
            return f"<{name} {' '.join(_EVENT.sub('', rest[0]).split())}"
        return "" if name == "template" and _SLOT.match(rest[0]) else None

    def _mixes_markdown(self, name: str, rest: re.Match[str]) -> bool:
        """Return whether a tag holds Markdown: in MDX, for kramdown or Python-Markdown, or in a page that has such."""
        is_mixed = _MIXED.search(rest[0]) is not None
        self._has_mixed |= is_mixed
        if is_mixed and name in _TEXT_TAGS:
            return True
        return (self._has_mixed or self.is_mdx) and _LINE_END.match(self.text, rest.end()) is not None

    def _emit_component(self, position: int, name: str, is_closing: bool, attributes: str) -> None:
        """Emit a component with what its attributes hold: a table, or its items, each as a card."""
        bare, objects = strip_objects(attributes)
        shown = show_attributes(bare)
        if _FIELD.search(name):
            shown["title"] = describe_field(shown["title"], attributes)
        if name in ("Tab", "TabItem"):
            shown["title"] = self._tab_labels.get(shown["title"], shown["title"])
        elif name == "Tabs":
            values = [read_attributes(text) for _, text, _ in objects]
            items = {item.lower(): item for item in shown["items"].split("|")}
            self._tab_labels = {each.get("value", ""): each.get("label", "") for each in values} | items
            objects = []
        elif objects and shown["title"] == read_attributes(bare).get("name"):
            # It names what the items are of, and is not shown.
            shown["title"] = ""
        self._emit_tag(position, name, is_closing, shown)
        fields, lines, objects = ([], [], objects) if self._line.strip() else split_fields(objects)
        self._emit_table(fields, [self.number + line for line in lines])
        for tool, command in find_commands(attributes):
            self._emit_tag(position, "tab", False, {"title": tool})
            self._emit_code(command, "lang=bash", self._line)
            self._emit_tag(position, "tab", True, {})
        for code in find_code(attributes) if not self._line.strip() else ():
            self._emit_code(code, attributes, self._line)
        for item in show_objects(objects):
            self._emit_tag(position, "card", False, item)

    def _rewrite_code(self, attributes: str, code: re.Match[str]) -> int:
        """Emit what a component shows as code, at the indent of its tag."""
        indent = self._line[: len(self._line) - len(self._line.lstrip())]
        if self._line.strip():
            self._end_line()
        text = code[1].replace("\\`", "`").rstrip("\n")
        self._skip(attributes)
        first_number = self.number + code[0].count("\n", 0, code.start(1) - code.start())
        self._line = ""
        self._end_line()
        self._emit_code(text, attributes, indent, first_number)
        self._skip(code[0])
        self._line_number = self.number
        return code.end()

    def _emit_code(self, code: str, attributes: str, indent: str, first_number: int = 0) -> None:
        """Emit code in fences; without the number of its first line, all its lines have that of the tag."""
        language = _CODE_LANGUAGE.search(attributes)
        fence = _make_fence(code)
        info = next(filter(None, language.groups()), "") if language else ""
        for number, line in enumerate((f"{fence}{info}", *code.split("\n"), fence), first_number - 1):
            self._line = indent + line
            self._line_number = number if first_number else self._line_number
            self._end_line()
        self._line = indent

    def _rewrite_template(self, token: re.Match[str]) -> int:
        """Emit a tag of Jekyll, Hugo or GitBook; what is highlighted is code, and comments are left out."""
        name = token["block"]
        arguments = token["arguments"].strip()
        if name == "comment" and not token["end"] and name not in self._unclosed:
            if closing := _COMMENT_END.search(self.text, token.end()):
                self._skip(self.text[token.start() : closing.end()])
                return closing.end()
            self._unclosed.add(name)
        if name == "capture" and not token["end"] and arguments in self._handed and name not in self._unclosed:
            if closing := _CAPTURE_END.search(self.text, token.end()):
                self._captured[arguments] = self.text[token.end() : closing.start()].strip()
                self._skip(self.text[token.start() : closing.end()])
                return closing.end()
            self._unclosed.add(name)
        if name == "include" and any(each in self._captured for _, each in _HANDED.findall(arguments)):
            return self._emit_captured(token)
        if name in _CODE_TEMPLATES and not token["end"] and not arguments.endswith("/") and name not in self._unclosed:
            if closing := _HIGHLIGHT_END.search(self.text, token.end()):
                code = self.text[token.end() : closing.start()].rstrip()
                fence = _make_fence(code)
                language = arguments.partition(" ")[0]
                # What an item of a list holds ends within it.
                margin = " " * len(self._line) if _ITEM_START.fullmatch(self._line) else ""
                self._emit(f"{fence}{'' if '=' in language else language}{code}\n{margin}{fence}")
                return closing.end()
            self._unclosed.add(name)
        # The label of code is but a name, to which a part of the text refers by its lines.
        is_shown = not (name.lower().endswith("code") or "line=" in arguments) or "label=" not in arguments
        attributes = show_attributes(arguments if is_shown else "")
        label = next(iter(find_strings(arguments)), arguments if name == "tab" and _WORD.fullmatch(arguments) else "")
        # Of what nothing closes, as of marks for the code below, it is none.
        attributes["end"] = "" if name in self._closed else "1"
        if name in self._closed and "=" not in arguments and "/" not in label and not label.endswith((".md", ".html")):
            attributes["title"] = label
        stray = _STRAY_END.match(self.text, token.end()) if token["end"] and not self._line.strip() else None
        end = stray.end() if stray else token.end()
        self._emit_tag(end, name, bool(token["end"]), attributes)
        self._skip(token[0])
        return end

    def _emit_captured(self, token: re.Match[str]) -> int:
        """Emit what is handed to an include: code for one of code, with what it is handed as for a label."""
        is_code = "code" in token["arguments"].split()[0]
        for label, name in _HANDED.findall(token["arguments"]):
            text = self._captured.get(name, "")
            if is_code and text:
                self._emit_tag(token.end(), "tab", False, {"title": label})
                self._emit_code(text, "", self._line)
                self._emit_tag(token.end(), "tab", True, {})
            for line in ("", *text.split("\n"), "") if text and not is_code else ():
                self._append(line)
                self._end_line()
        self._skip(token[0])
        return token.end()

    def _rewrite_helper(self, token: re.Match[str]) -> int:
        """Emit the words that are handed to a preprocessor, such as mdman; what it, or a function, makes is not known.

        They are a paragraph where they begin a block.
        """
        starts_block = token["words"].startswith("#") and self._is_at_start() and self._ends_line(token.end())
        words = [] if token["call"] else find_strings(token["words"])
        self._skip(token[0])
        self._append(" ".join(filter(_LETTER.search, words)))
        if starts_block and self._line.strip():
            self._end_line()
        return token.end()

    def _find_script_end(self, token: re.Match[str]) -> int:
        """Return where a script ends that begins a line, or 0 where it has no end, or may be code."""
        name = token["tag"].lower()
        may_be_code = not self.is_mdx and self._line.startswith("    ")
        if name in self._unclosed or may_be_code or self._line.strip():
            return 0
        closing = f"</{name}>"
        end = self.text.find(closing, token.end())
        self._unclosed |= {name} if end < 0 else set()
        return end + len(closing) if end >= 0 else 0

    def _is_at_start(self) -> bool:
        return not self._line.strip(" \t>-*+")

    def _ends_line(self, position: int) -> bool:
        """Return whether nothing follows on a line, or text up to a tag."""
        start, end, ends_with_tag = self._checked_line
        if not start <= position <= end:
            end = self.text.find("\n", position)
            end = end if end >= 0 else len(self.text)
            ends_with_tag = self.text[position:end].rstrip().endswith((">", "%}", "}}"))
            self._checked_line = (position, end, ends_with_tag)
        return ends_with_tag or _TAG_OR_END.match(self.text, position) is not None

    def _emit_tag(self, position: int, name: str, is_closing: bool, attributes: Mapping[str, str]) -> None:
        """Emit a tag on a line of its own; one within a sentence or a row leaves no trace but its own text."""
        # A value of several lines would be so many of the document.
        attributes = {key: " ".join(value.split()) for key, value in attributes.items()}
        is_row = self._line.lstrip().startswith("|")
        ends_inline = is_closing and self._inline_names[name] > 0
        begins_text = name in _INLINE_TAGS and not is_closing and not _TAG_OR_END.match(self.text, position)
        is_inline = ends_inline or is_row or begins_text or not self._ends_line(position)
        if is_inline or not (is_closing or self._is_at_start()):
            self._inline_names[name] += 0 if attributes.get("end") else -ends_inline if is_closing else 1
            text = html.escape(attributes["text"], quote=False) if attributes.get("end") else ""
            # What a line begins with within a tag of HTML begins no block.
            self._append(text or ("<span>" if begins_text and self._is_at_start() else ""))
            if self._line.strip() == ":" and self._ends_line(position):
                # A definition that holds nothing else is none.
                self._line = ""
            return
        if attributes.get("end") and self._line.strip(" \t>"):
            # It is all that an item of a list has.
            texts = filter(None, (attributes.get("title"), attributes.get("text")))
            self._append(html.escape(": ".join(texts), quote=False))
            return
        lead = self._line[: len(self._line) - len(self._line.lstrip())]
        indent = lead
        if self._line.strip() and _ITEM_START.fullmatch(self._line):
            # What an item begins with is in it.
            lead, indent = self._line, " " * len(self._line)
        else:
            if self._line.strip():
                self._end_line()
            # It would be part of the paragraph above.
            if self.lines and self.lines[-1].strip():
                self._line = ""
                self._end_line()
        shown = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items() if value)
        tag = re.sub(r"[^a-z0-9-]", "-", name.rpartition(".")[2].lower())
        # In HTML, code is a part of a line.
        tag = "code-block" if tag == "code" else tag
        # A blank line ends what Markdown reads as HTML.
        self._line = f"{lead}</{tag}>" if is_closing else f"{lead}<{tag}{shown}>"
        self._end_line()
        self._end_line()
        self._line = indent
        self._is_after_tag = True

    def _emit_table(self, rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> None:
        """Emit rows with the numbers of their lines, below the names of their columns."""
        indent = self._line if not self._line.strip() else ""
        lines = (*rows[:1], *(["---"] * len(row) for row in rows[:1]), *rows[1:])
        for row, number in zip(lines, (self.number, self.number, *numbers), strict=False):
            self._line = f"{indent}| {' | '.join(row)} |"
            self._line_number = number
            self._end_line()
        if rows:
            self._end_line()
            self._line = indent

    def _rewrite_script(self, token: re.Match[str]) -> int:
        """Leave out a module's import or export; of an expression, keep the text or the name that it shows."""
        if token["module"]:
            is_block = not self.lines or not self.lines[-1].strip()
            self.has_components |= is_block
            if self.is_mdx and is_block:
                end = self._find_module_end(token)
                self._skip(self.text[token.start() : end])
                return end
        braces = None
        if self.is_mdx and token["expression"] == "{":
            # Braces in a string open and close nothing.
            braces = _STRING.match(self.text, token.start()) or _BRACES.match(self.text, token.start())
        if braces is None or braces[0][1:2] in ("#", ".", ":"):
            self._emit(token[0])
            return token.end()
        shown = _STRING.fullmatch(braces[0]) or _NUMBER.fullmatch(braces[0])
        name = _NAME.fullmatch(braces[0])
        value = self._constants.get(braces[0][1:-1].strip(), name[1] if name else "")
        text = next(filter(None, shown.groups()), "") if shown else value
        # A string is text, also where it looks like a tag.
        text = text.replace("<", "&lt;")
        self._skip(braces[0])
        self._append(text.replace("\n", " "))
        return braces.end()

    def _find_module_end(self, token: re.Match[str]) -> int:
        """Return where a statement ends: at a blank line outside of brackets, at the latest at the end."""
        depth = 0
        position = token.start()
        first_blank = 0
        while position < len(self.text):
            line_end = self.text.find("\n", position)
            line_end = len(self.text) if line_end < 0 else line_end
            line = self.text[position:line_end]
            if not line.strip():
                first_blank = first_blank or position
                if depth <= 0:
                    return position - 1
            depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
            position = line_end + 1
        return len(self.text) if depth <= 0 or not first_blank else first_blank - 1
