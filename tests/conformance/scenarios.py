"""What a platform cannot have, said at the scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Scenario = TypeVar("Scenario", bound=Callable[..., Any])

PLATFORMS = ("telegram", "discord", "slack", "mastodon", "bluesky", "github", "gitlab", "console")
# Where a reply is posted once, and whole.
POSTING_WHOLE = ("mastodon", "bluesky", "github", "gitlab")
ONE_GROUP = "one group is played, with its threads and with private talks beside it"
ONLY_TEXT = "a line that is typed has nothing attached"
SEEN_AT_ONCE = "the bot has seen every line that is typed, and knows whose it is"
NO_REDELIVERY = "a line is read once: nothing is ever delivered again"
NO_POSTS = "the group that is played has no channel with posts"
WHOLE = "a reply is printed when it is whole: somebody may be typing meanwhile"
ONLY_MENTIONS = "only what mentions the bot reaches it on a social network"
ONE_PUBLIC_CHAT = "all that mentions the bot in public is one chat there"
POSTED_WHOLE = "people are told of each edit there, so a reply is posted once, and whole"
SHORT_POSTS = "an answer is at most ten posts of 300 letters there; tests/bots/bluesky splits shorter ones"
NO_EDITS = "posts cannot be edited there"
QUOTED_REPLY = "what follows in a thread replies to the bot there, and quotes it"
SHORTENED = "addresses are shown short there, and are whole behind it; tests/bots/bluesky has them"
NO_BUTTONS = "a status has no buttons: a favourite is a thumb up, and nothing takes it back"
LINKED_ONCE = "addresses count in the length of a status there, so each stands once, in the list of sources"
NO_RIGHTS = "a thread has no rights of its own: posts of who blocks the bot are gone for it"
NO_MEMBERS = "nobody adds an account to anything there"
HAS_TEXT = "no status is without a text but for its pictures"
LONG_ISSUES = "issues hold logs of any length: of a long one the beginning and the end are read"
NO_POSTS_THERE = "nothing is posted on a forge but what is commented on"
OWN_MARKUP = "a forge shows headings and tables itself, of any width"
ONE_COMMENT = "a comment holds 65,536 characters, and an answer is one comment"
NOTHING_PRIVATE = "all that is posted there is public"
ONLY_LOGINS = "people have no names on a forge but their logins, which are unique"
EDITS_UNSEEN = "who changes the text of an issue is not noticed; tests/bots/forges has the edits of comments"
NO_NETWORK = "a terminal has no connection that could break or be limited"


def cannot(**reason_by_platform: str) -> Callable[[Scenario], Scenario]:
    """Say why platforms cannot have a scenario."""

    def marked(scenario: Scenario) -> Scenario:
        scenario.__dict__["cannot"] = reason_by_platform
        return scenario

    return marked


def runs_in_terminal(scenario: Scenario) -> Scenario:
    """Let a scenario that one person plays in private run in `kimas chat` too."""
    scenario.__dict__["alone"] = True
    return scenario


def does_run_in_terminal(scenario: Callable[..., Any]) -> bool:
    """Return whether a scenario runs in `kimas chat` too."""
    return bool(scenario.__dict__.get("alone"))


def reasons(scenario: Callable[..., Any]) -> Mapping[str, str]:
    """Return why platforms cannot have a scenario, by platform."""
    results: Mapping[str, str] = scenario.__dict__.get("cannot", {})
    # What one social network or forge cannot have, another one hardly has.
    likely = {"bluesky": results.get("mastodon"), "gitlab": results.get("github")}
    return {**{platform: reason for platform, reason in likely.items() if reason}, **results}
