"""Settings made by commands, and the audit log of who changed what, in the journal's database.

Several processes may each have their `RuntimeOverrides` over one database, as `kimas chat` beside the daemon: one's
changes reach the others within `CACHE_TTL_S` seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, cast
from uuid import uuid4

from sqlalchemy import and_, bindparam, delete, func, insert, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.formatting import INDEFINITELY, NO_LIMIT
from core.observability.logs import get_logger
from core.runtime.tasks import uncancellable
from core.settings import Settings
from core.settings.audience import Audiences
from core.settings.gate import UNPROMPTED_MODES, ChatSettings, GateMode
from core.settings.sources import LiveSource
from core.storage.engine import Database
from core.storage.leases import select_living
from core.storage.moved_chats import find_moves, record_move
from core.storage.tables import DEPLOYMENT_SCOPE, audit, leases, overrides
from core.types import Message, PlatformName

_log = get_logger(__name__)

AuditOutcome = Literal["changed", "refused", "failed"]
MAX_TEXT_CHARS = 300
# A century: a larger number means for ever, and dates do not reach back that far.
MAX_DAYS = 36_500
CACHE_TTL_S = 2.0
GLOBAL_SCOPE = ""
# What each daemon says of who may see what, under this and its id.
AUDIENCES_PREFIX = "audiences "
# And the labels of the sources that were closed at any time.
CLOSED_PREFIX = "closed "
# What is written for what such a source read, where only its name is known.
REMOVED = "removed"
# Which daemon read its files again last, with a number that is new each time.
RELOAD_NAME = "reload"
_IS_AUDIENCE = and_(
    overrides.c.scope == DEPLOYMENT_SCOPE, overrides.c.name.startswith(AUDIENCES_PREFIX, autoescape=True)
)

# Those that may come back, also after their leases have run out.
_KNOWN_DAEMONS = select(AUDIENCES_PREFIX + leases.c.owner)
# What everybody said who is alive, and we.
_IS_SAID_NOW = or_(
    overrides.c.name == bindparam("own_name"),
    overrides.c.name.in_(_KNOWN_DAEMONS.where(leases.c.expires_at > func.now())),
)
_SELECT_IN_FORCE = select(overrides).where(or_(~_IS_AUDIENCE, _IS_SAID_NOW))

# It names sources and models, and waits with them.
CHATS_SECTION = "chats"
# The sections that `/reload` applies at once. Every other section needs a restart.
LIVE_SECTIONS = frozenset({"gate", CHATS_SECTION, "administration", "limits"})
# Those that it applies where somebody takes them up: what is answered from, and what never leaves.
KNOWLEDGE_SECTIONS = frozenset({"sources", "agents"})
OUTGOING_SECTION = "outgoing"

# Answers from other settings from now on. Raises `KimasError`; then nothing has changed.
TakeUp = Callable[[Settings, Audiences], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One command that changes something: where and by whom it was given, what came of it, and when (UTC).

    `subject` names what was to be changed, or says why it was not; `before` and `after` are its values.
    """

    at: datetime
    platform: str
    chat: str
    author_id: str
    outcome: AuditOutcome
    command: str
    subject: str = ""
    before: str = ""
    after: str = ""


def new_entry(
    message: Message, outcome: AuditOutcome, subject: str = "", before: str = "", after: str = ""
) -> AuditEntry:
    """Return the entry of a message's command, dated now. What people typed is cut to a length.

    The whole chat may read it: what was typed in a closed thread of the chat is not in it. Of a refused command only
    the name is: it changed nothing, and what stands behind it may be anything.
    """
    is_in_closed_thread = message.thread_state.is_restricted and not message.private
    typed_text = "" if is_in_closed_thread or outcome == "refused" else message.text
    command = f"{message.command} {typed_text}".strip()[:MAX_TEXT_CHARS]
    key = message.key
    texts = (text[:MAX_TEXT_CHARS] for text in (subject, before, after))
    return AuditEntry(datetime.now(UTC), key.platform, key.chat, message.author_id, outcome, command, *texts)


