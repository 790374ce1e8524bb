"""Sections of platforms: what is refused when it is read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.settings import GithubSettings, GitlabSettings, Secret, Settings


@pytest.mark.parametrize("names", [("a/b", "a/b"), ("a/b", "c/d", "A/B")])
def test_a_project_that_is_named_twice_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="are the same project: name it once"):
        GithubSettings(token=Secret(env="T"), repositories=names)
    with pytest.raises(ValidationError, match="are the same project: name it once"):
        GitlabSettings(token=Secret(env="T"), projects=names)


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ("https://gitlab.com/api/v4", "https://git.example.org/api/v4", True),
        ("https://gitlab.com/api/v4", "https://GITLAB.com/api/v4/", False),
    ],
)
def test_two_servers_with_names_of_their_own_are_refused(first: str, second: str, is_refused: bool) -> None:
    def make_section(api_url: str) -> dict[str, object]:
        return {"token": {"env": "T"}, "projects": ["a/b"], "api_url": api_url}

    values = {"gitlab": make_section(first), "bots": {"public": {"gitlab": make_section(second)}}}
    if not is_refused:
        Settings.model_validate(values)
        return
    with pytest.raises(ValidationError, match=r"bots\.public\.gitlab\.api_url: .*run a second daemon for it"):
        Settings.model_validate(values)
