"""Puts what a document includes into its place: the text belongs to the page that shows it.

Known are the directives of reStructuredText and MyST, AsciiDoc's `include::`, the snippets of MkDocs, the includes of
mdBook, VitePress and Vocs, and the partials and components of MDX. Files are named from the root of their source; who
loads them decides which may be read.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowledge.formats.include_parts import read_cmake_comments, select_lines, select_section
from knowledge.formats.jsx import SUFFIXES, read_component
from knowledge.formats.languages import find_markup, get_language

# How a file is loaded by its path below the root of its source; nothing for one that is missing or may not be read.
Load = Callable[[str], str | None]

MAX_DEPTH = 6
MAX_OPTION_LINES = 20
MAX_INCLUDES = 300
MAX_INCLUDED_CHARS = 2_000_000
# Of a long file, parts may be shown in many places.
MAX_READ_CHARS = 20_000_000
_MAX_FOLDERS = 8
_MAX_TARGET_CHARS = 500
KINDS = frozenset(("asciidoc", "markdown", "rst"))
# What a document that includes others has somewhere.
_MARK = re.compile(
    r"include|cmake-module::|@\[code|\{[!*]|\{[{%].{0,3}(?:read-?[fF]ile|code_?sample|snippet)|--8<--|<<<[ \t]"
    r"|\bfrom[ \t]+['\"](?:[^'\"\n]{1,500}\.mdx?['\"]|(?:[@~]?|@site|\.{1,2})/)|\{\{#playground"
)
# The description of a component of Antora, and the values in it, which its pages name.
_COMPONENT = re.compile(r"(.*?)modules/[^/]+/")
_COMPONENT_ATTRIBUTES = re.compile(r"^( *)attributes:[ \t]*\n((?:\1[ ]+.*\n?|[ \t]*\n)+)", re.MULTILINE)
# What it says of itself, which its pages can name.
_COMPONENT_FIELD = re.compile(r"^(name|title|version|display_version):[ \t]+(?!true\b|~|null\b)(\S.*)", re.MULTILINE)
_COMPONENT_ATTRIBUTE = re.compile(r"^[ ]+['\"]?([\w-]+)['\"]?:[ \t]+(.+)", re.MULTILINE)
# What Antora sets itself, by an older name of its families.
_FAMILIES = {f"{family}sdir": f"{family}$" for family in ("partial", "example", "attachment")}
# What editors read for all documents below it, in AsciiDoc.
EDITOR_CONFIG = ".asciidoctorconfig"
# The names of folders for what is shown by other pages.
_PARTIAL_FOLDERS = frozenset(
    ("includes", "include", "inc", "partials", "partial", "snippets", "fragments", "shared", "generated")
)

_RST = re.compile(r"([ \t]*)\.\.[ \t]+(include|literalinclude|mdinclude|cmake-module)::[ \t]+(\S.*)$")
_OPTION = re.compile(r"[ \t]*:([\w-]+):(.*)$")
_MYST = re.compile(r"([ \t]*)(`{3,}|~{3,}|:{3,})\{(include|literalinclude)\}[ \t]+(\S.*)$")
_ASCIIDOC = re.compile(r"include::([^\[\]]*\S)\[(.*)\][ \t]*$")
_ASCIIDOC_ATTRIBUTE = re.compile(r":([\w-]+):[ \t]+(\S.*)$")
_ASCIIDOC_REFERENCE = re.compile(r"\{([\w-]+)\}")
_ASCIIDOC_HEADING = re.compile(r"={1,6}(?=[ \t]+\S)")
# What code in AsciiDoc, or a comment, begins and ends with.
_ASCIIDOC_DELIMITER = re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,}|`{3})[^\s`]*[ \t]*$")
_SNIPPET = re.compile(r"([ \t]*)-{1,}8<-{1,}[ \t]+[\"']([^\"'\n]+)[\"'][ \t]*$")
_SNIPPET_FENCE = re.compile(r"([ \t]*)-{1,}8<-{1,}[ \t]*$")
_MDBOOK = re.compile(r"(?<!\\)\{\{#(include|rustdoc_include|playground)[ \t]+([^{}\s][^{}\n]{0,300})\}\}")
# Vocs puts a file into code in place of a comment, VitePress one in place of a line or of a comment of HTML.
_VOCS = re.compile(
    r"([ \t]*)(?://|#|--|/\*|<!--)[ \t]*\[!include[ \t]+([^\s\]]{1,500})\][ \t]*+(?:(?:\*/|-->)[ \t]*+)?$"
)
_VITEPRESS = re.compile(r"([ \t]*)<<<[ \t]+([^\s{}\[\]#]{1,500})(?:#([\w.-]{1,100}))?(?:[ \t]*[{\[].*)?$")
# VuePress: `@[code{2-5} js](../a.js)`.
_VUEPRESS = re.compile(
    r"([ \t]*)@\[code(?:\{([\d,-]{1,100})\})?(?:[ ]([\w+#-]{1,30}))?[^\[\]\n]{0,100}\]\(([^\s()]{1,500})\)[ \t]*$"
)
_VITEPRESS_TEXT = re.compile(
    r"([ \t]*)<!--[ \t]*@include:[ \t]*([^\s{}#]{1,500})(?:#([\w.-]{1,100}))?"
    r"(?:\{(\d{0,7})(,?)(\d{0,7})\})?[ \t]*-->[ \t]*$"
)
# A tag of a template (Hugo, Jekyll, Liquid) that shows a file which is no template itself, and what a plug-in of
# Python-Markdown knows.
_TEMPLATE = re.compile(
    r"([ \t]*)\{(?:%|\{[%<])-?[ \t]*(?:(?:include|read)[\w-]{0,20}|code_?sample|snippet)[ \t]+(?:(?:file|path|src)=)?"
    r"[\"']?([\w@./-]{1,300}\.(?!html?\b|liquid\b|svg\b)\w{1,10})[\"']?(?:[ \t][^{}\n]{0,300})?[%>]\}\}?[ \t]*$",
    re.IGNORECASE,
)
# That of FastAPI's hook: `{* file ln[1:9] hl[2] *}`.
_HOOK_INCLUDE = re.compile(
    r"([ \t]*)\{\*[ \t]+([^\s{}*]{1,300})(?:[ \t]+ln\[([\d:,]{1,100})\])?[^{}\n]{0,300}\*\}[ \t]*$"
)
# Docsify embeds what a link leads to that is alone on its line, outside of code.
_DOCSIFY = re.compile(
    r"([ \t]*)\[[^\[\]\n]{0,200}\]\(([^()\s]{1,500})[ \t]+[\"'][ ]?:include\b([^\"'()\n]{0,200})[\"']\)[ \t]*$"
)
_DOCSIFY_TYPE = re.compile(r":type=(\w+)")
_DOCSIFY_FRAGMENT = re.compile(r":fragment=([\w.-]+)")
_MARKDOWN_INCLUDE = re.compile(r"([ \t]*)\{!>?[ \t]*([^\s{}!]{1,300})[ \t]*!\}[ \t]*$")
_TEXT_SUFFIXES = (".md", ".mdx", ".markdown", ".txt", ".qmd", ".rmd")
_INCLUDE_FOLDERS = ("snippets", "includes", "_includes", "examples", "src")
_ROOT = re.compile(r"(?:@site/|[@~]/|/|@(?=\w))")
_MDX_IMPORT = re.compile(
    r"(?:^|;[ \t]*)import\s+(?:([A-Z]\w*)|\{([^{}]{1,1000})\})\s+from[ \t]+['\"]([^'\"\n]{1,500})['\"]", re.MULTILINE
)
_COMPONENT_NAME = re.compile(r"\b[A-Z]\w*")
_MDX_USE = re.compile(r"([ \t]*)<([A-Z]\w*)((?:[ \t][^<>\n]*)?)/>[ \t]*$")
_PARTIALS = (".md", ".mdx")
# That of Fumadocs: `<include lang="ts" meta='title="a.ts"'>./a.ts</include>`, also in three lines.
_TAG_INCLUDE = re.compile(r"<include((?:[ \t][^<>\n]{0,300})?)>([^<>\n#]{1,300})(?:#([\w.-]{1,100}))?</include>")
_TAG_LANGUAGE = re.compile(r"\blang=[\"']([\w+#-]{1,30})[\"']")
_TAG_META = re.compile(r"\bmeta='([^'\n]{1,200})'")
_STATEMENT = re.compile(r"import[ ][^'\"]{1,200}[ ]from[ ]['\"]|export[ ]const[ ]")
# What is made here, and no package.
_MODULE = re.compile(r"(?:[@~]|@site|\.{1,2})?/")
_FENCE = re.compile(r"[ \t>]*(?:[-*+\d.]+[ \t]+)?(`{3,}|~{3,})")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Expansion:
    """A document with what it includes. `lines` has the line of the document for each of its lines, or is empty.

    `included_paths` are the files that are in it now, `missing_paths` those that were asked for in vain.
    """

    text: str
    lines: tuple[int, ...] = ()
    included_paths: tuple[str, ...] = ()
    missing_paths: tuple[str, ...] = ()


def may_include(kind: str, text: str) -> bool:
    """Return whether a document may include others."""
    kind = find_markup(text) if kind == "text" else kind
    mark = _ASCIIDOC_REFERENCE if kind == "asciidoc" else _MARK
    return kind in KINDS and (_MARK.search(text) or mark.search(text)) is not None


def is_partial(path: str) -> bool:
    """Return whether a path is that of a text for other pages, by the customs of the tools.

    >>> is_partial("docs/_intro.mdx"), is_partial("docs/modules/ROOT/partials/a.adoc"), is_partial("docs/a.md")
    (True, True, False)
    """
    *folders, name = path.lower().split("/")
    return name.startswith("_") or any(part.startswith("_") or part in _PARTIAL_FOLDERS for part in folders)


def expand_includes(path: str, kind: str, text: str, load: Load) -> Expansion:
    """Return a document with the files that it includes. What cannot be loaded stays as it is written.

    The time is linear in what is returned, which has limits: how deep, how many files, how much text.
    """
    kind = find_markup(text) if kind == "text" else kind
    if not may_include(kind, text):
        return Expansion(text)
    expander = _Expander(kind, path, load)
    expander.read_component()
    lines = list(expander.expand(text.split("\n"), path, ()))
    lines = [*expander.write_attributes(lines), *lines]
    missing_paths = tuple(dict.fromkeys(expander.missing_paths))
    if not expander.included_paths:
        return Expansion(text, missing_paths=missing_paths)
    return Expansion(
        "\n".join(line for _, line in lines),
        tuple(number for number, _ in lines),
        tuple(dict.fromkeys(expander.included_paths)),
        missing_paths,
    )


@dataclass(slots=True)
class _Directive:
    """One include: which file, which part of it, and how it is shown. `size` is how many lines it takes."""

    target: str
    size: int = 1
    indent: str = ""
    is_code: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


class _Expander:
    def __init__(self, kind: str, page: str, load: Load) -> None:
        self._kind = kind
        self._page = page
        self._load = load
        self._chars_left = MAX_INCLUDED_CHARS
        self._read_chars_left = MAX_READ_CHARS
        self._attributes: dict[str, str] = {}
        self._component: list[str] = []
        self._component_attributes: dict[str, str] = {}
        self.included_paths: list[str] = []
        self.missing_paths: list[str] = []

    def read_component(self) -> None:
        """Read the attributes of the component of Antora that a page belongs to."""
        place = _COMPONENT.match(self._page) if self._kind == "asciidoc" else None
        if place is None:
            return
        # What the playbook of the site sets is often repeated for editors, whose file is beside the description.
        readers = {f"{place[1]}{EDITOR_CONFIG}": _read_entries, f"{place[1]}antora.yml": read_component_attributes}
        for path, read in readers.items():
            text = self._load(path)
            (self.missing_paths if text is None else self._component).append(path)
            self._component_attributes |= read(text or "")
        self._attributes |= _FAMILIES | self._component_attributes

    def write_attributes(self, lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return what its component sets of what a page names, as lines above it, each behind what it names."""
        attributes = self._component_attributes
        names: dict[str, None] = {}
        for name in _ASCIIDOC_REFERENCE.findall("\n".join(line for _, line in lines)) if attributes else ():
            if name in attributes:
                names.update(dict.fromkeys(_ASCIIDOC_REFERENCE.findall(attributes[name])))
                names[name] = None
        entries = [(1, f":{name}: {attributes[name]}") for name in names if name in attributes]
        self.included_paths += self._component if entries else []
        return entries

    def expand(self, lines: Sequence[str], path: str, outer_paths: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        """Yield lines, each with the number of the line of this text that it comes from."""
        components = self._find_components(lines)
        number = 0
        fence = ""
        while number < len(lines):
            line = lines[number]
            if self._kind == "markdown" and (mark := _FENCE.match(line)):
                fence = (fence if not mark[1].startswith(fence) else "") if fence else mark[1]
            if self._kind == "asciidoc" and (attribute := _ASCIIDOC_ATTRIBUTE.match(line)):
                self._attributes[attribute[1]] = attribute[2].strip()[:_MAX_TARGET_CHARS]
            directive = self._match(lines, number, {} if fence else components)
            directive = directive or (None if fence or self._kind != "markdown" else _match_docsify(line))
            targets = directive.target.split("\n") if directive else []
            parts = [self._include(replace(directive, target=each), path, outer_paths) for each in targets if directive]
            if directive is None or None in parts:
                yield from ((number + 1, text) for text in self._expand_inside(line, path, outer_paths))
                number += 1
                continue
            yield from ((number + 1, text) for part in parts for text in part or ())
            number += directive.size

    def _find_components(self, lines: Sequence[str]) -> dict[str, str]:
        """Return the files of the partials and components that a page of MDX imports, by their names."""
        return _find_imports("\n".join(lines)) if self._kind == "markdown" else {}

    def _match(self, lines: Sequence[str], number: int, components: Mapping[str, str]) -> _Directive | None:
        line = lines[number]
        if self._kind == "rst":
            return _match_rst(lines, number)
        if self._kind == "asciidoc":
            match = _ASCIIDOC.match(line)
            return _Directive(self._resolve(match[1]), options=_read_attributes(match[2])) if match else None
        if snippet := _SNIPPET.match(line):
            return _Directive(snippet[2], indent=snippet[1])
        return (
            _match_mdx(line, components)
            or _match_tag(lines, number)
            or _match_snippets(lines, number)
            or _match_vite(line)
            or _match_template(line)
            or _match_myst(lines, number)
        )

    def _resolve(self, target: str) -> str:
        for _ in range(2):
            if len(target) <= _MAX_TARGET_CHARS:
                target = _ASCIIDOC_REFERENCE.sub(lambda match: self._attributes.get(match[1], match[0]), target)
        return target

    def _expand_inside(self, line: str, path: str, outer_paths: tuple[str, ...]) -> list[str]:
        """Return a line of Markdown with what mdBook puts into it."""
        match = _MDBOOK.search(line) if self._kind == "markdown" else None
        if match is None:
            return [line]
        included_lines = self._include(_Directive(match[2].split()[0], indent=""), path, outer_paths)
        if included_lines is None:
            return [line]
        text = line[: match.start()] + "\n".join(included_lines) + line[match.end() :]
        return text.split("\n")

    def _include(self, directive: _Directive, path: str, outer_paths: tuple[str, ...]) -> list[str] | None:
        """Return the lines that stand for a directive, or nothing where its file cannot be had."""
        if len(outer_paths) >= MAX_DEPTH or len(self.included_paths) >= MAX_INCLUDES:
            return None
        target, part = _split_part(directive.target) if self._kind == "markdown" else (directive.target, "")
        directive = replace(directive, options={**directive.options, **({"part": part} if part else {})})
        candidates = find_candidates(target, path, self._page, self._kind)
        if "component" in directive.options and not target.endswith(SUFFIXES):
            candidates = (f"{candidate}{suffix}" for candidate in candidates for suffix in SUFFIXES)
        for candidate in candidates:
            if candidate in (path, *outer_paths):
                continue
            text = self._load(candidate)
            if text is None:
                self.missing_paths.append(candidate)
            elif len(text) <= self._read_chars_left:
                self._read_chars_left -= len(text)
                lines = _select(directive, candidate, text)
                if not lines and "component" in directive.options:
                    return None
                size = sum(map(len, lines)) + len(lines)
                if size <= self._chars_left:
                    self._chars_left -= size
                    self.included_paths.append(candidate)
                    return self._write(directive, candidate, lines, (*outer_paths, path))
        return None

    def _write(self, directive: _Directive, path: str, lines: list[str], outer_paths: tuple[str, ...]) -> list[str]:
        options = directive.options
        if directive.is_code or "literal" in options or "code" in options:
            language = options.get("language") or options.get("code") or get_language(path)
            code = textwrap.dedent("\n".join(lines)) if "dedent" in options else "\n".join(lines)
            return [directive.indent + line if line else line for line in self._write_code(code, language)]
        if self._kind == "rst" and _is_prose(directive, path):
            return ["", f"{directive.indent}.. markdown::", "", *(f"{directive.indent}   {line}" for line in lines), ""]
        inner_lines = [line for _, line in self.expand(lines, path, outer_paths)]
        if offset := options.get("leveloffset", ""):
            inner_lines = _shift_headings(inner_lines, offset)
        blank = [""] if self._kind == "rst" else []
        # Statements of MDX are none where they are indented, or right below a text.
        is_mdx = self._kind == "markdown" and ("component" in options or _is_prose(directive, path))
        size = _count_statements(inner_lines) if is_mdx else 0
        blank = [""] if size and directive.indent else blank
        return [
            *blank,
            *inner_lines[:size],
            *(directive.indent + line if line else line for line in inner_lines[size:]),
            *blank,
        ]

    def _write_code(self, code: str, language: str) -> list[str]:
        if self._kind == "rst":
            return ["", f".. code-block:: {language}".rstrip(), "", *textwrap.indent(code, "   ").split("\n"), ""]
        longest_run = max(map(len, re.findall(r"`+", code)), default=0)
        fence = "`" * max(3, longest_run + 1)
        return [f"{fence}{language}", *code.split("\n"), fence]


def _select(directive: _Directive, path: str, text: str) -> list[str]:
    """Return the lines of a file that a directive shows."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff").rstrip("\n")
    if name := directive.options.get("component"):
        lines = read_component(text, name, directive.options["attributes"])
        return _name_partials(lines, _find_imports(text))
    if "comments" in directive.options:
        return list(read_cmake_comments(text.split("\n")))
    if section := directive.options.get("section"):
        return list(select_section(text.split("\n"), section))
    text = _FRONT_MATTER.sub("", text, count=1) if _is_prose(directive, path) else text
    return select_lines(text.split("\n"), directive.options)


def _find_imports(source: str) -> dict[str, str]:
    """Return the files that a module imports, by the names that it has for what is in them."""
    # An escaped sign of a string is the sign.
    return {
        name: target.replace("\\", "")
        for default, names, target in _MDX_IMPORT.findall(source)
        for name in (default, *_COMPONENT_NAME.findall(names))
        if name
    }


def _name_partials(lines: Sequence[str], components: Mapping[str, str]) -> list[str]:
    """Return lines of which each that shows a partial, which their own file imports, includes it."""
    targets = (components.get(use[2], "") if (use := _MDX_USE.match(line)) else "" for line in lines)
    return [
        f'--8<-- "{target}"' if target.endswith(_PARTIALS) else line
        for line, target in zip(lines, targets, strict=True)
    ]


def _count_statements(lines: Sequence[str]) -> int:
    """Return how many lines of a partial are above its text, if some of them import something for it."""
    size = next((number for number, line in enumerate(lines) if line and not _STATEMENT.match(line)), len(lines))
    return size if any(lines[:size]) else 0


def _is_prose(directive: _Directive, path: str) -> bool:
    return not directive.is_code and path.lower().endswith((".md", ".mdx", ".markdown"))


def _match_rst(lines: Sequence[str], number: int) -> _Directive | None:
    match = _RST.match(lines[number])
    if match is None:
        return None
    options, end = _read_options(lines, number + 1, len(match[1]))
    if match[2] == "cmake-module":
        options["comments"] = ""
    return _Directive(match[3], end - number, match[1], match[2] == "literalinclude", options)


def _match_mdx(line: str, components: Mapping[str, str]) -> _Directive | None:
    """Match a partial or a component that a page of MDX imports."""
    use = _MDX_USE.match(line)
    target = components.get(use[2], "") if use else ""
    if use is None or not (_MODULE.match(target) or target.endswith(_PARTIALS)):
        return None
    options = {} if target.endswith(_PARTIALS) else {"component": use[2], "attributes": use[3]}
    return _Directive(target, indent=use[1], options=options)


def _match_tag(lines: Sequence[str], number: int) -> _Directive | None:
    """Match the tag for which Fumadocs shows a file: as text, a part of it, or as code."""
    if not lines[number].lstrip().startswith("<include"):
        return None
    size = 1 if "</" in lines[number] else 3
    match = _TAG_INCLUDE.fullmatch("".join(map(str.strip, lines[number : number + size])))
    if match is None:
        return None
    target = match[2].strip()
    language = _TAG_LANGUAGE.search(match[1])
    is_code = language is not None or not target.lower().endswith(_PARTIALS)
    meta = _TAG_META.search(match[1])
    name = language[1] if language else get_language(target)
    options = {"language": f"{name} {meta[1] if meta else ''}".rstrip()} if is_code else {}
    if match[3]:
        options["tag" if is_code else "section"] = match[3]
    margin = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    return _Directive(target, size, margin, is_code, options)


def _match_snippets(lines: Sequence[str], number: int) -> _Directive | None:
    """Match a block of MkDocs' snippets: a file on each line."""
    match = _SNIPPET_FENCE.match(lines[number])
    rest = lines[number + 1 : number + MAX_INCLUDES] if match else ()
    end = next((size for size, line in enumerate(rest) if _SNIPPET_FENCE.match(line)), 0)
    targets = [line.strip().strip("\"'") for line in rest[:end] if line.strip()]
    return _Directive("\n".join(targets), end + 2, match[1]) if match and targets else None


def _match_vite(line: str) -> _Directive | None:
    """Match a line for which Vocs or VitePress shows a file, or the part of one."""
    if match := _VOCS.match(line):
        return _Directive(match[2], indent=match[1])
    if match := _VUEPRESS.match(line):
        options = {"lines": match[2], "language": match[3]}
        return _Directive(match[4], 1, match[1], True, {name: value for name, value in options.items() if value})
    if match := _VITEPRESS.match(line):
        return _Directive(f"{match[2]}:{match[3] or ''}", indent=match[1], is_code=True)
    if match := _VITEPRESS_TEXT.match(line):
        lines = f"{match[4] or 1}{match[5] and ':'}{match[6]}" if match[4] or match[6] else ""
        return _Directive(f"{match[2]}:{match[3] or lines}", indent=match[1])
    return None


def _match_docsify(line: str) -> _Directive | None:
    """Match a line that embeds a file of text: by its type, or by its name, it is Markdown or code."""
    match = _DOCSIFY.match(line)
    named_type = _DOCSIFY_TYPE.search(match[3]) if match else None
    is_prose = match is not None and match[2].lower().endswith(_TEXT_SUFFIXES)
    if (
        match is None
        or "://" in match[2]
        or (named_type[1] not in ("code", "markdown") if named_type else not is_prose)
    ):
        return None
    fragment = _DOCSIFY_FRAGMENT.search(match[3])
    options = {"start-after": f"[{fragment[1]}]", "end-before": f"[{fragment[1]}]"} if fragment else {}
    return _Directive(match[2], 1, match[1], named_type is not None and named_type[1] == "code", options)


def _match_template(line: str) -> _Directive | None:
    """Match a line that is a tag of a template for a file: what is no Markdown is code."""
    if match := _MARKDOWN_INCLUDE.match(line):
        return _Directive(match[2], indent=match[1])
    if match := _HOOK_INCLUDE.match(line):
        lines = {"lines": match[3].replace(":", "-")} if match[3] else {}
        return _Directive(match[2], indent=match[1], is_code=True, options=lines)
    match = _TEMPLATE.match(line)
    return _Directive(match[2], 1, match[1], not match[2].lower().endswith(_TEXT_SUFFIXES)) if match else None


def _match_myst(lines: Sequence[str], number: int) -> _Directive | None:
    match = _MYST.match(lines[number])
    if match is None:
        return None
    options, end = _read_option_block(lines, number + 1) or _read_options(lines, number + 1, -1)
    while end < len(lines) and not lines[end].strip():
        end += 1
    is_closed = end < len(lines) and lines[end].strip() == match[2]
    return _Directive(match[4], end - number + is_closed, match[1], match[3] == "literalinclude", options)


def _read_option_block(lines: Sequence[str], start: int) -> tuple[dict[str, str], int] | None:
    """Return options that are written as YAML between two lines, and where they end; None where there are none."""
    block = [line.strip() for line in lines[start : start + MAX_OPTION_LINES]]
    if block[:1] != ["---"] or "---" not in block[1:]:
        return None
    size = block.index("---", 1)
    pairs = (line.partition(":") for line in block[1:size])
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}, start + size + 1


