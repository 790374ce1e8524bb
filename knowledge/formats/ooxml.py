"""What Word, PowerPoint and Excel documents share: parts in a ZIP archive that refer to each other, drawings, formulas.

Elements are told apart by their local names: the "strict" form of the standard has other namespaces for the same.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from lxml import etree

from core.markup.document import Block
from knowledge.formats.inline import escape
from knowledge.parsing.limits import FormatError, check_archive

Element = Any

# How the parts of a formula are written in a line, by the element that holds them.
_FORMULAS = {
    "f": (("num", "den"), "({})/({})"),
    "sSup": (("e", "sup"), "{}^{}"),
    "sSub": (("e", "sub"), "{}_{}"),
    "sSubSup": (("e", "sub", "sup"), "{}_{}^{}"),
    "rad": (("e",), "√({})"),
}
MAX_DIAGRAM_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Relation:
    """What a part refers to: another part by its path, or (`is_external`) an address."""

    kind: str
    target: str
    is_external: bool


class Package:
    """An archive of parts. Raises `FormatError` for what is no archive, or unpacks into too much.

    Only the document itself must be whole: of any other part that is damaged, what can be read is read.
    """

    def __init__(self, data: bytes) -> None:
        check_archive(data)
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self.paths = tuple(self._archive.namelist())

    @cached_property
    def main_path(self) -> str:
        """The path of the document itself."""
        for relation in self.get_relations("").values():
            if relation.kind == "officeDocument":
                return relation.target
        raise FormatError("it has no main part")

    def read_document(self) -> Element:
        """Return the root of the document itself."""
        return etree.fromstring(self.read_bytes(self.main_path), _make_parser())

    def read(self, path: str) -> Element | None:
        """Return the root of a part as far as it can be read; None where it cannot, or is not there."""
        try:
            return etree.fromstring(self.read_bytes(path), _make_parser(recover=True))
        except (KeyError, zipfile.BadZipFile, zlib.error, etree.XMLSyntaxError):
            return None

    def read_bytes(self, path: str) -> bytes:
        """Return a part as it is. Raises `KeyError` where there is none."""
        return self._archive.read(path)

    def get_relations(self, path: str) -> dict[str, Relation]:
        """Return what a part refers to, by the ids that it uses for it."""
        folder, name = posixpath.split(path)
        relations = self.read(posixpath.join(folder, "_rels", f"{name}.rels"))
        return {
            node.get("Id", ""): Relation(
                node.get("Type", "").rpartition("/")[2],
                self._resolve(folder, node.get("Target", ""), node.get("TargetMode") == "External"),
                node.get("TargetMode") == "External",
            )
            for node in (() if relations is None else relations)
        }

    def read_related(self, path: str, kind: str) -> Element | None:
        """Return the root of the part of a kind that a part refers to; None where there is none."""
        for relation in self.get_relations(path).values():
            if relation.kind == kind and not relation.is_external:
                return self.read(relation.target)
        return None

    def read_drawing(self, node: Element, relations: dict[str, Relation]) -> list[Block]:
        """Return the values of a chart, or the words of a diagram (SmartArt), that an element refers to."""
        relation_id = get_attribute(node, "dm" if get_name(node) == "relIds" else "id")
        relation = relations.get(relation_id)
        root = self.read(relation.target) if relation else None
        if root is None:
            return []
        return _read_diagram(root) if get_name(node) == "relIds" else _read_chart(root)

    @staticmethod
    def _resolve(folder: str, target: str, is_external: bool) -> str:
        if is_external:
            return target
        return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")


def _make_parser(*, recover: bool = False) -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True, recover=recover
    )


@cache
def _split_name(tag: str) -> str:
    return tag.rpartition("}")[2]


def get_name(node: Element) -> str:
    """Return an element's name without its namespace."""
    return _split_name(node.tag) if isinstance(node.tag, str) else ""


def get_attribute(node: Element | None, name: str) -> str:
    """Return an attribute by its name without the namespace, or an empty string."""
    if node is None:
        return ""
    return next((value for key, value in node.attrib.items() if _split_name(key) == name), "")


