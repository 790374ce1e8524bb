"""Word documents: all that a reader sees is read, whatever wraps it, and nothing that was deleted."""

from __future__ import annotations

import io
import zipfile

import docx
import pytest

from knowledge.formats.word import read_docx
from knowledge.parsing.limits import FormatError
from tests.support.office import NAMESPACES, paragraph, relations, run, word_document, zip_parts


def level(number: int, form: str, label: str) -> str:
    return f'<w:lvl w:ilvl="{number}"><w:numFmt w:val="{form}"/><w:lvlText w:val="{label}"/></w:lvl>'


def numbers(number: int, target: int, start: str = "") -> str:
    override = f'<w:lvlOverride w:ilvl="0"><w:startOverride w:val="{start}"/></w:lvlOverride>' if start else ""
    return f'<w:num w:numId="{number}"><w:abstractNumId w:val="{target}"/>{override}</w:num>'


NUMBERING = (
    f'<w:abstractNum w:abstractNumId="0">{level(0, "decimal", "%1.")}{level(1, "lowerLetter", "%2)")}</w:abstractNum>'
    f'<w:abstractNum w:abstractNumId="1">{level(0, "decimal", "%1")}{level(1, "upperRoman", "%1.%2")}</w:abstractNum>'
    f'<w:abstractNum w:abstractNumId="2">{level(0, "bullet", "o")}</w:abstractNum>'
    f"{numbers(1, 0)}{numbers(2, 1)}{numbers(3, 2)}{numbers(4, 0, '5')}"
)
STYLES = """
<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="Kapitel"><w:name w:val="Unser Kapitel"/><w:basedOn w:val="berschrift1"/></w:style>
<w:style w:styleId="Abschnitt"><w:name w:val="Abschnitt"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
<w:style w:styleId="Round"><w:name w:val="Round"/><w:basedOn w:val="About"/></w:style>
<w:style w:styleId="About"><w:name w:val="About"/><w:basedOn w:val="Round"/></w:style>
<w:style w:styleId="Listing"><w:name w:val="Code Listing"/></w:style>
<w:style w:styleId="Verzeichnis1"><w:name w:val="toc 1"/></w:style>
<w:style w:styleId="Zitat"><w:name w:val="Quote"/></w:style>
"""
NOTES = """
<w:footnote w:type="separator" w:id="0"><w:p><w:r><w:t>NOT SHOWN</w:t></w:r></w:p></w:footnote>
<w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>It resumes by itself.</w:t></w:r></w:p></w:footnote>
"""
BOX = "<w:txbxContent><w:p><w:r><w:t>Call extension 4711.</w:t></w:r></w:p></w:txbxContent>"


def style(name: str) -> str:
    return f'<w:pStyle w:val="{name}"/>'


def item(list_id: int, depth: int = 0) -> str:
    return f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{list_id}"/></w:numPr>'


