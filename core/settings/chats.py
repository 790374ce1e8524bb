"""Chats and people in the configuration: how they are written on each platform, and which entries can never match."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, WithJsonSchema

from core.errors import UsageError
from core.settings.base import OPERATOR_PLATFORM
from core.types import FORGES, NETWORK_PLATFORM, PlatformName

if TYPE_CHECKING:
    from core.settings import Settings

ENTRY_PATTERN = r"^[a-z]+:\S{1,256}$"
_BOT_NAME = r"(?:@[a-z0-9][a-z0-9_-]*)?"
# Somebody's name on Mastodon with its server. A bot's name has no full stop.
_HANDLE = r"\w[\w.-]*@[\w-]+(?:\.[\w-]+)+"
# What somebody on Bluesky keeps, whatever their name becomes.
_DID = r"did:(?:plc:[a-z2-7]{24}|web:[\w.%-]+)"
# What forges keep of a name that may be another's later.
_NUMBER = r"(?:\+[1-9][0-9]{0,17})?"
# Ids as the platforms give them. Those of groups and channels on Telegram begin with a minus, so they are no person.
_PERSON_FORMS = {
    "telegram": r"\d+",
    "discord": r"\d+",
    # Those of channels, groups and direct conversations begin with another letter.
    "slack": r"(?![CDG])[A-Z0-9]+",
    "mastodon": _HANDLE,
    "bluesky": _DID,
    # Those of managed users end in an underscore and the name of the enterprise.
    "github": rf"[A-Za-z0-9][A-Za-z0-9_-]*{_NUMBER}",
    "gitlab": rf"\w[\w.-]*{_NUMBER}",
    "http": r"[^\s@]\S*",
}
_CHAT_FORMS = {
    **_PERSON_FORMS,
    "telegram": r"-?\d+",
    "slack": r"[A-Z0-9]+",
    "mastodon": rf"(?:mentions|home|list/\d+|tag/\w+|{_HANDLE})",
    "bluesky": r"(?:mentions|home|list/[\w.~-]+)",
    "github": rf"[\w-]+/[\w.-]+{_NUMBER}",
    "gitlab": rf"[\w.-]+(?:/[\w.-]+)+{_NUMBER}",
}
_CONTACT_FORMS = {**_PERSON_FORMS, "telegram": r"\d+|@\w+"}
# Where people's names are unique, and their ids.
_HANDLE_PLATFORMS = ("mastodon", "bluesky", "github", "gitlab")
# Where a chat may carry the name of a further bot.
BOT_NAMING_PLATFORMS = ("telegram", "mastodon", "bluesky")
CHAT_EXAMPLES = (
    "telegram:-1001234567890, discord:123456789012345678, slack:C0123456789, mastodon:mentions, bluesky:mentions, "
    "github:example/project or http:lobby"
)
_PERSON_EXAMPLES = (
    "telegram:123456789, discord:123456789012345678, slack:U0123456789, mastodon:ann@example.org, github:ann "
    "or http:ann"
)


def parse_argument(text: str, form: str = "PLATFORM:CHAT") -> PlatformName:
    """Return the chat or the person that an argument of a command names. Raises `UsageError` if it names nothing."""
    name = PlatformName.parse(text)
    if not (name.platform and name.id):
        raise UsageError(f"{text!r} names nothing: write {form}, for example telegram:1234567890")
    return name


def is_chat(entry: str) -> bool:
    """Return whether an entry has the form of a chat on a platform that there is."""
    name = PlatformName.parse(entry)
    if name.id.startswith("//"):
        return False
    return name.platform in _CHAT_FORMS and re.fullmatch(_CHAT_FORMS[name.platform] + _BOT_NAME, name.id) is not None


def has_handles(platform: str) -> bool:
    """Return whether people of a platform are known by their names: logins, names with their server, DIDs."""
    return platform in _HANDLE_PLATFORMS


def is_handle(platform: str, text: str) -> bool:
    """Return whether a text is how somebody is known on a platform that has handles."""
    return has_handles(platform) and re.fullmatch(_PERSON_FORMS[platform], text) is not None


def fold_person(person: PlatformName) -> PlatformName:
    """Return somebody as messages name them: logins of forges in small letters, as they may be typed in any."""
    return replace(person, id=person.id.lower()) if person.platform in FORGES else person


def can_be_private(entry: str) -> bool:
    """Return whether a chat can be a private one: it has a person's id on Telegram or Mastodon, or D... on Slack."""
    name = PlatformName.parse(entry)
    if name.platform == "mastodon":
        return re.match(_HANDLE, name.id) is not None
    return name.id.startswith("D") if name.platform == "slack" else name.platform == "telegram" and name.id[:1] != "-"


