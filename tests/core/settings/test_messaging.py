"""Sections of platforms: what is refused when it is read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.settings import GithubSettings, GitlabSettings, Secret


@pytest.mark.parametrize("names", [("a/b", "a/b"), ("a/b", "c/d", "A/B")])
def test_a_project_that_is_named_twice_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="are the same project: name it once"):
        GithubSettings(token=Secret(env="T"), repositories=names)
    with pytest.raises(ValidationError, match="are the same project: name it once"):
        GitlabSettings(token=Secret(env="T"), projects=names)
