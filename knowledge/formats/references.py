"""What the references of a document lead to in other files of its source: titles of pages and of parts, and values.

Each file is read once for its outline. Known are labels and substitutions of Sphinx, MyST and AsciiDoc with Antora,
titles of notebooks and of examples in a gallery of Sphinx, the values of a site of Jekyll, and whether the generator
of a site shows the description of a page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from core.formatting import replace_lone_surrogates
from core.markup.front_matter import (
    SHOWN_DESCRIPTION,
    find_substitutions,
    read_description,
    read_front_matter,
    read_scalars,
    read_title,
)
from core.markup.generators import GENERATOR, LIQUID, NUNJUCKS, PANDOC, PANDOC_BOOK, ZOLA
from core.markup.inline import normalize_label, to_title
from knowledge.formats.asciidoc_inline import MAX_VALUE_CHARS, resolve_attributes
from knowledge.formats.asciidoc_lines import find_titles
from knowledge.formats.includes import find_candidates, read_component_attributes, read_value
from knowledge.formats.inline import find_sign
from knowledge.formats.languages import find_markup
from knowledge.formats.notebook import read_prose
from knowledge.formats.sphinx_settings import clean_rst, read_sphinx_values
from knowledge.parsing.limits import FormatError

KINDS = frozenset(("asciidoc", "markdown", "rst"))
_MAX_TITLE_CHARS = 300
# From a page to what it begins with, and so on.
_MAX_HOPS = 3
_RST_REFERENCE = re.compile(
    r":(?:ref|numref|doc):`([^`<>]{1,300})`|(?<![\w|])(\|\w(?:[\w .+-]{0,60}\w)?\|)(?![\w|])"
    r"|(?<![\w:`]):(?!(?:ref|numref|doc):)([a-z][\w-]{0,30}):(`[^`<>\n]{1,100}``?)|(\{\{)[ ]?([\w.-]{1,80}?)[ ]?\}\}"
)
_RST_LABEL = re.compile(r"\.\. _(?:`([^`]+)`|([^:`]+)):[ \t]*$")
_RST_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_RST_NAME = re.compile(r"\|\w(?:[\w .+-]{0,60}\w)?\|")
_MYST_LABEL = re.compile(r"^\(([^()\n]{1,200})\)=[ \t]*\n(?:[ \t]*\n)?#{1,6}[ \t]+([^\n]+)", re.MULTILINE)
_QUARTO_LABEL = re.compile(
    r"^#{1,6}[ \t]++([^\n{]{1,300})\{[^{}\n]{0,200}#(sec-[\w-]{1,100})[^{}\n]{0,200}\}", re.MULTILINE
)
_MARKDOWN_HEADING = re.compile(r"^#[ \t]+(\S.*)$|(?:\A|(?<=\n\n))(\w.*)\n=+[ \t]*$", re.MULTILINE)
_MARKDOWN_REFERENCE = re.compile(
    r"\{(?:ref|numref|doc)\}`([^`<>]{1,300})`|(?<!\w)\[\]\(([^()\s]{1,300})\)|(\{\{)-?[ ]*([\w.-]{1,80}?)[ ]*-?\}\}"
    r"|(\{\{)[<%]-?[ ]*((?:param|meta|var)[ ])[ ]*[\"']?([\w.-]{1,80})"
    r"|(?<![\w@/.])@(sec-[\w-]{0,99}\w)"
    r"|(?<![\w`])\{(?!(?:ref|numref|doc)\})([a-z][\w-]{0,30})\}(`[^`<>\n]{1,100}`)"
    # A component that shows the title of a page.
    r"|<[A-Z]\w{0,60}\s+(?:link|to|href)=\"(?!https?:|#)([\w./#-]{1,300})\"\s*/>"
)
_ASCIIDOC_TITLE = re.compile(r"^=[ \t]+(\S.*)$", re.MULTILINE)
_ASCIIDOC_INCLUDE = re.compile(r"^include::([^\s\[\]]{1,300})\[", re.MULTILINE)
_ASCIIDOC_ENTRY = re.compile(r"^:([\w-]+):[ \t]+(\S.*)$", re.MULTILINE)
_ASCIIDOC_REFERENCE = re.compile(r"xref:([^\s\[\]]{1,300})\[\]|<<([^<>,\n]{1,300}),?>>|(\{[\w-]{1,100}\})")
# What Sphinx has in each project.
_SPHINX_LABELS = {"genindex": "Index", "modindex": "Module Index", "search": "Search Page"}
# The examples of a gallery: the beginning of their files' names, and of the labels that lead to them.
_EXAMPLE_START = "plot_"
_EXAMPLE_LABEL = "sphx_glr_"
_JEKYLL_VALUE = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s&*!|>{\[#][^\n]*)$", re.MULTILINE)
# What the reader of a page does not see, or is no heading: comments and code.
_MARKDOWN_HIDDEN = re.compile(
    r"^(?P<fence>`{3,10}|~{3,10})[^\n]*\n(?>(?:(?!(?P=fence))[^\n]*\n)*)(?:(?P=fence)[^\n]*)?"
    r"|<!--(?>(?:[^-]|-(?!->))*)(?:-->)?",
    re.MULTILINE,
)
_ASCIIDOC_DELIMITER = re.compile(r"/{4,}|-{4,}|\.{4,}|\+{4,}")
_ASCIIDOC_CONDITION = re.compile(r"if(?:n?def::[^\[\]]*\[\]|eval::.*)")
# What only some generators read so.
_GENERATOR_SIGN = re.compile(
    r"\{%-?[ \t]*raw\b|\{[{%]/\*|@(?:fig|tbl|lst|eq|sec)-|(?<![\w\]!\\`])\[[A-Z][^\[\]\n]{1,200}\](?![(\[:{])"
)
# A Jupyter Book and Hexo have settings of the same name as Jekyll.
_BOOK = re.compile(r"^(?:sphinx|execute|launch_buttons|only_build_toc_files):", re.MULTILINE)
_HEXO = re.compile(r"^(?:public_dir|skip_render|post_asset_folder|new_post_name):", re.MULTILINE)
# What a page of Hugo gives to all below it; and where its parameters may be.
_SECTION = re.compile(r"(?:^|/)_index\.[\w.]+$")
_PARAMETERS_FOLDER = re.compile(r"(?:^|/)config/_default$")
_SETTINGS = {
    "conf.py": "sphinx",
    "_config.yml": "jekyll",
    **{f"{name}.{suffix}": "hugo" for name in ("config", "hugo", "zola") for suffix in ("toml", "yaml", "yml")},
    **dict.fromkeys(("_quarto.yml", "_metadata.yml"), "quarto"),
    "_variables.yml": "variables",
    **{f"params.{suffix}": "parameters" for suffix in ("toml", "yaml", "yml")},
    **dict.fromkeys(("package.json", "docs.json", "mint.json", ".gitbook.yaml"), "generator"),
}
# The generators of sites that show the description of a page below its title: Fumadocs, Mintlify and GitBook.
_SHOWS_DESCRIPTION = re.compile(r"\"fumadocs-|mintlify|^(?:root|structure):", re.MULTILINE)
_SUFFIX = re.compile(r"\.(?:md|mdx|rst|txt|adoc|asciidoc|html|ipynb)$")
# A file that is there for the attributes of others, by the custom of those who write AsciiDoc.
_ATTRIBUTES_FILE = re.compile(r"(?:^|[/_-])attr(?:s|ibutes?)(?=[/._-])[^/]*(?:/[^/]*)?\.(?:adoc|asciidoc)$")
# The same in YAML, which an extension of Antora gives to all of a site.
_YAML_ATTRIBUTES = re.compile(r"(?:.*[_-])?attr(?:s|ibutes?)")
_YAML_ENTRY = re.compile(r"^([ ]*)[\"']?([a-zA-Z][\w-]*)[\"']?:[ \t]+(\S.*)$", re.MULTILINE)
_ANTORA_PLACE = re.compile(r"(?:(.*)/)?modules/([^/]+)/(?:pages|partials|examples)/(.*)")


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file gives to the references of others, and the references that it has, as they are written."""

    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    # The file that it shows in place of a title.
    include: str = ""
    has_includes: bool = False