class Audit:
    """The audit log of commands. Every method raises `StoreError` when the database fails.

    `get_keep_days` returns for how many days entries are kept, None for ever.
    """

    def __init__(self, database: Database, get_keep_days: Callable[[], float | None] = lambda: None) -> None:
        self._database = database
        self._get_keep_days = get_keep_days

    @uncancellable
    async def record(self, entry: AuditEntry) -> None:
        """Write an entry, and remove old ones."""
        async with self._database.transaction() as connection:
            await write_entry(connection, entry)
            keep_days = self._get_keep_days()
            if keep_days is not None:
                oldest = datetime.now(UTC) - timedelta(days=min(keep_days, MAX_DAYS))
                await connection.execute(delete(audit).where(audit.c.at < oldest))

    async def get_newest(self, limit: int, *, chat: tuple[str, str] | None) -> Sequence[AuditEntry]:
        """Return the newest entries, newest first: all, or those given in one chat (its platform and its id)."""
        columns = audit.c
        query = select(*(columns[name] for name in AuditEntry.__slots__)).order_by(columns.number.desc()).limit(limit)
        if chat is not None:
            query = query.where(columns.platform == chat[0], columns.chat == chat[1])
        return [AuditEntry(*row) for row in await self._database.fetch_all(query)]


async def write_entry(connection: AsyncConnection, entry: AuditEntry) -> None:
    """Write an entry in a transaction."""
    await connection.execute(insert(audit).values({name: getattr(entry, name) for name in AuditEntry.__slots__}))


