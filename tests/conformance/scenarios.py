"""What a platform cannot have, said at the scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Scenario = TypeVar("Scenario", bound=Callable[..., Any])

PLATFORMS = ("telegram", "discord", "slack", "console")
ONE_PERSON = "who sits there types for everybody: one group is played, without threads, and one private chat"
ONLY_TEXT = "a line that is typed has nothing attached"
NO_EVENTS = "what is typed stays as it is: nothing is edited, deleted or delivered again"
NO_NETWORK = "a terminal has no connection that could break or be limited"
NO_JOURNAL = "a conversation in a terminal ends with its process"


def cannot(**reason_by_platform: str) -> Callable[[Scenario], Scenario]:
    """Say why platforms cannot have a scenario."""

    def marked(scenario: Scenario) -> Scenario:
        scenario.__dict__["cannot"] = reason_by_platform
        return scenario

    return marked


def reasons(scenario: Callable[..., Any]) -> Mapping[str, str]:
    """Return why platforms cannot have a scenario, by platform."""
    found: Mapping[str, str] = scenario.__dict__.get("cannot", {})
    return found
