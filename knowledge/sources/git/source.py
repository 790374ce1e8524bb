"""A git repository: a remote that is cloned, or a local one that is read in place. Only committed content counts."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from core.errors import SourceError
from core.observability.logs import logger
from core.settings import GitSource
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import derived_template, fill, without_credentials
from knowledge.sources.common.path_filter import PACKED, Selection
from knowledge.sources.formats import readable
from knowledge.sources.git.blob_checks import LookedAt
from knowledge.sources.git.clone import GitClone, Tips, unknown_branch
from knowledge.sources.git.command import Git, GitFailure

MISSING = "not in the repository"
_LINK, _SUBMODULE = b"120000", b"160000"


@dataclass(slots=True)
class Tree:
    """Blob ids by path, as far as they are taken; `packed` are those blobs that may be binary."""

    blobs: dict[str, str] = field(default_factory=dict)
    packed: set[str] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)
    submodules: list[str] = field(default_factory=list)


async def listed(git: Git, commit: str) -> bytes:
    """Return all entries of a commit as git writes them. Raises `GitFailure`."""
    return await git.run("ls-tree", "-r", "-z", "--long", commit)


def judged(output: bytes, selection: Selection) -> Tree:
    """Judge the entries of a commit by their names, modes and sizes. Blocking: a large repository takes a while."""
    tree = Tree()
    for line in output.split(b"\0"):
        fields, _, name = line.partition(b"\t")
        # A path that is no valid text is judged by what can be read of it: it may lie where nothing is taken.
        path = name.decode("utf-8", "replace")
        if not path or not selection.takes(path):
            continue
        mode, _, blob, size = fields.split()
        refusal = _refusal(mode, size, path, selection)
        if not refusal and not _is_text(name):
            refusal = "unreadable name"
        if mode == _SUBMODULE:
            tree.submodules.append(path)
        if refusal:
            tree.skipped[refusal] += 1
            continue
        tree.blobs[path] = blob.decode()
        if selection.kind(path) in PACKED:
            tree.packed.add(tree.blobs[path])
    return tree


def _refusal(mode: bytes, size: bytes, path: str, selection: Selection) -> str:
    """Return why an entry is skipped, or an empty string. Git gives the size BAD to an object that it lacks."""
    if mode == _LINK:
        return "symbolic link"
    if mode == _SUBMODULE:
        return "submodule"
    known = size.isdigit()
    return selection.refusal(path, int(size) if known else 0) or ("" if known else MISSING)


def _is_text(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


_BAD_IN_BRANCH = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|[/.]$")
_SHOWN_SUBMODULES = 5


class GitRepository:
    """The committed files of branches or tags. A listing's fingerprints are blob ids, its revision is the commit.

    With several branches a path starts with its branch (`v1:docs/a.md`), and the revision names a commit for each. A
    file that an earlier branch holds unchanged is not listed again.
    """

    def __init__(self, name: str, settings: GitSource, folder: Path) -> None:
        self.name = name
        self._settings = settings
        self._branches = settings.branches or (settings.branch,)
        self._selection = Selection(name, settings)
        self._shown = without_credentials(settings.url)
        self._looked_at = LookedAt(name, folder / f"{name}.json")
        for branch in self._branches:
            if branch and _BAD_IN_BRANCH.search(branch):
                raise SourceError(f"source {name}: {branch!r} cannot be the name of a branch or tag.")
        if settings.url.startswith("-") or re.match(r"[\w+.-]+::", settings.url):
            raise SourceError(f"source {name}: {self._shown!r} is not an address that is allowed (https, ssh, a path).")
        self._clone = None if is_local(settings.url) else GitClone(name, settings, self._branches, folder)

    async def listing(self) -> Listing:
        """Fetch and list. Raises `SourceError` when there is nothing to list; an unreachable remote makes it stale."""
        try:
            tips = await self._clone.refresh() if self._clone else await self._local_tips()
            return await self._list(tips)
        except GitFailure as error:
            if self._clone is None:
                raise SourceError(f"source {self.name}: {self._shown} cannot be read: {error}.") from error
        tips = await self._clone.remake()
        try:
            return await self._list(tips)
        except GitFailure as error:
            raise SourceError(f"source {self.name}: the new clone of {self._shown} is damaged: {error}.") from error

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield files as they are in the listing's commits."""
        places: dict[str, list[str]] = {}
        for path in paths:
            if path in listing.fingerprints:
                places.setdefault(listing.fingerprints[path], []).append(path)
        git = self._git()
        template = self._settings.link or derived_template(await self._remote(git))
        commits = self._commits_of(listing.revision)
        try:
            async with aclosing(git.blobs(list(places))) as blobs:
                async for blob, data in blobs:
                    for path in places.pop(blob):
                        yield await self._document(path, data, template, commits)
            if places and self._clone:
                raise GitFailure(f"{len(places)} files are missing in the clone")
        except GitFailure as error:
            # The next listing is to notice what is wrong.
            await self._looked_at.forget()
            raise SourceError(f"source {self.name}: {self._shown} cannot be read: {error}.") from error

    async def newest(self) -> str:
        """Return the commit that the first branch is at, changing nothing; a remote is asked. Raises `SourceError`."""
        if self._clone:
            return await self._clone.remote_commit()
        try:
            return (await self._local_tips()).commits[self._branches[0]]
        except GitFailure as error:
            raise SourceError(f"source {self.name}: {self._shown} cannot be read: {error}.") from error

    async def _document(self, path: str, data: bytes, template: str, commits: Mapping[str, str]) -> Document:
        branch, inner = self._place(path)
        text, kind = await asyncio.to_thread(readable, inner, self._selection.kind(inner), data)
        parts = PurePosixPath(inner).parts
        several = len(commits) > 1
        title = "/".join(parts[-2:]) if several else ""
        url = fill(template, inner, commits[branch])
        return Document(path, text, kind, title, url, branch if several else "")

    def _place(self, path: str) -> tuple[str, str]:
        """Return the branch and the path in it of a listed path."""
        if len(self._branches) == 1:
            return self._branches[0], path
        branch, _, inner = path.partition(":")
        return branch, inner

    def _commits_of(self, revision: str) -> Mapping[str, str]:
        if len(self._branches) == 1:
            return {self._branches[0]: revision}
        parts = (part.rpartition("=") for part in revision.split())
        return {branch: commit for branch, _, commit in parts}

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

    async def _list(self, tips: Tips) -> Listing:
        git = self._git()
        trees = {branch: await self._tree(git, commit) for branch, commit in tips.commits.items()}
        blobs = {blob for tree in trees.values() for blob in tree.blobs.values()}
        packed = {blob for tree in trees.values() for blob in tree.packed}
        faults = await self._looked_at.faults(git, blobs, packed)
        skipped = sum((tree.skipped for tree in trees.values()), Counter[str]())
        several = len(self._branches) > 1
        fingerprints: dict[str, str] = {}
        taken: set[tuple[str, str]] = set()
        for branch, tree in trees.items():
            for path, blob in tree.blobs.items():
                fault = faults.get(blob, MISSING) or ("same in an earlier branch" if (path, blob) in taken else "")
                if fault:
                    skipped[fault] += 1
                    continue
                taken.add((path, blob))
                fingerprints[f"{branch}:{path}" if several else path] = blob
        if not fingerprints:
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items())) or "nothing"
            problem = f"source {self.name}: {self._shown} has no file that can be used (skipped: {counts})"
            raise SourceError(f"{problem}. Check branch, include and exclude.")
        revision = " ".join(f"{branch}={commit}" if several else commit for branch, commit in tips.commits.items())
        return Listing(fingerprints, revision, dict(skipped), tips.stale)

    async def _tree(self, git: Git, commit: str) -> Tree:
        """Return the files of a commit, as far as can be told without their content. Raises `GitFailure`."""
        tree = await asyncio.to_thread(judged, await listed(git, commit), self._selection)
        if tree.skipped[MISSING] and self._clone:
            raise GitFailure(f"{tree.skipped[MISSING]} files are missing in the clone")
        if tree.submodules:
            shown = tree.submodules[:_SHOWN_SUBMODULES]
            logger(__name__).info(
                "source.submodules_ignored", source=self.name, count=len(tree.submodules), paths=shown
            )
        return tree

    async def _local_tips(self) -> Tips:
        git = self._git()
        return Tips({branch: await self._local_commit(git, branch) for branch in self._branches})

    async def _local_commit(self, git: Git, branch: str) -> str:
        kinds = ("heads", "tags", "remotes/origin")
        for reference in [f"refs/{kind}/{branch}" for kind in kinds] if branch else ["HEAD"]:
            try:
                output = await git.run("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
            except GitFailure:
                continue
            return output.decode().strip()
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
