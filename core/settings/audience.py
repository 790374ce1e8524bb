"""Who may see what: the audience of sources and agents, and the one decision that everything else asks for.

An answer is read by everybody in its chat. So the chat decides; a person's role opens something only in a private chat,
where nobody else reads.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import quote, unquote_to_bytes

from core.settings.answering import AgentSettings
from core.settings.base import API_PLATFORM, EVERYONE, OPERATOR_PLATFORM, PAGE_CLIENT
from core.settings.chats import (
    BOT_NAMING_PLATFORMS,
    CHAT_EXAMPLES,
    can_be_private,
    find_network_fault,
    is_chat,
)
from core.settings.gate import GateSettings
from core.settings.labels import (
    INSIDE_SIGN,
    LABEL_SIGN,
    READERS_SIGN,
    hash_text,
    make_label,
    make_scope,
    split_scope,
)
from core.settings.messaging import ApiSettings, AutoCommentSettings, Platform, PlatformSettings
from core.settings.places import find_area, is_overlapping
from core.settings.sources import LearnedSource, SourceSettings
from core.types import NETWORK_PLATFORM, PlatformName

OWNERS = "owners"
ADMINS = "admins"
# What other daemons are told of a source's scope and a place begins with it, as no name and no label does.
_PLACE_SIGN = "/"
# What they are told of a private file, as no name begins either. Earlier versions take it for an unknown name.
_PRIVATE_SIGN = "%"
# The label of a time when every source is for everyone.
ALL_OPEN = ""
# The label of what tells of all chats, which only an owner is told, in private. No source has it.
ALL_CHATS = "all chats"
# All visitors of the page.
PAGE_CHAT = f"{API_PLATFORM}:{PAGE_CLIENT}"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and where the answer is read.

    `chat` is `platform:chat`, `network` the platform, with `@NAME` for a further HTTP network; that of the page's
    visitors is their chat. `role` is the author's.
    """

    network: str
    chat: str
    is_private: bool = False
    role: Literal["everyone", "admin", "owner"] = "everyone"


def may_see(audience: frozenset[str], asker: Asker) -> bool:
    """Return whether an asker belongs to an audience.

    >>> may_see(frozenset({"slack:C1", "owners"}), Asker("slack", "slack:C1"))
    True
    >>> may_see(frozenset({"slack:C1", "owners"}), Asker("slack", "slack:C2", role="owner"))
    False
    """
    if asker.network == OPERATOR_PLATFORM or not audience.isdisjoint({EVERYONE, asker.chat, asker.network}):
        return True
    return asker.is_private and (asker.role == "owner" or (asker.role == "admin" and ADMINS in audience))


class RestrictedSettings(Protocol):
    """The part of the configuration (`core.settings.Settings`) that says who may see what."""

    @property
    def sources(self) -> dict[str, SourceSettings]:
        """The sources by name."""
        ...

    @property
    def agents(self) -> dict[str, AgentSettings]:
        """The configured agents by name."""
        ...

    @property
    def gate(self) -> GateSettings:
        """In which chats the bot speaks."""
        ...

    @property
    def auto_comment(self) -> AutoCommentSettings:
        """In which chats it comments."""
        ...

    @property
    def api(self) -> ApiSettings:
        """Which programs may ask."""
        ...

    def get_bots(self, platform: str = "") -> list[tuple[str, Platform, PlatformSettings]]:
        """Return the bots (of one platform) as name, platform and section."""
        ...

    def list_private_files(self) -> frozenset[Path]:
        """Return the files that hold the configuration and its secrets."""
        ...

    def retrieval_agents(self) -> dict[str, AgentSettings]:
        """Return the agents that search."""
        ...


