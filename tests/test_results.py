"""The page of results says what was measured, and README quotes nothing else."""

from __future__ import annotations

import re

from tests.deployment import ROOT
from tests.results import PAGE, render

# What is needed, not what was measured.
REQUIREMENTS = {"1.5 GB"}
FIGURE = re.compile(r"\b(\d+(?:[.,]\d+)*) ?(%|ms|s|seconds|minutes|min|MB|MiB|GB|GiB)(?![\w/])")


def test_the_page_of_results_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == render(), "run: python -m tests.results"


def test_readme_quotes_shares_as_they_stand_on_the_page() -> None:
    """Every share with three decimals in README is the value of a figure."""
    shares = re.findall(r"\b[01]\.\d{3}\b", (ROOT / "README.md").read_text("utf-8"))
    values = set(re.findall(r"\| ([01]\.\d{3}) \|", PAGE.read_text("utf-8")))
    assert len(shares) >= 5
    assert [share for share in shares if share not in values] == []


def test_readme_quotes_only_figures_that_were_measured() -> None:
    """A figure with a unit is on the page of results, as it stands or as a share of one."""
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    results = PAGE.read_text("utf-8")
    known = {
        float(number.replace(",", "")) for number in re.findall(r"\d+(?:[.,]\d+)*", results) if number.count(".") < 2
    }
    for match in FIGURE.finditer(text):
        value = float(match[1].replace(",", ""))
        shares = {value / 100} if match[2] == "%" else set()
        assert match[0] in REQUIREMENTS or known & ({value} | shares), f"README quotes {match[0]}, results.md does not"
