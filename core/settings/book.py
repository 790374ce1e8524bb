"""Writes what the settings model says into the files that people read.

`python -m core.settings.book` writes `config/schema.json`, `config/default.yaml`, the tables of `docs/configure.md`,
and that of former keys in `docs/install.md`. A table is everything between `<!-- settings: SECTION -->` and
`<!-- end -->`; the text around it is written by hand.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.settings import Secret, Section, Settings
from core.settings.former_keys import format_former_keys
from core.settings.schema import iter_sections, json_schema
from core.settings.yaml_file import format_flow

LINE_LENGTH = 120
HEADER = """\
# yaml-language-server: $schema=schema.json
#
# Every setting with its default, written from core/settings by `make settings`. You need none of these lines: a
# configuration names only what it changes. A `#` directly before a key or its indentation marks an optional part, with
# examples: remove the `#` to use it. A secret is {env: NAME} or {file: PATH}.
# `kimas init` writes a short configuration to start from; docs/configure.md explains the rest.
"""
TABLE = re.compile(r"(?<=<!-- settings: )(?P<name>[^>]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
PAGE_REFERENCE = re.compile(r"docs/(?P<page>[a-z-]+\.md)(?P<anchor>#[a-z-]+)?")
# The names of entries in the examples; a source is named after its kind.
FORMER = "former keys"
ENTRY_NAMES = {"agents": "manual", "fallbacks": "spare", "feeds": "news", "chats": "telegram:-1001234567890"}


def generate_files(root: Path) -> dict[Path, str]:
    """Return the text of each generated file below the root of the repository."""
    pages = [root / "docs/configure.md", root / "docs/install.md"]
    return {
        root / "config/schema.json": json_schema(),
        root / "config/default.yaml": default_yaml(),
        **{page: fill_tables(page.read_text("utf-8")) for page in pages},
    }


def fill_tables(page: str) -> str:
    """Return a Markdown page with its tables of settings as the model has them.

    Raises `KeyError` for a table whose name is not that of a section.
    """
    sections = name_sections()

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        return name + match[2] + (format_former_keys() if name == FORMER else format_table(sections[name]))

    return TABLE.sub(fill, page)


def name_sections() -> dict[str, type[BaseModel]]:
    """Return the sections by the names that their tables have, such as "agents.*" and "sources.* git"."""
    names = {}
    for path, kind, section in iter_sections():
        suffix = f" {kind}" if "kind" in section.model_fields else ""
        # A secret is described once, not wherever one may stand.
        names["secret" if section is Secret else (".".join(path) or "top") + suffix] = section
    return names


def format_table(section: type[BaseModel]) -> str:
    """Return a section's table: a row of key, default and meaning for each setting."""
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for name, field in sort_fields(section):
        meaning = PAGE_REFERENCE.sub(_link_page, describe(field)).replace("|", "\\|")
        rows.append(f"| `{name}` | {_format_default(field)} | {meaning} |")
    return "".join(row + "\n" for row in rows)