def get_outline_kind(path: str, kind: str) -> str:
    """Return what reads the outline of a file, or an empty string where it has none."""
    if kind in KINDS or kind == "notebook" or (kind == "text" and path.lower().endswith(".txt")):
        return kind
    if path.endswith(".py") and posixpath.basename(path).startswith(_EXAMPLE_START):
        return "example" if kind else ""
    return _get_settings_kind(path) if path.endswith(("conf.py", ".yml", ".yaml", ".json", ".toml")) else ""


def _get_settings_kind(path: str) -> str:
    """Return what reads a file that sets what all pages below it may name, or how they are shown."""
    name, suffix = posixpath.splitext(posixpath.basename(path))
    if name + suffix in _SETTINGS:
        return _SETTINGS[name + suffix]
    if suffix in (".py", ".json", ".toml"):
        return ""
    if name == "antora" or "playbook" in name:
        return "antora"
    return "attributes" if _YAML_ATTRIBUTES.fullmatch(name.lower()) else ""


def read_outline(kind: str, text: str) -> Outline:
    """Return the outline of a text of a kind that `get_outline_kind` returned. Takes linear time."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    readers = {
        "antora": lambda: Outline(values=read_component_attributes(text)),
        "asciidoc": lambda: _read_asciidoc(text),
        "attributes": lambda: Outline(values=_read_yaml_attributes(text)),
        "example": lambda: _read_example(text),
        "generator": lambda: Outline(values={SHOWN_DESCRIPTION: "shown"} if _SHOWS_DESCRIPTION.search(text) else {}),
        "hugo": lambda: Outline(values=_read_hugo_values(text)),
        "jekyll": lambda: Outline(values=_read_jekyll_values(text)),
        "markdown": lambda: _read_markdown(text),
        "notebook": lambda: _read_notebook(text),
        "parameters": lambda: Outline(values=_name_values("param", read_scalars(text.split("\n")))),
        "quarto": lambda: Outline(values=_read_quarto_values(text)),
        "rst": lambda: _read_rst(text),
        "sphinx": lambda: Outline(values=read_sphinx_values(text)),
        "text": lambda: Outline(""),
        "variables": lambda: Outline(values=_name_values("var", read_scalars(text.split("\n")))),
    }
    kind = find_markup(text) if kind == "text" else kind
    return readers[kind]()


def find_references(kind: str, text: str) -> tuple[str, ...]:
    """Return the references of a document that have no text of their own, each once, as they are written."""
    patterns = {"asciidoc": _ASCIIDOC_REFERENCE, "markdown": _MARKDOWN_REFERENCE, "rst": _RST_REFERENCE}
    kind = find_markup(text) if kind == "text" else kind
    found = patterns[kind].findall(text) if kind in patterns else []
    if kind == "markdown" and "eval-rst" in text:
        found += _RST_REFERENCE.findall(text)
    if kind == "markdown" and read_description(text)[0]:
        found.append((SHOWN_DESCRIPTION,))
    if kind == "markdown" and _GENERATOR_SIGN.search(text):
        found.append((GENERATOR,))
    return tuple(dict.fromkeys(map("".join, found)))


class Names:
    """The outlines of a source by path: finds what references lead to."""

    def __init__(self, outlines: Mapping[str, Outline]) -> None:
        self._pages = {_SUFFIX.sub("", path): outline for path, outline in outlines.items()}
        self._labels: dict[str, str] = {}
        # By the folder that they are valid below.
        self._values: dict[str, Mapping[str, str]] = {}
        # Attributes of AsciiDoc that files for them give to whoever includes these.
        self._shared: dict[str, str] = {}
        for path, outline in outlines.items():
            settings_kind = get_outline_kind(path, "")
            is_shared = settings_kind == "attributes" or _ATTRIBUTES_FILE.search(path.lower())
            if (settings_kind or _SECTION.search(path)) and outline.values and not is_shared:
                folder = _PARAMETERS_FOLDER.sub("", posixpath.dirname(path))
                self._values[folder] = {**self._values.get(folder, {}), **outline.values}
            name = posixpath.basename(path).lower()
            own_label = {name: outline.title} if get_outline_kind(path, "python") == "example" else {}
            for label, title in {**outline.labels, **own_label}.items():
                # Which of two titles is meant, nobody knows.
                self._labels[label] = title if self._labels.get(label, title) == title else ""
            for attribute, value in outline.values.items() if is_shared else ():
                self._shared[attribute] = value if self._shared.get(attribute, value) == value else ""
            for alias in filter(None, map(str.strip, outline.values.get("page-aliases", "").split(","))):
                self._pages.setdefault(_find_asciidoc_path(path, alias), outline)

    def find(self, path: str, kind: str, references: Iterable[str]) -> dict[str, str]:
        """Return the titles and values that references of a page lead to, by the references; others are left out.

        A reference to a value that is set before markup is read, also in code, ends with its braces there.
        """
        finder = self._find_asciidoc if kind == "asciidoc" else self._find_sphinx
        found = {reference: finder(path, reference) for reference in references}
        closed = {f"{name}}}}}": self._find_value(path, f"{name}}}}}") for name in found if name.startswith("{{")}
        return {reference: title for reference, title in (found | closed).items() if title}

    def _find_value(self, path: str, name: str) -> str:
        return next((values[name] for values in self._iter_values(path) if name in values), "")

    def _find_substitution(self, path: str, name: str) -> str:
        """Return what a name between bars stands for, which may name others."""
        value = self._find_value(path, name)
        for _ in range(_MAX_HOPS):
            if "|" in value and len(value) <= _MAX_TITLE_CHARS:
                value = _RST_NAME.sub(
                    lambda inner: self._find_value(path, inner[0]) or find_sign(inner[0]) or inner[0][1:-1], value
                )
        return value

    def _find_sphinx(self, path: str, reference: str) -> str:
        if reference.startswith(("|", "{{")):
            return self._find_substitution(path, reference)
        role, mark, content = reference.partition("`")
        if mark:
            return self._find_value(path, f"{role}`").replace("%s", content.rstrip("`"))
        label = normalize_label(reference)
        if label.startswith(_EXAMPLE_LABEL):
            # Of an example: behind the names of its folders, joined as that of its file.
            label = _EXAMPLE_START + label.partition(f"_{_EXAMPLE_START}")[2]
        if title := self._labels.get(label):
            return title
        target, _, part = reference.partition("#")
        if part and part in self._labels:
            return self._labels[part]
        # The label that Sphinx makes of a title has its page in front.
        page, colon, section = reference.partition(":")
        if colon and self._find_page(path, page if page.startswith("/") else f"/{page}"):
            return section
        page = "" if part or "://" in target else _SUFFIX.sub("", target)
        title = page and (self._find_page(path, page) or self._find_page(path, f"/{page}"))
        return title or _SPHINX_LABELS.get(label, "")

    def _find_page(self, path: str, target: str) -> str:
        """Return the title of a page, which is named from the folder of another one or from a folder above that."""
        folder = posixpath.dirname(path)
        folders = self._find_roots(folder) if target.startswith("/") else [folder]
        paths = (posixpath.normpath(posixpath.join(base, target.lstrip("/"))) for base in folders)
        return next((self._pages[each].title for each in paths if each in self._pages), "")

    def _find_roots(self, folder: str) -> list[str]:
        """Return where absolute names begin: at the configuration of Sphinx, else as far out as possible."""
        folders = list(_iter_folders(folder))
        project = next((each for each in folders if posixpath.join(each, "conf") in self._pages), None)
        return [project] if project is not None else folders[::-1]

    def _iter_values(self, path: str) -> Iterator[Mapping[str, str]]:
        return (self._values[folder] for folder in _iter_folders(posixpath.dirname(path)) if folder in self._values)

    def _find_asciidoc(self, path: str, reference: str) -> str:
        if reference.startswith("{"):
            name = reference[1:-1]
            return self._resolve(self._find_value(path, name) or self._shared.get(name.lower(), ""), path, {})
        target, mark, part = reference.partition("#")
        if not mark and not target.endswith(".adoc"):
            target, part = "", target
        page = self._get_shown(_find_asciidoc_path(path, target))
        title = page.labels.get(part, "") if part else page.title
        if part and not title and (not target or page.has_includes):
            # What a page includes is part of it, and has a name that no other file has.
            title = self._labels.get(part, "")
        return self._resolve(title, path, page.values)

    def _resolve(self, text: str, path: str, values: Mapping[str, str]) -> str:
        """Return a text with the values of a page and of the folders around, which may name others.

        A long one is nothing.
        """
        mappings = (values, *self._iter_values(path), self._shared)
        for _ in range(_MAX_HOPS if "{" in text else 0):
            for each in mappings:
                text = resolve_attributes(text, each) if len(text) <= _MAX_TITLE_CHARS else ""
        return text if len(text) <= _MAX_TITLE_CHARS else ""

    def _get_shown(self, path: str) -> Outline:
        """Return the outline of a page of AsciiDoc, or of the file that one without a title begins with."""
        page = self._pages.get(path, Outline())
        for _ in range(_MAX_HOPS):
            if page.title or not page.include:
                break
            path = _SUFFIX.sub("", next(find_candidates(page.include, f"{path}.adoc", f"{path}.adoc", "asciidoc"), ""))
            page = self._pages.get(path, Outline())
        return page


def _iter_folders(folder: str) -> Iterator[str]:
    """Yield a folder and those around it, from the inside."""
    while folder:
        yield folder
        folder = posixpath.dirname(folder)
    yield ""


def _find_asciidoc_path(path: str, target: str) -> str:
    """Return the path, without its suffix, that a reference from a page means; without a target, its own."""
    target = _SUFFIX.sub("", target.rpartition("@")[2])
    *modules, name = target.split(":")
    place = _ANTORA_PLACE.match(path)
    if not target:
        return _SUFFIX.sub("", path)
    if place is None:
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    component = f"{place[1]}/" if place[1] else ""
    folder = f"{component}modules/{(modules[-1] if modules else '') or place[2]}/pages"
    own_folder = posixpath.dirname(place[3]) if name.startswith("./") else ""
    return posixpath.normpath(posixpath.join(folder, own_folder, name.removeprefix("page$")))


def _read_asciidoc(text: str) -> Outline:
    references = find_references("asciidoc", text)
    text = "\n".join(_iter_shown_lines(text))
    heading = _ASCIIDOC_TITLE.search(text)
    include = _ASCIIDOC_INCLUDE.search(text)
    attributes = {name.lower(): value for name, value in _ASCIIDOC_ENTRY.findall(text) if len(value) < MAX_VALUE_CHARS}
    labels = find_titles(text.split("\n"))
    title = heading[1] if heading else ""
    start = include[1] if include and not heading else ""
    return Outline(title, labels, attributes, references, start, has_includes=include is not None)


def _read_yaml_attributes(text: str) -> dict[str, str]:
    """Return the values of a file of attributes: those below `attributes`, else those that have the first indent."""
    if values := read_component_attributes(text):
        return values
    entries = _YAML_ENTRY.findall(text)
    pairs = ((name.lower(), read_value(value)) for indent, name, value in entries if indent == entries[0][0])
    return {name: value for name, value in pairs if len(value) < MAX_VALUE_CHARS}


def _iter_shown_lines(text: str) -> Iterator[str]:
    """Yield the lines of AsciiDoc without comments, code and what depends on a condition."""
    delimiter = ""
    depth = 0
    previous = ""
    for line in text.split("\n"):
        bare = line.rstrip()
        if delimiter:
            delimiter = "" if bare == delimiter else delimiter
        elif _ASCIIDOC_CONDITION.fullmatch(bare):
            depth += 1
        elif bare.startswith("endif::"):
            depth = max(0, depth - 1)
        elif _ASCIIDOC_DELIMITER.fullmatch(bare) and (not previous or previous[0] in "[.+"):
            # Below a line of text it would underline a title.
            delimiter = bare
        elif not depth and not bare.startswith("//"):
            yield line
        previous = bare


def _read_markdown(text: str) -> Outline:
    references = find_references("markdown", text)
    text = _MARKDOWN_HIDDEN.sub("", text)
    heading = _MARKDOWN_HEADING.search(text)
    title = read_title(text) or (heading[1] or heading[2] if heading else "")
    labels = {normalize_label(name): to_title(label_title) for name, label_title in _MYST_LABEL.findall(text)}
    labels |= {
        normalize_label(name): to_title(label_title.strip()) for label_title, name in _QUARTO_LABEL.findall(text)
    }
    lines = text.split("\n") if "cascade" in text else []
    given = read_scalars(lines[: read_front_matter(lines)[0] - 1]) if lines else {}
    cascade = {name.partition(".")[2]: value for name, value in given.items() if name.startswith("cascade.")}
    return Outline(to_title(title), labels, _name_values("param", cascade), references)


def _read_rst(text: str) -> Outline:
    labels: dict[str, str] = {}
    names: list[str] = []
    first_title = ""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if label := _RST_LABEL.match(line):
            names.append(normalize_label((label[1] or label[2]).replace("\\", "")))
        elif _is_rst_title(line, following):
            title = clean_rst(line)
            first_title = first_title or title
            labels |= {name: title for name in names if name not in labels}
            names = []
        elif line.strip() and not _RST_UNDERLINE.match(line):
            names = []
    return Outline(first_title, labels, {}, find_references("rst", text))


def _is_rst_title(line: str, following: str) -> bool:
    is_text = bool(line.strip()) and not line.startswith("..") and not _RST_UNDERLINE.match(line)
    return is_text and len(following) >= len(line.rstrip()) - 2 and _RST_UNDERLINE.match(following) is not None


def _read_example(text: str) -> Outline:
    """Return the outline of an example of a gallery, which begins with a text of its own."""
    docstring = re.match(r"(?:#[^\n]*\n|\s)*r?(\"{3}|'{3})(.*?)\1", text, re.DOTALL)
    return Outline(_read_rst(docstring[2]).title) if docstring else Outline()


def _read_notebook(text: str) -> Outline:
    try:
        title = _read_markdown(read_prose(text)).title
    except FormatError:
        # That it cannot be read is said where it is.
        title = ""
    return Outline(replace_lone_surrogates(title))


def _read_jekyll_values(text: str) -> dict[str, str]:
    """Return the values of one line of a site of Jekyll, or of a Jupyter Book, by the names that pages use."""
    values = {f"{{{{site.{name}}}}}": read_value(value) for name, value in _JEKYLL_VALUE.findall(text)}
    generator = {} if _BOOK.search(text) else {GENERATOR: NUNJUCKS if _HEXO.search(text) else LIQUID}
    return values | find_substitutions(text.split("\n")) | generator


def _read_hugo_values(text: str) -> dict[str, str]:
    """Return the parameters of a site of Hugo; or that it is one of Zola."""
    values = read_scalars(text.split("\n"))
    own = {name: value for name, value in values.items() if name.startswith("params.")}
    return _name_values("param", own) | ({GENERATOR: ZOLA} if "base_url" in values else {})


def _read_quarto_values(text: str) -> dict[str, str]:
    """Return the values that pages of Quarto may name, and whether they are the chapters of a book."""
    values = read_scalars(text.split("\n"))
    generator = PANDOC_BOOK if values.get("project.type") == "book" else PANDOC
    return _name_values("meta", values) | {GENERATOR: generator}


def _name_values(place: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return values by the names that tags of Hugo and Quarto have for them."""
    return {f"{{{{{place} {name.removeprefix('params.')}}}}}": value for name, value in values.items()}
