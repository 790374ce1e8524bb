"""Presentations: what the slides show is read, in groups, charts and diagrams too, and what is hidden is not."""

from __future__ import annotations

import io

import pptx
import pytest
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from knowledge.formats.slides import read_pptx
from knowledge.parsing.limits import FormatError
from tests.support.bombs import rewrite
from tests.support.office import NAMESPACES, presentation, shape

TITLE = shape("Failover", placeholder="title")
DIAGRAM = (
    f"<dgm:dataModel {NAMESPACES}><dgm:ptLst>"
    '<dgm:pt modelId="0" type="doc"/>'
    + "".join(
        f'<dgm:pt modelId="{number}"><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>'
        for number, text in ((1, "Ann leads"), (2, "Bob tests"), (3, "Eve writes"))
    )
    + '<dgm:pt modelId="9" type="pres"><dgm:t><a:p><a:r><a:t>NOT SHOWN</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst>'
    '<dgm:cxnLst><dgm:cxn srcId="0" destId="1"/><dgm:cxn srcId="1" destId="2"/><dgm:cxn srcId="1" destId="3"/>'
    '<dgm:cxn srcId="3" destId="1"/></dgm:cxnLst></dgm:dataModel>'
)


def saved(show: pptx.presentation.Presentation) -> bytes:
    buffer = io.BytesIO()
    show.save(buffer)
    return buffer.getvalue()


def group(*shapes: str) -> str:
    return f'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="3" name="g"/></p:nvGrpSpPr>{"".join(shapes)}</p:grpSp>'


def frame(content: str) -> str:
    return f"<p:graphicFrame><a:graphic><a:graphicData>{content}</a:graphicData></a:graphic></p:graphicFrame>"


def cell(text: str, attributes: str = "") -> str:
    return f"<a:tc {attributes}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"


