"""The Slack guide is true: its examples are valid, and its manifest fits what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import yaml

from bots.slack.agent_view import AGENT_EVENTS
from bots.slack.channel_directory import MOVE_EVENT, RENAME_EVENTS
from bots.slack.client import AGENT_SCOPE
from core.messaging.feedback.handoff import ASK_ABOUT_THIS, ASK_SHORTCUT_ID, LEARN_FROM_THIS, SHORTCUT_ID
from core.settings import Settings

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "slack.md").read_text("utf-8")


def test_the_examples_are_valid() -> None:
    examples = re.findall(r"^```yaml\n(# kimas.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    assert len(examples) == 3
    for example in examples:
        assert Settings.model_validate(yaml.safe_load(example)).slack is not None


def test_the_manifest_asks_for_what_the_bot_uses() -> None:
    result = re.search(r"^ +```yaml\n( +# manifest.*?)```", GUIDE, re.DOTALL | re.MULTILINE)
    assert result is not None
    manifest = yaml.safe_load(dedent(result[1]))
    scopes = set(manifest["oauth_config"]["scopes"]["bot"])
    documented_scopes = set(
        re.findall(r"`([a-z_]+:[a-z]+|commands)`", GUIDE.split("What the scopes are for")[1].split("## 2")[0])
    )
    assert scopes == documented_scopes
    events = set(manifest["settings"]["event_subscriptions"]["bot_events"])
    messages = {"message.channels", "message.groups", "message.im", "message.mpim"}
    optional_events = {"app_home_opened", "member_joined_channel", "reaction_added", "reaction_removed"}
    assert events == {"app_mention", *optional_events, *messages, *RENAME_EVENTS, MOVE_EVENT}
    assert manifest["features"]["app_home"]["home_tab_enabled"] is True
    assert manifest["settings"]["socket_mode_enabled"] is True
    assert manifest["settings"]["interactivity"]["is_enabled"] is True
    assert [slash_command["command"] for slash_command in manifest["features"]["slash_commands"]] == ["/kimas"]
    shortcuts = manifest["features"]["shortcuts"]
    assert {(shortcut["callback_id"], shortcut["type"], shortcut["name"]) for shortcut in shortcuts} == {
        (SHORTCUT_ID, "message", LEARN_FROM_THIS),
        (ASK_SHORTCUT_ID, "message", ASK_ABOUT_THIS),
    }
    assert all(len(shortcut["name"]) <= 24 and len(shortcut["description"]) <= 150 for shortcut in shortcuts)


def test_what_makes_the_app_an_agent_is_in_addition_to_the_manifest() -> None:
    first, other_pages = (
        yaml.safe_load(dedent(text)) for text in re.findall(r"```yaml\n( *# manifest.*?)```", GUIDE, re.DOTALL)
    )
    assert other_pages["oauth_config"]["scopes"]["bot"] == [AGENT_SCOPE]
    events = set(other_pages["settings"]["event_subscriptions"]["bot_events"])
    assert events | {"app_home_opened"} == set(AGENT_EVENTS)
    assert not events & set(first["settings"]["event_subscriptions"]["bot_events"])
    assert len(other_pages["features"]["agent_view"]["agent_description"]) <= 300
