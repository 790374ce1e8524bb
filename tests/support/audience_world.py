"""The places, people, documents and configurations of the state machine over audiences."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import llm
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
# Where questions to everybody are answered.
ASKING = "-400"
OWNERS = (f"telegram:{OWNER}", f"http:{OWNER}@shop")
ON_DISCORD = "900000000000000009"
QUESTION = "When is the release date of the launcher?"
# In the closed folder and in the prompts of its agent; nobody says them.
CLOSED_WORDS = ("numbat", "bilby", "dunnart", "quoll", "kowari")
NAMES = ("quokka", "wombat")
# The source that reads what pages of the open one include, where there is one, and its agent.
PARTS_NAMES = ("bandicoot", "phascogale")
# In a file of a secret, which pages include: nobody is told of it.
SECRET_WORD = "wallaroo"
ASKER = {"answers": "asker"}
# Posts in it are commented on.
COMMENTED = f"discord:{ON_DISCORD}"
COMPRESS = Path(llm.__file__).parent / "prompts" / "compress.md"
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
    # People and chats of another network that are called the same.
    Sender("lobby@shop", f"{MEMBER}@shop", "http"),
    Sender("talk@shop", f"{MEMBER}@shop", "http", is_private=True),
    Sender("office@shop", f"{OWNER}@shop", "http", is_private=True),
    # Private chats, which become those of other people.
    Sender("talk", MEMBER, "http", is_private=True),
    Sender("talk", "77", "http", is_private=True),
    Sender("talk", OWNER, "http", is_private=True),
    # Where questions to everybody are answered.
    Sender(ASKING, MEMBER),
    Sender(ASKING, "43"),
)
IN_PRIVATE = PLACES[7]
_SAID = "The key of the launcher is {word} today"
# How the bytes of a picture, and of a recording, begin; what it shows or says follows.
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08"
RECORDING = b"OggS"
# Words of lessons, too, and the sentences of people.
# Words of the closed file, and of the included one, have the number of the time when they were written there.
NUMBERED = re.compile(r"(numbat|pademelon)(\d+)x")
_TOLD = re.compile(
    "|".join(
        (
            NUMBERED.pattern,
            *CLOSED_WORDS,
            *NAMES,
            *PARTS_NAMES,
            SECRET_WORD,
            r"kultarr\d+",
            _SAID.lower().format(word=r"potoroo\d+x"),
        )
    )
)
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
    ("http@shop", "admins"),
    ("http:lobby@shop", "http:talk", "telegram:-400"),
)
# Of the source that reads the included files: the last two have none.
PARTS_AUDIENCES = (AUDIENCES[1], AUDIENCES[0], AUDIENCES[7], ("everyone",), None, None)


def write_documents(folder: Path) -> None:
    """Write what everybody may read, the closed folder, and files that pages include."""
    for path, text in {
        "docs/start.md": "# Launcher\n\nIts release date is announced on the site.\n",
        "docs/parts.md": '# Launcher, in parts\n\nThe launcher.\n\n--8<-- "parts/plan.md"\n',
        "docs/parts.adoc": "= Launcher, part by part\n\nThe launcher.\n\ninclude::parts/plan.md[]\n",
        "docs/parts.rst": "Parts of the launcher\n=====================\n\n.. include:: parts/plan.md\n",
        "docs/code.rst": "Code of the launcher\n====================\n\n.. literalinclude:: parts/plan.md\n",
        "docs/secrets.md": '# Secrets of the launcher\n\n--8<-- "secret.md"\n\n--8<-- "compress.md"\n',
        "docs/secret.md": f"The release date of the launcher is {SECRET_WORD}.\n",
        "docs/compress.md": f"The release date of the launcher is kowari.\n\n{COMPRESS.read_text('utf-8')}",
        "docs/parts/more.md": "# Parts\n\nMore about the launcher.\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    (folder / "team").mkdir()
    write_closed(folder, 1)
    write_part(folder, 1)


def write_closed(folder: Path, number: int) -> None:
    """Write the closed file, with a word of its own."""
    text = f"# bilby\n\nThe release date of the launcher is the first of May, numbat{number}x.\n"
    (folder / "team" / "dunnart.md").write_text(text, "utf-8")


def write_part(folder: Path, number: int) -> None:
    """Write the included file, with a word of its own."""
    text = f"The release date of the launcher is in its parts, pademelon{number}x.\n"
    (folder / "docs" / "parts" / "plan.md").write_text(text, "utf-8")


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
    told = sorted({match[0] for match in _TOLD.finditer(str(body["messages"]).lower())})
    return f"The release date of the launcher, {ANSWERED}, is {' '.join(told)} [p1][p2][p3]."


@dataclass(frozen=True)
class Configuration:
    """What the file says."""

    audience: tuple[str, ...] = AUDIENCES[0]
    name: str = NAMES[0]
    # Of the source of taught answers.
    lessons: tuple[str, ...] = AUDIENCES[0]
    # Of the source that reads the included files; None: no source does.
    parts: tuple[str, ...] | None = None
    is_removed: bool = False
    owners: tuple[str, ...] = OWNERS
    # The chats that only the second model may read, those where the bot is off, and those where an asker alone reads.
    local: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    asker: frozenset[str] = frozenset()

    def make_settings(self, folder: Path, documents: Path, models: Sequence[ScriptedPeer]) -> Settings:
        general, own, moderating = ({"base_url": model.base_url, "model": "peer"} for model in models)
        hearing = {**moderating, "model": "whisper"}
        chats = defaultdict[str, dict[str, Any]](dict, {f"telegram:{DRAFTED}": {"mode": "draft"}})
        chats[f"telegram:{ASKING}"] = {"mode": "auto", "threshold": 0.0}
        for special, values in ((self.local, {"models": "own"}), (self.asker, ASKER), (self.off, {"mode": "off"})):
            for chat in special:
                chats[chat] |= values
        docs = {"kind": "files", "path": str(documents / "docs"), "include": ["/*.md", "/*.adoc", "/*.rst"]}
        sources: dict[str, Any] = {"docs": docs, "taught": {"kind": "learned"}}
        sources["taught-team"] = {"kind": "learned", "audience": self.lessons}
        agents: dict[str, Any] = {
            "manual": {"sources": ["docs", "taught"], "description": "The launcher, for everyone"},
            "lessons": {"sources": ["taught-team"]},
        }
        if not self.is_removed:
            sources[self.name] = {"kind": "files", "path": str(documents / "team"), "audience": self.audience}
            agents["quoll"] = {"sources": [self.name], "description": "release date of the launcher"}
            agents["quoll"]["prompts"] = {"compress": str(documents / "docs" / "compress.md")}
        if self.parts is not None:
            name, agent = PARTS_NAMES
            sources[name] = {"kind": "files", "path": str(documents / "docs" / "parts"), "audience": self.parts}
            agents[agent] = {"sources": [name], "description": "release date of the launcher"}
        http = {"secret": {"env": "HTTP"}, "callback_url": "http://127.0.0.1:9/", **PRIVATE}
        return Settings.model_validate(
            {
                "data_dir": str(folder / "data"),
                "sources": sources,
                "agents": agents,
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
                "github": {"token": {"file": str(documents / "docs" / "secret.md")}, "repositories": ["acme/launcher"]},
                "gitlab": {"token": {"env": "GITLAB"}, "projects": ["acme/launcher"]},
                "http": http,
                "bots": {"shop": {"http": http}},
                "api": {
                    "port": 0,
                    "clients": {name: {"token": {"env": f"KIMAS_API_{name.upper()}"}} for name in ("webui", "team")},
                    "page": {"enabled": True, "per_minute": 1000, "all_per_minute": 1000},
                },
                "administration": {"owners": self.owners},
                "alerts": {"chats": [f"telegram:{TEAM}", f"telegram:{OWNER}"]},
                "handoff": {"people": ["telegram:7"], "trusted": [f"telegram:{MEMBER}"]},
                "gate": {
                    "mode": "mention",
                    "drafts_to": f"telegram:{TEAM}",
                    "answers_in_10_min": 200,
                    "wait_s": 1,
                    "cooldown_s": 0,
                    "repeated": "point",
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