def mark(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def instruction(text: str) -> str:
    return f"<w:r><w:instrText>{text}</w:instrText></w:r>"


def row(*cells: str) -> str:
    return f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>"


TIME = run("03:00")
MONO = '<w:rFonts w:ascii="Consolas"/>'
WRAPPED = {
    "inserted": f"<w:ins>{TIME}</w:ins>",
    "in place of what was deleted": f"<w:del><w:r><w:delText>01:00</w:delText></w:r></w:del><w:ins>{TIME}</w:ins>",
    "moved": f"<w:moveFrom>{run('01:00')}</w:moveFrom><w:moveTo>{TIME}</w:moveTo>",
    "content control": f"<w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent>{TIME}</w:sdtContent></w:sdt>",
    "smart tag": f'<w:smartTag w:element="time">{TIME}</w:smartTag>',
    "simple field": f'<w:fldSimple w:instr="REF x">{TIME}</w:fldSimple>',
    "field": mark("begin") + instruction("REF x") + mark("separate") + TIME + mark("end"),
    "field in a field": mark("begin")
    + instruction("IF ")
    + (mark("begin") + instruction("REF y") + mark("separate") + run("draft") + mark("end"))
    + (instruction(" = 1") + mark("separate") + TIME + mark("end")),
    "field without an end": mark("begin") + TIME,
    "several": f"<w:customXml><w:sdt><w:sdtContent><w:ins>{TIME}</w:ins></w:sdtContent></w:sdt></w:customXml>",
    "direction": f"<w:bdo>{TIME}</w:bdo>",
    "not invented yet": f"<w:future>{TIME}</w:future>",
    "before hidden text": TIME + run(" secret", "<w:vanish/>"),
    "text that is not hidden": run("03:00", '<w:vanish w:val="0"/>'),
    "alternative": f"<mc:AlternateContent><mc:Choice>{TIME}</mc:Choice><mc:Fallback>{TIME}</mc:Fallback>"
    "</mc:AlternateContent>",
    "link within": f'<w:hyperlink w:anchor="a">{TIME}</w:hyperlink>',
}


def test_a_page_within_a_document_is_read_in_its_place() -> None:
    body = f'{paragraph("Before.")}<w:altChunk r:id="page"/><w:altChunk r:id="gone"/>{paragraph("After.")}'
    links = {"page": "aFChunk part.html", "gone": "aFChunk gone.html"}
    document = io.BytesIO(word_document(body, links))
    with zipfile.ZipFile(document, "a") as archive:
        archive.writestr("word/part.html", "<meta charset=windows-1252><h2>Größe</h2><p>4 TB</p>".encode("cp1252"))
    assert read_docx(document.getvalue()) == "Before.\n\n## Größe\n\n4 TB\n\nAfter."


@pytest.mark.parametrize("content", WRAPPED.values(), ids=WRAPPED)
def test_what_wraps_text_hides_none(content: str) -> None:
    body = f"<w:p>{run('It starts at ')}{content}{run(' UTC.')}</w:p>"
    assert read_docx(word_document(body)) == "It starts at 03:00 UTC."


OFF = '<w:strike w:val="0"/>'


def checkbox(content: str) -> str:
    data = f"<w:ffData><w:checkBox>{content}</w:checkBox></w:ffData>"
    begin = f'<w:r><w:fldChar w:fldCharType="begin">{data}</w:fldChar></w:r>'
    return begin + instruction("FORMCHECKBOX") + mark("separate") + mark("end")


def formula(kind: str, **parts: str) -> str:
    content = "".join(f"<m:{name}><m:r><m:t>{text}</m:t></m:r></m:{name}>" for name, text in parts.items())
    return f"<m:oMath><m:{kind}>{content}</m:{kind}></m:oMath>"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<m:oMath><m:r><m:t>n=2k</m:t></m:r></m:oMath>", "n=2k"),
        (formula("f", num="n+1", den="2"), "(n+1)/(2)"),
        (formula("sSup", e="2", sup="10"), "2^10"),
        (formula("sSub", e="x", sub="i"), "x_i"),
        (f'<w:hyperlink r:id="web">{run("the page")}</w:hyperlink>', "[the page](https://example.org/t)"),
        (
            mark("begin") + instruction('HYPERLINK "https://example.org/f"') + mark("separate") + TIME + mark("end"),
            "[03:00](https://example.org/f)",
        ),
        (run("date", MONO) + run(" -u", MONO), "`date -u`"),
        (
            "<w:r><w:ruby><w:rt><w:r><w:t>かんじ</w:t></w:r></w:rt>"
            "<w:rubyBase><w:r><w:t>漢字</w:t></w:r></w:rubyBase></w:ruby></w:r>",
            "漢字(かんじ)",
        ),
        (run("02:00", "<w:strike/>") + run(" 03:00"), "~~02:00~~ 03:00"),
        (run("02:", "<w:dstrike/>") + run("00 ", "<w:strike/>") + run("03:00", OFF), "~~02:00~~ 03:00"),
        (run("10") + run("6", '<w:vertAlign w:val="superscript"/>') + run(" H"), "10⁶ H"),
        (run("H") + run("2", '<w:vertAlign w:val="subscript"/>') + run("O"), "H₂O"),
        ('<w:r><w:t>20</w:t><w:sym w:font="Symbol" w:char="F0B0"/></w:r>', "20°"),
        ('<w:r><w:sym w:font="Unknown" w:char="F0B0"/><w:sym w:font="Arial" w:char="2265"/></w:r>', "≥"),
        ('<w:r><w:rPr><w:rFonts w:ascii="Wingdings"/></w:rPr><w:t>\uf0fc</w:t></w:r>', "✓"),
        (checkbox("<w:checked/>") + run("03:00"), "☒ 03:00"),
        (checkbox('<w:default w:val="1"/>') + run("03:00"), "☒ 03:00"),
        (checkbox('<w:default w:val="1"/><w:checked w:val="0"/>') + run("03:00"), "☐ 03:00"),
    ],
)
def test_what_is_more_than_text_is_read(content: str, expected: str) -> None:
    body = f"<w:p>{run('It is ')}{content}{run(' UTC.')}</w:p>"
    links = {"web": "hyperlink https://example.org/t"}
    assert read_docx(word_document(body, links)) == f"It is {expected} UTC."


