"""What `kimas check` says of git repositories: where they are, whether anything is read, and linked to, of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from bots.cli.console import Finding
from core.errors import SourceError
from core.settings import GitSource, Settings
from knowledge.ports import Source
from knowledge.sources.common.documents import PathFilter, derive_template
from knowledge.sources.git.command import Git, GitError
from knowledge.sources.git.source import GitRepository, is_local

LISTING_TIMEOUT_S = 10.0
MAX_LISTING_BYTES = 16 << 20
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


async def describe_repository(opened_source: Source, source: GitSource) -> str:
    """Return where a repository's branch is. Raises `SourceError`, also where its globs let no file through.

    Where the paths cannot be listed in time, the globs are not judged.
    """
    if not isinstance(opened_source, GitRepository):
        raise SourceError(f"source {opened_source.name} is not a git repository")
    commit = await opened_source.latest_commit()
    branch = source.branch or next(iter(source.branches), "HEAD")
    text = f"{source.url}: {branch} is at {commit[:10]}"
    # A path may be in another branch alone.
    if len(source.branches) > 1 or not (source.include or source.exclude):
        return text
    try:
        async with asyncio.timeout(LISTING_TIMEOUT_S):
            is_here = is_local(source.url)
            paths = await _list_local_paths(source, commit) if is_here else await opened_source.list_remote_paths()
    except (SourceError, GitError, TimeoutError):
        return f"{text}; include and exclude are not checked: its files could not be listed"
    if paths and not await asyncio.to_thread(_is_any_taken, opened_source.name, source, paths):
        raise SourceError(
            f"source {opened_source.name}: {branch} of {source.url} has no file that include and exclude let through "
            "and that can be read. Check branch, include and exclude."
        )
    return text


async def _list_local_paths(source: GitSource, commit: str) -> Sequence[str]:
    """Return the paths of a commit, none of one with too many. Raises `GitError`."""
    git = open_local(source)
    output = await git.run_bounded(MAX_LISTING_BYTES, "ls-tree", "-r", "-z", "--name-only", commit)
    return [path for path in (output or b"").decode("utf-8", "replace").split("\0") if path]


def _is_any_taken(name: str, source: GitSource, paths: Sequence[str]) -> bool:
    """Return whether a path is taken, as far as its name tells."""
    path_filter = PathFilter(name, source)
    return any(path_filter.matches(path) and not path_filter.skip_reason(path, 0) for path in paths)


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
