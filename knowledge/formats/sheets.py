"""Excel workbooks as blocks: the sheets that are shown, with values as they are shown."""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lxml import etree

from core.markup.document import Block
from knowledge.formats.inline import escape
from knowledge.formats.limited_text import write_within_limits
from knowledge.formats.ooxml import Package, Relation, find_all, get_attribute, get_name
from knowledge.formats.tables import read_tables
from knowledge.parsing.limits import DAMAGES, FormatError, map_parser_errors

_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})$")
# A number's form: what stands before it, thousands, decimals, what stands after it.
_NUMBER_FORM = re.compile(r"([^#0?]*)([#0?,]*)(?:\.([0#?]+))?([^#0?]*)$")
_FORM_NOISE = re.compile(r"\[(?:\$([^\[\]-]*+))?[^\[\]]*\]|_.|\*.|\\(.)|\"([^\"]*)\"")
# Joined cells beyond this are not filled.
MAX_JOINED_CELLS = 20_000
MAX_JOINED_CHARS = 200
MAX_CELLS = 5_000_000
MAX_DECIMALS = 10
_THREAD = "[Threaded comment]"
# Of the styles, what says how values are shown; the library refuses a workbook for a colour that it does not know.
_VALUE_STYLES = ("numFmts", "cellXfs")
_PLAIN_STYLES = (
    "<fonts><font/></fonts><fills><fill><patternFill/></fill></fills><borders><border/></borders>"
    '<cellStyleXfs><xf/></cellStyleXfs><cellStyles><cellStyle name="Normal" xfId="0"/></cellStyles>'
)


@map_parser_errors
def read_xlsx(data: bytes) -> str:
    """Return the sheets of a workbook, each row with the names of its columns. Raises `FormatError`."""
    return write_within_limits([block] for block in _read_sheets(data))


def _read_sheets(data: bytes) -> Iterator[Block]:
    package = Package(data)
    paths = _find_paths(package)
    for title, rows in _load_whole_sheets(package, data):
        yield Block("heading", escape(title), level=1)
        path = paths.get(title, "")
        content = package.read_bytes(path) if path in package.paths else b""
        # Most sheets have none of them: it is quicker to look than to parse.
        if b"mergeCell" in content or b"<f" in content or b"hyperlink" in content:
            _fill(rows, content, package.get_relations(path))
        yield from read_tables(rows)
        yield from _read_comments(package, path, rows)


def _load_whole_sheets(package: Package, data: bytes) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the sheets that are shown, by name, with their rows: of a damaged part, what can be read of it."""
    loaded: list[str] = []
    try:
        for title, rows in _load_sheets(data):
            loaded.append(title)
            yield title, rows
        return
    except DAMAGES as error:
        first_error = error
    for title, rows in _load_sheets(_mend(package), left_out=loaded, is_damaged=True):
        loaded.append(title)
        yield title, rows
    if not loaded:
        raise first_error


def _load_sheets(
    data: bytes, *, left_out: Collection[str] = (), is_damaged: bool = False
) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the sheets that are shown with their rows; with `is_damaged`, without those that cannot be read."""
    import openpyxl

    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    shown_sheets = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    if not shown_sheets and not is_damaged:
        raise FormatError("all of its sheets are hidden")
    cells_left = MAX_CELLS
    for sheet in shown_sheets:
        if sheet.title in left_out:
            continue
        rows: list[list[str]] = []
        try:
            # Some writers give a size that is not that of the sheet.
            sheet.reset_dimensions()
            for row in sheet.iter_rows():
                cells_left -= len(row) + 1
                if cells_left < 0:
                    raise FormatError("it holds more than can be taken")
                rows.append([_show(cell) for cell in row])
        except DAMAGES:
            if not is_damaged:
                raise
        if rows or not is_damaged:
            yield sheet.title, rows
    workbook.close()