class RuntimeOverrides:
    """The overrides in force. Call `load` before reading; it and every change raise `StoreError`."""

    def __init__(self, database: Database, cache_ttl_s: float = CACHE_TTL_S) -> None:
        self.database = database
        self._cache_ttl_s = cache_ttl_s
        self._values: Mapping[tuple[str, str], str] = {}
        self._moves: Mapping[str, str] = {}
        self._own_audiences = ""
        self._loaded_at = -float("inf")
        self._load_lock = asyncio.Lock()

    async def load(self) -> None:
        """Read the overrides, unless they were read a moment ago."""
        if time.monotonic() - self._loaded_at < self._cache_ttl_s:
            return
        async with self._load_lock:
            if time.monotonic() - self._loaded_at >= self._cache_ttl_s:
                await self._read()

    def mode(self, chat: str) -> GateMode | None:
        """Return the mode that was set for a chat (`platform:chat`), or None."""
        return cast("GateMode | None", self._get(chat, "mode"))

    def threshold(self, chat: str) -> float | None:
        """Return the threshold that was set for a chat, or None."""
        value = self._get(chat, "threshold")
        return None if value is None else float(value)

    def paused_until(self, chat: str) -> str:
        """Return until when a chat is paused (ISO, or `FOR_GOOD`), or "" where it is not."""
        until = self._get(chat, "pause") or ""
        is_over = until not in ("", INDEFINITELY) and datetime.fromisoformat(until) <= datetime.now(UTC)
        return "" if is_over else until

    def admins(self, chat: str) -> tuple[str, ...]:
        """Return the ids of the delegated administrators of a chat."""
        chat = self._moves.get(chat, chat)
        names = (name.partition(".") for scope, name in self._values if scope == chat)
        return tuple(sorted(user for kind, _, user in names if kind == "admin"))

    def list_admins(self, platform: str) -> Sequence[str]:
        """Return the ids of the delegated administrators of all chats of a platform."""
        names = (name.partition(".") for scope, name in self._values if scope.startswith(f"{platform}:"))
        return [user for kind, _, user in names if kind == "admin"]

    def scopes_of_admin(self, user: str) -> Sequence[str]:
        """Return the chats (`platform:chat`) of which commands have made somebody an administrator."""
        return [scope for scope, name in self._values if name == override_key("admin", user)]

    def is_off(self, source: str) -> bool:
        """Return whether a source is switched off."""
        return self.is_set(GLOBAL_SCOPE, override_key("off", source))

    def scale(self, source: str) -> float:
        """Return the weight of a source's passages; 1 by default."""
        return float(self._values.get((GLOBAL_SCOPE, override_key("scale", source)), 1.0))

    @property
    def has_source_overrides(self) -> bool:
        """Return whether any source is switched off or has a weight."""
        return any(name.startswith(("off.", "scale.")) for _, name in self._values)

    def limit(self, name: str, configured: float | None) -> float | None:
        """Return a daily limit: its override, or else its configured value; None for no limit."""
        value = self._values.get((GLOBAL_SCOPE, override_key("limit", name)))
        if value is None:
            return configured
        return None if value == NO_LIMIT else float(value)

    def is_set(self, scope: str, name: str) -> bool:
        """Return whether a command has set a value."""
        return (scope, name) in self._values

    def _get(self, chat: str, name: str) -> str | None:
        """Return what was set for a chat: also where an answer under way has an id that the chat had before."""
        return self._values.get((self._moves.get(chat, chat), name))

    @property
    def moves(self) -> Mapping[str, str]:
        """The chats (`platform:chat`) that have another id by now, each with that."""
        return self._moves

    @property
    def audiences(self) -> frozenset[str]:
        """The audiences that the living daemons of the deployment have, in JSON."""
        return frozenset(
            value
            for (scope, name), value in self._values.items()
            if scope == DEPLOYMENT_SCOPE and name.startswith(AUDIENCES_PREFIX)
        )

    @property
    def once_closed(self) -> frozenset[str]:
        """The scoped labels of the sources that were not for everyone at some time."""
        return frozenset(
            name.removeprefix(CLOSED_PREFIX)
            for scope, name in self._values
            if scope == DEPLOYMENT_SCOPE and name.startswith(CLOSED_PREFIX)
        )

    async def list_other_audiences(self) -> Sequence[str]:
        """Return what the other daemons said, in JSON: also those whose leases have run out, as they may come back."""
        is_other = and_(overrides.c.name != self._own_name, overrides.c.name.in_(_KNOWN_DAEMONS))
        query = select(overrides.c.value).where(_IS_AUDIENCE, is_other)
        return [row.value for row in await self.database.fetch_all(query)]

    @uncancellable
    async def publish_audiences(self, audiences: str) -> None:
        """Tell the other daemons of the deployment who may see what: what is closed for one is closed for all.

        What daemons said that have ended is forgotten. Not so if their leases have only run out: they may come back. Of
        what was closed the label stays: what was made before stays closed, whatever becomes of the source.
        """
        self._own_audiences = audiences
        is_over = or_(overrides.c.name == self._own_name, overrides.c.name.not_in(_KNOWN_DAEMONS))
        values = {"scope": DEPLOYMENT_SCOPE, "name": self._own_name, "value": audiences}
        async with self.database.transaction() as connection:
            await connection.execute(delete(overrides).where(_IS_AUDIENCE, is_over))
            await connection.execute(insert(overrides).values(values))
        for label in Audiences.from_json(audiences).closed_now - self.once_closed:
            await self._remember_closed(label)
        async with self._load_lock:
            await self._read()

    async def remember_removed(self, sources: Collection[str]) -> None:
        """Note that sources are gone that a backup was made with: they may have been closed since.

        What was told while all sources were for everyone is told no more.
        """
        for name in sources:
            await self._remember_closed(f"{name}#{REMOVED}")

    async def _remember_closed(self, label: str) -> None:
        values = {"scope": DEPLOYMENT_SCOPE, "name": CLOSED_PREFIX + label, "value": ""}
        # Another daemon may have written the same, also at this moment.
        async with self.database.transaction() as connection:
            with suppress(IntegrityError):
                async with connection.begin_nested():
                    await connection.execute(insert(overrides).values(values))

    async def has_other_daemons(self) -> bool:
        """Return whether other daemons of the deployment are alive, which have files of their own."""
        if not self.database.owner:
            return False
        return await self.database.fetch_first(select_living().where(leases.c.owner != self.database.owner)) is not None

    @property
    def reload_elsewhere(self) -> str:
        """What is new whenever another daemon of the deployment has read its files again; "" if none has."""
        value = self._values.get((DEPLOYMENT_SCOPE, RELOAD_NAME), "")
        return "" if value.startswith(f"{self.database.owner} ") else value

    @uncancellable
    async def announce_reload(self) -> None:
        """Tell the other daemons of the deployment to read their files again, where there may be any."""
        if not self.database.owner:
            return
        identity = {"scope": DEPLOYMENT_SCOPE, "name": RELOAD_NAME}
        async with self.database.transaction() as connection:
            await connection.execute(delete(overrides).filter_by(**identity))
            await connection.execute(insert(overrides).values(**identity, value=f"{self.database.owner} {uuid4()}"))

    async def republish_audiences(self) -> None:
        """Say again what we said last: we were taken for dead, and it may be forgotten."""
        await self.publish_audiences(self._own_audiences)

    @uncancellable
    async def change(self, message: Message, scope: str, name: str, value: str | None, *, before: str = "") -> None:
        """Set a value, or remove it with None, and write the audit entry in the same transaction.

        `before` is what held until now where nothing was set.
        """
        scope = self._moves.get(scope, scope)
        removal = delete(overrides).filter_by(scope=scope, name=name)
        async with self.database.transaction() as connection:
            # One statement: of two concurrent changes the second sees the value of the first.
            old_value = await connection.scalar(removal.returning(overrides.c.value))
            if value is not None:
                await connection.execute(insert(overrides).values(scope=scope, name=name, value=value))
            before = before if old_value is None else str(old_value)
            after = "as configured" if value is None else value
            await write_entry(connection, new_entry(message, "changed", f"{scope} {name}".strip(), before, after))
        # After a read in progress, which may not include this change and must not overwrite it.
        async with self._load_lock:
            await self._read()

    async def record_move(self, platform: str, former: str, chat: str) -> None:
        """Record that a chat has another id by now, under which all that was set holds. What it has set there stays."""
        await record_move(self.database, platform, former, chat)
        async with self._load_lock:
            await self._read()

    @property
    def _own_name(self) -> str:
        return AUDIENCES_PREFIX + self.database.owner

    async def _read(self) -> None:
        rows = await self.database.fetch_all(_SELECT_IN_FORCE, {"own_name": self._own_name})
        self._moves = await find_moves(self.database)
        self._values = {(row.scope, row.name): row.value for row in rows}
        self._loaded_at = time.monotonic()