def _read_options(lines: Sequence[str], start: int, indent: int) -> tuple[dict[str, str], int]:
    options: dict[str, str] = {}
    end = start
    while end < len(lines) and (match := _OPTION.match(lines[end])):
        if len(lines[end]) - len(lines[end].lstrip()) <= indent:
            break
        options[match[1]] = match[2].strip()
        end += 1
    return options, end


def read_component_attributes(description: str) -> dict[str, str]:
    """Return the attributes that the description of a component of Antora sets for its pages."""
    values = _COMPONENT_ATTRIBUTES.search(description)
    pairs = _COMPONENT_ATTRIBUTE.findall(values[2]) if values else []
    fields = {name: read_value(value) for name, value in _COMPONENT_FIELD.findall(description)}
    about = {f"page-component-{name.replace('_', '-')}": value for name, value in fields.items()}
    version = fields.get("version", "")
    shown = fields.get("display_version", version)
    about |= {"page-version": version, "page-component-display-version": shown} if version else {}
    return about | {name: read_value(value) for name, value in pairs}


def _read_entries(text: str) -> dict[str, str]:
    """Return the attributes that lines of AsciiDoc set."""
    entries = filter(None, map(_ASCIIDOC_ATTRIBUTE.match, text.split("\n")))
    return {entry[1]: entry[2].strip().strip("'\"") for entry in entries}