def is_timeline(platform: str, chat: str) -> bool:
    """Return whether a chat is a timeline or a feed: what people post stands in it, and nobody gives a command there.

    >>> is_timeline("mastodon", "list/42@news"), is_timeline("mastodon", "mentions")
    (True, False)
    """
    return platform in ("mastodon", "bluesky") and re.match(r"(?:home(?:@|$)|list/|tag/)", chat) is not None


def _make_check(forms: dict[str, str], suffix: str, noun: str, examples: str) -> Callable[[str], str]:
    patterns = {platform: re.compile(f"(?:{form}){suffix}") for platform, form in forms.items()}

    def check(entry: str) -> str:
        name = PlatformName.parse(entry)
        pattern = patterns.get(name.platform)
        if name.id.startswith("//"):
            raise ValueError(f"is a link, and no {noun}: write platform:id, such as {examples}")
        # Which platforms there are, `find_unmatchable` says: tests and plug-ins have some of their own.
        if not re.fullmatch(ENTRY_PATTERN, entry) or (pattern is not None and not pattern.fullmatch(name.id)):
            # The place says which: what was pasted here by mistake may be a secret.
            raise ValueError(f"is no {noun}: write platform:id, such as {examples}")
        return entry

    return check


def _fold_person(entry: str) -> str:
    return str(fold_person(PlatformName.parse(entry)))


_SCHEMA = WithJsonSchema({"type": "string", "pattern": ENTRY_PATTERN})
# A chat by its id on the platform, with `@name` where a further bot should write there.
Chat = Annotated[str, AfterValidator(_make_check(_CHAT_FORMS, _BOT_NAME, "chat", CHAT_EXAMPLES)), _SCHEMA]
# A person by their id.
Person = Annotated[
    str,
    AfterValidator(_make_check(_PERSON_FORMS, "", "person", _PERSON_EXAMPLES)),
    AfterValidator(_fold_person),
    _SCHEMA,
]
# A person by their id, or by their name where the platform mentions people by name. `@NAME` is a further network.
Contact = Annotated[
    str,
    AfterValidator(_make_check(_CONTACT_FORMS, "", "person", f"telegram:@ann, {_PERSON_EXAMPLES}")),
    AfterValidator(_fold_person),
    _SCHEMA,
]


def find_unmatchable(settings: Settings) -> list[tuple[str, str]]:
    """Return the entries of lists of chats and people that nobody and nothing can ever be: their path, and why.

    Audiences, alerts and feeds are checked where what they need is known.
    """
    bots = settings.get_bots()
    platforms = {OPERATOR_PLATFORM, *(platform for _, platform, _ in bots)}
    networks = {name for name, platform, _ in bots if platform == NETWORK_PLATFORM}
    faults = [
        (path, f"{entry!r}: {fault}")
        for path, entries in _iter_lists(settings)
        for entry in entries
        if (fault := _find_fault(entry, platforms, networks))
    ]
    faults += [
        ("gate.chats", f"{entry!r} is a private chat: gate.private decides on these; name groups, or remove it")
        for entry in settings.gate.chats
        if can_be_private(entry)
    ]
    return faults


def _iter_lists(settings: Settings) -> Iterator[tuple[str, Iterable[str]]]:
    yield "gate.chats", settings.gate.chats
    yield "chats", settings.chats
    yield "auto_comment.chats", settings.auto_comment.chats
    yield "administration.owners", settings.administration.owners
    yield "handoff.people", settings.handoff.people
    yield "handoff.trusted", settings.handoff.trusted


def _find_fault(entry: str, platforms: set[str], networks: set[str]) -> str:
    platform = PlatformName.parse(entry).platform
    if platform not in (*_CHAT_FORMS, OPERATOR_PLATFORM):
        return f"there is no platform {platform} (known: {', '.join(_CHAT_FORMS)})"
    if platform not in platforms:
        return f"no bot is on {platform}: add its section, or remove the entry"
    return find_network_fault(entry, networks) or _find_bot_name_fault(entry)


def find_network_fault(entry: str, networks: Container[str]) -> str:
    """Return why an entry is in no network of these names, or an empty string.

    Nobody can be there. The network may have been removed, or renamed.
    """
    name = PlatformName.parse(entry)
    is_known = not name.network_suffix or name.bot in networks
    return "" if is_known else f"there is no network bots.{name.bot}.http: add it, or remove the entry"


def _find_bot_name_fault(entry: str) -> str:
    """Return why no chat is named so, or an empty string.

    Those of Mastodon and Bluesky do, and private chats of Telegram, which are the same for several bots.
    """
    name = PlatformName.parse(entry)
    is_named = bool(name.bot) and name.platform != NETWORK_PLATFORM
    has_name = name.platform in BOT_NAMING_PLATFORMS and (name.platform != "telegram" or can_be_private(entry))
    return f"no such chat carries a bot's name: write {entry.rpartition('@')[0]}" if is_named and not has_name else ""
