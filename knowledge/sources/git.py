"""A git repository, remote or local, read from its objects: what is committed, nothing is checked out.

Blob ids are the fingerprints, so that an unchanged file costs nothing, and links are pinned to the commit.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from core.errors import SourceError
from core.logs import logger
from core.settings import GitSource
from knowledge.ports import Document, Listing
from knowledge.sources.git_command import GitFailed, git_process, run_git, without_credentials
from knowledge.sources.reading import decode, fill_link, is_binary, kind_of, left_out, selector

_SCP_URL = re.compile(r"^(?:[\w.-]+@)?([\w.-]+):(?!//)(.+)$")
_SUBMODULE_OR_LINK = ("160000", "120000")
# Link forms by the host's kind; hosts that are none of the first two speak GitHub's form (Gitea, Gogs, Codeberg).
_LINK_FORMS = {
    "gitlab": "https://{host}/{repository}/-/blob/{{commit}}/{{path}}#L{{start}}-{{end}}",
    "bitbucket": "https://{host}/{repository}/src/{{commit}}/{{path}}#lines-{{start}}:{{end}}",
    "codeberg": "https://{host}/{repository}/src/commit/{{commit}}/{{path}}#L{{start}}-L{{end}}",
    "gitea": "https://{host}/{repository}/src/commit/{{commit}}/{{path}}#L{{start}}-L{{end}}",
    "gitee": "https://{host}/{repository}/blob/{{commit}}/{{path}}#L{{start}}-L{{end}}",
    "github": "https://{host}/{repository}/blob/{{commit}}/{{path}}#L{{start}}-L{{end}}",
}


class Git:
    """Implements `Source`. `clone` is where a remote repository is kept; a local one is read in place."""

    def __init__(self, name: str, settings: GitSource, clone: Path) -> None:
        self.name = name
        self._settings = settings
        self._clone = clone
        local = Path(settings.url).expanduser()
        self._local = local if "://" not in settings.url and local.exists() else None
        self._shown = without_credentials(settings.url)

    async def listing(self) -> Listing:
        """Fetch and list the wanted files of the newest commit.

        When the remote cannot be reached the last fetched state is listed and `stale` says so; `SourceError` when
        nothing was ever fetched, or the repository or branch does not exist.
        """
        stale = "" if self._local else await self._update()
        folder = self._local or self._clone
        commit = await self._commit(folder)
        wanted, fingerprints, skipped = selector(self._settings), dict[str, str](), Counter[str]()
        tree = await self._git("ls-tree", "-r", "-z", "--long", "--full-tree", commit, folder=folder)
        for record in tree.split(b"\0")[:-1]:
            facts, path_bytes = record.split(b"\t", 1)
            mode, _, blob, size = facts.decode().split()
            path = path_bytes.decode("utf-8", errors="surrogateescape")
            reason = self._reason(path, mode, size)
            if reason or not wanted(path):
                skipped[reason or "not included"] += 1
            else:
                fingerprints[path] = blob
        if not fingerprints:
            seen = ", ".join(f"{count} {reason}" for reason, count in skipped.items()) or "no files at all"
            raise SourceError(f"source {self.name}: {self._shown} holds nothing to read ({seen}); see include, exclude")
        return Listing(fingerprints, commit, dict(skipped), stale)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield these files of the listed commit. Raises `SourceError` when the repository cannot be read."""
        folder = self._local or self._clone
        link = self._settings.link or await self._derived_link(folder)
        batch = ("cat-file", "--batch")
        async with git_process(batch, folder=folder, stdin=asyncio.subprocess.PIPE) as process:
            assert process.stdin is not None  # noqa: S101 (asked for above)
            assert process.stdout is not None  # noqa: S101
            for path in paths:
                process.stdin.write(listing.fingerprints[path].encode() + b"\n")
                await process.stdin.drain()
                header = (await process.stdout.readline()).split()
                if len(header) != 3:
                    raise SourceError(f"source {self.name}: {self._shown} lost an object of {path}; run git fsck there")
                data = (await process.stdout.readexactly(int(header[2]) + 1))[:-1]
                # A binary file becomes an empty document: known, and holding nothing.
                text = "" if is_binary(data) else decode(data)
                shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                yield Document(path, text, kind_of(path), url=fill_link(link, shown, listing.revision))

    def _reason(self, path: str, mode: str, size: str) -> str:
        if mode in _SUBMODULE_OR_LINK:
            return "link or submodule"
        if reason := left_out(path, named=bool(self._settings.include)):
            return reason
        if not kind_of(path):
            return "no text"
        return "too large" if int(size) > self._settings.max_file_kb * 1024 else ""

    async def _update(self) -> str:
        """Fetch, or clone where there is nothing usable yet. Return why the clone is stale, or an empty string."""
        try:
            known = (await run_git("config", "remote.origin.url", folder=self._clone)).decode().strip()
            usable = known == self._settings.url
            await run_git("rev-parse", "FETCH_HEAD", folder=self._clone)
        except GitFailed:
            usable = False
        try:
            await self._fetch() if usable else await self._first_fetch()
        except GitFailed as fault:
            if not usable:
                await self._explain(fault)
            since = datetime.fromtimestamp((self._clone / "FETCH_HEAD").stat().st_mtime, UTC)
            return f"{self._shown} could not be fetched ({fault}); known since {since:%Y-%m-%d %H:%M} UTC"
        return ""

    async def _fetch(self) -> None:
        target = f"refs/heads/{self._settings.branch}" if self._settings.branch else "HEAD"
        for what in (target, f"refs/tags/{self._settings.branch}") if self._settings.branch else (target,):
            try:
                await run_git(
                    *("fetch", "--quiet", "--depth=1", "--no-tags", "--force", "origin", f"+{what}:refs/kimas/head"),
                    folder=self._clone,
                    timeout_s=self._settings.timeout_s,
                )
            except GitFailed as fault:
                if "find remote ref" in str(fault) and what == target and self._settings.branch:
                    continue
                raise
            return

    async def _first_fetch(self) -> None:
        if self._clone.exists():
            logger(__name__).warning("git.clone_again", source=self.name, reason="another URL, or damaged")
            await asyncio.to_thread(shutil.rmtree, self._clone)
        await asyncio.to_thread(self._clone.mkdir, parents=True)
        await run_git("init", "--quiet", "--bare", str(self._clone))
        await run_git("remote", "add", "--", "origin", self._settings.url, folder=self._clone)
        try:
            await self._fetch()
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, self._clone, ignore_errors=True)
            raise

    async def _explain(self, fault: GitFailed) -> None:
        """Raise what a first fetch failed with, in words that name the way out."""
        if "find remote ref" in str(fault):
            branch = self._settings.branch or "its default branch"
            raise SourceError(f"source {self.name}: {self._shown} has no {branch}; correct its branch") from fault
        raise SourceError(
            f"source {self.name}: {self._shown} cannot be fetched ({fault}); check the URL, the network, and that "
            "git can read it without a prompt (an SSH key or a credential helper)"
        ) from fault

    async def _commit(self, folder: Path) -> str:
        branch = self._settings.branch
        revision = "refs/kimas/head" if not self._local else branch or "HEAD"
        try:
            shown = await run_git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}", folder=folder)
        except GitFailed as fault:
            raise SourceError(await self._why_no_commit(folder, branch)) from fault
        return shown.decode().strip()

    async def _why_no_commit(self, folder: Path, branch: str) -> str:
        try:
            listed = await run_git(
                "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", folder=folder
            )
        except GitFailed:
            return f"source {self.name}: {self._shown} is not a git repository; correct its url"
        names = ", ".join(listed.decode().split()[:20])
        if not names:
            return f"source {self.name}: {self._shown} has no commits yet; commit something first"
        return f"source {self.name}: {self._shown} has no branch {branch or 'HEAD'}; there are: {names}"

    async def _derived_link(self, folder: Path) -> str:
        url = self._settings.url
        if self._local:
            try:
                url = (await run_git("config", "remote.origin.url", folder=folder)).decode().strip()
            except GitFailed:
                return ""
        return derive_link(url)

    async def _git(self, *arguments: str, folder: Path) -> bytes:
        try:
            return await run_git(*arguments, folder=folder)
        except GitFailed as fault:
            raise SourceError(f"source {self.name}: {self._shown}: git {arguments[0]}: {fault}") from fault


def derive_link(url: str) -> str:
    """Return the link template of a repository on a known kind of host, or an empty string."""
    scp = _SCP_URL.match(url)
    parts: Mapping[str, str | None]
    if scp and "://" not in url:
        parts = {"host": scp[1], "path": scp[2]}
    else:
        split = urlsplit(url)
        if split.scheme not in ("http", "https", "ssh", "git"):
            return ""
        parts = {"host": split.hostname, "path": split.path}
    repository = (parts["path"] or "").strip("/").removesuffix(".git")
    host = parts["host"] or ""
    form = next((form for kind, form in _LINK_FORMS.items() if kind in host), "")
    return form.format(host=host, repository=repository) if form and repository else ""