def read_value(text: str) -> str:
    """Return a value of YAML without its comment, without Antora's `@` (pages may set another) and without quotes."""
    value = re.split(r"[ \t]#", text, maxsplit=1)[0].strip()
    return value.removesuffix("@").strip("'\"").removesuffix("@")


def _read_attributes(text: str) -> dict[str, str]:
    """Return the attributes of an `include::`, whose values may be in quotes."""
    pairs = re.findall(r"(?<![\w-])([\w-]{1,40})=(\"[^\"]*\"|[^,]*)", text)
    return {name: value.strip().strip('"') for name, value in pairs}


def _split_part(target: str) -> tuple[str, str]:
    """Divide `file.rs:anchor` or `file.rs:2:5`."""
    file, _, part = target.partition(":")
    return file.strip(), part.strip()


def find_candidates(target: str, path: str, page: str, kind: str) -> Iterator[str]:
    """Yield the paths that a target may mean, none of which is outside the root."""
    folder = posixpath.dirname(path)
    target = target.strip()
    if "\0" in target or "://" in target or len(target) > _MAX_TARGET_CHARS:
        return
    if kind == "asciidoc" and (antora_paths := _resolve_antora(target, path)):
        yield from antora_paths
        return
    folders = [folder, posixpath.dirname(page)]
    root = _ROOT.match(target)
    if root or kind == "markdown":
        parents = posixpath.dirname(page).split("/")
        folders += ["/".join(parts) for parts in (parents[:size] for size in range(len(parents) - 1, -1, -1))]
        folders = folders[: _MAX_FOLDERS + 2]
        folders += [posixpath.join(base, name) for name in _INCLUDE_FOLDERS for base in folders]
    relative_target = target[root.end() :].lstrip("/") if root else target
    seen: set[str] = set()
    for base in folders:
        candidate = posixpath.normpath(posixpath.join(base, relative_target))
        if candidate not in seen and not candidate.startswith(("../", "/")) and candidate not in (".", ".."):
            seen.add(candidate)
            yield candidate


