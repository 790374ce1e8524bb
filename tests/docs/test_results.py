"""The tables of results say what was measured, and README quotes nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.lab import results
from tests.lab.benchmarks import curves
from tests.lab.benchmarks.figures import Figure
from tests.lab.results import BENCHMARKS, render
from tests.support.deployment import ROOT

SVG = "{http://www.w3.org/2000/svg}"
# What is needed, not what was measured.
REQUIREMENTS = {"1.5 GB"}
FIGURE = re.compile(r"\b(\d+(?:[.,]\d+)*) ?(%|ms|s|seconds|minutes|min|MB|MiB|GB|GiB)(?![\w/])")


def test_the_pictures_of_the_benchmarks_are_up_to_date_and_shown() -> None:
    guide = (ROOT / "docs/quality.md").read_text("utf-8")
    for suite, picture in curves.pictures(curves.read(BENCHMARKS)).items():
        assert (BENCHMARKS.parent / f"{suite}.svg").read_text("utf-8") == picture, "run: python -m tests.lab.results"
        assert f"](benchmarks/{suite}.svg)" in guide


def test_what_is_saved_is_on_the_page_with_its_machine_and_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "BENCHMARKS", tmp_path / "figures.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    sizes = [
        figure
        for size, speed in ((1_000, 9.0), (10_000, 8.5), (500_000, 7.0))
        for figure in (
            Figure(f"{size:,} passages: stored", speed, "passages/s"),
            Figure(f"{size:,} passages: p50", 1, ""),
        )
    ]
    rates = [Figure(f"open loop, {rate} questions a second: goodput", rate, "answers/s") for rate in (2, 5, 10)]
    results.save({"sizes": sizes, "open_loop": rates, "line": [Figure("line: of 10,000 passages, p50", 3.5, "ms", 20)]})
    page = results.PAGE.read_text("utf-8")
    machine = results.describe_machine()
    assert page.count(f"{machine['date']}, commit {machine['commit']}: {machine['processor']}") == 3
    assert "| line: of 10,000 passages, p50 | 3.5 ms | at most 20 ms |" in page
    assert re.findall(r"!\[[^\]]+\]\(\.\./docs/benchmarks/(\w+)\.svg\)", page) == ["open_loop", "sizes"]
    texts = {
        suite: [text.text for text in ElementTree.parse(tmp_path / f"{suite}.svg").iter(f"{SVG}text")]  # noqa: S314
        for suite in ("open_loop", "sizes")
    }
    assert {"1k", "10k", "500k", "stored, passages/s", "p50"} <= set(texts["sizes"])
    assert any(machine["processor"] in str(text) for text in texts["sizes"])
    assert "goodput, answers/s" in texts["open_loop"]
    assert 'class="ideal"' in (tmp_path / "open_loop.svg").read_text("utf-8")


def test_readme_quotes_shares_as_they_were_measured() -> None:
    """Every share with three decimals in README is the value of a figure."""
    shares = re.findall(r"\b[01]\.\d{3}\b", (ROOT / "README.md").read_text("utf-8"))
    values = set(re.findall(r"\| ([01]\.\d{3}) \|", render()))
    assert len(shares) >= 5
    assert [share for share in shares if share not in values] == []


def test_readme_quotes_only_figures_that_were_measured() -> None:
    """A figure with a unit is in the tables of results, as it stands or as a share of one."""
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    known_names = {
        float(number.replace(",", "")) for number in re.findall(r"\d+(?:[.,]\d+)*", render()) if number.count(".") < 2
    }
    for match in FIGURE.finditer(text):
        value = float(match[1].replace(",", ""))
        shares = {value / 100} if match[2] == "%" else set()
        assert match[0] in REQUIREMENTS or known_names & ({value} | shares), (
            f"README quotes {match[0]}, which was not measured"
        )