@pytest.mark.parametrize(
    "drawing",
    [
        f"<w:r><w:pict><v:shape><v:textbox>{BOX}</v:textbox></v:shape></w:pict></w:r>",
        f"<w:r><w:drawing><wps:wsp><wps:txbx>{BOX}</wps:txbx></wps:wsp></w:drawing></w:r>",
        f"<w:r><mc:AlternateContent><mc:Choice><w:drawing>{BOX}</w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict>{BOX}</w:pict></mc:Fallback></mc:AlternateContent></w:r>",
    ],
)
def test_a_text_box_is_read_once_below_its_paragraph(drawing: str) -> None:
    body = f"<w:p>{run('See the box')}{drawing}{run('.')}</w:p>{paragraph('Next.')}"
    assert read_docx(word_document(body)) == "See the box.\n\nCall extension 4711.\n\nNext."


def test_a_note_follows_the_paragraph_that_names_it_first() -> None:
    reference = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    body = f"<w:p>{run('Copy it.')}{reference}</w:p><w:p>{run('Again.')}{reference}</w:p>"
    assert read_docx(word_document(body, footnotes=NOTES)) == "Copy it.\n\nIt resumes by itself.\n\nAgain."


def test_headings_are_known_by_their_level_in_any_language() -> None:
    body = (
        paragraph("Handbuch", style("berschrift1"))
        + paragraph("Betrieb", style("Kapitel"))
        + paragraph("Sicherung", style("Abschnitt"))
        + paragraph("Direkt", '<w:outlineLvl w:val="3"/>')
        + paragraph("Text", '<w:outlineLvl w:val="9"/>')
        + paragraph("Kreis", style("Round"))
        + paragraph("Betrieb 7", style("Verzeichnis1"))
    )
    assert read_docx(word_document(body, styles=STYLES)) == (
        "# Handbuch\n\n# Betrieb\n\n### Sicherung\n\n#### Direkt\n\nText\n\nKreis"
    )


def test_lists_have_their_numbers_and_levels() -> None:
    body = (
        paragraph("Stop", item(1))
        + paragraph("the web", item(1, 1))
        + paragraph("the mail", item(1, 1))
        + paragraph("Copy", item(1))
        + paragraph("In between.")
        + paragraph("Start", item(1))
        + paragraph("Fifth", item(4))
        + paragraph("Free", item(3))
        + paragraph("No list", item(0))
    )
    assert read_docx(word_document(body, numbering=NUMBERING)) == (
        "1. Stop\n   - a) the web\n   - b) the mail\n2. Copy\n\nIn between.\n\n"
        "3. Start\n\n5. Fifth\n\n- Free\n\nNo list"
    )


def test_headings_have_their_numbers() -> None:
    body = "".join(
        paragraph(name, f'<w:outlineLvl w:val="{depth}"/>{item(2, depth)}')
        for name, depth in (("Start", 0), ("Run", 0), ("Daily", 1), ("Weekly", 1))
    )
    text = read_docx(word_document(body, numbering=NUMBERING))
    assert text == "# 1. Start\n\n# 2. Run\n\n## 2.I Daily\n\n## 2.II Weekly"


def test_code_is_code() -> None:
    body = (
        paragraph("# install", style("Listing"))
        + paragraph("apt install rocket", style("Listing"))
        + f"<w:p>{run('```', MONO)}</w:p>"
        + paragraph("It is so.", style("Zitat"))
    )
    assert read_docx(word_document(body, styles=STYLES)) == (
        "````\n# install\napt install rocket\n```\n````\n\n> It is so."
    )


def test_tables_hold_what_their_cells_hold() -> None:
    inner = f"<w:tbl>{row(paragraph('retry'), paragraph('twice'))}</w:tbl>"
    control = f"<w:sdt><w:sdtContent>{paragraph('8443')}</w:sdtContent></w:sdt>"
    shared = "<w:tcPr><w:vMerge/></w:tcPr>"
    wrapped_row = row(shared + paragraph(""), paragraph("9100"), paragraph("Tries:") + inner)
    body = (
        f"<w:tbl><w:tblPr/>{row(paragraph('Ports of 2026'))}"
        + row(paragraph("Host"), paragraph("Port"), paragraph("Note"))
        + row('<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>' + paragraph("alpha"), control, paragraph("a | b"))
        + f"<w:sdt><w:sdtContent>{wrapped_row}</w:sdtContent></w:sdt>"
        + f"<w:tr><w:trPr><w:del/></w:trPr><w:tc>{paragraph('gone')}</w:tc></w:tr>"
        + row('<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>' + paragraph("total"), paragraph("2"))
        + "</w:tbl>"
        + f"<w:tbl>{row(paragraph('A frame.') + paragraph('Two lines.'))}</w:tbl>"
    )
    assert read_docx(word_document(body)) == (
        "Ports of 2026\n\n| Host | Port | Note |\n|---|---|---|\n| alpha | 8443 | a \\| b |\n"
        "| alpha | 9100 | Tries: retry, twice |\n| total |  | 2 |\n\nA frame.\n\nTwo lines."
    )