@dataclass(frozen=True, slots=True)
class Audiences:
    """The audiences of a configuration. `by_source` has those that restrict a source: an asker is in all of them.

    `labels` name the sources in the journal: by their name and what they read. So what was made from a source is not
    taken for that of another one, which got its name. `scopes` say as well how much of it they read, and `areas` in
    which places, on this machine or elsewhere. `closed_inside` are the scopes of what fewer people may see of the place
    of a source: before it was closed, pages of the source may have shown it. `learned` are the sources of taught
    answers. `once_closed` are the scoped labels of the sources that were not for everyone at some time: what was made
    until then stays closed while they are removed, renamed, or read less. No source tells of `private_files`. Pages of
    `narrowed` may show files of what was closed since its configuration was taken up.
    """

    by_source: Mapping[str, frozenset[frozenset[str]]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    learned: frozenset[str] = frozenset()
    scopes: Mapping[str, str] = field(default_factory=dict)
    areas: Mapping[str, frozenset[str]] = field(default_factory=dict)
    closed_inside: Mapping[str, frozenset[str]] = field(default_factory=dict)
    once_closed: frozenset[str] = frozenset()
    private_files: frozenset[Path] = frozenset()
    narrowed: frozenset[str] = frozenset()

    @classmethod
    def from_settings(cls, settings: RestrictedSettings) -> Audiences:
        """Return the audiences of all sources: their own, and those of the agents that have them."""
        agents = settings.agents.values()
        by_source = {
            name: frozenset(
                frozenset(audience)
                for audience in (source.audience, *(agent.audience for agent in agents if name in agent.sources))
                if EVERYONE not in audience
            )
            for name, source in settings.sources.items()
        }
        labels = {
            name: make_label(name, source, settings.sources.get(getattr(source, "of", "")))
            for name, source in settings.sources.items()
        }
        scopes = {name: make_scope(label, settings.sources[name], settings.sources) for name, label in labels.items()}
        areas = {name: find_area(source, settings.sources) for name, source in settings.sources.items()}
        learned = frozenset(name for name, source in settings.sources.items() if isinstance(source, LearnedSource))
        private_files = settings.list_private_files()
        audiences = cls(by_source, labels, learned, scopes, areas, private_files=private_files)
        closed_inside = {
            name: audiences._list_closed(audiences._list_around(area), by_source[name]) for name, area in areas.items()
        }
        return replace(audiences, closed_inside=closed_inside)

    def to_json(self) -> str:
        """Return who may see the sources, for other daemons of the deployment: by name, and by what they read.

        With the private files: where sources lie, they may be the same files. Earlier versions read the names, or the
        names and the labels.
        """
        sources = {name: audiences for name, audiences in self.by_source.items() if audiences}
        sources |= {label: self.by_source[name] for name, label in self.labels.items()}
        for name, label in self.scopes.items():
            for place in self.areas.get(name) or [""]:
                sources[f"{_PLACE_SIGN}{label.replace(LABEL_SIGN, ' ')} {place}"] = self.by_source[name]
        sources |= {f"{_PRIVATE_SIGN}{quote(os.fsencode(path), safe='')}": frozenset() for path in self.private_files}
        return json.dumps({name: sorted(map(sorted, audiences)) for name, audiences in sources.items()}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Audiences:
        """Return the audiences that another daemon has written. The `labels` are of the sources that it has."""
        values = json.loads(text)
        paths = [key.removeprefix(_PRIVATE_SIGN) for key in values if key.startswith(_PRIVATE_SIGN)]
        private_files = frozenset(Path(os.fsdecode(unquote_to_bytes(path))) for path in paths)
        audiences = {
            key: frozenset(map(frozenset, value)) for key, value in values.items() if not key.startswith(_PRIVATE_SIGN)
        }
        keys = [key.removeprefix(_PLACE_SIGN).split(" ", 2) for key in audiences if key.startswith(_PLACE_SIGN)]
        scopes = {name: f"{name}{LABEL_SIGN}{scope}" for name, scope, _ in keys}
        areas: dict[str, frozenset[str]] = {}
        for name, _, place in keys:
            areas[name] = areas.get(name, frozenset()) | ({place} if place else frozenset())
        audiences = {key: value for key, value in audiences.items() if not key.startswith(_PLACE_SIGN)}
        labels = {key.partition(LABEL_SIGN)[0]: key for key in audiences if LABEL_SIGN in key}
        by_label = {name: audiences[label] for name, label in labels.items()}
        by_name = {key: value for key, value in audiences.items() if LABEL_SIGN not in key}
        return cls(by_label | by_name, labels, scopes=scopes, areas=areas, private_files=private_files)

    def closed_further(self, newer: Audiences, in_force: Audiences | None = None) -> Audiences:
        """Return these audiences with those that a newer configuration adds: its askers are in all of them.

        They are those of a source's name, and of what it reads, where that has another name there; beside what is
        `in_force` also those of what overlaps it, unless the newer one reads it just the same: then what was made from
        the source until now may tell of it. What one of the two keeps private is private.
        """
        by_source = dict[str, frozenset[frozenset[str]]]()
        closed_inside = dict(self.closed_inside)
        narrowed = set(self.narrowed)
        for name, audiences in self.by_source.items():
            by_source[name] = audiences.union(newer.by_source.get(name, ()), *newer._find_moved(self.labels.get(name)))
            overlapping = newer._find_overlapping(in_force, name) if in_force else set[str]()
            if in_force and in_force.scopes.get(name) != newer.scopes.get(name):
                by_source[name] = by_source[name].union(*(newer.by_source[other] for other in overlapping))
            if closed := newer._list_closed(overlapping, by_source[name]):
                closed_inside[name] = closed_inside.get(name, frozenset()) | closed
                narrowed.add(name)
        private_files = self.private_files | newer.private_files
        audiences_now = replace(self, by_source=by_source, closed_inside=closed_inside, narrowed=frozenset(narrowed))
        return replace(audiences_now, private_files=private_files)

    def _find_moved(self, label: str | None) -> Iterator[frozenset[frozenset[str]]]:
        """Yield the audiences of the sources that read what a label names, unless one has that name, too."""
        if label is None or label in self.labels.values():
            return
        origin = label.partition(LABEL_SIGN)[2]
        for name, other_label in self.labels.items():
            if other_label.partition(LABEL_SIGN)[2] == origin:
                yield self.by_source[name]

    def _find_overlapping(self, older: Audiences, name: str) -> set[str]:
        """Return what lies within a source of an older configuration, or around it, and may tell of more than there.

        That is what reads something else since, or has other readers; all, where the source itself does.
        """
        around = self._list_around(older.areas.get(name, ()))
        if name in self.scopes and self.scopes[name] != older.scopes.get(name):
            return around
        return {
            other
            for other in around
            if older.scopes.get(other) != self.scopes[other] or not self.by_source[other] <= older.by_source[other]
        }

    def _list_around(self, area: Collection[str]) -> set[str]:
        """Return the sources not for everyone that read places of an area, within them, or around them."""
        closed = {name: other_area for name, other_area in self.areas.items() if self.by_source[name]}
        return {name for name, other_area in closed.items() if is_overlapping(area, other_area)}

    def _list_closed(self, names: Collection[str], readers: frozenset[frozenset[str]]) -> frozenset[str]:
        """Return the scopes of those of some sources that not all of some readers may see."""
        return frozenset(self.scopes[name] for name in names if not _see_all(readers, self.by_source[name]))

    def with_lessons_chosen_for(self, former: Audiences) -> Audiences:
        """Return these audiences where taught answers were chosen for former ones.

        They may tell of each source that their readers saw then: what was closed since closes them as well.
        """
        by_source = dict(self.by_source)
        for source in self.learned:
            told_of = (
                self.by_source[name] - audiences
                for name, audiences in former.by_source.items()
                if name in self.by_source and former.readers_see(source, name)
            )
            by_source[source] = by_source[source].union(*told_of)
        return replace(self, by_source=by_source)

    def without_removed(self, known: Collection[str]) -> Audiences:
        """Return these audiences with the sources that were known besides: they are for owners alone.

        Who removed or renamed a source has closed it, although it can be found until the next start.
        """
        removed = {name: frozenset({frozenset({OWNERS})}) for name in known if name not in self.by_source}
        return replace(self, by_source={**self.by_source, **removed})

    def extended_by(self, newer: Audiences) -> Audiences:
        """Return these audiences with the sources that a newer configuration adds."""
        return replace(
            self,
            by_source={**newer.by_source, **self.by_source},
            labels={**newer.labels, **self.labels},
            learned=self.learned | newer.learned,
            # What is read from now on.
            scopes={**self.scopes, **newer.scopes},
            areas={**newer.areas, **self.areas},
            closed_inside={
                name: self.closed_inside.get(name, frozenset()) | newer.closed_inside.get(name, frozenset())
                for name in {**self.by_source, **newer.by_source}
            },
            private_files=self.private_files | newer.private_files,
        )

    @property
    def has_closed_sources(self) -> bool:
        """Return whether any source is not for everyone, or one was not that is not open today, under any name."""
        # Of the latter only another daemon may have the source.
        has_closed = any((*self.by_source.values(), *self.closed_inside.values()))
        if has_closed or not self.once_closed:
            return has_closed
        open_origins = {
            self.get_scoped_label(name).partition(LABEL_SIGN)[2] for name in self.scopes if name not in self.learned
        }
        lost_labels = self.were_closed(self.once_closed)
        return any(label.partition(LABEL_SIGN)[2] not in open_origins for label in lost_labels)

    @property
    def closed_now(self) -> frozenset[str]:
        """The scoped labels of the sources that are not for everyone."""
        return frozenset(self.get_scoped_label(name) for name in self.scopes if self.by_source[name])

    @property
    def fingerprint(self) -> str:
        """A hash of all audiences; "" while every source is for everyone."""
        closed_sources = sorted(
            (self.get_label(name), describe(audiences)) for name, audiences in self.by_source.items() if audiences
        )
        return hashlib.sha256(repr(closed_sources).encode()).hexdigest() if closed_sources else ""

    def make_asker(
        self,
        platform: str,
        chat: str,
        *,
        is_private: bool = False,
        role: Literal["everyone", "admin", "owner"] = "everyone",
    ) -> Asker:
        """Return who asks in a chat, which is named without its platform."""
        name = PlatformName(platform, chat)
        return Asker(_find_network(name), str(name), is_private, role)

    def visible_sources(self, asker: Asker | None) -> frozenset[str]:
        """Return the sources that an asker may see; None sees what is for everyone.

        Guests of a chat that is named see no taught answers that may tell of what its network alone may see.
        """
        names = frozenset(
            name
            for name, audiences in self.by_source.items()
            if all(asker is not None and may_see(audience, asker) for audience in audiences)
        )
        hidden = self.by_source.keys() - names
        return names - {name for name in names & self.learned if any(self.readers_see(name, each) for each in hidden)}

    def visible_labels(self, asker: Asker) -> frozenset[str]:
        """Return the labels of the sources that an asker may see; with `ALL_OPEN` where all are for everyone."""
        labels = self.list_labels(self.visible_sources(asker))
        return labels if self.has_closed_sources else labels | {ALL_OPEN}

    def closed_labels(self, asker: Asker, told_of: Collection[str] = ()) -> frozenset[str]:
        """Return the labels of the sources that an asker may see and not everybody, each with who may.

        With those of `told_of` that are of no source for everyone.
        """
        names = {self.get_scoped_label(name): name for name in self.visible_sources(asker) if self.by_source[name]}
        labels = frozenset(f"{label}{READERS_SIGN}{self.describe_readers(name)}" for label, name in names.items())
        return labels | (self.were_closed(told_of) - names.keys())

    def were_closed(self, labels: Collection[str]) -> frozenset[str]:
        """Return those of some labels that are not of a source for everyone: it may have been renamed since."""
        open_labels = self.list_labels(name for name, audiences in self.by_source.items() if not audiences)
        return frozenset(labels) - open_labels - {ALL_OPEN}

    def knows(self, label: str) -> bool:
        """Return whether it is known today who may see what was made from the source of a label.

        Not where it was removed or renamed, nor where it reads more or less than then, and more people may see it.
        """
        return self._find_name(label) is not None

    def _find_name(self, label: str) -> str | None:
        label, _, readers = label.partition(READERS_SIGN)
        for name, audiences in self.by_source.items():
            if label in self.list_labels([name]):
                return name
            is_alike = split_scope(label)[1] == split_scope(self.get_scoped_label(name))[1]
            if is_alike and split_scope(label)[0] == self.get_label(name) and readers and audiences:
                return None if self.is_open_to_more(name, readers) else name
        return None

    def is_open_to_more(self, name: str, readers: str) -> bool:
        """Return whether others may see a source than those who could: `readers`, as `describe_readers` has them."""
        return not _see_all(self._readers(name), map(frozenset, json.loads(readers)))

    def describe_readers(self, name: str) -> str:
        """Return who may see a source, as JSON without blanks."""
        return json.dumps(sorted(map(sorted, self.by_source[name])), separators=(",", ":"))

    def list_labels(self, names: Iterable[str]) -> frozenset[str]:
        """Return the labels of sources, with and without how much they read: earlier versions did not write that."""
        return frozenset(label for name in names for label in (self.get_label(name), self.get_scoped_label(name)))

    def get_label(self, name: str) -> str:
        """Return what names a source in the journal and in a store: its name, with what it reads where it is known."""
        return self.labels.get(name, name)

    def get_scoped_label(self, name: str) -> str:
        """Return the label of a source with how much of it is read, and what of that is closed to its readers."""
        label = self.scopes.get(name, self.get_label(name))
        closed = self.closed_inside.get(name)
        return f"{label}{INSIDE_SIGN}{hash_text(repr(sorted(closed)))}" if closed else label

    def accepts_lesson(self, source: str, platform: str, chat: str, closed_sources: Collection[str] | None) -> bool:
        """Return whether a source of taught answers takes one that was taught in a chat.

        The sources with the labels `closed_sources` could be seen there at that time; None: nobody knows, and no source
        takes it. Everybody who reads the source today has to see all of them today: chats, roles and audiences may have
        changed since.
        """
        if closed_sources is None:
            return False
        asker = self.make_asker(platform, chat)
        known_labels = {label.partition(READERS_SIGN)[0] for label in closed_sources}
        is_for_chat = not self.list_labels([source]).isdisjoint(known_labels) or all(
            may_see(readers, asker) for readers in self._readers(source)
        )
        return is_for_chat and all(self._is_seen_by_readers(label, source) for label in closed_sources)

    def may_read_lesson(self, asker: Asker, closed_sources: Collection[str] | None) -> bool:
        """Return whether an asker sees all that a taught answer may tell of: `closed_sources`, as for a source."""
        is_known = closed_sources is not None or not self.has_closed_sources
        return is_known and self.visible_sources(asker).issuperset(map(self._find_name, closed_sources or ()))

    def _is_seen_by_readers(self, label: str, source: str) -> bool:
        """Return whether all readers of a source see that of a label, which may have been removed or renamed."""
        name = self._find_name(label)
        return name is not None and self.readers_see(source, name)

    def readers_see(self, source: str, name: str) -> bool:
        """Return whether all readers of a source see another one."""
        return _see_all(self._readers(source), self.by_source[name])

    def _readers(self, source: str) -> frozenset[frozenset[str]]:
        return self.by_source.get(source, frozenset())


def _see_all(readers: Collection[frozenset[str]], audiences: Iterable[frozenset[str]]) -> bool:
    """Return whether those who are in all of the `readers` are in all of some audiences."""
    return all(any(_is_within(inner, outer) for inner in readers) for outer in audiences)


def _is_within(inner: frozenset[str], outer: frozenset[str]) -> bool:
    """Return whether all of one audience belong to another one. Owners belong to every audience."""
    return all(
        entry in outer or entry == OWNERS or _find_network(PlatformName.parse(entry)) in outer for entry in inner
    )


def _find_network(name: PlatformName) -> str:
    """Return the network that a chat belongs to. Visitors of the page are none of the programs with a token."""
    return PAGE_CHAT if str(name) == PAGE_CHAT else name.network


def describe(audiences: frozenset[frozenset[str]]) -> str:
    """Return who may see a source, in the words of the configuration.

    >>> describe(frozenset())
    'everyone'
    """
    return " and ".join(sorted(", ".join(sorted(audience)) for audience in audiences)) or EVERYONE


def check_audiences(settings: RestrictedSettings) -> None:
    """Raise `ValueError` for an audience that names what is not there, or that could not be kept."""
    for setting_path, audience in _iter_audiences(settings):
        for entry in audience:
            if problem := _find_problem(entry, audience, settings):
                raise ValueError(f"{setting_path}.audience: {problem}")
    audiences = Audiences.from_settings(settings).by_source
    for name, source in settings.sources.items():
        live_name = getattr(source, "of", name)
        if audiences[name] != audiences[live_name]:
            raise ValueError(
                f"sources.{name}.audience: it stores results of {live_name} ({describe(audiences[live_name])}): "
                "give both the same audience"
            )
    for name, agent in settings.retrieval_agents().items():
        if len({audiences[source] for source in agent.sources}) > 1:
            source_audiences = "; ".join(f"{source}: {describe(audiences[source])}" for source in agent.sources)
            raise ValueError(
                f"agents.{name}: its sources have different audiences ({source_audiences}), and one agent knows all of "
                "its sources: give each audience an agent of its own"
            )


def find_unknown_networks(settings: RestrictedSettings) -> list[tuple[str, str]]:
    """Return the audiences that name a chat of a further network that is not configured: their path, and what to do.

    Nobody can be such a chat. The network may have been removed, or renamed.
    """
    names = {name for name, _, _ in settings.get_bots(NETWORK_PLATFORM)}
    return [
        (f"{path}.audience", f"{entry!r}: {fault}")
        for path, audience in _iter_audiences(settings)
        for entry in audience
        if (fault := find_network_fault(entry, names))
    ]


def _iter_audiences(settings: RestrictedSettings) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from ((f"sources.{name}", source.audience) for name, source in settings.sources.items())
    yield from ((f"agents.{name}", agent.audience) for name, agent in settings.agents.items())


def _find_problem(entry: str, audience: tuple[str, ...], settings: RestrictedSettings) -> str:
    """Return why an entry names nobody, and what to write instead; "" where it is right."""
    if entry == EVERYONE:
        return "" if len(audience) == 1 else "everyone stands alone: remove it, or the other entries"
    bots = {(name, platform) for name, platform, _ in settings.get_bots()}
    networks = {f"http@{name}" if platform == "http" and name else platform for name, platform in bots}
    networks |= {API_PLATFORM} if settings.api.clients else set()
    if ":" in entry:
        return _find_chat_fault(entry, settings, networks)
    if entry in (OWNERS, ADMINS) or entry in networks:
        return ""
    known_names = ", ".join((EVERYONE, ADMINS, OWNERS, *sorted(networks)))
    return (
        f"{entry!r} is no role and no platform with a bot (known: {known_names}); a chat is written platform:chat, "
        "such as slack:C0123456789"
    )


def _describe_no_asker(entry: str, name: str) -> str:
    if name == PAGE_CLIENT:
        return f"{entry!r} are the visitors of the page, which is off: switch on api.page.enabled"
    return f"{entry!r}: there is no client api.clients.{name}"


def _find_chat_fault(entry: str, settings: RestrictedSettings, networks: set[str]) -> str:
    name = PlatformName.parse(entry)
    if name.platform == API_PLATFORM:
        return "" if name.id in settings.api.asker_names else _describe_no_asker(entry, name.id)
    if not is_chat(entry):
        return f"{entry!r} is no chat: write {CHAT_EXAMPLES} or, for a further network, http:lobby@NAME"
    if name.network not in networks and not name.network_suffix:
        return f"{entry!r} is on {name.network}, where no bot is configured: add its section, or remove the entry"
    is_naming = name.platform in BOT_NAMING_PLATFORMS
    bot_names = [bot for bot, _, _ in settings.get_bots(name.platform)] if is_naming else []
    # Of Telegram only private chats, which are the same for several bots.
    if name.bot and not name.network_suffix and name.bot not in bot_names:
        return f"{entry!r}: no such chat carries the name of a bot: write {entry.partition('@')[0]}"
    comments = settings.auto_comment
    chats = {*settings.gate.chats, *comments.chats, *(feed.chat for feed in comments.feeds.values())}
    if settings.gate.chats and entry not in chats and not can_be_private(entry):
        return f"the bot does not answer in {entry!r}: add it to gate.chats, or remove it here"
    return ""
