"""The suite itself: how much of it runs where, and that nothing is left out without a reason."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.scenarios import PLATFORMS, does_run_in_terminal, reasons

FOLDER = Path(__file__).parent


def scenarios() -> dict[str, tuple[Callable[..., Any], int]]:
    """Return all scenarios by name, each with the number of its variants."""
    results = {}
    for file in sorted(FOLDER.glob("test_*.py")):
        module = importlib.import_module(f"tests.conformance.{file.stem}")
        for name, function in vars(module).items():
            if name.startswith("test_") and {"bot", "lined"} & set(function.__annotations__):
                variants = [
                    len(mark.args[1]) for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"
                ]
                results[f"{file.stem}.{name}"] = (function, math.prod(variants))
    return results


def test_most_scenarios_run_on_every_platform() -> None:
    for platform in PLATFORMS:
        variants_here = [variants for scenario, variants in scenarios().values() if platform not in reasons(scenario)]
        least = {"console": 80, "mastodon": 80, "bluesky": 70, "github": 110, "gitlab": 110}.get(platform, 120)
        assert len(variants_here) >= least, f"{platform}: {len(variants_here)} scenarios"


def test_what_one_person_does_alone_runs_in_both_consoles() -> None:
    both = [name for name, (scenario, _) in scenarios().items() if does_run_in_terminal(scenario)]
    assert len(both) >= 25
    assert [name for name in both if "console" in reasons(scenarios()[name][0])] == []


def test_what_a_platform_cannot_have_is_said_in_words() -> None:
    for name, (scenario, _) in scenarios().items():
        for platform, reason in reasons(scenario).items():
            assert platform in PLATFORMS, name
            assert len(reason.split()) > 4, f"{name}: {platform}"