def test_plain_text_is_no_markdown() -> None:
    document = docx.Document()
    document.add_heading("Deploy guide", 1)
    for text in ("# install dependencies", "apt install rocket", "* a sign", "1. First", "> reply", "```", "<b> & `x`"):
        document.add_paragraph(text)
    lines = document.add_paragraph("Name Size")
    lines.add_run().add_break()
    lines.add_run("---------")
    buffer = io.BytesIO()
    document.save(buffer)
    assert read_docx(buffer.getvalue()) == (
        "# Deploy guide\n\n\\# install dependencies\n\napt install rocket\n\n\\* a sign\n\n1\\. First\n\n\\> reply\n\n"
        "\\```\n\n\\<b> & \\`x\\`\n\nName Size  \n\\---------"
    )


def test_the_strict_form_of_the_standard_is_read() -> None:
    namespace = "http://purl.oclc.org/ooxml/wordprocessingml/main"
    kind = "http://purl.oclc.org/ooxml/officeDocument/relationships/officeDocument"
    parts = {
        "_rels/.rels": relations(rId1="officeDocument /word/d.xml").replace(
            "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument", kind
        ),
        "word/d.xml": f'<d xmlns="{namespace}"><body><p><r><t>Strict words.</t></r></p></body></d>',
    }
    assert read_docx(zip_parts(parts)) == "Strict words."


def test_a_chart_is_a_table() -> None:
    points = '<c:pt idx="0"><c:v>{}</c:v></c:pt><c:pt idx="1"><c:v>{}</c:v></c:pt>'
    series = (
        "<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>Failovers</c:v></c:pt></c:strCache></c:strRef></c:tx>"
        f"<c:cat>{points.format('Mon', 'Tue')}</c:cat><c:val>{points.format(3, 5)}</c:val></c:ser>"
    )
    body = '<w:p><w:r><w:drawing><c:chart r:id="chart1"/></w:drawing></w:r></w:p>'
    data = word_document(body, {"chart1": "chart chartSpace.xml"}, chartSpace=f"<c:chart>{series}</c:chart>")
    assert read_docx(data) == "|  | Failovers |\n|---|---|\n| Mon | 3 |\n| Tue | 5 |"


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + number)} "{f"&{chr(97 + number)};" * 10}">' for number in range(12)
)


@pytest.mark.parametrize(
    "document",
    [
        f"{LAUGHS}]><d><body><p><r><t>&m;</t></r></p></body></d>",
        "<d>" + "<ins>" * 5000 + "</ins>" * 5000 + "</d>",
        "<d><body><p>",
    ],
)
def test_a_hostile_document_is_refused_or_empty(document: str) -> None:
    data = zip_parts({"_rels/.rels": relations(rId1="officeDocument d.xml"), "d.xml": document})
    try:
        text = read_docx(data)
    except FormatError:
        text = ""
    assert text == ""


def test_an_archive_without_a_document_is_refused() -> None:
    with pytest.raises(FormatError, match="no main part"):
        read_docx(zip_parts({"x.txt": "x"}))


@pytest.mark.parametrize("name", ["styles", "numbering", "footnotes", "header", "comments"])
@pytest.mark.parametrize("content", ["<w:styles", "", '<w:hdr><w:p><w:r w:a="x'])
def test_a_damaged_part_costs_no_other(name: str, content: str) -> None:
    files = {
        "_rels/.rels": relations(rId1="officeDocument word/document.xml"),
        "word/document.xml": f"<w:document {NAMESPACES}><w:body>{paragraph('Call Ann.')}</w:body></w:document>",
        "word/_rels/document.xml.rels": relations(rId2=f"{name} {name}.xml", rId3="customXml ../customXml/item1.xml"),
        f"word/{name}.xml": content,
    }
    assert read_docx(zip_parts(files)) == "Call Ann."


def test_of_a_damaged_part_what_can_be_read_is_read() -> None:
    styles = STYLES + '<w:style w:styleId="x"><w:name w:val='
    assert read_docx(word_document(paragraph("Backup", style("berschrift1")), styles=styles)) == "# Backup"


def test_the_first_level_of_apple_pages_is_one() -> None:
    styles = '<w:style w:styleId="Heading"><w:name w:val="Heading"/></w:style>'
    assert read_docx(word_document(paragraph("Backup", style("Heading")), styles=styles)) == "# Backup"
