"""What `kimas check` says of git repositories beside where they are: whether answers can link to their pages."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from bots.cli.console import Finding
from core.settings import GitSource, Settings
from knowledge.sources.common.documents import derive_template
from knowledge.sources.git.command import Git, GitError
from knowledge.sources.git.source import is_local

NO_LINKS = "answers from it do not link to their pages, whose address is not known: set link"


async def check_links(settings: Settings, subjects: Collection[str]) -> list[Finding]:
    """Warn of repositories among the subjects whose pages nobody can open from an answer, as it has no links to them.

    The forge of a remote address may be unknown, and a local repository may have no remote of the name `origin`.
    """
    return [
        Finding("warning", f"sources.{name}", NO_LINKS)
        for name, source in settings.sources.items()
        if f"sources.{name}" in subjects
        and isinstance(source, GitSource)
        and not (source.link or derive_template(await _get_remote_url(source)))
    ]


async def _get_remote_url(source: GitSource) -> str:
    """Return the address that links are derived from; "" where a local repository has none."""
    if not is_local(source.url):
        return source.url
    try:
        return (await open_local(source).run("config", "--get", "remote.origin.url")).decode("utf-8", "replace").strip()
    except GitError:
        return ""


def open_local(source: GitSource) -> Git:
    """Return the commands in a local repository, which may be a bare one."""
    path = Path(source.url).expanduser()
    return Git(path / ".git" if (path / ".git").exists() else path, source.timeout_s)
