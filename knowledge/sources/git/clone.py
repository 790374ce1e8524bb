"""The clone of a remote repository: made on first use, fetched after, remade when it is damaged.

All sources of one address and login share it. Whoever refreshes first fetches the branches of all; the others use that
fetch.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from core.errors import MadePrivate, SourceError
from core.observability.logs import get_logger
from core.runtime.locks import file_lock
from core.settings import GitSource
from core.settings.base import EVERYONE
from knowledge.formats.encoding import unusable_reason
from knowledge.sources.common.documents import redact_credentials
from knowledge.sources.common.state_files import PublicMark, read_json, write_atomically
from knowledge.sources.git.access import build_access, build_anonymous_access, get_advice
from knowledge.sources.git.command import Git, GitError, GitTimeout
from knowledge.sources.git.state import CloneState, read_state, unfollow_other_clones, write_state

_log = get_logger(__name__)

# What git says where --depth is not supported.
_SHALLOW_PROBLEM = re.compile(r"shallow|depth", re.IGNORECASE)
_NON_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]+")
_MAX_LISTING_BYTES = 16 << 20
# Raise it when the rules for what can be used change.
_FORMAT = 1
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_MAX_LFS_POINTER_BYTES = 1024


@dataclass(frozen=True, slots=True)
class BranchCommits:
    """The commit of every branch of a source; `stale_reason` says why they are not the newest, or is empty.

    `is_refused`: that is because the remote has no such repository any more, or not for us.
    """

    commits: Mapping[str, str]
    stale_reason: str = ""
    is_refused: bool = False


class GitClone:
    """A bare repository below `folder` that holds the newest commits of branches or tags of a remote."""

    def __init__(self, name: str, settings: GitSource, branches: Sequence[str], folder: Path) -> None:
        self.name = name
        self.directory = folder / clone_name(settings.url, _describe_login(settings))
        self._lock = folder / f"{self.directory.name}.lock"
        self._url = settings.url
        self._branches = tuple(branches)
        self._timeout = settings.timeout_s
        self._display_url = redact_credentials(settings.url)
        self._access = build_access(name, settings)
        # Which of the branches the remote has no more.
        self._missing_reason = ""
        is_told_to_all = settings.token is not None and EVERYONE in settings.audience
        former_file = folder / f"{name}.public"
        self._public_mark = PublicMark(folder.parent, settings.url, former_file) if is_told_to_all else None

    async def refresh(self) -> BranchCommits:
        """Bring the clone up to date, where no other source has just done it.

        Raises `SourceError` when there is no state at all, or the remote has no such branch.
        """
        async with self._exclusive_access():
            state = await asyncio.to_thread(read_state, self.directory)
            await self._require_public()
            if state is None:
                return await self._recreate(None)
            try:
                stale_reason, is_refused = await self._update(state)
                return BranchCommits(await self._commits(), stale_reason, is_refused)
            except GitError:
                return await self._recreate(state)

    async def recreate(self) -> BranchCommits:
        """Replace the clone by a new one. Raises `SourceError`; the old one then stays."""
        async with self._exclusive_access():
            return await self._recreate(await asyncio.to_thread(read_state, self.directory))

    async def get_first_remote_commit(self) -> str:
        """Ask the remote which commit the first branch is at, and change nothing. Raises `SourceError`."""
        git = Git(self.directory, self._timeout, self._access)
        commits = []
        for branch in self._branches:
            references = (f"refs/heads/{branch}", f"refs/tags/{branch}") if branch else ("HEAD",)
            try:
                output = await git.run("ls-remote", "--", self._url, *references)
                if not output:
                    await self._require_branches(self.directory)
            except GitError as error:
                raise self._unreachable_error(error, "reached") from error
            if not output:
                # It came into being between the two questions.
                raise SourceError(f"source {self.name}: {self._display_url} is being changed. Try again.")
            commits.append(output.split()[0].decode())
        return commits[0]

    async def list_remote_paths(self) -> Sequence[str]:
        """Return the paths of the first branch's files; nothing of it is kept, nor read where the host can list alone.

        Raises `SourceError`.
        """
        branch = self._branches[0]
        reference = _to_reference(branch)
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1", "--filter=blob:none")
        with tempfile.TemporaryDirectory(prefix="kimas-listing-") as folder:
            git = Git(Path(folder), self._timeout, self._access)
            try:
                await git.run("init", "--quiet", "--bare")
                await git.run("fetch", *options, "--", self._url, f"+{branch or 'HEAD'}:{reference}")
                output = await git.run_bounded(_MAX_LISTING_BYTES, "ls-tree", "-r", "-z", "--name-only", reference)
            except GitError as error:
                raise self._unreachable_error(error, "listed") from error
        return [path for path in (output or b"").decode("utf-8", "replace").split("\0") if path]

    @asynccontextmanager
    async def _exclusive_access(self) -> AsyncIterator[None]:
        """Be the only one who writes to the clone, and afterwards leave no clone behind that nobody uses any more."""
        try:
            async with file_lock(self._lock, 2 * self._timeout):
                yield
            await asyncio.to_thread(unfollow_other_clones, self.directory, self.name)
        except TimeoutError as error:
            problem = f"source {self.name}: another refresh has been fetching into {self.directory} for too long"
            raise SourceError(f"{problem}; wait for it or stop it.") from error
        except OSError as error:
            raise SourceError(f"source {self.name}: {self.directory} cannot be written: {error.strerror}") from error

    async def _require_public(self) -> None:
        """Raise `MadePrivate` for a repository that was public and is private now, where everybody may see this source.

        Our token is let in all the same, so it is asked for without it. Where that is refused as well, it may be an
        outage.
        """
        if self._public_mark is None:
            return
        is_public = is_refused = False
        try:
            anonymous_git = Git(self.directory, self._timeout, build_anonymous_access(self._url))
            await anonymous_git.run("ls-remote", "--", self._url, "HEAD")
            is_public = True
        except GitError as error:
            # Another failure meets the fetch as well.
            is_refused = error.is_refused
        was_public = await asyncio.to_thread(self._public_mark.was_public, is_public=is_public)
        if is_refused and was_public:
            with suppress(GitError):
                await Git(self.directory, self._timeout, self._access).run("ls-remote", "--", self._url, "HEAD")
                advice = "give this source the audience of those who may see it"
                raise MadePrivate(f"source {self.name}: {self._display_url} is private now: {advice}.")

    async def _update(self, state: CloneState) -> tuple[str, bool]:
        """Fetch unless that has just been done. Return why an older state has to do, or "", and whether it is refused.

        A branch that the remote has no more is left out.
        """
        if not state.is_fresh_for(self.name, self._branches):
            try:
                await self._fetch(self.directory, state)
            except GitError as error:
                return await self._explain_stale(state, error)
        state.follow(self.name, self._branches)
        await asyncio.to_thread(write_state, self.directory, state)
        return self._missing_reason, False

    async def _recreate(self, old_state: CloneState | None) -> BranchCommits:
        state = CloneState(self._display_url, followers=old_state.followers if old_state else {})
        new_directory = self.directory.with_name(f"{self.directory.name}.new")
        try:
            await asyncio.to_thread(shutil.rmtree, new_directory, ignore_errors=True)
            await asyncio.to_thread(new_directory.mkdir, parents=True)
            await Git(new_directory, self._timeout).run("init", "--quiet", "--bare")
            await self._fetch(new_directory, state)
            state.follow(self.name, self._branches)
            await asyncio.to_thread(write_state, new_directory, state)
            await asyncio.to_thread(_replace_directory, new_directory, self.directory)
            return BranchCommits(await self._commits(), self._missing_reason)
        except GitError as error:
            raise await self._to_source_error(error, new_directory) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, new_directory, ignore_errors=True)

    async def _fetch(self, directory: Path, state: CloneState) -> None:
        """Fetch the branches of all sources at once; only this one's where that fails, for another's may be gone."""
        git = Git(directory, self._timeout, self._access)
        started_at = time.time()
        branches = state.all_branches(self._branches)
        try:
            await self._fetch_branches(git, branches)
        except GitTimeout:
            raise
        except GitError:
            await self._leave_out_missing(git, state)
            if len(branches) == len(self._branches):
                raise
            await self._fetch_branches(git, self._branches)
            # They are back as soon as their sources have found out for themselves.
            state.followers.clear()
            branches = list(self._branches)
        state.record_fetch(self.name, branches, started_at)

    async def _leave_out_missing(self, git: Git, state: CloneState) -> None:
        """Leave out branches that the remote has no more, where it has others: what was fetched of them goes.

        Raises `GitError` when the remote does not answer.
        """
        missing_names, _ = await self._find_missing(git.directory)
        if not missing_names or len(missing_names) == len(self._branches):
            return
        self._branches = tuple(branch for branch in self._branches if branch not in missing_names)
        names = ", ".join(branch or "(its default branch)" for branch in missing_names)
        self._missing_reason = f"{self._display_url} has no branch or tag {names} any more: nothing is told of that"
        for branch in missing_names:
            state.fetches.pop(branch, None)
            await git.run("update-ref", "-d", _to_reference(branch))

    async def _fetch_branches(self, git: Git, branches: Sequence[str]) -> None:
        options = ("--quiet", "--no-tags", "--force", "--no-write-fetch-head")
        references = [f"+{branch or 'HEAD'}:{_to_reference(branch)}" for branch in branches]
        try:
            await git.run("fetch", "--depth=1", *options, "--", self._url, *references)
        except GitTimeout:
            raise
        except GitError as error:
            if not _SHALLOW_PROBLEM.search(str(error)):
                raise
            # A plain file server, or a host that cuts no history: all of it is taken.
            _log.info("source.fetched_whole", source=self.name, reason=str(error))
            await git.run("fetch", *options, "--", self._url, *references)

    async def _commits(self) -> Mapping[str, str]:
        git = Git(self.directory, self._timeout)
        commits = {}
        for branch in self._branches:
            output = await git.run("rev-parse", "--verify", "--quiet", f"{_to_reference(branch)}^{{commit}}")
            commits[branch] = output.decode().strip()
        return commits

    async def _explain_stale(self, state: CloneState, fetch_error: GitError) -> tuple[str, bool]:
        """Find out whether the remote or the clone is at fault: what to say of the remote, and whether it refuses us.

        Raises `GitError` when it is the clone.
        """
        try:
            await self._explain_failure(fetch_error, self.directory)
        except GitError as error:
            if not all(branch in state.fetches for branch in self._branches):
                raise self._unreachable_error(error) from error
            oldest_fetch = min(state.fetches[branch].at for branch in self._branches)
            failing_since = datetime.fromtimestamp(oldest_fetch, UTC).strftime("%Y-%m-%d %H:%M UTC")
            reason = (
                f"{self._display_url} cannot be reached ({fetch_error}); this is its state of "
                f"{failing_since}. {get_advice(str(fetch_error))}"
            )
            return reason, error.is_refused
        raise fetch_error

    async def _to_source_error(self, fetch_error: GitError, directory: Path) -> SourceError:
        try:
            await self._explain_failure(fetch_error, directory)
        except GitError as error:
            return self._unreachable_error(error)
        except SourceError as error:
            return error
        return SourceError(f"source {self.name}: {self._display_url} cannot be fetched: {fetch_error}.")

    def _unreachable_error(self, error: GitError, action: str = "fetched") -> SourceError:
        problem = f"source {self.name}: {self._display_url} cannot be {action}: {error}"
        return SourceError(f"{problem}. {get_advice(str(error))}.", is_refused=error.is_refused)

    async def _explain_failure(self, fetch_error: GitError, directory: Path) -> None:
        """Raise `GitError` when the remote does not answer either, `SourceError` when it lacks a branch."""
        if isinstance(fetch_error, GitTimeout):
            raise fetch_error
        await self._require_branches(directory)

    async def _require_branches(self, directory: Path) -> None:
        """Raise `SourceError`, which names all branches, when the remote lacks one. Raises `GitError` of git."""
        missing_names, branch_names = await self._find_missing(directory)
        if missing_names:
            name = missing_names[0] or "(its default branch)"
            raise SourceError(unknown_branch_message(self.name, self._display_url, name, branch_names), is_refused=True)

    async def _find_missing(self, directory: Path) -> tuple[list[str], list[str]]:
        """Return the branches of this source that the remote lacks, and all that it has.

        Raises `SourceError` where it has none, `GitError` of git.
        """
        output = await Git(directory, self._timeout, self._access).run("ls-remote", "--", self._url)
        references = (line.partition("\t")[2] for line in output.decode("utf-8", "replace").splitlines())
        reference_names = [name for name in references if name and not name.endswith("^{}")]
        if not reference_names:
            raise SourceError(f"source {self.name}: {self._display_url} has no commits yet.", is_refused=True)
        branch_names = [
            name.removeprefix(kind)
            for kind in ("refs/heads/", "refs/tags/")
            for name in reference_names
            if name.startswith(kind)
        ]
        known_names = {*branch_names, *([""] if "HEAD" in reference_names else [])}
        return [branch for branch in self._branches if branch not in known_names], branch_names


def _describe_login(settings: GitSource) -> str:
    """Return by which login a remote is asked, "" for none of our own: each is to see what the remote shows it alone.

    A token is named by where it comes from; it may be renewed there.
    """
    if settings.token:
        return f"{settings.username} {settings.token.env or settings.token.file}"
    return str(settings.ssh_key or "")


def clone_name(url: str, login: str = "") -> str:
    """Return the name of the folder for a remote's clone: the same for every source of one repository and login."""
    display_url = redact_credentials(url)
    # With whoever asks: over SSH ~ is another folder for each, and a server may not show all to all.
    identity = url.rstrip("/").removesuffix(".git")
    identity = f"{identity} {login}" if login else identity
    slug = (
        _NON_ALPHANUMERIC.sub("-", display_url.partition("://")[2] or display_url)
        .strip("-")
        .removesuffix("-git")[-48:]
        .strip("-")
    )
    return f"{slug}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def unknown_branch_message(name: str, url: str, branch: str, branches: list[str]) -> str:
    """Return the message for a branch that does not exist."""
    names = ", ".join(branches[:20]) + (f" and {len(branches) - 20} more" if len(branches) > 20 else "")
    return f"source {name}: {url} has no branch or tag {branch!r}. It has: {names or 'none'}."


