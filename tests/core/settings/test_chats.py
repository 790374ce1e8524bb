"""Lists of chats and people: each entry has the form of its platform, and what can never match is named."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from core.settings import Settings
from core.settings.chats import find_unmatchable

HTTP = {"secret": {"env": "B"}, "callback_url": "https://example.org"}
BOTS = {
    "telegram": {"token": {"env": "A"}},
    "slack": {"bot_token": {"env": "D"}, "app_token": {"env": "E"}},
    "mastodon": {"url": "https://social.example", "token": {"env": "F"}},
    "bluesky": {"handle": "kimas.bsky.example", "app_password": {"env": "B"}},
    "github": {"token": {"env": "H"}, "repositories": ["example/project"]},
    "http": HTTP,
    "bots": {
        "shop": {"http": HTTP},
        "help": {"telegram": {"token": {"env": "C"}}},
        "sky": {"bluesky": {"handle": "kimas.bsky.example", "app_password": {"env": "S"}}},
        "news": {"mastodon": {"url": "https://news.example", "token": {"env": "G"}}},
    },
}
CHAT_LISTS = ["gate.chats", "chats", "auto_comment.chats", "alerts.chats", "auto_comment.feeds"]
PEOPLE_LISTS = ["administration.owners", "handoff.people", "handoff.trusted"]


def configured(path: str, entry: str) -> Settings:
    section, _, name = path.partition(".")
    values: dict[str, Any] = {
        "feeds": {"news": {"url": "https://example.org/feed", "chat": entry}},
    }
    section_value: dict[str, Any] = {name: values.get(name, [entry])} if name else {entry: {"mode": "auto"}}
    return Settings.model_validate({**BOTS, section: section_value})


@pytest.mark.parametrize("path", CHAT_LISTS)
@pytest.mark.parametrize(
    "entry",
    [
        "-1001234567890",
        "telegram",
        "Telegram:-100123",
        "telegram:",
        "telegram: -100",
        ":x",
        "telegram:@group",
        "telegram:group",
        "telegram:–100",
        "telegram:https://t.me/group",
        "discord:general",
        "discord:-5",
        "slack:#general",
        "slack:general",
        "slack:c0123",
        "mastodon:ann",
        "mastodon:@ann@b.example",
        "mastodon:list/diving",
        "mastodon:#diving",
        "bluesky:did:plc:z72i7hdynmk6r22z27h6tvur",
        "bluesky:list/a b",
        "bluesky:tag/diving",
        "http:@x",
        "http:a b",
    ],
)
def test_what_is_no_chat_is_refused_in_every_list(path: str, entry: str) -> None:
    with pytest.raises(ValidationError, match="is no chat: write platform:id, such as telegram:-1001234567890"):
        configured(path, entry)


@pytest.mark.parametrize("path", [*CHAT_LISTS, *PEOPLE_LISTS])
@pytest.mark.parametrize(
    "entry", ["https://discord.com/channels/1/2", "http://a.example/C1", "https://x.slack.com/archives/C0123456789"]
)
def test_a_link_is_refused_in_every_list(path: str, entry: str) -> None:
    with pytest.raises(
        ValidationError, match=r"is a link, and no (?:chat|person): write platform:id, such as telegram:"
    ):
        configured(path, entry)


@pytest.mark.parametrize("path", CHAT_LISTS)
@pytest.mark.parametrize(
    "entry",
    [
        "telegram:-1001234567890",
        "slack:C0123456789",
        "mastodon:mentions",
        "mastodon:list/42@news",
        "mastodon:tag/diving",
        "bluesky:mentions",
        "bluesky:list/3kabcdefghijk",
        "bluesky:home@sky",
        "github:example/project+4711",
        "http:lobby",
        "http:lobby@shop",
    ],
)
def test_chats_are_taken_in_every_list(path: str, entry: str) -> None:
    assert find_unmatchable(configured(path, entry)) == []


@pytest.mark.parametrize("path", PEOPLE_LISTS)
@pytest.mark.parametrize(
    "entry",
    [
        "123",
        "ann",
        "telegram:-100123",
        "telegram:ann",
        "telegram:12a",
        "slack:@ann",
        "slack:u012",
        "discord:ann#1234",
        "discord:@ann",
        "http:@ann",
        "http:a b",
        "mastodon:ann",
        "mastodon:mentions",
        "mastodon:ann@b.example@news",
        "bluesky:ann.bsky.social",
        "bluesky:did:plc:short",
        "bluesky:mentions",
        "slack:<@U012>",
        "slack:C0123456789",
        "slack:G0123456789",
        "slack:D0123456789",
        "telegram:5@help",
        "github:@ann",
        "github:ann+",
        "github:ann+x",
        "github:ann+0",
        "github:example/project",
    ],
)
def test_what_is_no_person_is_refused_in_every_list(path: str, entry: str) -> None:
    with pytest.raises(ValidationError, match="is no person: write platform:id, such as telegram:"):
        configured(path, entry)


@pytest.mark.parametrize("path", PEOPLE_LISTS)
@pytest.mark.parametrize(
    "entry",
    [
        "telegram:123",
        "slack:U012",
        "mastodon:ann@b.example",
        "bluesky:did:plc:z72i7hdynmk6r22z27h6tvur",
        "bluesky:did:web:example.org",
        "github:ann-9",
        "github:ann+583231",
        "github:ann_acme",
        "http:ann@example.org",
        "http:ann@shop",
        "console:ann",
    ],
)
def test_people_are_taken_in_every_list(path: str, entry: str) -> None:
    assert find_unmatchable(configured(path, entry)) == []


@pytest.mark.parametrize("path", PEOPLE_LISTS)
def test_logins_of_forges_are_compared_whatever_their_letter_case(path: str) -> None:
    section, _, name = path.partition(".")
    assert getattr(getattr(configured(path, "github:Ann"), section), name) == ("github:ann",)
    assert getattr(getattr(configured(path, "slack:U012"), section), name) == ("slack:U012",)


def test_a_name_is_a_person_where_it_can_be_mentioned() -> None:
    assert find_unmatchable(configured("handoff.people", "telegram:@ann_b")) == []
    with pytest.raises(ValidationError, match="is no person"):
        configured("administration.owners", "telegram:@ann_b")


@pytest.mark.parametrize("path", ["gate.chats", "chats", "auto_comment.chats", *PEOPLE_LISTS])
@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("discord:123", "no bot is on discord: add its section, or remove the entry"),
        (
            "telegrm:123",
            "there is no platform telegrm (known: telegram, discord, slack, mastodon, bluesky, github, gitlab, http)",
        ),
        ("matrix:room", "there is no platform matrix"),
        ("http:lobby@removed", "there is no network bots.removed.http: add it, or remove the entry"),
    ],
)
def test_what_can_never_match_is_named(path: str, entry: str, fault: str) -> None:
    ((found_path, text),) = find_unmatchable(configured(path, entry))
    assert found_path == path
    assert text.startswith(f"'{entry}': {fault}")


@pytest.mark.parametrize(
    ("path", "entry", "fault"),
    [
        ("gate.chats", "telegram:123", "is a private chat: gate.private decides on these"),
        ("gate.chats", "slack:D0123", "is a private chat"),
        ("gate.chats", "mastodon:ann@b.example", "is a private chat"),
        ("gate.chats", "slack:C1@help", "no such chat carries a bot's name: write slack:C1"),
        ("chats", "telegram:-5@help", "no such chat carries a bot's name: write telegram:-5"),
        ("auto_comment.chats", "telegram:-5@help", "no such chat carries a bot's name"),
    ],
)
def test_a_chat_that_the_list_is_not_about_is_named(path: str, entry: str, fault: str) -> None:
    ((found_path, text),) = find_unmatchable(configured(path, entry))
    assert found_path == path
    assert fault in text


def test_private_chats_may_have_a_mode_of_their_own() -> None:
    assert find_unmatchable(configured("chats", "telegram:123@help")) == []
