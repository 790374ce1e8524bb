"""docutils, set up to read what Sphinx and its extensions add: no directive or role that it does not know loses text.

No file and no address is opened: what includes files was expanded before, or is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Directive, Parser, directives, roles, states
from docutils.parsers.rst.directives.tables import CSVTable
from docutils.statemachine import StringList
from docutils.utils import new_document

from core.markup.directives import CARD_RULE, CARDS, CODES, LANGUAGES, SILENT, write_signature
from core.markup.inline import CALLABLE_ROLES, ICON_ROLES, NUMBER_ROLES, SHORT_NAME, is_formula, move_signs
from knowledge.formats.rst_names import (
    ADMONITIONS,
    CODE_ROLES,
    CONTAINERS,
    DOCUTILS_DIRECTIVES,
    OBJECT_ROLES,
    OBJECTS,
    REFERENCE_ROLES,
    TABS,
    VERSIONS,
)

_SUMMARY_NAME = re.compile(r"~?[A-Za-z_]")
_OPTION = re.compile(r":(?!:)([^:\n]+):(?:[ ]+(.*))?$")
# Sphinx describes a class of Python by the directive with which docutils names a style.
_PYTHON_CLASS = re.compile(r"[\w.]*[A-Z.(]")
_HIDDEN_INPUT = (":hide-code:", ":hide-input:")
# A formula as an extension of Sphinx reads it, and what only one has. The backslashes of others are those of an escape.
_MOVED_ROLES = {"sup": "sup", "superscript": "sup", "sub": "sub", "subscript": "sub"}
_DOLLARS = re.compile(r"(``[^`]*``|`[^`]*`)|(?<![\\$\w])\${1,2}(?![\s$])([^$`]{1,300})(?<![\s\\])\${1,2}(?![$\w({])")
_TEX = re.compile(r"\\[A-Za-z]{2}|\\\{")
# Where a role leads to, behind what it shows. What is not known to refer to a title may be a name with a place in it:
# `OUTPUT_NAME_<CONFIG>`.
_TARGET = re.compile(r"(.+)<[^<>]*>|(.*\S)\s+<(?>(?:[^<>]|<[^<>]*>)*)>", re.DOTALL)
_PLACE = re.compile(r".*[^\s\w)]<[^<>]*>|.*_<[^<>]*>", re.DOTALL)
# docutils reads nothing of a document with a longer line; only marks in a text take longer than its length.
_LINE_LENGTH_LIMIT = 1_000_000_000
# Marks that nothing closes take a time that grows with the square of a paragraph: a longer one is text as it stands.
_MAX_INLINE_CHARS = 8_000


def parse(lines: Sequence[str]) -> nodes.document:
    """Return the tree of lines. What docutils does not have is a `container` whose `kind` says what it is."""
    document = new_document("", _set_up().copy())
    # Nothing refers to a heading by its name, and each that stands twice would be a message.
    document.note_implicit_target = lambda *_: None  # type: ignore[method-assign]
    Parser(inliner=_BoundedInliner()).parse("\n".join(lines), document)
    return document


@cache
def _set_up() -> Any:
    """Return the settings of each document.

    From now on, all directives and roles are looked up here, as Sphinx does: docutils accepts those that it has by name
    only.
    """
    settings = get_default_settings(Parser)
    settings.report_level = settings.halt_level = 6
    settings.warning_stream = False
    settings.file_insertion_enabled = settings.raw_enabled = False
    settings.line_length_limit = _LINE_LENGTH_LIMIT
    settings.pep_references = settings.rfc_references = False
    look_up = directives.directive

    def find_directive(name: str, language: Any, document: Any) -> tuple[Any, list[Any]]:
        own_directive = {"list-table": _ListTable, "csv-table": _CSVTable}.get(name.lower())
        if own_directive is None and name.lower() in DOCUTILS_DIRECTIVES:
            return look_up(name, language, document)
        return own_directive or _AnyDirective, []

    vars(directives)["directive"] = find_directive
    vars(roles)["role"] = lambda *_: (_read_role, [])
    states.RSTState.nested_sm = _NestedMachine
    return settings


class _States(dict[str, Any]):
    """The states of a machine by their names, each made when it is asked for: docutils makes fifteen for each list."""

    def __init__(self, machine: Any, classes: Any) -> None:
        super().__init__()
        self._machine = machine
        self._classes = {state.__name__: state for state in classes}

    def __missing__(self, name: str) -> Any:
        state = self[name] = self._classes[name](self._machine)
        if self._machine.input_lines is not None:
            state.runtime_init()
        return state


class _NestedMachine(states.NestedStateMachine):
    """Reads a part of a document."""

    def add_states(self, state_classes: Any) -> None:
        """Make the states that will be needed."""
        self.states = _States(self, state_classes)


class _BoundedInliner(states.Inliner):
    """Reads the marks in a text that is not too long."""

    def init_customizations(self, settings: Any) -> None:
        """Prepare for the settings of a document."""
        # It makes its patterns of what its own class has, without what that one inherits.
        inliner = states.Inliner()
        inliner.init_customizations(settings)
        vars(self).update(vars(inliner))

    def parse(self, text: str, lineno: int, memo: Any, parent: Any) -> tuple[list[Any], list[Any]]:
        """Return the nodes of a text, and what is wrong with it."""
        if len(text) > _MAX_INLINE_CHARS:
            return [nodes.Text(text)], []
        if "$" in text:
            text = _DOLLARS.sub(_write_math, text)
        found_nodes, messages = super().parse(text, lineno, memo, parent)
        return list(found_nodes), list(messages)


def _write_math(match: re.Match[str]) -> str:
    formula = match[2]
    return f":math:`{' '.join(formula.split())}`" if formula and is_formula(formula) else match[0]


def _read_object(role: str, name: str) -> str:
    """Return the name of what is in code as Sphinx shows it, or another text as it stands."""
    name = name.removeprefix(".") if role in OBJECT_ROLES else name
    return f"{name}()" if role in CALLABLE_ROLES and name and not name.endswith(")") else name


def _read_role(
    role: str, _source: str, text: str, _line: int, _inliner: Any, _options: Any = None, _content: Any = None
) -> tuple[list[Any], list[Any]]:
    """Return the text of a role in the form that its name asks for."""
    name = role.lower().rpartition(":")[2]
    content = nodes.unescape(text)
    has_place = name not in REFERENCE_ROLES and _PLACE.fullmatch(content)
    target = None if has_place else _TARGET.fullmatch(content)
    title = (target[1] or target[2]).rstrip() if target else _read_object(name, content.lstrip("!"))
    if name.startswith("raw") or ICON_ROLES.fullmatch(name) or not content:
        return [], []
    tex = nodes.unescape(text, restore_backslashes=True)
    if name == "math" or (not name and _TEX.search(tex)):
        return [nodes.math("", tex)], []
    if name in CODE_ROLES or not name:
        code = title[1:].rpartition(".")[2] if SHORT_NAME.match(title) else title
        return [nodes.literal("", code.translate({ord("{"): None, ord("}"): None}) if name == "samp" else code)], []
    if name in ("strong", "emphasis"):
        return [(nodes.strong if name == "strong" else nodes.emphasis)("", content)], []
    if name in ("guilabel", "menuselection"):
        title = title.replace("&&", "\0").replace("&", "").replace("\0", "&").replace("-->", "→")
    if name in _MOVED_ROLES:
        title = move_signs(title, _MOVED_ROLES[name])
    prefix = NUMBER_ROLES.get(name, "") if title[:1].isdecimal() else ""
    shown = nodes.inline("", prefix + title.lstrip("~"))
    if not target:
        # What the configuration may make a link of.
        shown["role"] = f"{role.lower()}`{content}`"
    if name in ("ref", "numref", "doc") and not target:
        shown["label"] = nodes.fully_normalize_name(content)
    return [shown], []


class _AnyOptions(dict[str, Any]):
    """Options of any name."""

    def __missing__(self, name: str) -> Any:
        return directives.unchanged


def _accept(option_spec: Any) -> _AnyOptions:
    """Return the options of a directive, of which a wrong value is none."""

    def accept(convert: Any, value: str) -> Any:
        with suppress(ValueError, TypeError):
            return convert(value)

    return _AnyOptions({name: partial(accept, convert) for name, convert in option_spec.items() if name != "name"})


class _CSVTable(CSVTable):
    """A table of values; one that cannot be read is code."""

    option_spec = _accept(CSVTable.option_spec)

    def run(self) -> list[Any]:
        try:
            result = list(super().run())
        # Options and values are checked in many places.
        except Exception:
            result = []
        is_table = any(isinstance(node, nodes.table) for node in result)
        return result if is_table or not self.content else [_make_code("\n".join(self.content), "", self.lineno)]


class _AnyDirective(Directive):
    """A directive by any name: its argument, its options and its content, as the name says or as they look."""

    has_content = True

    def run(self) -> list[Any]:
        """Return what a reader of the page sees."""
        full_name = self.name.lower()
        name = full_name.rpartition(":")[2]
        head_size = self._find_head(may_be_below=name not in CONTAINERS and (name in OBJECTS or ":" in full_name))
        head = [line.strip() for line in self.content[:head_size]]
        is_hidden_raw = name == "raw" and ("html" not in head[:1] or isinstance(self.state, states.SubstitutionDef))
        if name in SILENT or is_hidden_raw or (name.startswith("auto") and not self.content):
            return []
        if name == "highlight":
            container = _make_container("highlight", self.lineno)
            container["language"] = " ".join(head).split(" ")[0]
            return [container]
        for number, line in enumerate(self.content) if name in CARDS else ():
            if CARD_RULE.match(line):
                self.content[number] = ""
        if name in ("markdown", "raw"):
            container = _make_container(name, self.lineno)
            lines = self.content[head_size if name == "raw" else 0 :]
            container += _make_code("\n".join(lines), "", self.content_offset + 1)
            return [container]
        if name == "autosummary":
            return self._make_summary(head_size)
        if full_name in CODES or name in CODES:
            return self._make_code(full_name, head_size)
        options_start = next((number for number, line in enumerate(head) if _OPTION.match(line)), len(head))
        parts = self._make_parts(full_name, name, head[:options_start], head_size)
        options = [match for line in head[options_start:] if (match := _OPTION.match(line)) and match[2]]
        facts = [f"{match[1].capitalize()}: {match[2]}" for match in options if match[1] in ("type", "default")]
        if name == "confval" and parts and facts:
            parts[0].insert(1, self._parse_paragraph("; ".join(facts)))
        return parts

    def _make_summary(self, head_size: int) -> list[Any]:
        """Return the names of which Sphinx makes a table."""
        summary = nodes.bullet_list()
        for line in map(str.strip, self.content[head_size:]):
            # Sphinx takes what begins as a name does: other lines are comments.
            if _SUMMARY_NAME.match(line):
                summary += nodes.list_item("", nodes.paragraph(line, "", nodes.literal("", line.strip("~"))))
        return [summary] if summary.children else []

    def _make_parts(self, full_name: str, name: str, argument: list[str], head_size: int) -> list[Any]:
        title = " ".join(argument)
        if name in VERSIONS or name in ADMONITIONS:
            return self._make_admonition(name, argument, head_size)
        is_described = name in OBJECTS and (":" in full_name or _PYTHON_CLASS.match(title))
        if name in CONTAINERS and not is_described:
            container = self._make_container("group", "", head_size)
            if name == "table" and title:
                container[0].insert(0, self._parse_paragraph(title))
            return container
        if name == "glossary":
            return self._make_glossary(head_size)
        if name in TABS:
            return self._make_tab(name, title, head_size)
        if name == "rubric":
            return [nodes.paragraph("", "", nodes.strong("", "", *self._parse_inline(title)))]
        return self._make_definition(full_name, argument, head_size)

    def _find_head(self, *, may_be_below: bool = False) -> int:
        """Return how many of the first lines are the argument, which may begin below the name, and the options."""
        if self.content_offset > self.lineno:
            return 0
        has_argument = may_be_below or self.content_offset == self.lineno - 1
        size = 0
        while size < len(self.content) and self.content[size].strip():
            if not (has_argument or _OPTION.match(self.content[size])):
                break
            size += 1
        return size

    def _make_code(self, full_name: str, head_size: int) -> list[Any]:
        """Return code. Its first line says the language; many forget the empty line below."""
        options_end = 0
        has_argument = self.content_offset == self.lineno - 1
        language = self.content[0].strip() if has_argument and head_size else ""
        lines = list(self.content)
        if language:
            options_end = 1
        while options_end < head_size and _OPTION.match(lines[options_end]):
            options_end += 1
        if any(line.startswith(_HIDDEN_INPUT) for line in map(str.strip, lines[:options_end])):
            return []
        code = "\n".join(line.rstrip() for line in lines[options_end:]).strip("\n")
        fixed_language = LANGUAGES.get(full_name)
        if fixed_language is not None:
            is_command = full_name == "prompt" and language
            language = language.split()[0] if is_command else fixed_language
        return [_make_code(code, language.split()[0].lower() if language else "", self.lineno)] if code else []

    def _make_admonition(self, name: str, argument: list[str], head_size: int) -> list[Any]:
        if name in VERSIONS:
            version, _, text = " ".join(argument).partition(" ")
            container = _make_container("admonition", self.lineno, nodes.Text(f"{VERSIONS[name]} {version}".strip()))
            if text:
                container += self._parse_paragraph(text)
        elif ADMONITIONS[name]:
            container = _make_container("admonition", self.lineno, nodes.Text(ADMONITIONS[name]))
            if argument:
                container += self._parse_paragraph("\n".join(argument))
        else:
            container = _make_container("admonition", self.lineno, *self._parse_inline(" ".join(argument)))
        return [self._parse_rest(container, head_size)]

    def _make_tab(self, name: str, label: str, head_size: int) -> list[Any]:
        if name != "code-tab":
            return self._make_container("tab", label, head_size)
        language, _, title = label.partition(" ")
        container = _make_container("tab", self.lineno, nodes.Text(title or language))
        code = "\n".join(self.content[head_size:]).strip("\n")
        container += _make_code(code, language.lower(), self.content_offset + head_size + 1)
        return [container]

    def _make_container(self, kind: str, title: str, head_size: int) -> list[Any]:
        container = _make_container(kind, self.lineno, *self._parse_inline(title))
        return [self._parse_rest(container, head_size)]

    def _make_definition(self, full_name: str, argument: list[str], head_size: int) -> list[Any]:
        """Return what is described; of a directive that is not known, its argument stands above its content."""
        is_object = ":" in full_name or full_name in OBJECTS or full_name.startswith("auto")
        content_size = len(self.content) - head_size
        if not content_size:
            # A single word is a name or a path, and a term alone says nothing.
            words = " ".join(argument)
            return [] if is_object or " " not in words else [self._parse_paragraph("\n".join(argument))]
        if not argument:
            return self._make_container("group", "", head_size)
        names = [nodes.literal("", write_signature(full_name, line)) for line in _join_signatures(argument)]
        terms = [term for name in names for term in (nodes.Text(", "), name)][1:] if is_object else []
        container = _make_container("definition", self.lineno, *(terms or self._parse_inline(" ".join(argument))))
        return [self._parse_rest(container, head_size)]

    def _make_glossary(self, head_size: int) -> list[Any]:
        """Return terms, one a line, of which one or several have their meaning below them, indented as Sphinx reads it.

        The first line of a meaning says how deep all of it is, though others may have less before them.
        """
        entries: list[Any] = []
        terms: list[str] = []
        starts = [number for number, line in enumerate(self.content) if number >= head_size and line[:1].strip()]
        for start, end in pairwise([*starts, len(self.content)]):
            if self.content[start].startswith(".. "):
                continue
            # What a term is sorted by is not shown.
            terms.append(self.content[start].partition(" : ")[0])
            body = self.content[start + 1 : end]
            if any(body) or end == len(self.content):
                line = self.content_offset + start + 1
                entries.append(_make_container("definition", line, *self._parse_inline(", ".join(terms))))
                self._parse_content(_strip_margin(body), self.content_offset + start + 1, entries[-1])
                terms = []
        return entries

    def _parse_inline(self, text: str) -> list[Any]:
        return list(self.state.inline_text(text, self.lineno)[0]) if text else []

    def _parse_paragraph(self, text: str) -> Any:
        paragraph = nodes.paragraph(text, "", *self._parse_inline(text))
        paragraph.line = self.lineno
        return paragraph

    def _parse_rest(self, container: Any, head_size: int) -> Any:
        return self._parse_content(self.content[head_size:], self.content_offset + head_size, container)

    def _parse_content(self, content: Any, offset: int, container: Any) -> Any:
        memo = self.state.memo
        styles = memo.title_styles
        # How titles are underlined in it says nothing of those below it.
        memo.title_styles = [*styles]
        self.state.nested_parse(content, offset, container, match_titles=True)
        memo.title_styles = styles
        return container


class _ListTable(_AnyDirective):
    """A table written as a list of lists; rows need not be of one length."""

    def run(self) -> list[Any]:
        """Return the title and the list, as which the rows stand."""
        head_size = self._find_head()
        head = [line.strip() for line in self.content[:head_size]]
        options = {match[1]: match[2] for line in head if (match := _OPTION.match(line))}
        title = " ".join(line for line in head if not _OPTION.match(line))
        container = _make_container("list-table", self.lineno, *self._parse_inline(title))
        count = (options.get("header-rows") or "0").strip()
        container["header_rows"] = int(count) if count.isdecimal() and len(count) < 3 else 0
        return [self._parse_rest(container, head_size)]


def _join_signatures(lines: Sequence[str]) -> Iterator[str]:
    """Yield what is described: a line each, with those below it while a bracket is open, or a backslash says so."""
    parts: list[str] = []
    depth = 0
    for line in filter(None, lines):
        depth += line.count("(") - line.count(")")
        parts.append(line.rstrip("\\"))
        if depth <= 0 and not line.endswith("\\"):
            yield " ".join(" ".join(parts).split())
            parts = []
            depth = 0
    if parts:
        yield " ".join(" ".join(parts).split())


def _strip_margin(lines: Any) -> Any:
    """Return lines without the margin that the first one with a text has; of one that has less, without what it has."""
    margins = [len(line) - len(line.lstrip()) for line in lines]
    margin = next((margin for margin, line in zip(margins, lines, strict=True) if line.strip()), 0)
    return StringList([line[min(margin, own) :] for own, line in zip(margins, lines, strict=True)], items=lines.items)


def _make_container(kind: str, line: int, *title: Any) -> Any:
    container = nodes.container(kind=kind)
    container.line = line
    if title:
        container += nodes.title("", "", *title)
    return container


def _make_code(code: str, language: str, line: int) -> Any:
    literal_block = nodes.literal_block(code, code, language=language)
    literal_block.line = line
    return literal_block