def test_groups_charts_levels_and_tables_are_read() -> None:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "Failover"
    outer = slide.shapes.add_group_shape()
    outer.shapes.add_textbox(0, 0, Inches(2), Inches(1)).text_frame.text = "It takes over after 45 seconds."
    inner = outer.shapes.add_group_shape()
    inner.shapes.add_textbox(0, 0, Inches(2), Inches(1)).text_frame.text = "The witness is host gamma."
    data = CategoryChartData()
    data.categories = ["Mon", "Tue"]
    data.add_series("Failovers", (3, 5))
    data.add_series("Tests", (1, None))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(2), Inches(2), data)
    steps = show.slides.add_slide(show.slide_layouts[1])
    steps.shapes.title.text = "Steps"
    text_frame = steps.placeholders[1].text_frame
    text_frame.text = "# Drain traffic"
    paragraph = text_frame.add_paragraph()
    paragraph.text = "Wait for zero sessions"
    paragraph.level = 1
    text_frame.add_paragraph().text = "Line one\vLine two"
    table = steps.shapes.add_table(2, 2, 0, 0, Inches(3), Inches(1)).table
    for number, text in enumerate(("Step", "Owner", "Drain", "ops | net")):
        table.cell(number // 2, number % 2).text = text
    hidden = show.slides.add_slide(show.slide_layouts[1])
    hidden.shapes.title.text = "Draft: do not show"
    hidden._element.set("show", "0")
    assert read_pptx(saved(show)) == (
        "# Failover\n\nIt takes over after 45 seconds.\n\nThe witness is host gamma.\n\n"
        "|  | Failovers | Tests |\n|---|---|---|\n| Mon | 3 | 1 |\n| Tue | 5 |  |\n\n"
        "# Steps\n\n- \\# Drain traffic\n  - Wait for zero sessions\n- Line one  \n  Line two\n\n"
        "| Step | Owner |\n|---|---|\n| Drain | ops \\| net |"
    )


def test_a_chart_of_points_is_a_table() -> None:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    data = XyChartData()
    series = data.add_series("Load")
    series.add_data_point(1.5, 20)
    series.add_data_point(3, 40)
    chart = slide.shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, Inches(2), Inches(2), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Load by hour"
    assert read_pptx(saved(show)) == ("# Slide 1\n\nLoad by hour\n\n|  | Load |\n|---|---|\n| 1.5 | 20 |\n| 3 | 40 |")


@pytest.mark.parametrize(
    "content",
    [
        shape("Call 4711."),
        group(group(group(shape("Call 4711.")))),
        f"<mc:AlternateContent><mc:Choice>{shape('Call 4711.')}</mc:Choice><mc:Fallback>{shape('Call 4711.')}"
        "</mc:Fallback></mc:AlternateContent>",
        f"<p:future>{shape('Call 4711.')}</p:future>",
        shape("Call 4711.", placeholder="subTitle"),
        shape("Call 4711.") + shape("7", placeholder="sldNum") + shape("Example Inc", placeholder="ftr"),
        shape("Call 4711.") + shape("secret").replace("<p:cNvPr", '<p:cNvPr hidden="1"'),
        shape("Call ").replace("</a:r>", "</a:r><a:fld><a:t>4711.</a:t></a:fld>"),
    ],
)
def test_what_wraps_a_shape_hides_no_text(content: str) -> None:
    assert read_pptx(presentation(TITLE + content)) == "# Failover\n\nCall 4711."


def test_a_diagram_is_a_list() -> None:
    data = presentation(TITLE + frame('<dgm:relIds r:dm="diagramData"/>'), diagramData=DIAGRAM)
    assert read_pptx(data) == "# Failover\n\n- Ann leads\n  - Bob tests\n  - Eve writes"


def test_numbers_and_bullets_of_points_are_kept() -> None:
    numbered = '<a:pPr><a:buAutoNum type="arabicPeriod" startAt="3"/></a:pPr>'
    plain = "<a:pPr><a:buNone/></a:pPr>"
    content = shape("Stop", "Copy", properties=numbered) + shape("One.", "Two.", placeholder="body", properties=plain)
    assert read_pptx(presentation(TITLE + content)) == "# Failover\n\n3. Stop\n4. Copy\n\nOne.\n\nTwo."


def test_notes_follow_their_slide() -> None:
    notes = f"<p:notes {NAMESPACES}><p:cSld><p:spTree>{shape('Mention the deadline.', placeholder='body')}"
    notes += f"{shape('12', placeholder='sldNum')}</p:spTree></p:cSld></p:notes>"
    assert read_pptx(presentation(TITLE, notesSlide=notes)) == "# Failover\n\nMention the deadline."


def test_hidden_slides_keep_their_number_and_are_left_out() -> None:
    data = presentation(shape("a"), shape("b"), shape("c"), attributes=("", 'show="0"', ""))
    assert read_pptx(data) == "# Slide 1\n\na\n\n# Slide 3\n\nc"
    with pytest.raises(FormatError, match="all of its slides are hidden"):
        read_pptx(presentation(shape("a"), attributes=('show="false"',)))


def test_joined_cells_of_a_table_stay_in_their_columns() -> None:
    first_row = f"<a:tr>{cell('Step')}{cell('Owner')}</a:tr>"
    joined_cells = cell("Drain", 'gridSpan="2"') + cell("", 'hMerge="1"')
    table = frame(f"<a:tbl>{first_row}<a:tr>{joined_cells}</a:tr></a:tbl>")
    assert read_pptx(presentation(TITLE + table)) == "# Failover\n\n| Step | Owner |\n|---|---|\n| Drain |  |"


def test_boxes_are_read_from_top_to_bottom_and_from_left_to_right() -> None:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "Plan"
    places = {"third": (0, 3.0), "second": (4, 1.1), "first": (0, 1.15), "last": (1, 5)}
    for text, (left, top) in places.items():
        slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(1)).text_frame.text = text
    group_shape = slide.shapes.add_group_shape([slide.shapes.add_textbox(0, Inches(4), Inches(2), Inches(1))])
    group_shape.shapes[0].text_frame.text = "fourth"
    assert read_pptx(saved(show)) == "# Plan\n\nfirst\n\nsecond\n\nthird\n\nfourth\n\nlast"


def test_two_forms_are_read_at_their_place_and_one_coordinate_is_enough() -> None:
    def place(text: str, offset: str) -> str:
        return shape(text).replace("<p:spPr/>", f"<p:spPr><a:xfrm><a:off {offset}/></a:xfrm></p:spPr>")

    last = place("last", 'x="0" y="4000000"')
    alternatives = f"<mc:AlternateContent><mc:Choice>{last}</mc:Choice></mc:AlternateContent>"
    slide = TITLE + alternatives + place("second", 'y="2000000"') + place("first", 'x="10"') + place("also", "")
    assert read_pptx(presentation(slide)) == "# Failover\n\nalso\n\nfirst\n\nsecond\n\nlast"


@pytest.mark.parametrize("damage", ["", "\x00\xff", "no slide"])
def test_a_damaged_slide_costs_itself_alone(damage: str) -> None:
    show = rewrite(presentation(TITLE, TITLE, shape("It restarts.")), "ppt/slides/slide2.xml", lambda _: damage)
    assert read_pptx(show) == "# Failover\n\n# Slide 3\n\nIt restarts."
    with pytest.raises(FormatError, match="hidden or damaged"):
        read_pptx(rewrite(presentation(TITLE), "ppt/slides/slide1.xml", lambda _: damage))


def test_a_damaged_chart_costs_itself_alone() -> None:
    chart = frame('<c:chart r:id="chart"/>')
    assert read_pptx(presentation(TITLE + chart + shape("It restarts."), chart="<c:chartSpace")) == (
        "# Failover\n\nIt restarts."
    )
