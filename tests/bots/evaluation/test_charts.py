"""`kimas eval --plot`: what is drawn, worked out by hand, and that a picture of it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from bots.evaluation.charts import COLOURS, Chart, Point, Series, check_plot, draw, score_charts
from bots.evaluation.citations import citations
from bots.evaluation.gate import gate, precision_recall_curve
from bots.evaluation.retrieval import RetrievalReport, VariantResult, retrieval, retrieval_charts
from bots.evaluation.routing import RoutingCurve, ThresholdPoint, routing, routing_charts
from core.errors import UsageError
from core.messaging.gate.classification_metrics import Counts, Estimate, compute_scores
from core.settings import Settings
from tests.support.data import CORPUS, DATA
from tests.support.deployment import Deployment

NO = Estimate(None, None, None)


def colours(path: Path) -> set[str]:
    """Return the colours of a picture that is no empty sheet."""
    with Image.open(path) as image:
        assert image.format == "PNG"
        results = image.convert("RGB").getcolors(1 << 20)
    assert results
    return {"#%02x%02x%02x" % colour for _, colour in results if isinstance(colour, tuple)}  # noqa: UP031


def test_every_series_has_its_colour_at_its_place(tmp_path: Path) -> None:
    low = Series("low", [Point(0, 0.1), Point(1, 0.1)])
    high = Series("high", [Point(0, 0.9), Point(1, 0.9)])
    draw([Chart("Two", "x", "y", [low, high]), Chart("None", "x", "y", [])], tmp_path / "two.png")
    assert set(COLOURS[:2]) <= colours(tmp_path / "two.png")
    with Image.open(tmp_path / "two.png") as image:
        first = [y for y in range(60, 452) if image.getpixel((400, y)) == (0x00, 0x72, 0xB2)]
        second = [y for y in range(60, 452) if image.getpixel((400, y)) == (0xD5, 0x5E, 0x00)]
        assert image.size == (1440, 520)
        assert {image.getpixel((1100, y)) for y in range(60, 440)} == {(0xDD, 0xDD, 0xDD), (255, 255, 255)}
    # 0 is at 452 and 1 at 58.
    assert first
    assert all(abs(y - 412.6) < 3 for y in first)
    assert all(abs(y - 97.4) < 3 for y in second)


@pytest.mark.parametrize(
    ("name", "reason"), [("a.svg", "end in .png"), ("none/a.png", "no folder"), ("d.png", "folder")]
)
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "d.png").mkdir()
    with pytest.raises(UsageError, match=reason):
        check_plot(tmp_path / name)
    with pytest.raises(UsageError, match="cannot be written"):
        draw([Chart("", "", "", [])], tmp_path / "none" / "a.png")


def test_precision_and_recall_over_thresholds() -> None:
    sure = [(0.9, True), (0.7, True), (0.7, False), (0.2, True), (0.0, False)]
    points = [(point.x, point.y) for point in precision_recall_curve(sure)]
    assert points == [(pytest.approx(1 / 3), 1), (pytest.approx(2 / 3), pytest.approx(2 / 3)), (1, 0.75)]
    assert precision_recall_curve([(0.9, False)]) == []


def test_charts_hold_the_figures_and_leave_out_what_is_not_defined() -> None:
    figures = [Estimate(at / 10, at / 10 - 0.05, at / 10 + 0.05) for at in range(5)]
    variant = VariantResult({}, {}, 0, {"recall": figures, "nDCG": [NO, *figures[1:]]})
    recall, ndcg = retrieval_charts(RetrievalReport(9, 0, 0, {"raw": variant}))
    assert list(recall.names) == ["1", "3", "5", "10", "20"]
    assert recall.series[0].points[4] == Point(4, 0.4, pytest.approx(0.35), pytest.approx(0.45))
    assert [point.x for point in ndcg.series[0].points] == [1, 2, 3, 4]

    points = [ThresholdPoint(0.1, figures[4], figures[1]), ThresholdPoint(0.2, figures[3], figures[2])]
    (chart,) = routing_charts(RoutingCurve(points, ThresholdPoint(0.0, NO, NO)))
    assert [(point.x, point.y) for series in chart.series for point in series.points] == [(0.1, 0.4), (0.2, 0.3)]

    (scores,) = score_charts({"one": compute_scores([Counts(1, 1, 0)]), "nothing": compute_scores([])})
    assert [(point.x, point.y) for point in scores.series[0].points] == [(0, 0.5), (1, 1), (2, pytest.approx(2 / 3))]
    assert scores.series[1].points == []


@pytest.fixture
def deployment(tmp_path: Path) -> Settings:
    return Settings.model_validate({"data_dir": tmp_path / "data"})


async def test_retrieval_and_routing_are_drawn(
    deployment: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"animals": ("owl", "fox", "bear"), "tools": ("saw", "drill", "plane")}
    corpus = tmp_path / "corpus.jsonl"
    path = tmp_path / "found.jsonl"
    routed = tmp_path / "routed.jsonl"
    modules = [(source, name) for source, module_names in names.items() for name in module_names]
    corpus.write_text(
        "\n".join(json.dumps({"id": text, "text": f"The {text} of the {of}.", "source": of}) for of, text in modules)
    )
    path.write_text("\n".join(json.dumps({"id": text, "question": text, "relevant": [text]}) for _, text in modules))
    routed.write_text("\n".join(json.dumps({"id": text, "question": text, "agents": [of]}) for of, text in modules))
    plots = (tmp_path / "found.png", tmp_path / "routed.png")
    await retrieval(deployment, path, corpus, fit=False, as_json=True, plot=plots[0])
    await routing(deployment, routed, corpus, fit=False, as_json=True, plot=plots[1])
    assert all(set(COLOURS[:2]) <= colours(plot) for plot in plots)
    assert "curves" not in capsys.readouterr().out


async def test_the_gate_is_drawn(deployment: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_file = tmp_path / "few.jsonl"
    small_file.write_text("\n".join(DATA.read_text("utf-8").splitlines()[::4]), "utf-8")
    await gate(deployment, small_file, CORPUS, fit=False, as_json=True, plot=tmp_path / "gate.png")
    assert set(COLOURS[:3]) <= colours(tmp_path / "gate.png")
    assert json.loads(capsys.readouterr().out)["cases"] == 53


async def test_citations_are_drawn(deployment: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {"id": "1", "question": "Which port?", "answer": "It listens on port 8000 [a].", "cited": ["a"]}
    passages = [{"id": "a", "text": "The server listens on port 8000."}, {"id": "b", "text": "Logs go elsewhere."}]
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps(case | {"passages": passages}), "utf-8")
    await citations(deployment, data, as_json=True, plot=tmp_path / "citations.png")
    assert set(COLOURS[:4]) <= colours(tmp_path / "citations.png")
    captured = capsys.readouterr()
    assert json.loads(captured.out)["kind"] == "citations"
    assert captured.err == f"the picture is in {tmp_path / 'citations.png'}\n"


async def test_nothing_is_measured_for_a_plot_that_cannot_be_written(deployment: Settings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"end in \.png"):
        await gate(deployment, DATA, CORPUS, fit=False, as_json=True, plot=tmp_path / "gate.pdf")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("kind", ["retrieval", "routing", "gate", "citations"])
def test_every_kind_takes_the_option(tmp_path: Path, kind: str) -> None:
    output = Deployment(tmp_path, {}).call("eval", kind, "data.jsonl", "--plot", "plot.pdf", code=2).stderr
    assert "--plot writes PNG: let plot.pdf end in .png" in output