def sort_fields(section: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """Return the fields in reading order: the kind, what is required, others of its own, what it shares, sections."""
    return sorted(
        _list_fields(section),
        key=lambda item: (item[0] != "kind", not item[1].is_required(), bool(_find_own_sections(item[1].annotation))),
    )


def _list_fields(section: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    names = dict.fromkeys(name for base in section.__mro__ for name in inspect.get_annotations(base))
    return [(name, section.model_fields[name]) for name in names if name in section.model_fields]


def describe(field: FieldInfo) -> str:
    """Return the meaning of a setting with its range, or that of the section behind it."""
    if field.description is None:
        sections = _find_own_sections(field.annotation)
        # The values of a setting that needs no words, such as a kind.
        choices = ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
        return _first_paragraph(sections[0]) if sections else choices
    return field.description + _format_range(field)


def default_yaml() -> str:
    """Return a configuration file with every setting: its default as it is, or an example in a part left out."""
    writer = _YamlWriter()
    for name, field in _list_fields(Settings):
        writer.add_setting(name, field, depth=0)
    return HEADER + "\n" + "\n".join(writer.lines) + "\n"


class _YamlWriter:
    """Collects the lines of the file. What a reader has seen before is not said again."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.described: set[tuple[str, str]] = set()
        self.shown_sections: set[type[BaseModel]] = set()

    def add_setting(self, name: str, field: FieldInfo, *, depth: int, is_optional: bool = False) -> None:
        """Add a setting with all that is below it."""
        sections = _find_own_sections(field.annotation)
        has_example = bool(field.examples) and (field.is_required() or bool(sections))
        if depth == 0 and sections:
            self.lines.append("")
        if sections and not has_example and get_origin(field.annotation) is not tuple:
            self.add_sections(name, field, sections, depth=depth, is_optional=is_optional or _is_optional(field))
            return
        value = field.examples[0] if field.examples else field.get_default(call_default_factory=True)
        is_optional = is_optional or bool(sections and field.examples)
        self.add_line(f"{name}: {format_flow(value)}", self.describe_once(name, describe(field)), depth, is_optional)

    def add_sections(
        self, name: str, field: FieldInfo, sections: list[type[BaseModel]], *, depth: int, is_optional: bool
    ) -> None:
        """Add a section, or an example of each section that users may add under names of their own."""
        text = self.describe_once(name, describe(field))
        if self.shown_sections.issuperset(sections):
            self.add_line(f"{name}: {{}}", text, depth, is_optional)
            return
        self.add_line(f"{name}:", text, depth, is_optional)
        self.shown_sections.update(sections)
        has_names = get_origin(field.annotation) is dict
        for section in sections:
            if has_names:
                kind_field = section.model_fields.get("kind")
                entry = get_args(kind_field.annotation)[0] if kind_field else ENTRY_NAMES[name]
                self.add_line(f"{entry}:", _first_paragraph(section) if kind_field else "", depth + 1, is_optional)
                if kind_field:
                    self.add_line(f"kind: {entry}", "", depth + 2, is_optional)
            for field_name, section_field in sort_fields(section):
                if field_name == "kind":
                    continue
                self.add_setting(field_name, section_field, depth=depth + 1 + has_names, is_optional=is_optional)

    def describe_once(self, name: str, text: str) -> str:
        """Return a description, or a reference to where it stands already."""
        if (name, text) in self.described:
            return "as above"
        self.described.add((name, text))
        return text

    def add_line(self, text: str, comment: str, depth: int, is_optional: bool) -> None:
        """Add a line with a comment behind it, or above it where it is too long or introduces a main section."""
        indent = ("#" if is_optional else "") + "  " * depth
        comment = comment.replace("`", "")
        line = f"{indent}{text}  # {comment}" if comment else indent + text
        is_heading = depth == 0 and (is_optional or text.endswith(":"))
        if len(line) <= LINE_LENGTH and not is_heading:
            self.lines.append(line)
            return
        if is_heading:
            comment = comment[0].upper() + comment[1:].removesuffix(".") + "."
        # Above an optional part at the margin, the comment stays one when the part is used.
        comment_indent = "" if is_heading else indent
        wrapped_lines = textwrap.wrap(comment, LINE_LENGTH - len(comment_indent) - 2, break_on_hyphens=False)
        self.lines += [f"{comment_indent}# {wrapped_line}" for wrapped_line in wrapped_lines]
        self.lines.append(indent + text)


def _find_own_sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a type holds, except for secrets."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [] if annotation is Secret else [annotation]
    return [section for member in get_args(annotation) for section in _find_own_sections(member)]


def _is_optional(field: FieldInfo) -> bool:
    """Return whether nothing of a section is in force by default."""
    default = field.get_default(call_default_factory=True)
    return not isinstance(default, Section) or all(
        _find_own_sections(inner.annotation) and _is_optional(inner) for inner in type(default).model_fields.values()
    )


def _first_paragraph(section: type[BaseModel]) -> str:
    return " ".join((section.__doc__ or "").split("\n\n")[0].split())


def _format_range(field: FieldInfo) -> str:
    """Return the range of a number that is bounded on both sides, for example ` (0 to 1)`."""
    limits = {
        name: getattr(item, name) for item in field.metadata for name in ("gt", "ge", "le") if hasattr(item, name)
    }
    if "le" not in limits or len(limits) == 1:
        return ""
    lowest = f"above {limits['gt']}" if "gt" in limits else limits["ge"]
    return f" ({lowest} to {limits['le']})"


def _format_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return "below" if isinstance(default, Section) else f"`{format_flow(default)}`"


def _link_page(match: re.Match[str]) -> str:
    page = match["page"]
    anchor = match["anchor"] or ""
    text = anchor.removeprefix("#").replace("-", " ") or page
    return f"[{text}]({'' if page == 'configure.md' else page}{anchor})"


def write_files(root: Path) -> Iterator[Path]:
    """Write the files that are stale, and yield their paths."""
    for path, text in generate_files(root).items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            yield path


if __name__ == "__main__":
    for written_path in write_files(Path.cwd()):
        sys.stdout.write(f"{written_path.relative_to(Path.cwd())}\n")
