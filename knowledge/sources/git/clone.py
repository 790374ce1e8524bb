"""The clone of a remote repository: made on first use, fetched after, remade when it is damaged.

All sources of one address share it. Whoever refreshes first fetches the branches of all; the others use that fetch.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from core.errors import SourceError
from core.settings import GitSource
from knowledge.sources.common.documents import without_credentials
from knowledge.sources.git.access import access_of, advice
from knowledge.sources.git.command import Git, GitFailure, GitTimeout
from knowledge.sources.git.state import CloneState, Taken, leave_others, locked, read_state, write_state

_SHORT = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Tips:
    """The commit of every branch of a source; `stale` says why they are not the newest, or is empty."""

    commits: Mapping[str, str]
    stale: str = ""


class GitClone:
    """A bare repository below `folder` that holds the newest commits of branches or tags of a remote."""

    def __init__(self, name: str, settings: GitSource, branches: Sequence[str], folder: Path) -> None:
        self.name = name
        self.directory = folder / clone_name(settings.url)
        self._lock = folder / f"{self.directory.name}.lock"
        self._url = settings.url
        self._branches = tuple(branches)
        self._timeout = settings.timeout_s
        self._shown = without_credentials(settings.url)
        self._access = access_of(name, settings)

    async def refresh(self) -> Tips:
        """Bring the clone up to date, where no other source has just done it.

        Raises `SourceError` when there is no state at all, or the remote has no such branch.
        """
        async with self._alone():
            state = await asyncio.to_thread(read_state, self.directory)
            if state is None:
                return await self._remake(None)
            try:
                stale = await self._updated(state)
                return Tips(await self._commits(), stale)
            except GitFailure:
                return await self._remake(state)

    async def remake(self) -> Tips:
        """Replace the clone by a new one. Raises `SourceError`; the old one then stays."""
        async with self._alone():
            return await self._remake(await asyncio.to_thread(read_state, self.directory))

    async def remote_commit(self) -> str:
        """Ask the remote which commit the first branch is at, and change nothing. Raises `SourceError`."""
        git = Git(self.directory, self._timeout, self._access)
        commits = []
        for branch in self._branches:
            wanted = (f"refs/heads/{branch}", f"refs/tags/{branch}") if branch else ("HEAD",)
            try:
                output = await git.run("ls-remote", "--", self._url, *wanted)
            except GitFailure as error:
                problem = f"source {self.name}: {self._shown} cannot be reached: {error}."
                raise SourceError(f"{problem} {advice(str(error))}.") from error
            if not output:
                raise SourceError(f"source {self.name}: {self._shown} has no branch or tag {branch or 'HEAD'!r}.")
            commits.append(output.split()[0].decode())
        return commits[0]

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Be the only one who writes to the clone, and afterwards leave no clone behind that nobody uses any more."""
        try:
            async with locked(self._lock, 2 * self._timeout):
                yield
            await asyncio.to_thread(leave_others, self.directory, self.name)
        except Taken as error:
            problem = f"source {self.name}: another refresh has been fetching into {self.directory} for too long"
            raise SourceError(f"{problem}; wait for it or stop it.") from error
        except OSError as error:
            raise SourceError(f"source {self.name}: {self.directory} cannot be written: {error.strerror}") from error

    async def _updated(self, state: CloneState) -> str:
        """Fetch unless that has just been done. Return why an older state has to do, or an empty text."""
        if not state.news_for(self.name, self._branches):
            try:
                await self._fetch(self.directory, state)
            except GitFailure as error:
                return await self._recover(state, error)
        state.follow(self.name, self._branches)
        await asyncio.to_thread(write_state, self.directory, state)
        return ""

    async def _remake(self, old: CloneState | None) -> Tips:
        state = CloneState(self._shown, followers=old.followers if old else {})
        fresh = self.directory.with_name(f"{self.directory.name}.new")
        try:
            await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)
            await asyncio.to_thread(fresh.mkdir, parents=True)
            await Git(fresh, self._timeout).run("init", "--quiet", "--bare")
            await self._fetch(fresh, state)
            state.follow(self.name, self._branches)
            await asyncio.to_thread(write_state, fresh, state)
            await asyncio.to_thread(_swap_in, fresh, self.directory)
            return Tips(await self._commits())
        except GitFailure as error:
            raise await self._explain(error, fresh) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)

    async def _fetch(self, directory: Path, state: CloneState) -> None:
        """Fetch the branches of all sources at once; only this one's where that fails, for another's may be gone."""
        git, began = Git(directory, self._timeout, self._access), time.time()
        wanted = state.wanted(self._branches)
        try:
            await self._fetch_branches(git, wanted)
        except GitTimeout:
            raise
        except GitFailure:
            if len(wanted) == len(self._branches):
                raise
            await self._fetch_branches(git, self._branches)
            # They are back as soon as their sources have found out for themselves.
            state.followers.clear()
            wanted = list(self._branches)
        state.note(self.name, wanted, began)

    async def _fetch_branches(self, git: Git, branches: Sequence[str]) -> None:
        options = ("--quiet", "--no-tags", "--depth=1", "--force", "--no-write-fetch-head")
        references = [f"+{branch or 'HEAD'}:{_reference(branch)}" for branch in branches]
        await git.run("fetch", *options, "--", self._url, *references)

    async def _commits(self) -> Mapping[str, str]:
        git = Git(self.directory, self._timeout)
        commits = {}
        for branch in self._branches:
            output = await git.run("rev-parse", "--verify", "--quiet", f"{_reference(branch)}^{{commit}}")
            commits[branch] = output.decode().strip()
        return commits

    async def _recover(self, state: CloneState, failure: GitFailure) -> str:
        """Find out whether the remote or the clone is at fault. Raises `GitFailure` when it is the clone."""
        try:
            await self._require_branches(failure, self.directory)
        except GitFailure as error:
            if not all(branch in state.fetched for branch in self._branches):
                raise self._unreachable(error) from error
            at = min(state.fetched[branch].at for branch in self._branches)
            since = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
            return f"{self._shown} cannot be reached ({failure}); this is its state of {since}. {advice(str(failure))}"
        raise failure

    async def _explain(self, failure: GitFailure, directory: Path) -> SourceError:
        try:
            await self._require_branches(failure, directory)
        except GitFailure as error:
            return self._unreachable(error)
        except SourceError as error:
            return error
        return SourceError(f"source {self.name}: {self._shown} cannot be fetched: {failure}.")

    def _unreachable(self, failure: GitFailure) -> SourceError:
        return SourceError(f"source {self.name}: {self._shown} cannot be fetched: {failure}. {advice(str(failure))}.")

    async def _require_branches(self, failure: GitFailure, directory: Path) -> None:
        """Raise `GitFailure` when the remote does not answer either, `SourceError` when it lacks a branch."""
        if isinstance(failure, GitTimeout):
            raise failure
        output = await Git(directory, self._timeout, self._access).run("ls-remote", "--", self._url)
        listed = (line.partition("\t")[2] for line in output.decode("utf-8", "replace").splitlines())
        names = [name for name in listed if name and not name.endswith("^{}")]
        if not names:
            raise SourceError(f"source {self.name}: {self._shown} has no commits yet.")
        short = [
            name.removeprefix(kind) for kind in ("refs/heads/", "refs/tags/") for name in names if name.startswith(kind)
        ]
        for branch in self._branches:
            if branch not in ("", *short):
                raise SourceError(unknown_branch(self.name, self._shown, branch, short))
        if "" in self._branches and "HEAD" not in names:
            raise SourceError(unknown_branch(self.name, self._shown, "(its default branch)", short))


def clone_name(url: str) -> str:
    """Return the name of the folder for a remote's clone: the same for every source of one repository."""
    shown = without_credentials(url)
    # Over SSH the user may be part of the address: ~ is another folder for each.
    identity = shown if url.startswith(("http://", "https://")) else url
    identity = identity.rstrip("/").removesuffix(".git")
    short = _SHORT.sub("-", shown.partition("://")[2] or shown).strip("-").removesuffix("-git")[-48:].strip("-")
    return f"{short}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def unknown_branch(name: str, url: str, branch: str, known: list[str]) -> str:
    """Return the message for a branch that does not exist."""
    listed = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    return f"source {name}: {url} has no branch or tag {branch!r}. It has: {listed or 'none'}."


def _reference(branch: str) -> str:
    # Quoted, so that a branch `a` and a tag `a/b` do not need the same place as a file and as a folder.
    return f"refs/kimas/on/{quote(branch, safe='')}" if branch else "refs/kimas/default"


def _swap_in(fresh: Path, directory: Path) -> None:
    # Who is reading the old one right now finds the same objects under the same path, or was about to fail anyway.
    old = directory.with_name(f"{directory.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        directory.rename(old)
    fresh.rename(directory)
    if old.is_dir():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.unlink(missing_ok=True)
