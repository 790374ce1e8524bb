"""A git repository: a remote that is cloned, or a local one that is read in place. Only committed content counts."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from pathlib import Path

from core.errors import SourceError
from core.settings import GitSource
from knowledge.ports import Document, Listing
from knowledge.sources.formats import readable
from knowledge.sources.git_clone import REFERENCE, GitClone, unknown_branch
from knowledge.sources.git_command import Git, GitFailure
from knowledge.sources.links import derived_template, fill, without_credentials
from knowledge.sources.reading import defect
from knowledge.sources.selection import PACKED, Selection

_NOT_FILES = {"120000": "symbolic link", "160000": "submodule"}
_MISSING = "not in the repository"
_BAD_IN_BRANCH = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|[/.]$")


class GitRepository:
    """The committed files of one branch or tag. A listing's revision is the commit, its fingerprints are blob ids."""

    def __init__(self, name: str, settings: GitSource, clone_directory: Path) -> None:
        self.name = name
        self._settings = settings
        self._selection = Selection(name, settings)
        self._shown = without_credentials(settings.url)
        # Blob ids whose content was looked at, with what is wrong with it: content under an id never changes.
        self._looked_at: dict[str, str] = {}
        if settings.branch and _BAD_IN_BRANCH.search(settings.branch):
            raise SourceError(f"source {name}: {settings.branch!r} cannot be the name of a branch or tag.")
        if settings.url.startswith("-") or re.match(r"[\w+.-]+::", settings.url):
            raise SourceError(f"source {name}: {self._shown!r} is not an address that is allowed (https, ssh, a path).")
        self._clone = None if is_local(settings.url) else GitClone(name, settings, clone_directory)

    async def listing(self) -> Listing:
        """Fetch and list. Raises `SourceError` when there is nothing to list; an unreachable remote makes it stale."""
        stale = await self._clone.refresh() if self._clone else ""
        try:
            return await self._list(stale)
        except GitFailure as error:
            if self._clone is None:
                raise SourceError(f"source {self.name}: {self._shown} cannot be read: {error}.") from error
        await self._clone.remake()
        try:
            return await self._list("")
        except GitFailure as error:
            raise SourceError(f"source {self.name}: the new clone of {self._shown} is damaged: {error}.") from error

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield files as they are in the listing's commit."""
        places: dict[str, list[str]] = {}
        for path in paths:
            if path in listing.fingerprints:
                places.setdefault(listing.fingerprints[path], []).append(path)
        git = self._git()
        template = self._settings.link or derived_template(await self._remote(git))
        try:
            async with aclosing(git.blobs(list(places))) as blobs:
                async for blob, data in blobs:
                    for path in places[blob]:
                        text, kind = await asyncio.to_thread(readable, path, self._selection.kind(path), data)
                        url = fill(template, path, listing.revision)
                        yield Document(path=path, text=text, kind=kind, url=url)
        except GitFailure as error:
            raise SourceError(f"source {self.name}: {self._shown} cannot be read: {error}.") from error

    async def newest(self) -> str:
        """Return the commit that the branch is at, changing nothing; a remote is asked. Raises `SourceError`."""
        if self._clone:
            return await self._clone.remote_commit()
        try:
            return await self._commit(self._git())
        except GitFailure as error:
            raise SourceError(f"source {self.name}: {self._shown} cannot be read: {error}.") from error

    def _git(self) -> Git:
        if self._clone:
            return Git(self._clone.directory, self._settings.timeout_s)
        return Git(self._local_directory(), self._settings.timeout_s)

    def _local_directory(self) -> Path:
        path = Path(self._settings.url).expanduser()
        inner = path / ".git"
        directory = inner if inner.exists() else path
        if not path.exists():
            raise SourceError(f"source {self.name}: {path} does not exist. Check url.")
        if not (directory.is_file() or (directory / "HEAD").exists()):
            raise SourceError(f"source {self.name}: {path} is not a git repository. Check url, or use kind: files.")
        return directory

    async def _list(self, stale: str) -> Listing:
        git = self._git()
        commit = await self._commit(git)
        output = await git.run("ls-tree", "-r", "-z", "--long", commit)
        skipped: Counter[str] = Counter()
        found: dict[str, str] = {}
        for line in output.decode("utf-8", "replace").split("\0"):
            fields, _, path = line.partition("\t")
            if path and self._selection.takes(path):
                mode, _, blob, size = fields.split()
                refusal = self._refusal(mode, path, size)
                if refusal:
                    skipped[refusal] += 1
                else:
                    found[path] = blob
        packed = {blob for path, blob in found.items() if self._selection.kind(path) in PACKED}
        await self._look_at(git, set(found.values()), packed)
        defects = {path: self._looked_at[blob] for path, blob in found.items() if self._looked_at[blob]}
        skipped.update(defects.values())
        fingerprints = {path: blob for path, blob in found.items() if path not in defects}
        if not fingerprints:
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items())) or "nothing"
            problem = f"source {self.name}: {self._shown} has no file that can be used (skipped: {counts})"
            raise SourceError(f"{problem}. Check branch, include and exclude.")
        return Listing(fingerprints, commit, dict(skipped), stale)

    def _refusal(self, mode: str, path: str, size: str) -> str:
        """Return why an entry is skipped, or an empty string. Git gives the size BAD to an object that it lacks."""
        if mode in _NOT_FILES:
            return _NOT_FILES[mode]
        return self._selection.refusal(path, int(size) if size.isdigit() else 0)

    async def _look_at(self, git: Git, blobs: set[str], packed: set[str]) -> None:
        """Learn what is wrong with the content of blobs that were not looked at before; `packed` may be binary."""
        seen = {blob: fault for blob, fault in self._looked_at.items() if blob in blobs and fault != _MISSING}
        async with aclosing(git.blobs(sorted(blobs - seen.keys()))) as contents:
            async for blob, data in contents:
                seen[blob] = defect(data, packed=blob in packed)
        lost = blobs - seen.keys()
        if lost and self._clone:
            raise GitFailure(f"{len(lost)} files are missing in the clone")
        # A local repository may lack files on purpose (a partial clone). They may come later: not remembered.
        self._looked_at = seen | dict.fromkeys(lost, _MISSING)

    async def _commit(self, git: Git) -> str:
        branch = self._settings.branch
        local = [f"refs/{kind}/{branch}" for kind in ("heads", "tags", "remotes/origin")] if branch else ["HEAD"]
        for reference in [REFERENCE] if self._clone else local:
            try:
                output = await git.run("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
            except GitFailure:
                continue
            return output.decode().strip()
        if self._clone:
            raise GitFailure("its last commit cannot be read")
        output = await git.run("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags")
        names = output.decode("utf-8", "replace").split()
        if not names:
            raise SourceError(f"source {self.name}: {self._shown} has no commits yet.")
        raise SourceError(unknown_branch(self.name, self._shown, branch or "HEAD", names))

    async def _remote(self, git: Git) -> str:
        """Return the address that links are derived from."""
        if self._clone:
            return self._settings.url
        try:
            return (await git.run("config", "--get", "remote.origin.url")).decode("utf-8", "replace").strip()
        except GitFailure:
            return ""


def is_local(url: str) -> bool:
    """Tell a path from a remote address, as git does: a colon before any slash makes it remote."""
    return "://" not in url and ":" not in url.partition("/")[0]