def _resolve_antora(target: str, path: str) -> list[str]:
    """Return where a file of one of Antora's families, as `ROOT:partial$a.adoc`, can be, seen from a page."""
    family = re.match(r"(?:([\w-]+):)?(partial|example|page|attachment)\$(.+)$", target)
    place = re.match(r"(.*?)modules/([^/]+)/", path)
    if family is None or place is None:
        return []
    module = f"{place[1]}modules/{family[1] or place[2]}"
    # The second one is where Antora looked for partials first.
    folders = [f"{module}/{family[2]}s", *([f"{module}/pages/_partials"] if family[2] == "partial" else [])]
    paths = [(folder, posixpath.normpath(f"{folder}/{family[3]}")) for folder in folders]
    return [path for folder, path in paths if path.startswith(f"{folder}/")]


def _shift_headings(lines: Sequence[str], offset: str) -> list[str]:
    """Return lines with their headings so many levels lower; what looks like one in code is none."""
    if not re.fullmatch(r"[+-]?[0-5]", offset):
        return list(lines)
    shifted: list[str] = []
    delimiter = ""
    for line in lines:
        found = _ASCIIDOC_DELIMITER.match(line)
        if found and delimiter in ("", found[1]):
            delimiter = "" if delimiter else found[1]
        heading = None if delimiter else _ASCIIDOC_HEADING.match(line)
        marks = "=" * min(6, max(1, len(heading[0]) + int(offset))) if heading else ""
        shifted.append(marks + line[heading.end() if heading else 0 :])
    return shifted
