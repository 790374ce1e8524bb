"""PowerPoint presentations as blocks: what the slides show, in groups, charts and diagrams too, and their notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from core.markup.document import Block
from knowledge.formats.inline import escape, make_link
from knowledge.formats.limited_text import write_within_limits
from knowledge.formats.ooxml import (
    Element,
    Package,
    Relation,
    choose_alternative,
    find,
    find_all,
    get_attribute,
    get_name,
    read_formula,
)
from knowledge.parsing.limits import FormatError, map_parser_errors

_TITLES = ("title", "ctrTitle")
# What every slide repeats.
_FURNITURE = ("dt", "ftr", "sldNum", "hdr")
# A box of text in which each paragraph is a point.
_OUTLINES = ("body", "obj")
_OFF = ("0", "false")
_ON = ("1", "true")
MAX_LEVEL = 8
# Where shapes, groups, and tables or charts say their place.
_OFFSETS = (("spPr", "xfrm", "off"), ("grpSpPr", "xfrm", "off"), ("xfrm", "off"))
# What is no further below than half a centimetre, in English Metric Units, stands beside it.
_ROW = 180_000


@map_parser_errors
def read_pptx(data: bytes) -> str:
    """Return the slides that are shown of a presentation, each under its title, with notes. Raises `FormatError`."""
    return write_within_limits(_read_slides(Package(data)))


def _read_slides(package: Package) -> Iterator[list[Block]]:
    """Yield the blocks of every slide that is not hidden."""
    root = package.read_document()
    relations = package.get_relations(package.main_path)
    is_empty = True
    entries = list(find_all(root, "sldId"))
    for number, entry in enumerate(entries, 1):
        # It has an id of its own, without a namespace, besides that of the part.
        ids = [value for key, value in entry.attrib.items() if key.endswith("}id")]
        relation = relations.get(ids[0]) if ids else None
        path = relation.target if relation else ""
        slide = package.read(path)
        if slide is None or get_attribute(slide, "show") in _OFF:
            continue
        is_empty = False
        yield _SlideReader(package, path).read(slide, number)
    if is_empty and entries:
        raise FormatError("all of its slides are hidden or damaged")


class _SlideReader:
    """Reads one slide."""

    def __init__(self, package: Package, path: str) -> None:
        self._package = package
        self._relations: dict[str, Relation] = package.get_relations(path)
        self._path = path
        self._title = ""

    def read(self, slide: Element, number: int) -> list[Block]:
        """Return the blocks of a slide, under its title or its number."""
        blocks = list(self._read_shapes(find(slide, "cSld", "spTree")))
        notes = self._package.read_related(self._path, "notesSlide")
        blocks += self._read_notes(notes) if notes is not None else []
        return [Block("heading", self._title or f"Slide {number}", level=1), *blocks]

    def _read_notes(self, notes: Element) -> list[Block]:
        shapes = [node for node in find_all(notes, "sp") if _get_placeholder(node) == "body"]
        return [
            Block("paragraph", text)
            for shape in shapes
            for text in map(self._read_text, find_all(shape, "p"))
            if text.strip()
        ]

    def _read_shapes(self, nodes: Iterable[Element] | None) -> Iterator[Block]:
        """Yield the blocks of shapes from top to bottom, and of those that they group, wrap or hold."""
        for node in sorted(nodes if nodes is not None else (), key=_get_position):
            name = get_name(node)
            if name == "AlternateContent":
                yield from self._read_shapes(choose_alternative(node))
            elif get_attribute(find(next(iter(node), None), "cNvPr"), "hidden") in _ON:
                continue
            elif name == "txBody":
                yield from self._read_text_box(node, is_outline=False)
            elif name == "sp":
                yield from self._read_shape(node)
            elif name == "tbl":
                yield self._read_table(node)
            elif name in ("chart", "relIds"):
                yield from self._package.read_drawing(node, self._relations)
            else:
                yield from self._read_shapes(node)

    def _read_shape(self, node: Element) -> Iterator[Block]:
        kind = _get_placeholder(node)
        if kind in _FURNITURE:
            return
        if kind in _TITLES and not self._title:
            paragraphs = find(node, "txBody")
            self._title = " ".join(" ".join(map(self._read_text, find_all(paragraphs, "p"))).split())
            return
        body = find(node, "txBody")
        if body is not None:
            yield from self._read_text_box(body, is_outline=kind in _OUTLINES)

    def _read_text_box(self, body: Element, *, is_outline: bool) -> Iterator[Block]:
        paragraphs = [node for node in body if get_name(node) == "p"]
        entries = [(self._read_text(node), find(node, "pPr")) for node in paragraphs]
        lines = [(text, *_get_point(properties, is_outline=is_outline)) for text, properties in entries if text]
        is_single = len(lines) == 1
        for is_point, run in groupby(lines, lambda line: line[1] >= 0 and not is_single):
            points = list(run)
            if is_point:
                yield _nest([(level, text) for text, level, _ in points], points[0][2])
            else:
                yield from (Block("paragraph", text) for text, _, _ in points)

    def _read_text(self, paragraph: Element) -> str:
        return "".join(self._read_inline(paragraph)).strip()

    def _read_inline(self, node: Element) -> Iterator[str]:
        for child in node:
            name = get_name(child)
            if name == "t":
                # A line break that was pasted into a text.
                yield escape((child.text or "").replace("\v", "\n").replace("_x000B_", "\n"))
            elif name == "br":
                yield "\n"
            elif name == "r":
                link = get_attribute(find(child, "rPr", "hlinkClick"), "id")
                relation = self._relations.get(link)
                text = "".join(self._read_inline(child))
                yield make_link(text, relation.target) if relation and relation.is_external else text
            elif name == "oMath":
                yield escape(read_formula(child))
            elif name == "AlternateContent":
                form = choose_alternative(child)
                yield from self._read_inline(form) if form is not None else ()
            elif name not in ("pPr", "rPr", "endParaRPr"):
                yield from self._read_inline(child)

    def _read_table(self, table: Element) -> Block:
        rows = [
            tuple(" ".join(map(self._read_text, find_all(cell, "p"))) for cell in row if get_name(cell) == "tc")
            for row in table
            if get_name(row) == "tr"
        ]
        return Block("table", header=rows[0], rows=tuple(rows[1:])) if rows else Block("table")


def _get_position(shape: Element) -> tuple[int, int]:
    """Return about how far a shape is from the top, and from the left; what its layout places comes first."""
    if get_name(shape) == "AlternateContent":
        form = choose_alternative(shape)
        return min(map(_get_position, form if form is not None else ()), default=(-1, 0))
    offset = next((node for path in _OFFSETS if (node := find(shape, *path)) is not None), None)
    if offset is None:
        return -1, 0
    left, top = (int(get_attribute(offset, name) or 0) for name in ("x", "y"))
    return max(0, top // _ROW), left


def _get_placeholder(shape: Element) -> str:
    """Return the kind of a placeholder (`obj` where none is given), or an empty string for a shape that is none."""
    placeholder = find(shape, "nvSpPr", "nvPr", "ph")
    return "" if placeholder is None else get_attribute(placeholder, "type") or "obj"


def _get_point(properties: Element | None, *, is_outline: bool) -> tuple[int, int]:
    """Return the level of a paragraph that is a point of a list (-1: it is none), and its number (0: a bullet)."""
    level = min(int(get_attribute(properties, "lvl") or 0), MAX_LEVEL)
    if find(properties, "buNone") is not None:
        return -1, 0
    numbering = find(properties, "buAutoNum")
    if numbering is not None:
        return level, int(get_attribute(numbering, "startAt") or 1)
    has_mark = find(properties, "buChar") is not None or find(properties, "buBlip") is not None
    return (level if has_mark or is_outline or level else -1), 0


def _nest(points: Sequence[tuple[int, str]], number: int) -> Block:
    """Return points as a list, deeper ones within those above them."""
    items: list[Block] = []
    position = 0
    while position < len(points):
        level, text = points[position]
        end = position + 1
        while end < len(points) and points[end][0] > level:
            end += 1
        deeper = points[position + 1 : end]
        items.append(Block("item", text, children=(_nest(deeper, 0),) if deeper else ()))
        position = end
    return Block("list", level=number, children=tuple(items))