def _mend(package: Package) -> bytes:
    """Return a workbook with the parts that hold its values, each as far as it can be read."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in package.paths:
            root = package.read(path) if path.endswith((".xml", ".rels")) and not path.startswith("docProps") else None
            if root is None:
                continue
            if get_name(root) == "styleSheet":
                root = _keep_value_styles(root)
            archive.writestr(path, etree.tostring(root))
    return buffer.getvalue()


def _keep_value_styles(styles: Any) -> Any:
    kept = [node for node in styles if get_name(node) in _VALUE_STYLES]
    for node in (node for part in kept for node in part):
        node[:] = []
        for name in set(node.attrib) - {"numFmtId", "formatCode"}:
            del node.attrib[name]
    namespace = etree.QName(styles).namespace or ""
    styles[:] = [*etree.fromstring(f'<x xmlns="{namespace}">{_PLAIN_STYLES}</x>'), *kept]
    return styles


def _find_paths(package: Package) -> dict[str, str]:
    """Return where each sheet is, by its name."""
    relations = package.get_relations(package.main_path)
    workbook = package.read(package.main_path)
    return {
        get_attribute(node, "name"): relations[get_attribute(node, "id")].target
        for node in (() if workbook is None else find_all(workbook, "sheet"))
        if get_attribute(node, "id") in relations
    }


def _read_comments(package: Package, path: str, rows: list[list[str]]) -> Iterator[Block]:
    """Yield what was remarked on cells, each after the first value of its row and its own."""
    comments = package.read_related(path, "comments") if path else None
    if comments is None:
        return
    authors = [" ".join((node.text or "").split()) for node in find_all(comments, "author")]
    for node in find_all(comments, "comment"):
        row, column = _find_place(get_attribute(node, "ref")) or (len(rows), 0)
        text = " ".join(" ".join(part.text or "" for part in find_all(node, "t")).split())
        if text.startswith(_THREAD):
            # Before it, older programs are told that they cannot show all of it.
            text = text.partition("Comment:")[2].strip()
        number = get_attribute(node, "authorId")
        author = authors[int(number)] if number.isdecimal() and int(number) < len(authors) else ""
        text = text.removeprefix(f"{author}:").strip() if author else text
        names = dict.fromkeys(filter(None, (_get(rows, (row, 0)), _get(rows, (row, column)))))
        if text:
            yield Block("paragraph", escape(f"{', '.join(names)}: {text}" if names else text))


def _fill(rows: list[list[str]], content: bytes, relations: Mapping[str, Relation]) -> None:
    """Fill in formulas that were never calculated, links, and the value of joined cells in all of them."""
    cells_left = MAX_JOINED_CELLS
    tags = ("{*}c", "{*}row", "{*}mergeCell", "{*}hyperlink")
    for _, node in etree.iterparse(io.BytesIO(content), tag=tags, resolve_entities=False):
        match get_name(node):
            case "hyperlink":
                place = _find_place(get_attribute(node, "ref"))
                relation = relations.get(get_attribute(node, "id"))
                value = _get(rows, place) if place else ""
                if place and value and relation and relation.is_external and relation.target not in value:
                    _set(rows, place, f"{value} ({relation.target})")
            case "c":
                formula = node.findtext("{*}f")
                place = _find_place(get_attribute(node, "r"))
                if formula and not node.findtext("{*}v") and place and not _get(rows, place):
                    _set(rows, place, f"={formula}")
            case "row":
                node.clear()
            case _:
                cells_left -= _fill_joined(rows, get_attribute(node, "ref"), cells_left)


def _fill_joined(rows: list[list[str]], reference: str, cells_left: int) -> int:
    """Give joined cells the value of the first; a title above a whole table stays one. Returns how many they are."""
    first, _, last = reference.partition(":")
    start = _find_place(first)
    end = _find_place(last)
    if start is None or end is None or start[0] >= len(rows):
        return 0
    value = _get(rows, start)
    last_row = min(end[0], len(rows) - 1)
    width = len(rows[start[0]])
    is_title = start[0] == end[0] and sum(map(bool, rows[start[0]])) == 1
    size = (last_row - start[0] + 1) * (end[1] - start[1] + 1)
    if not value or is_title or len(value) > MAX_JOINED_CHARS or size > cells_left or start[1] >= width:
        return 0
    for row in range(start[0], last_row + 1):
        for column in range(start[1], end[1] + 1):
            # Rows that hold nothing else are no rows of a table.
            if any(rows[row]):
                _set(rows, (row, column), value)
    return size


def _find_place(reference: str) -> tuple[int, int] | None:
    """Return the row and the column of a cell, from 0, or None."""
    match = _REFERENCE.match(reference)
    if match is None:
        return None
    column = 0
    for letter in match[1]:
        column = column * 26 + ord(letter) - ord("A") + 1
    return int(match[2]) - 1, column - 1


def _get(rows: list[list[str]], place: tuple[int, int]) -> str:
    row, column = place
    return rows[row][column] if row < len(rows) and column < len(rows[row]) else ""


def _set(rows: list[list[str]], place: tuple[int, int], value: str) -> None:
    row, column = place
    if row < len(rows):
        rows[row] += [""] * (column + 1 - len(rows[row]))
        rows[row][column] = value


def _show(cell: Any) -> str:
    """Return a value about as it is shown: dates in the order of ISO, numbers with their decimals and units."""
    value = cell.value
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return _show_number(value, cell.number_format or "General")
    if isinstance(value, datetime.datetime):
        has_time = value.time() != datetime.time()
        return value.isoformat(" ", "auto" if value.second else "minutes") if has_time else value.date().isoformat()
    return "" if value is None else " ".join(str(value).split())


def _show_number(value: float, number_format: str) -> str:
    sections = number_format.split(";")
    section = sections[1] if value < 0 and len(sections) > 1 and sections[1] else sections[0]
    form = _NUMBER_FORM.match(_FORM_NOISE.sub(lambda match: "".join(filter(None, match.groups())), section))
    if form is None or not form[2] or form[2].endswith(","):
        return f"{value:.15g}"
    before, digits, decimals, after = form.groups(default="")
    scaled = value * 100 if "%" in before + after else value
    # A form of their own for negative numbers has its own mark of them.
    shown_value = scaled if section is sections[0] else abs(scaled)
    thousands = "," if "," in digits else ""
    number = f"{shown_value:{thousands}.{min(len(decimals), MAX_DECIMALS)}f}"
    # A digit that is not needed is not shown.
    optional = len(decimals) - len(decimals.rstrip("#?"))
    for _ in range(optional if decimals else 0):
        number = number.removesuffix("0")
    return f"{before}{number.removesuffix('.')}{after}".strip()
