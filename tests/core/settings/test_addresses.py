"""Addresses in the configuration: each is checked where it stands."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from core.settings import Settings

SECRET = {"env": "A"}
PLACES = {
    "telegram.api_url": {"telegram": {"token": SECRET}},
    "discord.api_url": {"discord": {"token": SECRET}},
    "slack.api_url": {"slack": {"bot_token": SECRET, "app_token": SECRET}},
    "http.callback_url": {"http": {"secret": SECRET}},
    "auto_comment.feeds.news.url": {"auto_comment": {"feeds": {"news": {"chat": "telegram:-1"}}}},
    "sources.web.base_url": {"sources": {"web": {"kind": "search_api", "provider": "searxng"}}},
    "sources.rag.base_url": {"sources": {"rag": {"kind": "remote_rag", "bases": {"a": 1}}}},
    "sources.site.url": {"sources": {"site": {"kind": "website"}}},
    "sources.news.url": {"sources": {"news": {"kind": "feed"}}},
    "sources.issues.api_url": {"sources": {"issues": {"kind": "github", "repository": "a/b"}}},
    "sources.work.api_url": {"sources": {"work": {"kind": "gitlab", "project": "a/b"}}},
}


def configured(place: str, url: str) -> Settings:
    values: dict[str, Any] = {**PLACES[place]}
    *path, name = place.split(".")
    section = values
    for key in path:
        section[key] = {**section[key]}
        section = section[key]
    section[name] = url
    return Settings.model_validate(values)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("url", ["localhost:8080", "example.org/feed", "ftp://example.org", "http://", "http://a b/c"])
def test_what_is_no_address_is_refused_everywhere(place: str, url: str) -> None:
    with pytest.raises(ValidationError, match=place.rpartition(".")[2]):
        configured(place, url)


@pytest.mark.parametrize("place", PLACES)
def test_white_space_around_an_address_does_not_matter_anywhere(place: str) -> None:
    value: Any = configured(place, " https://example.org/a \n")
    for key in place.split("."):
        value = value[key] if isinstance(value, dict) else getattr(value, key)
    assert value == "https://example.org/a"
