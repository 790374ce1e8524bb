"""Who may see what, kept apart from the bot: the places, people and words of the state machine over audiences."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.settings import Settings
from tests.support.recording_bot import Sender
from tests.support.scripted import Body, ScriptedPeer

OWNER = "1"
MEMBER = "42"
PUBLIC = "-100"
MOVED_PUBLIC = "-1009"
TEAM = "-200"
MOVED_TEAM = "-250"
# Its answers are drafts, for the team.
DRAFTED = "-300"
ON_DISCORD = "900000000000000009"
QUESTION = "When is the release date of the launcher?"
# In the closed folder; nobody says them.
CLOSED_WORDS = ("numbat", "bilby", "dunnart", "quoll")
NAMES = ("quokka", "wombat")
ASKER = {"answers": "asker"}
# Posts in it are commented on.
COMMENTED = f"discord:{ON_DISCORD}"
PRIVATE = {"allow_private": ["127.0.0.1"]}
# In each answer, and nowhere else.
ANSWERED = "bettong"
PLACES = (
    Sender(PUBLIC, MEMBER),
    Sender(PUBLIC, OWNER),
    Sender(TEAM, MEMBER),
    Sender(TEAM, OWNER),
    Sender(MOVED_TEAM, MEMBER),
    Sender(MEMBER, MEMBER, is_private=True),
    Sender("43", "43", is_private=True),
    Sender(OWNER, OWNER, is_private=True),
    Sender("C9", MEMBER, platform="slack"),
    Sender(ON_DISCORD, MEMBER, platform="discord"),
    Sender(DRAFTED, MEMBER),
    Sender("mentions", f"{MEMBER}@social.example", "mastodon"),
    Sender(f"{MEMBER}@social.example", f"{MEMBER}@social.example", "mastodon", is_private=True),
    Sender("mentions", "did:plc:abcdefghijklmnopqrstuvwx", "bluesky"),
    Sender("acme/launcher", "ann+42", "github"),
    Sender("acme/launcher", "ann", "gitlab"),
    Sender("lobby", MEMBER, "http"),
)
IN_PRIVATE = PLACES[7]
_SAID = "The key of the launcher is {word} today"
# How the bytes of a picture, and of a recording, begin; what it shows or says follows.
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08"
RECORDING = b"OggS"
# Words of lessons, too, and the sentences of people.
_TOLD = re.compile("|".join((*CLOSED_WORDS, *NAMES, r"kultarr\d+", _SAID.lower().format(word=r"potoroo\d+x"))))
_PERSONAL = re.compile(r"kultarr\d+|potoroo\d+x|woylie\d+x")
AUDIENCES = (
    (f"telegram:{TEAM}", "owners"),
    ("owners",),
    (f"telegram:{MOVED_TEAM}",),
    ("admins",),
    ("everyone",),
    (f"discord:{ON_DISCORD}", "slack:C9", "admins"),
    ("api", "mastodon:mentions", "owners"),
    ("slack", "discord", "owners"),
    ("api:page", "http", "gitlab:acme/launcher"),
)


def see(body: Body) -> str:
    """Read what stands in the pictures of a request."""
    pictures = re.findall(r"base64,([A-Za-z0-9+/=]+)", str(body["messages"]))
    texts = [base64.b64decode(picture)[len(PICTURE) :].decode() for picture in pictures]
    return "\n".join(f"A screen that says: {text}" for text in texts)


def repeat(text: str) -> str:
    """Return a part of a text, around the first word that was told."""
    match = _TOLD.search(text.lower())
    middle = match.start() if match else len(text)
    return text[max(0, middle - 60) : middle + 100]


def format_said(word: str) -> str:
    """Return what somebody says with a word of theirs."""
    return f"{_SAID.format(word=word)}. Is that right?"


def tell(body: Body) -> str:
    """Answer with the closed words and the sentences that were told."""
    told = sorted(set(_TOLD.findall(str(body["messages"]).lower())))
    return f"The release date of the launcher, {ANSWERED}, is {' '.join(told)} [p1][p2][p3]."


@dataclass(frozen=True)
class Configuration:
    """What the file says."""

    audience: tuple[str, ...] = AUDIENCES[0]
    name: str = NAMES[0]
    # Of the source of taught answers.
    lessons: tuple[str, ...] = AUDIENCES[0]
    # The chats that only the second model may read, those where the bot is off, and those where an asker alone reads.
    local: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    asker: frozenset[str] = frozenset()

    def make_settings(self, folder: Path, documents: Path, models: Sequence[ScriptedPeer]) -> Settings:
        closed = {"audience": self.audience}
        general, own, moderating = ({"base_url": model.base_url, "model": "peer"} for model in models)
        hearing = {**moderating, "model": "whisper"}
        chats = defaultdict[str, dict[str, str]](dict, {f"telegram:{DRAFTED}": {"mode": "draft"}})
        for special, values in ((self.local, {"models": "own"}), (self.asker, ASKER), (self.off, {"mode": "off"})):
            for chat in special:
                chats[chat] |= values
        return Settings.model_validate(
            {
                "data_dir": str(folder / "data"),
                "sources": {
                    "docs": {"kind": "files", "path": str(documents / "docs")},
                    self.name: {"kind": "files", "path": str(documents / "team"), **closed},
                    "taught": {"kind": "learned"},
                    "taught-team": {"kind": "learned", "audience": self.lessons},
                },
                "agents": {
                    "manual": {"sources": ["docs", "taught"], "description": "The launcher, for everyone"},
                    "quoll": {"sources": [self.name], "description": "release date of the launcher"},
                    "lessons": {"sources": ["taught-team"]},
                },
                "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
                "models": {
                    "main": {**general, "images": True},
                    "transcription": hearing,
                    "sets": {"own": {"main": own}},
                },
                "outgoing": {"moderation": {**moderating, "platforms": ["slack", "bluesky", "api"]}},
                "telegram": {"token": {"env": "TELEGRAM"}},
                "slack": {"bot_token": {"env": "SLACK"}, "app_token": {"env": "SLACK_APP"}},
                "discord": {"token": {"env": "DISCORD"}},
                "mastodon": {"url": "https://social.example", "token": {"env": "MASTODON"}},
                "bluesky": {"handle": "kimas.example", "app_password": {"env": "BLUESKY"}},
                "github": {"token": {"env": "GITHUB"}, "repositories": ["acme/launcher"]},
                "gitlab": {"token": {"env": "GITLAB"}, "projects": ["acme/launcher"]},
                "http": {"secret": {"env": "HTTP"}, "callback_url": "http://127.0.0.1:9/", **PRIVATE},
                "api": {
                    "port": 0,
                    "clients": {name: {"token": {"env": f"KIMAS_API_{name.upper()}"}} for name in ("webui", "team")},
                    "page": {"enabled": True, "per_minute": 1000, "all_per_minute": 1000},
                },
                "administration": {"owners": [f"telegram:{OWNER}"]},
                "alerts": {"chats": [f"telegram:{TEAM}"]},
                "handoff": {"people": ["telegram:7"], "trusted": [f"telegram:{MEMBER}"]},
                "gate": {
                    "mode": "mention",
                    "drafts_to": f"telegram:{TEAM}",
                    "answers_in_10_min": 200,
                    "wait_s": 0,
                    "cooldown_s": 0,
                },
                "chats": dict(chats),
                "auto_comment": {
                    "chats": [COMMENTED],
                    "deadline_s": 6000,
                    "per_hour": None,
                    "replies_per_post": 99,
                    "needs_citation": False,
                },
                "budget": {"deadline_s": 6000},
                "cache": {"enabled": True},
            }
        )


@dataclass
class Truth:
    """Who may see what. It implements `tests.support.interleaving.Judge`."""

    # Of the configuration at the start, and of all that were loaded since.
    audiences: list[tuple[str, ...]]
    admins: set[str] = field(default_factory=set)
    # The words of lessons: the chat in which people said them, and whether they may tell of the closed source.
    lessons: dict[str, tuple[str, bool]] = field(default_factory=dict)
    # The words of people, where they said them; and those of who was forgotten there.
    said: dict[str, Sender] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    muted: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)
    # Chats where the file lets nobody be answered in public.
    silent: set[str] = field(default_factory=set)
    # Chats that were shared with people of other organizations.
    shared: set[str] = field(default_factory=set)
    general_models: tuple[str, ...] = ()
    has_moved: bool = False
    # What people are called, by where they write; somebody who was forgotten comes back under another name.
    names: dict[tuple[str, str, str], str] = field(default_factory=dict)
    named: int = 0

    @property
    def is_open(self) -> bool:
        """Return whether the source is for everyone."""
        return all("everyone" in audience for audience in self.audiences)

    def sees(self, sender: Sender) -> bool:
        """Return whether somebody may see the closed source where they write."""
        return all(self._belongs(sender, audience) for audience in self.audiences)

    def _belongs(self, sender: Sender, audience: tuple[str, ...]) -> bool:
        # Visitors of the page are no programs.
        network = "" if sender.chat == "page" or f"{sender.platform}:{sender.chat}" in self.shared else sender.platform
        if not {"everyone", f"{sender.platform}:{sender.chat}", network}.isdisjoint(audience):
            return True
        if not sender.is_private or sender.platform != "telegram":
            return False
        return sender.author == OWNER or ("admins" in audience and sender.author in self.admins)

    def get_name(self, person: Sender) -> str:
        """Return what somebody is called where they write."""
        place = (person.platform, person.chat, person.author)
        if place not in self.names:
            self.named += 1
            self.names[place] = f"woylie{self.named}x"
        return self.names[place]

    def forget(self, person: Sender) -> None:
        """Note that somebody is forgotten in a chat."""
        place = (person.platform, person.chat, person.author)
        if name := self.names.pop(place, ""):
            self.forgotten.add(name)
        words = {word for word, said in self.said.items() if (said.platform, said.chat, said.author) == place}
        self.forgotten |= words
        for word in words:
            del self.said[word]

    def read(self, configuration: Configuration) -> None:
        """Note what the file says at a start."""
        self.audiences = [configuration.audience]
        self.local = set(configuration.local)
        self.silent = {*configuration.off, *configuration.asker}
        if self.has_moved:
            self._follow()

    def _follow(self) -> None:
        """Note that what the file and commands say of a group's former id holds for both."""
        for chats in (self.local, self.muted, self.silent):
            if f"telegram:{PUBLIC}" in chats:
                chats.add(f"telegram:{MOVED_PUBLIC}")

    def move(self) -> None:
        """Note that the public group has another id."""
        self.has_moved = True
        self._follow()
        for platform, chat, author in [place for place in self.names if place[1] == PUBLIC]:
            self.names[platform, MOVED_PUBLIC, author] = self.names.pop((platform, chat, author))
        for word, said in self.said.items():
            if said.chat == PUBLIC:
                self.said[word] = Sender(MOVED_PUBLIC, said.author)
        for word, (chat, is_closed) in self.lessons.items():
            if chat == f"telegram:{PUBLIC}":
                self.lessons[word] = (f"telegram:{MOVED_PUBLIC}", is_closed)

    def forget_everywhere(self, person: Sender) -> None:
        """Note that somebody is forgotten in all chats of a platform."""
        places = {*self.names, *((said.platform, said.chat, said.author) for said in self.said.values())}
        for platform, chat, author in places:
            if (platform, author) == (person.platform, person.author):
                self.forget(Sender(chat, author, platform))

    def find_leaks(self, place: Sender, text: str) -> set[str]:
        """Return the words in what was shown or asked for somebody that they may not see."""
        text = text.lower()
        is_insider = self.sees(place)
        words = set() if is_insider else {word for word in (*CLOSED_WORDS, *NAMES) if word in text}
        chat = f"{place.platform}:{place.chat}"
        for word, (origin, is_closed) in self.lessons.items():
            if is_closed and word in text and not is_insider and origin != chat:
                words.add(word)
        return words | {word for word in self.forgotten if word in text}

    def find_in_records(self, text: str) -> set[str]:
        """Return the words of people and documents in what is no place for them: a line of the log, a span, a metric.

        Names of sources may be there.
        """
        return {word for word in (CLOSED_WORDS[0], ANSWERED) if word in text} | set(_PERSONAL.findall(text))

    def find_unwanted(self, place: Sender, text: str, *, is_comment: bool) -> set[str]:
        """Return the mark of an answer in a chat where there is to be none. Comments have chats of their own."""
        chats = self.muted if is_comment else self.muted | self.silent
        return {ANSWERED} if ANSWERED in text and f"{place.platform}:{place.chat}" in chats else set()

    def find_wrong_model(self, place: Sender, url: str) -> set[str]:
        """Return the address of a model that reads nothing of a place any more."""
        is_wrong = f"{place.platform}:{place.chat}" in self.local and url.startswith(self.general_models)
        return {url} if is_wrong else set()
