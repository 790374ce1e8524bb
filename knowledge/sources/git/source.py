"""A git repository: a remote that is cloned, or a local one that is read in place. Only committed content counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from core.errors import SourceError
from core.observability.logs import get_logger
from core.runtime.tasks import raise_if_stopped, to_stoppable_thread
from core.settings import GitSource
from knowledge.formats import parse_document
from knowledge.formats.includes import Expansion
from knowledge.formats.references import Names, find_references, get_outline_kind
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing
from knowledge.sources.common.closed_parts import ClosedPart, make_closed_check
from knowledge.sources.common.documents import (
    DOCUMENT_KINDS,
    TAKEN_MARK,
    DocumentBudget,
    PathFilter,
    derive_template,
    drop_partials,
    fill_template,
    fingerprint,
    redact_credentials,
)
from knowledge.sources.git.clone import BlobCheckCache, BranchCommits, GitClone, unknown_branch_message
from knowledge.sources.git.command import Git, GitError
from knowledge.sources.git.includes import PageCache, PageFacts, expand_pages, load_pages

_log = get_logger(__name__)

MISSING = "not in the repository"
_LINK_MODE = b"120000"
_SUBMODULE_MODE = b"160000"

_BAD_IN_BRANCH = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|[/.]$")
_MAX_LOGGED_SUBMODULES = 5

# The listing of a commit, in which a path takes some 100 bytes; most of a repository's files may be no documents.
_MIN_TREE_BYTES = 16 << 20
_TREE_BYTES_PER_DOCUMENT = 400


@dataclass(frozen=True, slots=True)
class Completion:
    """What a page takes from other files: what it includes, and the titles and values that its references lead to."""

    expansion: Expansion
    names: Mapping[str, str]


@dataclass(slots=True)
class Tree:
    """Blob ids by path, as far as they are taken; `binary_blobs` are those blobs that may be binary.

    `settings_blobs` are files that the globs do not let in, which say what names in all pages below them mean.
    """

    blobs: dict[str, str] = field(default_factory=dict)
    settings_blobs: dict[str, str] = field(default_factory=dict)
    binary_blobs: set[str] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)
    submodules: list[str] = field(default_factory=list)


def filter_tree(output: bytes, path_filter: PathFilter, budget: DocumentBudget) -> Tree:
    """Judge the entries of a commit by their names, modes and sizes. Blocking: a large repository takes a while."""
    tree = Tree()
    for line in _split_entries(output):
        raise_if_stopped()
        fields, _, name = line.partition(b"\t")
        # A path that is no valid text is judged by what can be read of it: it may lie where nothing is taken.
        path = name.decode("utf-8", "replace")
        is_wanted = path_filter.matches(path)
        if not path or not (is_wanted or (get_outline_kind(path, "") and path_filter.may_include(path))):
            continue
        mode, _, blob, size = fields.split()
        skip_reason = _get_skip_reason(mode, size, path, path_filter)
        if not is_wanted:
            tree.settings_blobs |= {path: blob.decode()} if not skip_reason else {}
            continue
        if not skip_reason and not _is_utf8(name):
            skip_reason = "unreadable name"
        if mode == _SUBMODULE_MODE:
            tree.submodules.append(path)
        skip_reason = skip_reason or budget.skip_reason(int(size))
        if skip_reason:
            tree.skipped[skip_reason] += 1
            continue
        tree.blobs[path] = blob.decode()
        if path_filter.get_kind(path) in DOCUMENT_KINDS:
            tree.binary_blobs.add(tree.blobs[path])
    return tree


def _split_entries(output: bytes) -> Iterator[bytes]:
    """Yield entries one by one: a list of all would take more memory than the output itself."""
    start = 0
    while (end := output.find(b"\0", start)) >= 0:
        yield output[start:end]
        start = end + 1


def _get_skip_reason(mode: bytes, size: bytes, path: str, path_filter: PathFilter) -> str:
    """Return why an entry is skipped, or an empty string. Git gives the size BAD to an object that it lacks."""
    if mode == _LINK_MODE:
        return "symbolic link"
    if mode == _SUBMODULE_MODE:
        return "submodule"
    has_size = size.isdigit()
    return path_filter.skip_reason(path, int(size) if has_size else 0) or ("" if has_size else MISSING)


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _complete_pages(
    facts: Mapping[str, PageFacts], paths: Collection[str], expansions: Mapping[str, Expansion]
) -> dict[str, Completion]:
    """Return what some pages of a commit take from others, of those that take anything. Blocking."""
    names = Names({path: each.outline for path, each in facts.items()})
    completions: dict[str, Completion] = {}
    for path in paths & facts.keys():
        raise_if_stopped()
        kind = facts[path].kind
        expansion = expansions.get(path, Expansion(""))
        references = find_references(kind, expansion.text) if expansion.lines else facts[path].outline.references
        found = names.find(path, kind, references)
        if found or expansion.lines:
            completions[path] = Completion(expansion, found)
    return completions


class GitRepository:
    """The committed files of branches or tags. A listing's fingerprints are blob ids, its revision is the commit.

    That of a page that takes something from other files has a hash of that behind its blob id and a plus.

    With several branches a path starts with its branch (`v1:docs/a.md`), and the revision names a commit for each. A
    file that an earlier branch holds unchanged is not listed again.
    """

    def __init__(
        self,
        name: str,
        settings: GitSource,
        folder: Path,
        parser: Parser | None = None,
        closed_parts: Sequence[ClosedPart] = (),
        *,
        private_paths: Collection[str] = (),
    ) -> None:
        self.name = name
        self._parser = parser or ThreadParser()
        self._settings = settings
        self._branches = settings.branches or (settings.branch,)
        is_closed = make_closed_check(name, closed_parts)
        self._path_filter = PathFilter(name, settings, (), is_closed, private_paths)
        self._display_url = redact_credentials(settings.url)
        self._page_cache = PageCache(name, folder)
        # Of the last listing: its revision, and the blobs of all files, also of those that it leaves out.
        self._all_fingerprints: tuple[str, Mapping[str, str]] = ("", {})
        self._check_cache = BlobCheckCache(name, folder / f"{name}.json")
        for branch in self._branches:
            if branch and _BAD_IN_BRANCH.search(branch):
                raise SourceError(f"source {name}: {branch!r} cannot be the name of a branch or tag.")
        if settings.url.startswith("-") or re.match(r"[\w+.-]+::", settings.url):
            raise SourceError(
                f"source {name}: {self._display_url!r} is not an address that is allowed (https, ssh, a path)."
            )
        self._clone = None if is_local(settings.url) else GitClone(name, settings, self._branches, folder)

    async def listing(self) -> Listing:
        """Fetch and list. Raises `SourceError` when there is nothing to list; an unreachable remote makes it stale."""
        try:
            branch_commits = await self._clone.refresh() if self._clone else await self._local_branch_commits()
            return await self._list(branch_commits)
        except GitError as error:
            if self._clone is None:
                raise self._read_error(error) from error
        branch_commits = await self._clone.recreate()
        try:
            return await self._list(branch_commits)
        except GitError as error:
            raise SourceError(
                f"source {self.name}: the new clone of {self._display_url} is damaged: {error}."
            ) from error

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield files as they are in the listing's commits."""
        paths_by_blob: dict[str, list[str]] = {}
        for path in paths:
            if path in listing.fingerprints:
                paths_by_blob.setdefault(listing.fingerprints[path].partition(TAKEN_MARK)[0], []).append(path)
        incomplete_paths = {path for path in paths if TAKEN_MARK in listing.fingerprints.get(path, "")}
        # What pages show of others may be in files that are no documents of their own.
        revision, all_fingerprints = self._all_fingerprints
        fingerprints = all_fingerprints if revision == listing.revision else listing.fingerprints
        git = self._git()
        template = self._settings.link or derive_template(await self._get_remote_url(git))
        commits = self._parse_revision(listing.revision)
        try:
            completions: Mapping[str, Completion] = {}
            if incomplete_paths:
                completions = await self._complete(git, commits, fingerprints, incomplete_paths)
            async with aclosing(git.blobs(list(paths_by_blob))) as blobs:
                async for blob, data in blobs:
                    for path in paths_by_blob.pop(blob):
                        completion = completions.get(path, Completion(Expansion(""), {}))
                        yield await self._to_document(path, data, completion, template, commits)
            if paths_by_blob and self._clone:
                raise GitError(f"{len(paths_by_blob)} files are missing in the clone")
        except GitError as error:
            # The next listing is to notice what is wrong.
            await self._check_cache.clear()
            raise self._read_error(error) from error

    async def list_remote_paths(self) -> Sequence[str]:
        """Return the paths of all files of a remote's first branch, keeping nothing; none for a local repository.

        Raises `SourceError`.
        """
        return await self._clone.list_remote_paths() if self._clone else ()

    async def latest_commit(self) -> str:
        """Return the commit that the first branch is at, changing nothing; a remote is asked. Raises `SourceError`."""
        if self._clone:
            return await self._clone.get_first_remote_commit()
        try:
            return (await self._local_branch_commits()).commits[self._branches[0]]
        except GitError as error:
            raise self._read_error(error) from error

    async def _complete(
        self, git: Git, commits: Mapping[str, str], fingerprints: Mapping[str, str], paths: Collection[str]
    ) -> Mapping[str, Completion]:
        """Return what some listed paths take from other files, of those that take anything. Raises `GitError`."""
        blobs = {path: text.partition(TAKEN_MARK)[0] for path, text in fingerprints.items()}
        places = {path: self._split_branch(path) for path in fingerprints}
        kinds = {path: self._path_filter.get_kind(inner) for path, (_, inner) in places.items()}
        outline_kinds = {blobs[path]: get_outline_kind(inner, kinds[path]) for path, (_, inner) in places.items()}
        facts = await self._page_cache.read(git, {blob: kind for blob, kind in outline_kinds.items() if kind})
        completions: dict[str, Completion] = {}
        for branch, commit in commits.items():
            own_facts = {
                inner: facts[blobs[path]]
                for path, (of_branch, inner) in places.items()
                if of_branch == branch and blobs[path] in facts
            }
            wanted_paths = {places[path][1]: path for path in paths if places[path][0] == branch}
            page_blobs = {
                inner: blobs[path]
                for inner, path in wanted_paths.items()
                if inner in own_facts and own_facts[inner].may_include
            }
            loaded_pages = await load_pages(git, {blob: facts[blob].kind for blob in page_blobs.values()})
            pages = {inner: loaded_pages[blob] for inner, blob in page_blobs.items() if blob in loaded_pages}
            expansions = await expand_pages(git, commit, pages, self._path_filter)
            found = await to_stoppable_thread(_complete_pages, own_facts, wanted_paths.keys(), expansions)
            completions |= {wanted_paths[inner]: completion for inner, completion in found.items()}
        return completions

    async def _to_document(
        self, path: str, data: bytes, completion: Completion, template: str, commits: Mapping[str, str]
    ) -> Document:
        expansion = completion.expansion
        branch, inner_path = self._split_branch(path)
        kind = self._path_filter.get_kind(inner_path)
        data = expansion.text.encode() if expansion.lines else data
        parsed = await parse_document(self._parser, inner_path, kind, data)
        parts = PurePosixPath(inner_path).parts
        is_multi_branch = len(commits) > 1
        title = "/".join(parts[-2:]) if is_multi_branch else ""
        url = fill_template(template, inner_path, commits[branch])
        edition = branch if is_multi_branch else ""
        reason = parsed.unreadable_reason
        lines, names = expansion.lines, completion.names
        return Document(path, parsed.text, parsed.kind, title, url, edition, reason, lines, names, parsed.pages)

    def _split_branch(self, path: str) -> tuple[str, str]:
        """Return the branch and the path in it of a listed path."""
        if len(self._branches) == 1:
            return self._branches[0], path
        branch, _, inner_path = path.partition(":")
        return branch, inner_path

    def _format_revision(self, commits: Mapping[str, str]) -> str:
        is_multi_branch = len(self._branches) > 1
        return " ".join(f"{branch}={commit}" if is_multi_branch else commit for branch, commit in commits.items())

    def _parse_revision(self, revision: str) -> Mapping[str, str]:
        if len(self._branches) == 1:
            return {self._branches[0]: revision}
        parts = (part.rpartition("=") for part in revision.split())
        return {branch: commit for branch, _, commit in parts}

    def _read_error(self, error: GitError) -> SourceError:
        return SourceError(f"source {self.name}: {self._display_url} cannot be read: {error}.")

    def _git(self) -> Git:
        return Git(self._clone.directory if self._clone else self._local_directory(), self._settings.timeout_s)

    def _local_directory(self) -> Path:
        path = Path(self._settings.url).expanduser()
        dot_git = path / ".git"
        directory = dot_git if dot_git.exists() else path
        if not path.exists():
            raise SourceError(f"source {self.name}: {path} does not exist. Check url.")
        if not (directory.is_file() or (directory / "HEAD").exists()):
            raise SourceError(f"source {self.name}: {path} is not a git repository. Check url, or use kind: files.")
        return directory

    async def _list(self, branch_commits: BranchCommits) -> Listing:
        git = self._git()
        # One commit may have the files of another: each commit has the whole budget.
        trees = {branch: await self._read_tree(git, commit) for branch, commit in branch_commits.commits.items()}
        blobs = {blob for tree in trees.values() for blob in (*tree.blobs.values(), *tree.settings_blobs.values())}
        binary_blobs = {blob for tree in trees.values() for blob in tree.binary_blobs}
        reasons = await self._check_cache.check(git, blobs, binary_blobs)
        skipped_counts = sum((tree.skipped for tree in trees.values()), Counter[str]())
        is_multi_branch = len(self._branches) > 1
        fingerprints: dict[str, str] = {}
        settings: dict[str, str] = {}
        for branch, tree in trees.items():
            usable = {path: blob for path, blob in tree.settings_blobs.items() if not reasons.get(blob, MISSING)}
            settings |= {f"{branch}:{path}" if is_multi_branch else path: blob for path, blob in usable.items()}
            for path, blob in tree.blobs.items():
                if skip_reason := reasons.get(blob, MISSING):
                    skipped_counts[skip_reason] += 1
                else:
                    fingerprints[f"{branch}:{path}" if is_multi_branch else path] = blob
        skipped_counts.update(await self._add_includes(git, branch_commits.commits, fingerprints, settings))
        skipped_counts.update(self._drop_repeated(fingerprints))
        if not fingerprints:
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped_counts.items()))
            problem = (
                f"has no file that can be used (skipped: {counts})"
                if counts
                else "has no file that include and exclude let through"
            )
            raise SourceError(f"source {self.name}: {self._display_url} {problem}. Check branch, include and exclude.")
        revision = self._format_revision(branch_commits.commits)
        is_refused = branch_commits.is_refused
        reason = branch_commits.stale_reason
        return Listing(fingerprints, revision, dict(skipped_counts), reason, is_refused=is_refused)

    async def _add_includes(
        self, git: Git, commits: Mapping[str, str], fingerprints: dict[str, str], settings: Mapping[str, str]
    ) -> Counter[str]:
        """Make the fingerprints cover what pages take from others, and leave out what is there for other pages only."""
        included_paths: set[str] = set()
        all_fingerprints = {**fingerprints, **settings}
        self._all_fingerprints = (self._format_revision(commits), all_fingerprints)
        for path, completion in (await self._complete(git, commits, all_fingerprints, fingerprints.keys())).items():
            branch = path.removesuffix(self._split_branch(path)[1])
            pairs = (part for pair in sorted(completion.names.items()) for part in pair)
            shown = "\0".join((completion.expansion.text, *pairs))
            fingerprints[path] += f"{TAKEN_MARK}{fingerprint(shown.encode())}"
            included_paths.update(branch + included_path for included_path in completion.expansion.included_paths)
        await self._page_cache.keep(set(all_fingerprints.values()))
        return drop_partials(fingerprints, included_paths)

    def _drop_repeated(self, fingerprints: dict[str, str]) -> Counter[str]:
        """Remove what an earlier branch holds unchanged; return how many files, by the reason."""
        listed: set[tuple[str, str]] = set()
        count = len(fingerprints)
        for path, text in list(fingerprints.items()):
            key = (self._split_branch(path)[1], text)
            if key in listed:
                del fingerprints[path]
            listed.add(key)
        repeated_count = count - len(fingerprints)
        return Counter({"same in an earlier branch": repeated_count} if repeated_count else {})

    async def _read_tree(self, git: Git, commit: str) -> Tree:
        """Return the files of a commit, as far as can be told without their content. Raises `GitError`.

        Raises `SourceError` for a commit of far more entries than may be taken: a few kilobytes can hold millions.
        """
        max_documents = self._settings.max_documents
        max_bytes = max(_MIN_TREE_BYTES, _TREE_BYTES_PER_DOCUMENT * max_documents)
        output = await git.run_bounded(max_bytes, "ls-tree", "-r", "-z", "--long", commit)
        if output is None:
            problem = f"source {self.name}: {self._display_url} lists more than {max_bytes >> 20} MB of paths"
            raise SourceError(f"{problem}. If it is meant, raise max_documents (now {max_documents}).")
        tree = await to_stoppable_thread(filter_tree, output, self._path_filter, DocumentBudget(self._settings))
        if tree.skipped[MISSING] and self._clone:
            raise GitError(f"{tree.skipped[MISSING]} files are missing in the clone")
        if tree.submodules:
            paths = tree.submodules[:_MAX_LOGGED_SUBMODULES]
            _log.info("source.submodules_ignored", source=self.name, count=len(tree.submodules), paths=paths)
        return tree

    async def _local_branch_commits(self) -> BranchCommits:
        git = self._git()
        return BranchCommits({branch: await self._local_commit(git, branch) for branch in self._branches})

    async def _local_commit(self, git: Git, branch: str) -> str:
        kinds = ("heads", "tags", "remotes/origin")
        for reference in [f"refs/{kind}/{branch}" for kind in kinds] if branch else ["HEAD"]:
            try:
                output = await git.run("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
            except GitError:
                continue
            return output.decode().strip()
        output = await git.run("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags")
        names = output.decode("utf-8", "replace").split()
        if not names:
            raise SourceError(f"source {self.name}: {self._display_url} has no commits yet.")
        raise SourceError(unknown_branch_message(self.name, self._display_url, branch or "HEAD", names))

    async def _get_remote_url(self, git: Git) -> str:
        """Return the address that links are derived from."""
        if self._clone:
            return self._settings.url
        try:
            return (await git.run("config", "--get", "remote.origin.url")).decode("utf-8", "replace").strip()
        except GitError:
            return ""


def is_local(url: str) -> bool:
    """Tell a path from a remote address, as git does: a colon before any slash makes it remote."""
    return "://" not in url and ":" not in url.partition("/")[0]