def find(node: Element | None, *names: str) -> Element | None:
    """Return the first descendant down a path of names, or None."""
    for name in names:
        if node is None:
            return None
        node = next((child for child in node if get_name(child) == name), None)
    return node


def find_all(node: Element, name: str) -> Iterator[Element]:
    """Yield all descendants of a name."""
    return (child for child in node.iter() if get_name(child) == name)


def is_on(node: Element | None) -> bool:
    """Return whether a switch is there and not turned off."""
    return node is not None and get_attribute(node, "val") not in ("0", "false", "off", "none")


def choose_alternative(node: Element) -> Element | None:
    """Return the form of `AlternateContent` to read: the first with text, for both show the same."""
    forms = [child for child in node if get_name(child) in ("Choice", "Fallback")]
    readable_names = ("t", "chart", "relIds", "oMath")
    return next((form for form in forms if any(get_name(child) in readable_names for child in form.iter())), None)


def read_formula(node: Element) -> str:
    """Return a formula in a line, as plain text."""
    name = get_name(node)
    if name == "t":
        return node.text or ""
    if name in _FORMULAS:
        part_names, form = _FORMULAS[name]
        return form.format(*(_read_formula_part(node, part) for part in part_names))
    return "".join(map(read_formula, node))


def _read_formula_part(node: Element, name: str) -> str:
    part = find(node, name)
    return "" if part is None else read_formula(part)


def _read_chart(root: Element) -> list[Block]:
    """Return the title of a chart, and its values as a table: a row for each category, a column for each series."""
    title = find(root, "chart", "title")
    words = "" if title is None else "".join(node.text or "" for node in find_all(title, "t")).strip()
    series = list(find_all(root, "ser"))
    names = [" ".join(_read_points(find(item, "tx")).values()) for item in series]
    labels: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    for item in series:
        labels |= _read_points(find(item, "cat") if find(item, "cat") is not None else find(item, "xVal"))
        columns.append(_read_points(find(item, "val") if find(item, "val") is not None else find(item, "yVal")))
    numbers = sorted(set(labels).union(*columns))
    rows = tuple((labels.get(number, ""), *(column.get(number, "") for column in columns)) for number in numbers)
    table = Block("table", header=("", *map(escape, names)), rows=rows)
    return ([Block("paragraph", escape(words))] if words else []) + ([table] if rows else [])


def _read_points(node: Element | None) -> dict[int, str]:
    """Return the cached values of a series by their numbers."""
    points: dict[int, str] = {}
    for point in find_all(node, "pt") if node is not None else ():
        value = find(point, "v")
        number = get_attribute(point, "idx")
        if value is not None and number.isdecimal():
            text = escape(value.text or "")
            points[int(number)] = f"{points[int(number)]} {text}" if int(number) in points else text
    return points


def _read_diagram(root: Element) -> list[Block]:
    """Return the words of a diagram as a list, what is below something within it."""
    texts = {
        get_attribute(point, "modelId"): " ".join(node.text or "" for node in find_all(point, "t")).strip()
        for point in find_all(root, "pt")
        if get_attribute(point, "type") in ("", "node", "asst", "doc")
    }
    children: dict[str, list[str]] = {}
    for link in find_all(root, "cxn"):
        if get_attribute(link, "type") in ("", "parOf"):
            children.setdefault(get_attribute(link, "srcId"), []).append(get_attribute(link, "destId"))
    inner = {identifier for identifiers in children.values() for identifier in identifiers}
    seen: set[str] = set()
    return _list_points([identifier for identifier in texts if identifier not in inner], texts, children, seen)


def _list_points(
    identifiers: Sequence[str], texts: dict[str, str], children: dict[str, list[str]], seen: set[str], depth: int = 0
) -> list[Block]:
    items: list[Block] = []
    for identifier in identifiers:
        if identifier in seen or depth > MAX_DIAGRAM_DEPTH:
            continue
        seen.add(identifier)
        below = _list_points(children.get(identifier, []), texts, children, seen, depth + 1)
        text = texts.get(identifier, "")
        if text:
            items.append(Block("item", escape(text), children=tuple(below)))
        else:
            items += [item for block in below for item in block.children]
    return [Block("list", children=tuple(items))] if items else []
