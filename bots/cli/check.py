"""`kimas check`: validates what the configuration names; with `--live` it also reaches for it."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from bots.cli.chat_check import check_chat_models
from bots.cli.console import Finding, print_findings
from bots.cli.endpoints import check_base_url, check_rerank_url
from bots.cli.exposure import find_exposed, find_open_tokens, find_secrets_between
from bots.cli.git_check import check_links, describe_repository
from bots.cli.language_check import check_languages
from bots.cli.probes import (
    LIVE_ONLY_HINT,
    PROBE_TIMEOUT_S,
    LiveSourceSettings,
    Probe,
    make_probes,
    make_remote_probes,
    run_probe,
)
from bots.cli.stored_state import (
    check_accounts,
    check_journal,
    check_left_journal,
    check_moves,
    check_passages,
)
from bots.common.open_storage import open_existing_database
from bots.common.terminal import make_console, print_json
from bots.daemon.adapters import find_port_conflicts, find_token_conflicts
from bots.daemon.alerts import find_alert_errors
from bots.daemon.feeds import find_feed_errors
from bots.daemon.posting import find_draft_errors
from core.errors import SourceError, StoreError
from core.formatting import pluralize, strip_source_prefix
from core.observability.logs import make_redactor
from core.runtime.budget import Budget
from core.settings import (
    FaqSource,
    FeedSource,
    FilesSource,
    GithubSource,
    GitlabSource,
    GitSource,
    OwnSource,
    Settings,
    SourceSettings,
    StandingSource,
    WebsiteSource,
)
from core.settings.audience import Audiences, describe, find_unknown_networks
from core.settings.chats import find_unmatchable
from core.settings.limits import (
    AUTO,
    AUTO_QUESTIONS,
    DAILY_LIMITS,
)
from core.settings.loader import get_secret_values
from core.settings.messaging import MIN_TOKEN_CHARS
from core.types import Question
from knowledge.embedding.fastembed_models import unusable_reason
from knowledge.embedding.local import choose_runtime, find_package_dir, get_model_dir, get_shared_dir
from knowledge.embedding.multilingual import find_unusable_reason
from knowledge.live import open_live_source
from knowledge.parsing.limits import FormatError
from knowledge.parsing.pool import NETWORK_HINT, WorkerPool
from knowledge.parsing.worker import do_nothing
from knowledge.sources.factory import open_source
from knowledge.sources.files import FilesFolder
from knowledge.sources.forge.source import ForgeProject
from knowledge.sources.git.source import is_local
from knowledge.sources.plugin import describe_plugin
from knowledge.web.addresses import redact_url

LOW_DISK_BYTES = 1_000_000_000
MIN_DISK_BYTES = 50_000_000


async def run_check(settings: Settings, *, live: bool, as_json: bool) -> int:
    """Validate what the configuration names; the exit code is 1 when there is an error."""
    budgets: list[Budget] = []
    findings = await check(settings, live=live, probes=make_probes(settings, budgets))
    findings += await record_probes(settings, [budget for budget in budgets if budget.tokens])
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        print_findings(make_console(), findings)
    return 1 if any(finding.level == "error" for finding in findings) else 0


async def record_probes(settings: Settings, budgets: Sequence[Budget]) -> list[Finding]:
    """Record what the calls of models took, each by its budget; before the first message there is no journal for it."""
    if not budgets:
        return []
    from core.answering.quota import record_usage
    from core.storage.usage import UsageRepository, group_by_agent

    try:
        async with open_existing_database(settings) as database:
            if database is None:
                return []
            for budget in budgets:
                usage = group_by_agent(budget.tokens, budget.cost)
                await record_usage(UsageRepository(database), Question(""), "probe", usage, models=budget.models)
    except StoreError as error:
        redact = make_redactor(await asyncio.to_thread(get_secret_values, settings))
        text = f"what the calls of models took is not recorded: {error}"
        return [Finding("warning", "journal", redact(text))]
    return []


async def check(
    settings: Settings, *, live: bool, probes: Sequence[Probe] = (), probe_timeout_s: float = PROBE_TIMEOUT_S
) -> list[Finding]:
    """Check everything that the configuration names; change nothing and, unless `live`, stay on this machine.

    With `live` all probes run at the same time, each for at most `probe_timeout_s` seconds.
    An exception of a probe becomes an error finding. The findings have the order of the configuration.
    """
    source_checks = [_check_source(name, source, settings.data_dir) for name, source in settings.sources.items()]
    findings = [await asyncio.to_thread(_check_data_dir, settings.data_dir)]
    journal_finding = await check_journal(settings)
    findings += [journal_finding, *check_left_journal(settings), *_check_git_command(settings)]
    with _without_logs_of_sources():
        source_findings = await asyncio.gather(*source_checks)
    found = {finding.subject for finding in source_findings if finding.level == "ok"}
    findings += [*source_findings, *await check_links(settings, found)]
    findings += _check_agents(settings)
    findings += await check_passages(settings)
    findings += await _check_workers(settings)
    findings.append(await asyncio.to_thread(_check_embedding, settings))
    findings += _check_reranker(settings)
    findings += await check_languages(settings) if journal_finding.level != "error" else ()
    findings += [*_check_models(settings), *check_chat_models(settings), *_check_limits(settings)]
    findings += await asyncio.to_thread(_check_secrets, settings)
    findings += [*_check_administration(settings), *_check_feeds(settings)]
    findings += [Finding("error", path, problem) for path, problem in find_unknown_networks(settings)]
    findings += [Finding("warning", path, problem) for path, problem in find_unmatchable(settings)]
    findings += await check_accounts(settings)
    findings += await check_moves(settings) if journal_finding.level != "error" else ()
    searches = (find_exposed, find_open_tokens, find_secrets_between)
    exposed = await asyncio.to_thread(lambda: [each for find in searches for each in find(settings)])
    findings += [Finding("warning", path, problem) for path, problem in exposed]
    findings += _check_alerts(settings)
    findings += [Finding("error", "drafts_to", error) for error in find_draft_errors(settings)]
    findings += _check_page(settings)
    conflicts = [*await asyncio.to_thread(find_token_conflicts, settings), *find_port_conflicts(settings)]
    findings += [Finding("error", "configuration", conflict) for conflict in conflicts]
    if live:
        findings = [replace(finding, text=finding.text.removesuffix(f", {LIVE_ONLY_HINT}")) for finding in findings]
        all_probes = [*make_remote_probes(settings), *probes]
        results = await asyncio.gather(*(run_probe(probe, probe_timeout_s) for probe in all_probes))
        findings = _put_in_place(findings, [finding for result in results for finding in result])
    redact = make_redactor(await asyncio.to_thread(get_secret_values, settings))
    return [Finding(finding.level, finding.subject, redact(finding.text)) for finding in findings]


def _put_in_place(findings: Sequence[Finding], live_findings: Sequence[Finding]) -> list[Finding]:
    """Return both, without what is right by the look of it and fails live, or which the live result says as well."""
    failing = {finding.subject for finding in live_findings if finding.level == "error"}
    texts = {finding.subject: finding.text for finding in live_findings if finding.level == "ok"}
    kept = [
        finding
        for finding in findings
        if finding.level != "ok"
        or not (finding.subject in failing or texts.get(finding.subject, "").startswith(finding.text))
    ]
    return [*kept, *live_findings]


@contextmanager
def _without_logs_of_sources() -> Iterator[None]:
    """Keep warnings of sources out of the log in the block: each of their faults is a finding."""
    logger = logging.getLogger("knowledge.sources")
    former = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(former)


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


async def _check_workers(settings: Settings) -> list[Finding]:
    """Warn where a document that takes over the process that reads it would reach the network."""
    async with WorkerPool(settings.knowledge.parsing) as pool:
        try:
            await pool.run(do_nothing)
        except (FormatError, OSError) as error:
            return [Finding("error", "knowledge.parsing", f"documents cannot be read: {error}")]
        text = f"{NETWORK_HINT}: a malicious document that takes one over reaches the network"
        return [Finding("warning", "knowledge.parsing", text)] if pool.has_network else []


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
        return Finding("error", subject, strip_source_prefix(name, str(error)))
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
        return describe_plugin(name, source, data_dir)
    if isinstance(source, WebsiteSource | FeedSource):
        open_source(name, source, data_dir)
        return source.url
    return ""


async def _describe_local_source(name: str, source: SourceSettings, data_dir: Path) -> str:
    opened_source = open_source(name, source, data_dir)
    if isinstance(source, GitSource):
        return (
            await describe_repository(opened_source, source)
            if is_local(source.url)
            else f"{source.url}: remote, {LIVE_ONLY_HINT}"
        )
    if isinstance(source, FilesSource | FaqSource):
        # Count what is selected: a folder may exist and still contribute nothing.
        if isinstance(opened_source, FilesFolder):
            # Whoever checks may be another account than the daemon's, which could not replace its files.
            listing = await opened_source.listing(keeps_facts=False)
        else:
            listing = await opened_source.listing()
        count = len(listing.fingerprints)
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


def _describe_file(path: Path) -> str:
    """Describe the file at a path. Raises `OSError` when it cannot be read."""
    with path.open("rb") as file:
        file.read(1)
    return f"{path}: a file of {path.stat().st_size / 1000:.1f} kB"


def _check_administration(settings: Settings) -> list[Finding]:
    """Warn of a bot that obeys nobody, and of people whose answers go nowhere."""
    findings = []
    administration = settings.administration
    if settings.get_bots() and not (administration.owners or administration.platform_admins):
        text = "nobody may give commands such as /status or /pause: name yourself, such as telegram:123456789"
        findings.append(Finding("warning", "administration.owners", text))
    if settings.handoff.trusted and not Audiences.from_settings(settings).learned:
        text = "what they answer is kept for review, but never used: add a source of the kind learned"
        findings.append(Finding("warning", "handoff.trusted", text))
    return findings


def _check_feeds(settings: Settings) -> list[Finding]:
    feed_errors = find_feed_errors(settings)
    feeds = settings.auto_comment.feeds.items()
    return [
        Finding("error", f"auto_comment.feeds.{name}", feed_errors[name])
        if name in feed_errors
        else Finding("ok", f"auto_comment.feeds.{name}", f"{redact_url(feed.url)}: for {feed.chat}, {LIVE_ONLY_HINT}")
        for name, feed in feeds
    ]


def _check_alerts(settings: Settings) -> list[Finding]:
    errors = find_alert_errors(settings)
    if settings.alerts.chats and not errors:
        return [Finding("ok", "alerts", f"go to {', '.join(settings.alerts.chats)}")]
    return [Finding("error", "alerts.chats", error) for error in errors]


def _check_page(settings: Settings) -> list[Finding]:
    """Warn of a page behind a web server, which alone gives it another name, whose visitors are counted as one."""
    api = settings.api
    if not (api.page.enabled and api.allowed_hosts) or api.page.trusted_proxies:
        return []
    text = "names no web server, and api.allowed_hosts tells of one: all visitors share the questions of one address"
    return [Finding("warning", "api.page.trusted_proxies", text)]


def _check_agents(settings: Settings) -> list[Finding]:
    if not settings.sources:
        return [Finding("warning", "sources", "none are configured: there is nothing to answer from")]
    agents = settings.retrieval_agents()
    used_sources = {source for agent in agents.values() for source in agent.sources}
    unused_sources = [name for name in settings.sources if name not in used_sources]
    audiences = Audiences.from_settings(settings).by_source
    return [
        Finding("ok", "agents", ", ".join(agents)),
        Finding("ok", "audience", "; ".join(f"{name}: {describe(audiences[name])}" for name in settings.sources)),
        *(Finding("warning", f"sources.{name}", "no agent uses it: it is never searched") for name in unused_sources),
    ]


def _check_embedding(settings: Settings) -> Finding:
    subject = "knowledge.embedding"
    embedding = settings.knowledge.embedding
    if embedding.provider == "openai":
        return check_base_url(subject, embedding.model, embedding.base_url, has_key=embedding.api_key is not None)
    if embedding.provider == "multilingual":
        error = find_unusable_reason(embedding.path)
        return Finding("error" if error else "ok", subject, error or "the multilingual encoder")
    if embedding.provider == "fastembed":
        if error := unusable_reason(embedding):
            return Finding("error", subject, error)
        return Finding("ok", subject, embedding.model or str(embedding.path))
    if folder := embedding.path or find_package_dir():
        is_there = os.path.isfile(folder / "model.safetensors")
        text = f"built-in MiniLM from {folder}" if is_there else f"{folder} holds no model.safetensors"
        return Finding("ok" if is_there else "error", subject, text)
    model_dir = get_model_dir(settings.data_dir / "models", choose_runtime())
    # `os.path.isdir` is false for a cache that is closed to this account: it holds nothing for it.
    is_cached = os.path.isdir(model_dir) or os.path.isdir(get_shared_dir(model_dir))
    return Finding("ok", subject, "built-in MiniLM" + ("" if is_cached else ", fetched on first use (91 MB, once)"))


def _check_models(settings: Settings) -> list[Finding]:
    main = settings.models.main
    light = settings.models.light
    models = sorted(settings.models.iter_endpoints(), key=lambda item: ".fallbacks." in item[0])
    findings = [
        check_base_url(path, model.model, model.base_url, has_key=model.api_key is not None)
        for path, model in (*models, *settings.models.iter_transcriptions())
    ]
    if main is None and light is None:
        text = "none is configured: answers are extractive, quoted from the passages"
        findings.insert(0, Finding("ok", "models", text))
    elif main is None:
        findings.append(Finding("warning", "models.main", "is not configured: the light model writes the answers"))
    return findings


def _check_reranker(settings: Settings) -> list[Finding]:
    search = settings.knowledge.search
    finding = check_rerank_url("knowledge.search.reranker", search.reranker.url)
    return [finding] if search.rerank == "api" and finding.level != "ok" else []


def _check_limits(settings: Settings) -> list[Finding]:
    """Say which daily limits are in force before any command changes them, and why."""
    if not any(settings.models.iter_endpoints()):
        return []
    limits = {name: settings.get_daily_limit(name) for name in DAILY_LIMITS}
    text = ", ".join(f"{name} {value:,.10g}" for name, value in limits.items() if value is not None) or "none per day"
    automatic = [name for name in AUTO_QUESTIONS if getattr(settings.limits, name) == AUTO]
    paid_models = settings.models.find_paid()
    if automatic and paid_models:
        counts = ", ".join(f"{AUTO_QUESTIONS[name]}" for name in automatic)
        size = f"{settings.models.estimate_question_tokens():,}"
        text += (
            f"; {', '.join(automatic)}: for {counts} questions of {size} tokens, because {paid_models[0]} is paid (it "
            "has a price, or is outside of your network); a number or null changes that, prices of 0 say it is free"
        )
    elif automatic:
        text += "; no model is paid (its prices are 0, or it has none and a private address)"
    return [Finding("ok", "limits", text)]


def _check_secrets(settings: Settings) -> list[Finding]:
    findings = []
    for path, secret in settings.secrets().items():
        missing = secret.missing_reason()
        if (
            not missing
            and path.startswith(("operator_page.", "api.clients."))
            and len(secret.value()) < MIN_TOKEN_CHARS
        ):
            missing = f"is too short: give it at least {MIN_TOKEN_CHARS} characters"
        origin = f"environment variable {secret.env}" if secret.env else f"file {secret.file}"
        findings.append(Finding("error", path, missing) if missing else Finding("ok", path, f"from {origin}"))
    return findings
