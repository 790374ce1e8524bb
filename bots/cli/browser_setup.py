"""Setting up in the browser: what was answered is checked as `kimas init` does, and added to the configuration."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from bots.cli.endpoints import explain_failure
from bots.cli.env_file import add_to_env_file, get_env_path, read_env_names
from bots.cli.init_template import MODEL_KEY, TOKENS
from bots.cli.model_trial import CHECK_TIMEOUT_S, find_room
from bots.cli.setup_checks import (
    MAX_SHOWN_MODELS,
    TOKEN_HINTS,
    TOKEN_NAMES,
    check_token,
    diagnose_bot,
    examine_source,
    find_channel,
    in_environment,
    list_models,
    list_repository,
    make_section,
    propose_include,
)
from bots.cli.trial import TEXT_FILES
from bots.operator_page.sessions import Sessions
from bots.operator_page.setup_port import Configuration, Found, PlatformQuestion, Setup
from core.errors import ConfigurationError, KimasError, ModelError, UsageError
from core.observability.logs import make_redactor
from core.settings import Settings
from core.settings.loader import load_settings
from core.settings.yaml_edit import add_value
from core.settings.yaml_file import YamlFileError, format_yaml

BACKUP_SUFFIX = ".bak"
ROLES = ("main", "light", "vision")
CHANGED_MEANWHILE = "the file has changed since this page was opened: look at what it has now, and send the form again"
ELSEWHERE = "other places are written into the file by hand"


@dataclass(frozen=True, slots=True)
class _Change:
    """Entries for the file by their keys, secrets for the file beside it, and what the check found."""

    entries: Mapping[tuple[str, ...], Any]
    text: str
    secrets: Mapping[str, str] = field(default_factory=dict)
    link: str = ""
    restart: Sequence[str] = ()


@dataclass(slots=True)
class BrowserSetup(Setup):
    """Adds to the file, with the `overrides` of the command line in force. `api_url`: of the platforms, for a test."""

    overrides: Sequence[str] = ()
    api_url: str = ""
    show_address: Callable[[str], None] | None = None
    is_restarting: bool = field(default=False, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @property
    def secrets_file(self) -> Path:
        """Where secrets are kept."""
        return get_env_path(self.file)

    @property
    def platforms(self) -> Sequence[PlatformQuestion]:
        """What platforms ask for."""
        return [
            PlatformQuestion(platform, TOKEN_HINTS[platform], {name: TOKEN_NAMES[name] for name in secrets})
            for platform, secrets in TOKENS.items()
        ]

    async def read(self) -> Configuration:
        """Return what the file has now."""
        return await asyncio.to_thread(self._read)

    async def add(self, kind: str, fields: Mapping[str, str], digest: str) -> Found:
        """Check an answer, add it to the file, and return what was found. Raises `KimasError`."""
        examine = {
            "source": self._examine_source,
            "model": self._examine_model,
            "platform": self._examine_platform,
            "chat": self._examine_chat,
            "owner": self._examine_owner,
        }[kind]
        # What a service says may repeat what it was sent.
        redact = make_redactor([value for name, value in fields.items() if name in ("key", *_TOKEN_FIELDS)])
        async with self._lock:
            try:
                settings = await asyncio.to_thread(self._load, digest)
                change = await examine(settings, {name: value.strip() for name, value in fields.items()})
                await asyncio.to_thread(self._write, change, digest)
            except (KimasError, ValueError, OSError) as error:
                raise UsageError(redact(str(error) or "no answer in time")) from None
            return Found(redact(change.text), change.link, change.restart)

    def restart(self) -> None:
        """Stop in order, as for a signal; the command starts again. A second signal would cut answers off."""
        if self.is_restarting:
            return
        self.is_restarting = True
        os.kill(os.getpid(), signal.SIGTERM)

    def announce(self, port: int, sessions: Sessions) -> None:
        """Show the address once, with a link that opens the page."""
        if self.show_address and self.sessions is None:
            self.show_address(f"http://127.0.0.1:{port}/sign-in?once={sessions.make_link_token()}")
        self.sessions = sessions

    def _read(self) -> Configuration:
        digest = ""
        try:
            digest = _digest(self.file.read_bytes())
            settings = self._load(digest)
        except (KimasError, OSError) as error:
            return Configuration(digest, problem=str(error))
        return Configuration(
            digest,
            tuple(settings.sources),
            tuple(f"{role}: {model.model}" for role in ROLES if (model := getattr(settings.models, role))),
            tuple(dict.fromkeys(platform for _, platform, _ in settings.get_bots())),
            settings.gate.chats,
            settings.administration.owners,
        )

    def _load(self, digest: str, file: Path | None = None) -> Settings:
        """Return the settings of the file of a digest, or of another file in its place. Raises `KimasError`."""
        if _digest(self.file.read_bytes()) != digest:
            raise UsageError(CHANGED_MEANWHILE)
        try:
            return load_settings((file or self.file,), self.overrides, require_sources=False)
        except ConfigurationError as error:
            name = str(file or self.file)
            raise ConfigurationError([line.replace(name, str(self.file)) for line in error.errors]) from None

    async def _examine_source(self, settings: Settings, fields: Mapping[str, str]) -> _Change:
        location = await asyncio.to_thread(self._confine, fields["location"], settings.data_dir)
        source = await examine_source(location, settings.sources)
        place = {name: value for name, value in source.settings.items() if name in ("kind", "path", "url")}
        for name, other in settings.sources.items():
            if all(str(getattr(other, key, "")) == value for key, value in place.items()):
                raise UsageError(f"{name} is this source already")
        text = f"{source.name}: {source.text}"
        if source.settings["kind"] == "git" and (patterns := propose_include(await list_repository(source.settings))):
            source.settings["include"] = patterns
            text += f". Of it, {' '.join(patterns)} is read: include in the file says so"
        return _Change({("sources", source.name): source.settings}, text)

    def _confine(self, location: str, data_dir: Path) -> str:
        """Return an address on the web, or the path of a text file or folder below the configuration's folder.

        Whoever holds the page's token must not read all that this account can. Raises `UsageError`.
        """
        if not location:
            raise UsageError("name a folder or an address")
        if "://" in location:
            return _check_address(location)
        home = self.file.resolve().parent
        # Unlike `Path.resolve` it takes a link that leads to itself.
        path = Path(os.path.realpath(home / location))
        is_inside = path.is_relative_to(home) and not path.is_relative_to(data_dir.resolve())
        if not is_inside or any(part.startswith(".") for part in path.relative_to(home).parts):
            raise UsageError(f"name a folder below {home}, or an address that begins with https://; {ELSEWHERE}")
        if path.is_file() and not any(PurePath(path.name).match(pattern) for pattern in TEXT_FILES):
            raise UsageError(f"{path.name} is no document: {' '.join(TEXT_FILES)}; {ELSEWHERE}")
        return str(path)

    async def _examine_model(self, settings: Settings, fields: Mapping[str, str]) -> _Change:
        role, address, name = fields["role"], _check_address(fields["address"]), fields["model"]
        if role not in ROLES:
            raise UsageError("there is no such role")
        key = check_token(fields["key"])
        names = await list_models(address, key)
        if not (name or names):
            # An address beside that of the API has no list either.
            missing = ModelError(f"{address} has no list of models: name the model", status=404)
            raise UsageError(await explain_failure(missing, address, name, key, CHECK_TIMEOUT_S))
        if not name and len(names) != 1:
            raise UsageError(f"name one of its models: {', '.join(sorted(names)[:MAX_SHOWN_MODELS])}")
        name = name or names[0]
        room = await find_room(address, name, key)
        variable = MODEL_KEY if role == "main" else f"KIMAS_{role.upper()}_MODEL_KEY"
        entry: dict[str, Any] = {"base_url": address, "model": name}
        if room:
            entry["context_tokens"] = room
        secrets = {variable: key} if key else {}
        if key:
            _require_unused(settings, secrets)
            entry["api_key"] = {"env": variable}
        return _Change({("models", role): entry}, f"{name} at {address} answers", secrets)

    async def _examine_platform(self, settings: Settings, fields: Mapping[str, str]) -> _Change:
        platform = fields["platform"]
        if platform not in TOKENS:
            raise UsageError("there is no such platform here")
        tokens = {name: check_token(fields.get(name, "")) for name in TOKENS[platform]}
        if not all(tokens.values()):
            raise UsageError("the token is missing")
        if any(not name for name, _, _ in settings.get_bots(platform)):
            return await self._examine_other_tokens(settings, platform, tokens)
        secrets = {variable: tokens[name] for name, variable in TOKENS[platform].items()}
        _require_unused(settings, secrets)
        with in_environment(secrets):
            diagnosis = await diagnose_bot(make_section(platform, self.api_url), platform)
        section: dict[str, Any] = {name: {"env": variable} for name, variable in TOKENS[platform].items()}
        entries: dict[tuple[str, ...], Any] = {
            (platform,): ({"api_url": self.api_url} if self.api_url else {}) | section
        }
        if not any(source.kind == "learned" for source in settings.sources.values()):
            # What trusted people teach with /learn.
            entries["sources", "learned"] = {"kind": "learned"}
        warnings = [problem.text for problem in diagnosis.problems]
        text = "; ".join([diagnosis.identity, *warnings, "bring the bot into your group"])
        is_address = diagnosis.invitation.startswith("https://")
        text += "" if is_address else f": {diagnosis.invitation}"
        return _Change(entries, text, secrets, diagnosis.invitation if is_address else "")

    async def _examine_other_tokens(self, settings: Settings, platform: str, tokens: Mapping[str, str]) -> _Change:
        """Check other tokens of a bot that stands in the file. Raises `UsageError` where they come from elsewhere."""
        known = settings.secrets()
        kept = await asyncio.to_thread(read_env_names, self.secrets_file)
        secrets: dict[str, str] = {}
        for name, token in tokens.items():
            secret = known.get(f"{platform}.{name}")
            variable = secret.env if secret else None
            if variable is None or variable not in kept:
                raise UsageError(f"{platform}.{name} does not come from {self.secrets_file}: change it where it stands")
            secrets[variable] = token
        with in_environment(secrets):
            section = next(section for name, _, section in settings.get_bots(platform) if not name)
            diagnosis = await diagnose_bot(section, platform)
        return _Change({}, f"another token for {diagnosis.identity}", secrets, restart=(platform,))

    async def _examine_chat(self, settings: Settings, fields: Mapping[str, str]) -> _Change:
        platform, _, chat = fields["chat"].partition(":")
        if chat.startswith("//"):
            platform = "discord" if "discord" in chat.partition("/channels/")[0] else "slack"
            chat = find_channel(platform, fields["chat"])
        entry = f"{platform}:{chat}"
        section = next((section for name, _, section in settings.get_bots(platform) if not name), None)
        if section is None:
            raise UsageError(f"{platform or 'nothing'} is not connected: a group is written as platform:id")
        await diagnose_bot(section, platform, (chat,))
        return _Change({("gate", "chats"): [entry]}, f"the bot answers in {entry}")

    async def _examine_owner(self, _settings: Settings, fields: Mapping[str, str]) -> _Change:
        return _Change({("administration", "owners"): [fields["owner"]]}, f"{fields['owner']} may give every command")

    def _write(self, change: _Change, digest: str) -> None:
        """Add a change to the text of a digest: the whole file is read and checked before it takes its place.

        Raises `KimasError`, `OSError`; then nothing has changed.
        """
        former = self.file.read_bytes()
        raw = former
        try:
            for keys, value in change.entries.items():
                raw = add_value(raw, self.file, keys, value)
        except YamlFileError as error:
            raise UsageError(f"{error}:\n{_show_entries(change.entries)}") from error
        target = self.file.resolve()
        try:
            # In the same folder: paths in it are relative to that.
            with in_environment(change.secrets), _beside(target, raw) as new_file, _beside(target, former) as backup:
                self._load(digest, new_file)
                backup.replace(target.with_name(target.name + BACKUP_SUFFIX))
                if change.secrets:
                    add_to_env_file(self.secrets_file, change.secrets)
                new_file.replace(target)
        except OSError as error:
            reason = f"{error.filename or target}: {error.strerror or error}"
            raise UsageError(f"{reason}. Add this to {target} by hand:\n{_show_entries(change.entries)}") from error
        os.environ.update(change.secrets)


_TOKEN_FIELDS = tuple({name for tokens in TOKENS.values() for name in tokens})


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _check_address(address: str) -> str:
    """Return a web address without credentials, which do not belong into the configuration. Raises `UsageError`."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("an address begins with https:// or http://")
    if parts.username or parts.password:
        raise UsageError("leave out the user name and password: the configuration holds no secrets")
    return address


def _require_unused(settings: Settings, secrets: Mapping[str, str]) -> None:
    """Raise `UsageError` where something else reads a secret from one of these variables."""
    for path, secret in settings.secrets().items():
        if secret.env in secrets:
            raise UsageError(f"{path} has the variable {secret.env} already: change it in the file")


@contextmanager
def _beside(target: Path, raw: bytes) -> Iterator[Path]:
    """Write a new file with the rights of another one into its folder; it is gone afterwards, unless it was moved."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".yaml", dir=target.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        shutil.copymode(target, name)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _show_entries(entries: Mapping[tuple[str, ...], Any]) -> str:
    """Return entries as somebody would write them into the file."""
    data: dict[str, Any] = {}
    for keys, value in entries.items():
        place = data
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = value
    return format_yaml(data)