def _to_reference(branch: str) -> str:
    # Quoted, so that a branch `a` and a tag `a/b` do not need the same place as a file and as a folder.
    return f"refs/kimas/on/{quote(branch, safe='')}" if branch else "refs/kimas/default"


def _replace_directory(new_directory: Path, directory: Path) -> None:
    # A process that is reading the old one finds the same objects under the same path, or was about to fail anyway.
    old_directory = directory.with_name(f"{directory.name}.old")
    shutil.rmtree(old_directory, ignore_errors=True)
    if directory.exists():
        directory.rename(old_directory)
    new_directory.rename(directory)
    if old_directory.is_dir():
        shutil.rmtree(old_directory, ignore_errors=True)
    else:
        old_directory.unlink(missing_ok=True)


class BlobCheckCache:
    """The check results of one source's blobs, kept in a file between refreshes."""

    def __init__(self, name: str, file: Path) -> None:
        self._name = name
        self._file = file
        self._reasons: dict[str, str] | None = None

    async def check(self, git: Git, blobs: Collection[str], binary_blobs: Collection[str]) -> Mapping[str, str]:
        """Return why each blob is unusable, or an empty text; `binary_blobs` may be binary. Missing blobs are left out.

        Raises `GitError` when the repository is damaged.
        """
        cached_reasons = await asyncio.to_thread(self._read) if self._reasons is None else self._reasons
        keys = {blob: f"{blob}+" if blob in binary_blobs else blob for blob in blobs}
        reasons = {key: cached_reasons[key] for key in keys.values() if key in cached_reasons}
        async with aclosing(git.blobs(sorted(blob for blob, key in keys.items() if key not in reasons))) as contents:
            async for blob, data in contents:
                is_pointer = len(data) <= _MAX_LFS_POINTER_BYTES and data.startswith(_LFS_POINTER)
                reason = unusable_reason(data, allow_binary=blob in binary_blobs)
                reasons[keys[blob]] = "LFS pointer" if is_pointer else reason
        if reasons != cached_reasons:
            await asyncio.to_thread(self._write, reasons)
        self._reasons = reasons
        return {blob: reasons[key] for blob, key in keys.items() if key in reasons}

    async def clear(self) -> None:
        """Look at everything again the next time."""
        self._reasons = {}
        await asyncio.to_thread(self._write, {})

    def _read(self) -> dict[str, str]:
        try:
            data = read_json(self._file)
            if data["format"] != _FORMAT:
                return {}
            return {str(key): str(reason) for reason, keys in data["faults"].items() for key in keys}
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            # Never written, or damaged: everything is looked at again.
            return {}

    def _write(self, reasons: Mapping[str, str]) -> None:
        keys_by_reason: dict[str, list[str]] = {}
        for key, reason in reasons.items():
            keys_by_reason.setdefault(reason, []).append(key)
        try:
            write_atomically(self._file, json.dumps({"format": _FORMAT, "faults": keys_by_reason}))
        except OSError as error:
            _log.warning("source.checks_not_saved", source=self._name, error=str(error))
