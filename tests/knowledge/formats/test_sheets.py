"""Workbooks: which rows name the columns, what is joined or hidden, and how values are shown."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Sequence

import openpyxl
import pytest
from openpyxl.comments import Comment

from knowledge.formats.sheets import read_xlsx
from knowledge.parsing.limits import FormatError
from tests.support.bombs import rewrite
from tests.support.office import relations, zip_parts

SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def workbook(rows: Sequence[Sequence[object]], joined: Sequence[str] = (), **formats: str) -> bytes:
    """Return a workbook with one sheet; `formats` are those of numbers, by cell."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cells in joined:
        book.active.merge_cells(cells)
    for name, number_format in formats.items():
        book.active[name].number_format = number_format
    return saved(book)


def saved(book: openpyxl.Workbook) -> bytes:
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def read(data: bytes) -> str:
    """Return a workbook as text, without the blanks that keep its lines apart."""
    return read_xlsx(data).removeprefix("# Sheet\n\n").replace("  \n", "\n")


def raw_workbook(rows: str) -> bytes:
    """Return a workbook whose only sheet has rows of XML: what other writers leave out is left out."""
    return zip_parts(
        {
            "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            'spreadsheetml.sheet.main+xml"/><Override PartName="/xl/s.xml" ContentType="application/'
            'vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
            "_rels/.rels": relations(rId1="officeDocument xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/'
            '2006/relationships"><sheets><sheet name="Sheet" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(rId1="worksheet s.xml"),
            "xl/s.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
        }
    )


def test_a_title_is_no_row_of_names() -> None:
    rows = [
        ["Service list, revised 2026"],
        [],
        ["Service", "Port", "Since", "Share"],
        ["gateway", 8443, datetime.date(2026, 3, 1), 0.25],
        ["metrics", 9100, datetime.datetime(2026, 3, 2, 14, 30), 0.5],
        ["total", "=SUM(B4:B5)"],
    ]
    data = workbook(rows, D4="0%", D5="0.0%")
    # Some writers give a size that is not that of the sheet.
    data = rewrite(
        data, "xl/worksheets/sheet1.xml", lambda text: re.sub(r'<dimension ref="[^"]*"', '<dimension ref="A1"', text)
    )
    assert read(data) == (
        "Service list, revised 2026\n\n"
        "Service: gateway\nPort: 8443\nSince: 2026-03-01\nShare: 25%\n\n"
        "Service: metrics\nPort: 9100\nSince: 2026-03-02 14:30\nShare: 50.0%\n\n"
        "Service: total\nPort: =SUM(B4:B5)"
    )


def test_hidden_sheets_are_left_out() -> None:
    book = openpyxl.Workbook()
    book.active.append(["Service", "Port"])
    book.active.append(["gateway", 8443])
    for name, state in (("Old", "hidden"), ("Older", "veryHidden")):
        sheet = book.create_sheet(name)
        sheet.sheet_state = state
        sheet.append(["Service", "Port"])
        sheet.append(["gateway", 80])
    assert read(saved(book)) == "Service: gateway\nPort: 8443"
    data = rewrite(saved(book), "xl/workbook.xml", lambda text: text.replace('state="visible"', 'state="hidden"'))
    with pytest.raises(FormatError, match="all of its sheets are hidden"):
        read(data)


@pytest.mark.parametrize(
    ("rows", "joined", "expected"),
    [
        (
            [["Service", "Owner"], ["gateway", "net"], [None, "core"]],
            ["A2:A3"],
            "Service: gateway\nOwner: net\n\nService: gateway\nOwner: core",
        ),
        (
            [["Prices 2026", None, None], ["Plan", "Q1", None], [None, "plan", "actual"], ["Small", 5, 6]],
            ["A1:C1", "B2:C2", "A2:A3"],
            "Prices 2026\n\nPlan: Small\nQ1 plan: 5\nQ1 actual: 6",
        ),
        (
            [["Plan", "Jan", "Feb"], ["Small", "free", None], ["Large", 5, 6]],
            ["B2:C2"],
            "Plan: Small\nJan: free\nFeb: free\n\nPlan: Large\nJan: 5\nFeb: 6",
        ),
    ],
)
def test_joined_cells_hold_one_value(rows: list[list[object]], joined: list[str], expected: str) -> None:
    assert read(workbook(rows, joined)) == expected


@pytest.mark.parametrize(
    ("value", "number_format", "expected"),
    [
        (8443, "General", "8443"),
        (0.1 + 0.2, "General", "0.3"),
        (1234.5, "#,##0.00", "1,234.50"),
        (1234.5, "#,##0.00\\ [$€-407]", "1,234.50 €"),
        (5, '"$"0.00', "$5.00"),
        (-5, "0.00;(0.00)", "(5.00)"),
        (0.125, "0.0%", "12.5%"),
        (3, '0" kg"', "3 kg"),
        (2.5, "0.##", "2.5"),
        (2, "0.##", "2"),
        (7, "@", "7"),
        (True, "General", "TRUE"),
        (datetime.datetime(2026, 3, 2, 14, 30, 5), "yyyy", "2026-03-02 14:30:05"),
        (datetime.time(9, 30), "hh:mm", "09:30:00"),
    ],
)
def test_values_are_shown_as_in_the_sheet(value: object, number_format: str, expected: str) -> None:
    assert read(workbook([["Name", "Value"], ["x", value]], B2=number_format)) == f"Name: x\nValue: {expected}"


def test_cells_without_addresses_and_words_in_place_are_read() -> None:
    words = "".join(f'<c t="inlineStr"><is><t>{word}</t></is></c>' for word in ("Host", "Port"))
    data = raw_workbook(f'<row>{words}</row><row><c t="inlineStr"><is><t>alpha</t></is></c><c><v>22</v></c></row>')
    assert read(data) == "Host: alpha\nPort: 22"


def test_a_sheet_of_empty_cells_is_refused() -> None:
    rows = "".join(f'<row r="{row}"><c r="XFD{row}"><v>1</v></c></row>' for row in range(1, 400))
    with pytest.raises(FormatError, match="more than can be taken"):
        read(raw_workbook(rows))


def test_joined_cells_without_end_are_not_filled() -> None:
    data = rewrite(
        workbook([["Name", "Port"], ["web", 80]], ["A2:A3"]),
        "xl/worksheets/sheet1.xml",
        lambda text: text.replace("A2:A3", "A2:XFD1048576"),
    )
    assert read(data) == "Name: web\nPort: 80"


def test_links_and_comments_of_cells_are_read() -> None:
    book = openpyxl.Workbook()
    for row in (("Host", "Guide"), ("web", "Setup"), ("db", "https://b.example")):
        book.active.append(row)
    book.active["B2"].hyperlink = "https://a.example/setup"
    book.active["B2"].value = "Setup"
    book.active["B3"].hyperlink = "https://b.example"
    book.active["A3"].comment = Comment("Ada:\nMoves in May.", "Ada")
    thread = "[Threaded comment]\n\nYour version allows you to read it.\n\nComment:\n    Old.\nReply:\n    New soon."
    book.active["B2"].comment = Comment(thread, "tc=1")
    assert read(saved(book)) == (
        "Host: web\nGuide: Setup (https://a.example/setup)\n\nHost: db\nGuide: https://b.example\n\n"
        "web, Setup (https://a.example/setup): Old. Reply: New soon.\n\ndb: Moves in May."
    )


def two_sheets() -> bytes:
    book = openpyxl.Workbook()
    for sheet, row in ((book.active, ["Web", 1234.5]), (book.create_sheet("Second"), ["Mail", 25])):
        sheet.append(["Name", "Load"])
        sheet.append(row)
    book.active["B2"].number_format = '#,##0.00" kg"'
    return saved(book)


WHOLE = "# Sheet\n\nName: Web  \nLoad: 1,234.50 kg\n\n# Second\n\nName: Mail  \nLoad: 25"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("xl/styles.xml", "<fills", "<fills><fill/></fills><x"),
        ("xl/styles.xml", '<family val="2"', '<family val="99"'),
        ("xl/styles.xml", "</styleSheet>", "<dxfs"),
        ("docProps/core.xml", "Z</dcterms:created>", "soon</dcterms:created>"),
        ("xl/sharedStrings.xml", "</sst>", "<si><t>more"),
    ],
)  # fmt: skip
def test_a_part_that_shows_nothing_costs_no_value(path: str, old: str, new: str) -> None:
    def damage(text: str) -> str:
        assert old in text
        return text.replace("</fills>", "</x>").replace(old, new) if "<x" in new else text.replace(old, new)

    assert read_xlsx(rewrite(two_sheets(), path, damage)) == WHOLE


@pytest.mark.parametrize("damage", ['<sheetData><row r="1"><c r="A1" t="x><v>1</v></c>', "\x00", ""])
def test_a_damaged_sheet_costs_itself_alone(damage: str) -> None:
    for number, other in ((1, "Name: Mail"), (2, "Name: Web")):
        text = read_xlsx(rewrite(two_sheets(), f"xl/worksheets/sheet{number}.xml", lambda _: damage))
        assert other in text


def test_a_workbook_of_damaged_sheets_is_refused() -> None:
    data = two_sheets()
    for number in (1, 2):
        data = rewrite(data, f"xl/worksheets/sheet{number}.xml", lambda _: "")
    with pytest.raises(FormatError, match="damaged"):
        read_xlsx(data)