def override_key(kind: Literal["admin", "off", "scale", "limit"], name: str) -> str:
    """Return what an administrator, a source's switch or weight, or a limit is kept under."""
    return f"{kind}.{name}"


def find_sources_for(audiences: Audiences, chat: str) -> Sequence[str]:
    """Return the sources that name a chat (`platform:chat`) as one of those that may see them."""
    return [name for name, all_of in audiences.by_source.items() if any(chat in audience for audience in all_of)]


def get_chat_name(message: Message) -> str:
    """Return the name that a message's chat has in the configuration: `platform:chat`."""
    return f"{message.key.platform}:{message.key.chat}"


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did: the sections that changed now, and those that need a restart.

    Of the sources: `added` are being read, which live ones are not, and `kept_closed` are still closed to some whom the
    new settings let in. `replaced` and `with_new_secrets` are why the sources need a restart. `missing` read a folder
    or file that does not exist now: whoever reloads looks.
    """

    live: Sequence[str]
    restart: Sequence[str]
    added: Sequence[str] = ()
    kept_closed: Sequence[str] = ()
    replaced: Sequence[str] = ()
    with_new_secrets: Sequence[str] = ()
    missing: Sequence[str] = ()


class LiveSettings:
    """The settings in force, with `/reload` and the commands applied. Read this object; keep no copies of its values.

    Call `load` before reading what commands have set; it raises `StoreError`. Without `overrides` no command can
    have set anything.
    """

    def __init__(self, settings: Settings, overrides: RuntimeOverrides | None = None) -> None:
        self._settings = settings
        # The same, with what they say of chats under ids of former times, and which moves that has.
        self._moved: tuple[Mapping[str, str], Settings] = ({}, settings)
        self._started_audiences = Audiences.from_settings(settings)
        # Those of the sources that are answered from, without what was closed since.
        self._own_audiences = self._started_audiences
        # Those that taught answers were chosen for.
        self._lesson_audiences = self._started_audiences
        self._overrides = overrides
        # What the daemons tell, and what our own files have told since the sources were last taken up.
        self._published = self._waiting = frozenset[str]()
        # The sources that the other daemons had when we started; None: not read yet.
        self._known_elsewhere: frozenset[str] | None = None
        self._audiences = self._started_audiences
        self._reload_lock = asyncio.Lock()

    @property
    def settings(self) -> Settings:
        """The settings in force. What they say of a chat's former id holds for its present one as well."""
        moves = self._overrides.moves if self._overrides else {}
        if moves != self._moved[0]:
            self._moved = (moves, self._settings.with_moved_chats(moves))
        return self._moved[1]

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._settings = settings
        self._moved = ({}, settings)

    @property
    def overrides(self) -> RuntimeOverrides:
        """The overrides by commands. Raises `RuntimeError` if there are no commands."""
        if self._overrides is None:
            raise RuntimeError("these settings have no overrides")
        return self._overrides

    def list_privileged(self, platform: str) -> Collection[str]:
        """Return the ids of the people of a platform to whom the configuration or a command gives a right."""
        settings = self.settings
        entries = (*settings.administration.owners, *settings.handoff.people, *settings.handoff.trusted)
        people = [PlatformName.parse(entry) for entry in entries]
        ids = [person.id for person in people if person.platform == platform]
        return {*ids, *(self._overrides.list_admins(platform) if self._overrides else ())}

    @property
    def audiences(self) -> Audiences:
        """Who may see which source. A closing counts at once, whichever daemon has it; an opening needs a restart."""
        published = self._overrides.audiences if self._overrides else frozenset()
        if published != self._published or self._get_once_closed() != self._audiences.once_closed:
            self._set_started_audiences(self._started_audiences, published)
        return self._audiences

    async def publish_audiences(self, settings: Settings) -> None:
        """Close for all daemons of the deployment what these settings close. Raises `StoreError`.

        At the start, the others tell what these settings have removed or renamed; later, our own former settings do: a
        daemon whose files are not written yet reads them again with the others, and has removed nothing.
        """
        if self._known_elsewhere is None:
            # First: of two that start at the same moment, one at least reads what the other has.
            await self.overrides.publish_audiences(Audiences.from_settings(settings).to_json())
            others = map(Audiences.from_json, await self.overrides.list_other_audiences())
            self._known_elsewhere = frozenset(name for other in others for name in other.labels)
        known = {*self._started_audiences.by_source, *self._known_elsewhere}
        audiences = Audiences.from_settings(settings).without_removed(known)
        self._waiting |= {audiences.to_json()}
        # What our own files closed stays closed here, whoever starts later with older ones.
        self._set_started_audiences(self._started_audiences.closed_further(audiences))
        await self.overrides.publish_audiences(audiences.to_json())

    async def record_move(self, platform: str, former: str, chat: str) -> None:
        """Record that a chat has another id by now: what is configured and set for it holds there. Raises `StoreError`.

        No audience follows by itself: the log says which sources the chat does not see any more.
        """
        await self.overrides.record_move(platform, former, chat)
        former_name, name = (str(PlatformName(platform, each)) for each in (former, chat))
        sources = find_sources_for(self._started_audiences, former_name)
        _log.warning("chat.moved", former=former_name, chat=name, sources_to_open_again=sources)

    async def load(self) -> None:
        """Read the overrides, unless they were read a moment ago. Raises `StoreError`."""
        if self._overrides:
            await self._overrides.load()

    async def reload(self, new_settings: Settings, take_up: TakeUp | None = None) -> Reloaded:
        """Apply what can be applied now.

        Where what is answered from changed, `take_up` gets the settings that come into force, before they do, and the
        audiences that it has to choose taught answers for. Raises what it raises; then nothing has changed. Call
        `publish_audiences` as well: what is closed further is closed now.
        """
        async with self._reload_lock:
            changed = [
                name for name in Settings.model_fields if getattr(new_settings, name) != getattr(self._settings, name)
            ]
            replaced = self._find_replaced(new_settings) if take_up else []
            with_new_secrets = await asyncio.to_thread(self._find_new_secrets, new_settings) if take_up else []
            applicable = set(LIVE_SECTIONS)
            if take_up and not (replaced or with_new_secrets):
                applicable |= KNOWLEDGE_SECTIONS
            elif self._names_other_sources(new_settings.chats):
                applicable.remove(CHATS_SECTION)
            if self._names_other_models(new_settings):
                applicable.discard(CHATS_SECTION)
            # What moderates has a connection.
            if take_up and new_settings.outgoing.moderation == self.settings.outgoing.moderation:
                applicable.add(OUTGOING_SECTION)
            live = [name for name in changed if name in applicable]
            # Sections that need a restart stay unchanged as a whole: a half-applied one would match neither file.
            settings = self._settings.model_copy(update={name: getattr(new_settings, name) for name in live})
            added = [
                name
                for name, source in settings.sources.items()
                if name not in self.settings.sources and not isinstance(source, LiveSource)
            ]
            if take_up and not LIVE_SECTIONS.issuperset(live):
                await self._take_up(settings, take_up)
            self.settings = settings
            restart = [name for name in changed if name not in applicable]
            kept_closed = self._find_kept_closed(new_settings)
            return Reloaded(live, restart, added, kept_closed, replaced, with_new_secrets)

    async def _take_up(self, settings: Settings, take_up: TakeUp) -> None:
        """Let somebody take up settings; before, it is known who may see their sources.

        Taught answers that were closed with a source, although they tell nothing of it, are open again afterwards.
        """
        former_audiences, former_own, waiting = self._started_audiences, self._own_audiences, self._waiting
        self._own_audiences, self._waiting = Audiences.from_settings(settings), frozenset()
        # As told by now: what was told of the settings before these would close what they read otherwise.
        published = self._overrides.audiences if self._overrides else None
        self._set_started_audiences(former_audiences.extended_by(self._own_audiences), published)
        lesson_audiences = self._close_further(self._started_audiences)
        try:
            await take_up(settings, lesson_audiences)
        except BaseException:
            self._own_audiences, self._waiting = former_own, self._waiting | waiting
            # What another reload has closed meanwhile stays closed.
            self._set_started_audiences(former_audiences.closed_further(self._started_audiences))
            raise
        self._lesson_audiences = lesson_audiences
        self._set_started_audiences(self._started_audiences)

    def _names_other_sources(self, chats: Mapping[str, ChatSettings]) -> bool:
        """Return whether chats are to be searched in sources that are not in force."""
        return any(not self.settings.sources.keys() >= set(chat.sources) for chat in chats.values())

    def _names_other_models(self, new_settings: Settings) -> bool:
        """Return whether a chat names models that are not in force: its text would reach others until the restart."""
        names = {chat.models for chat in new_settings.chats.values() if chat.models is not None}
        sets = self.settings.models.sets
        return any(sets.get(name) != new_settings.models.sets[name] for name in names)

    def _find_replaced(self, new_settings: Settings) -> list[str]:
        """Return the sources that have the name of another one: what was made from that could be taken for theirs."""
        labels = Audiences.from_settings(new_settings).labels
        known = self._started_audiences
        return [name for name, label in labels.items() if name in known.by_source and known.labels.get(name) != label]

    def _find_new_secrets(self, new_settings: Settings) -> list[str]:
        """Return the sources with secrets that the log does not know, so that it could not hide them."""
        known_values = {secret.value() for secret in self.settings.secrets().values() if not secret.missing_reason()}
        paths = [
            path.split(".")
            for path, secret in new_settings.secrets().items()
            if not secret.missing_reason() and secret.value() not in known_values
        ]
        return list(dict.fromkeys(path[1] for path in paths if path[0] == "sources"))

    def _find_kept_closed(self, new_settings: Settings) -> list[str]:
        """Return the sources that stay closed to some until the next start, although new settings let them in."""
        known = self._started_audiences.by_source
        configured = Audiences.from_settings(new_settings).by_source
        return [name for name, audiences in configured.items() if not known.get(name, audiences) <= audiences]

    def _set_started_audiences(self, audiences: Audiences, published: frozenset[str] | None = None) -> None:
        """Take these audiences for those of the start, closed by what daemons have `published`; None: as before."""
        self._started_audiences = audiences
        self._published = self._published if published is None else published
        audiences = self._close_further(audiences).with_lessons_chosen_for(self._lesson_audiences)
        self._audiences = replace(audiences, once_closed=self._get_once_closed())

    def _get_once_closed(self) -> frozenset[str]:
        return self._overrides.once_closed if self._overrides else frozenset()

    def _close_further(self, audiences: Audiences) -> Audiences:
        for closing in map(Audiences.from_json, sorted(self._published | self._waiting)):
            audiences = audiences.closed_further(closing, self._own_audiences)
        return audiences

    def mode(self, chat: str, *, private: bool) -> GateMode:
        """Return the mode of a chat (`platform:chat`)."""
        override = self._overrides.mode(chat) if self._overrides else None
        if override in UNPROMPTED_MODES and self.settings.get_chat(chat).answers == "asker":
            # Given before the configuration said so.
            override = None
        return override or self.settings.get_mode(chat, private=private)

    def threshold(self, chat: str) -> float:
        """Return the threshold of a chat."""
        override = self._overrides.threshold(chat) if self._overrides else None
        return self.settings.get_threshold(chat) if override is None else override

    def paused_until(self, chat: str) -> str:
        """Return until when a chat is paused (ISO, or `INDEFINITELY`), or "" where it is not."""
        return self._overrides.paused_until(chat) if self._overrides else ""

    def limit(self, name: str) -> float | None:
        """Return a daily limit, None for no limit."""
        configured = self.settings.get_daily_limit(name)
        return self._overrides.limit(name, configured) if self._overrides else configured
