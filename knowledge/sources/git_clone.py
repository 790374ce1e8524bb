"""The clone of a remote repository: made on first use, fetched after, remade when it is damaged or of another URL."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from core.errors import SourceError
from core.settings import GitSource
from knowledge.sources.git_command import Git, GitFailure, GitTimeout
from knowledge.sources.links import without_credentials

REFERENCE = "refs/kimas/current"
_STATE_FILE = "kimas.json"


@dataclass(frozen=True, slots=True)
class _State:
    """What a clone holds: of which remote (without credentials), which branch, fetched when (ISO 8601)."""

    remote: str
    branch: str
    fetched_at: str


class GitClone:
    """A bare repository in the data directory that follows one branch or tag of a remote."""

    def __init__(self, name: str, settings: GitSource, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self._url = settings.url
        self._branch = settings.branch
        self._timeout = settings.timeout_s
        self._shown = without_credentials(settings.url)

    async def refresh(self) -> str:
        """Bring the clone up to date. Return an empty string, or why an older state has to do.

        Raises `SourceError` when there is no state at all, or the remote has no such branch.
        """
        state = await asyncio.to_thread(self._state)
        if state is None or not await self._intact():
            await self.remake()
            return ""
        try:
            await self._fetch(self.directory)
        except GitFailure as error:
            return await self._recover(state, error)
        return ""

    async def remote_commit(self) -> str:
        """Ask the remote which commit the branch is at, and change nothing. Raises `SourceError`."""
        wanted = (f"refs/heads/{self._branch}", f"refs/tags/{self._branch}") if self._branch else ("HEAD",)
        try:
            output = await Git(self.directory, self._timeout).run("ls-remote", "--", self._url, *wanted)
        except GitFailure as error:
            raise SourceError(f"source {self.name}: {self._shown} cannot be reached: {error}.") from error
        if not output:
            raise SourceError(f"source {self.name}: {self._shown} has no branch or tag {self._branch or 'HEAD'!r}.")
        return output.split()[0].decode()

    async def remake(self) -> None:
        """Replace the clone by a new one. Raises `SourceError`; the old one then stays."""
        fresh = self.directory.with_name(f"{self.directory.name}.new")
        try:
            await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)
            await asyncio.to_thread(fresh.mkdir, parents=True)
            await Git(fresh, self._timeout).run("init", "--quiet", "--bare")
            await self._fetch(fresh)
            await asyncio.to_thread(self._swap_in, fresh)
        except GitFailure as error:
            raise await self._explain(error, fresh) from error
        except OSError as error:
            raise SourceError(f"source {self.name}: {self.directory} cannot be written: {error.strerror}") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)

    async def _recover(self, state: _State, failure: GitFailure) -> str:
        """Find out whether the remote or the clone is at fault."""
        try:
            await self._require_branch(failure, self.directory)
        except GitFailure:
            since = datetime.fromisoformat(state.fetched_at).strftime("%Y-%m-%d %H:%M UTC")
            return f"{self._shown} cannot be reached ({failure}); this is its state of {since}"
        await self.remake()
        return ""

    async def _explain(self, failure: GitFailure, directory: Path) -> SourceError:
        try:
            await self._require_branch(failure, directory)
        except GitFailure as error:
            problem = f"source {self.name}: {self._shown} cannot be fetched: {error}."
            return SourceError(f"{problem} Check url, the network and the access rights (docs/sources.md).")
        except SourceError as error:
            return error
        return SourceError(f"source {self.name}: {self._shown} cannot be fetched: {failure}.")

    async def _fetch(self, directory: Path) -> None:
        refspec = f"+{self._branch or 'HEAD'}:{REFERENCE}"
        options = ("--quiet", "--no-tags", "--depth=1", "--force", "--no-write-fetch-head")
        await Git(directory, self._timeout).run("fetch", *options, "--", self._url, refspec)
        state = _State(self._shown, self._branch, datetime.now(UTC).isoformat(timespec="seconds"))
        await asyncio.to_thread(_write_atomically, directory / _STATE_FILE, json.dumps(asdict(state)))

    async def _require_branch(self, failure: GitFailure, directory: Path) -> None:
        """Raise `GitFailure` when the remote does not answer either, `SourceError` when it lacks the branch."""
        if isinstance(failure, GitTimeout):
            raise failure
        output = await Git(directory, self._timeout).run("ls-remote", "--", self._url)
        listed = (line.partition("\t")[2] for line in output.decode("utf-8", "replace").splitlines())
        names = [name for name in listed if name and not name.endswith("^{}")]
        if not names:
            raise SourceError(f"source {self.name}: {self._shown} has no commits yet.")
        short = [
            name.removeprefix(kind) for kind in ("refs/heads/", "refs/tags/") for name in names if name.startswith(kind)
        ]
        if self._branch and self._branch not in short:
            raise SourceError(unknown_branch(self.name, self._shown, self._branch, short))
        if not self._branch and "HEAD" not in names:
            raise SourceError(unknown_branch(self.name, self._shown, "(its default branch)", short))

    async def _intact(self) -> bool:
        """Tell whether the commit and all of its folders can be read."""
        try:
            await Git(self.directory, self._timeout).run("ls-tree", "-r", "-z", "--name-only", REFERENCE)
        except GitFailure:
            return False
        return True

    def _state(self) -> _State | None:
        """Return the clone's state; None when there is no clone of this remote and branch."""
        try:
            state = _State(**json.loads((self.directory / _STATE_FILE).read_text("utf-8")))
            datetime.fromisoformat(state.fetched_at)
        except (OSError, ValueError, TypeError):
            return None
        return state if (state.remote, state.branch) == (self._shown, self._branch) else None

    def _swap_in(self, fresh: Path) -> None:
        old = self.directory.with_name(f"{self.directory.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if self.directory.exists():
            self.directory.rename(old)
        fresh.rename(self.directory)
        shutil.rmtree(old, ignore_errors=True)


def unknown_branch(name: str, url: str, branch: str, known: list[str]) -> str:
    """Return the message for a branch that does not exist."""
    listed = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    return f"source {name}: {url} has no branch or tag {branch!r}. It has: {listed or 'none'}."


def _write_atomically(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text, "utf-8")
    draft.replace(path)
