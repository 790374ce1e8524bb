"""A folder, or a single file."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from typing import BinaryIO

from core.errors import SourceError
from core.runtime.tasks import raise_if_stopped, to_stoppable_thread
from core.settings import FilesSource
from knowledge.formats import parse_document
from knowledge.formats.encoding import decode, unusable_reason
from knowledge.formats.includes import KINDS as INCLUDING_KINDS, Expansion, Load, expand_includes, is_partial
from knowledge.formats.references import Names, find_references, get_outline_kind, read_outline
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing
from knowledge.sources.common.closed_parts import ClosedPart, make_closed_check
from knowledge.sources.common.documents import (
    DOCUMENT_KINDS,
    TAKEN_MARK,
    DocumentBudget,
    PathFilter,
    drop_partials,
    fill_template,
    fingerprint,
)
from knowledge.sources.common.file_facts import UNSETTLED, FileFacts, FileState, notes_changes, open_file_facts
from knowledge.sources.common.state_files import TEXT_FOLDERS

# So many files of a large folder are read first, and answered from while the others are listed.
BEGINNING_FILES = 200


class FilesFolder:
    """The files below a folder, each a document with its path relative to that folder.

    Hidden folders, virtual environments and what tools generate are not entered. A symbolic link counts only when it
    leads to a file inside that is not reached otherwise, and that would be taken where it is: what `include` and
    `exclude` keep out stays out. Files are opened without following links, in case one is swapped for a link. Those
    that have not changed since the last listing are not read, as far as `data_dir` has what that learned of them.
    """

    def __init__(
        self,
        name: str,
        settings: FilesSource,
        data_dir: Path,
        parser: Parser | None = None,
        closed_parts: Sequence[ClosedPart] = (),
        *,
        private_paths: Collection[str] = (),
    ) -> None:
        self.name = name
        self._parser = parser or ThreadParser()
        self._facts_file = open_file_facts(name, settings, data_dir)
        self._settings = settings
        self._path = settings.path.expanduser()
        own_folders = self._find_own_folders(data_dir.expanduser().resolve())
        is_closed = make_closed_check(name, closed_parts)
        self._path_filter = PathFilter(name, settings, own_folders, is_closed, private_paths)
        self._names = Names({})

    async def listing(self, *, keeps_facts: bool = True) -> Listing:
        """List and fingerprint the files; what it learns of them is kept in `data_dir`, unless it `keeps_facts` not.

        Raises `SourceError` when the path is missing or holds nothing usable.
        """
        with self._name_folder():
            return await to_stoppable_thread(self._list, keeps_facts)

    async def beginning(self) -> Listing | None:
        """List the first files of a folder with many, without what other pages may show; None where there are few.

        Nothing of the source is stored: what earlier listings learned is forgotten, too. Raises `SourceError` when the
        path is missing.
        """
        await asyncio.to_thread(self._facts_file.delete)
        with self._name_folder():
            return await to_stoppable_thread(self._list_beginning)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the files as they are now; one that vanished or became unusable is left out."""
        for path in paths:
            if path not in listing.fingerprints:
                continue
            kind = self._path_filter.get_kind(path) or "text"
            data = await asyncio.to_thread(self._read, path, kind)
            if data is not None:
                expansion = await asyncio.to_thread(_expand, path, kind, data, self._load_included)
                data = expansion.text.encode() if expansion.lines else data
                parsed = await parse_document(self._parser, path, kind, data)
                text, kind = parsed.text, parsed.kind
                references = await asyncio.to_thread(find_references, kind, text)
                names = await asyncio.to_thread(self._names.find, path, kind, references)
                url = fill_template(self._settings.link, path)
                reason = parsed.unreadable_reason
                yield Document(path, text, kind, "", url, "", reason, expansion.lines, names, parsed.pages)

    def _find_own_folders(self, data_dir: Path) -> list[str]:
        """Return those folders below the path that are ours: what other sources have read is there as text."""
        root = self._path.resolve()
        folders = [data_dir, *(data_dir / kind for kind in (*TEXT_FOLDERS, "git"))]
        return [folder.relative_to(root).as_posix() for folder in folders if folder.is_relative_to(root)]

    @contextmanager
    def _name_folder(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            path = error.filename or self._path
            raise SourceError(f"source {self.name}: {path} cannot be read: {error.strerror}. Check path.") from error

    def _list_beginning(self) -> Listing | None:
        files = list(islice(self._candidates(Counter(), []), BEGINNING_FILES + 1))
        if len(files) <= BEGINNING_FILES:
            return None
        # What is not known to be part of another page yet would be read, and deleted again.
        facts = self._learn_all((file for file in files if not is_partial(file[0])), {}, Counter())
        fingerprints = self._fingerprint(facts, [], Counter())
        return Listing(fingerprints) if fingerprints else None

    def _list(self, keeps_facts: bool) -> Listing:
        skipped_counts: Counter[str] = Counter()
        settings_paths: list[str] = []
        is_lasting = notes_changes(self._path)
        known_facts = self._facts_file.read() if is_lasting else {}
        candidates = self._candidates(skipped_counts, settings_paths)
        facts = self._learn_all(candidates, known_facts, skipped_counts)
        lasting_facts = {path: each for path, each in facts.items() if is_lasting and each.are_lasting}
        if keeps_facts and lasting_facts != known_facts:
            self._facts_file.write(lasting_facts)
        fingerprints = self._fingerprint(facts, settings_paths, skipped_counts)
        if not fingerprints:
            raise SourceError(self._describe_nothing_usable(skipped_counts))
        return Listing(fingerprints, skipped=dict(skipped_counts))

    def _learn_all(
        self, files: Iterable[tuple[str, FileState]], known_facts: Mapping[str, FileFacts], skipped_counts: Counter[str]
    ) -> dict[str, FileFacts]:
        """Return the facts of files by path; those that are not known, or not true any more, are learned."""
        facts: dict[str, FileFacts] = {}
        look = cache(self._look)
        for path, current_state in files:
            raise_if_stopped()
            state = current_state.settled()
            known = known_facts.get(path)
            if known and known.state == state and all(look(each) == was for each, was in known.loaded_states.items()):
                facts[path] = known
                continue
            try:
                facts[path] = self._learn(path, state, look)
            except OSError:
                skipped_counts["unreadable"] += 1
        return facts

    def _learn(self, path: str, state: FileState, look: Callable[[str], FileState | None]) -> FileFacts:
        """Read a file, with those that it includes. Raises `OSError`."""
        kind = self._path_filter.get_kind(path)
        data = self._read_bytes(path)
        if reason := unusable_reason(data, allow_binary=kind in DOCUMENT_KINDS):
            return FileFacts(state, reason)
        loaded_states: dict[str, FileState | None] = {}

        def load(included_path: str) -> str | None:
            # First its state: what changes from here on shows.
            included_state = look(included_path)
            text = self._load_included(included_path)
            # One that is there, but could not be read, may be readable next time.
            loaded_states[included_path] = UNSETTLED if included_state and text is None else included_state
            return text

        expansion = _expand(path, kind, data, load)
        outline = None
        if outline_kind := get_outline_kind(path, kind):
            outline = read_outline(outline_kind, decode(data))
            # What a page includes has references, too.
            references = find_references(kind, expansion.text) if expansion.lines else outline.references
            outline = replace(outline, references=references)
        digest = f"{fingerprint(expansion.text.encode())}{TAKEN_MARK}" if expansion.lines else fingerprint(data)
        return FileFacts(state, "", digest, outline, expansion.included_paths, loaded_states)

    def _fingerprint(
        self, facts: Mapping[str, FileFacts], settings_paths: Iterable[str], skipped_counts: Counter[str]
    ) -> dict[str, str]:
        """Return the fingerprints of files by path, and know the names that they give each other from now on.

        `settings_paths` are read each time: they are few.
        """
        skipped_counts.update(each.reason for each in facts.values() if each.reason)
        fingerprints = {path: each.fingerprint for path, each in facts.items() if not each.reason}
        outlines = {path: each.outline for path, each in facts.items() if each.outline}
        settings = ((path, self._load_included(path)) for path in settings_paths)
        given = {path: read_outline(get_outline_kind(path, ""), text) for path, text in settings if text is not None}
        self._names = Names(outlines | given)
        for path, outline in outlines.items():
            raise_if_stopped()
            if titles := self._names.find(path, self._path_filter.get_kind(path), outline.references):
                shown = chr(0).join(part for pair in sorted(titles.items()) for part in pair)
                fingerprints[path] += f"{TAKEN_MARK}{fingerprint(shown.encode())}"
        included_paths = {path for each in facts.values() for path in each.included_paths}
        skipped_counts.update(drop_partials(fingerprints, included_paths))
        return fingerprints

    def _look(self, path: str) -> FileState | None:
        """Return the state of a file for pages that include it; None for one that is missing or kept out."""
        if self._path.is_file() or not self._path_filter.may_include(path):
            return None
        try:
            with self._open(path) as file:
                return FileState.from_stat(os.fstat(file.fileno())).settled()
        except OSError:
            return None

    def _load_included(self, path: str) -> str | None:
        """Return a file for a page that includes it; none for one that is kept out, outside, too large or binary."""
        if self._path.is_file() or not self._path_filter.may_include(path):
            return None
        try:
            data = self._read_bytes(path)
        except OSError:
            return None
        return None if unusable_reason(data, allow_binary=False) else decode(data)

    def _describe_nothing_usable(self, skipped_counts: Counter[str]) -> str:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped_counts.items()))
        problem = f"holds no file that can be used (skipped: {counts})" if counts else "holds no files"
        return f"source {self.name}: {self._path} {problem}. Check path, include and exclude."

    def _candidates(self, skipped_counts: Counter[str], settings_paths: list[str]) -> Iterator[tuple[str, FileState]]:
        """Yield path and state of every file that is taken, and collect those that only say what names in them mean."""
        if self._path.is_file():
            name = self._path.name
            state = FileState.from_stat(self._path.stat())
            if reason := self._path_filter.size_reason(name, state.size):
                skipped_counts[reason] += 1
            else:
                yield name, state
            return
        if not self._path.is_dir():
            raise SourceError(f"source {self.name}: {self._path} does not exist. Check path, or create the folder.")
        # One that cannot be listed at all is an error; below it, that is counted.
        os.listdir(self._path)
        budget = DocumentBudget(self._settings)
        for path, state in self._walk(skipped_counts):
            if not self._path_filter.matches(path):
                settings_paths += [path] if get_outline_kind(path, "") else []
                continue
            reason = self._path_filter.skip_reason(path, state.size) or budget.skip_reason(state.size)
            if reason:
                skipped_counts[reason] += 1
            else:
                yield path, state

    def _walk(self, skipped_counts: Counter[str]) -> Iterator[tuple[str, FileState]]:
        """Yield path and state of every file, in the order of their paths; links last."""
        root = self._path.resolve()
        seen_files: set[str] = set()
        symlinks: list[os.DirEntry[str]] = []
        prefix = os.path.join(root, "")
        folders = [os.fspath(root)]
        while folders:
            try:
                entries = sorted(os.scandir(folders.pop()), key=lambda entry: entry.name, reverse=True)
            except OSError:
                skipped_counts["unreadable"] += 1
                continue
            for entry in entries:
                raise_if_stopped()
                path = entry.path.removeprefix(prefix)
                if not _is_valid_unicode(path):
                    skipped_counts["unreadable name"] += 1
                elif entry.is_symlink():
                    symlinks.append(entry)
                elif entry.is_dir():
                    if self._should_enter(entry, path):
                        folders.append(entry.path)
                elif entry.is_file():
                    state = _get_state(entry)
                    if state is None:
                        skipped_counts["unreadable"] += 1
                        continue
                    seen_files.add(entry.path)
                    yield path, state
        yield from self._follow_symlinks(root, seen_files, symlinks, skipped_counts)

    def _should_enter(self, entry: os.DirEntry[str], path: str) -> bool:
        is_virtual_environment = os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
        return not entry.name.startswith(".") and not is_virtual_environment and self._path_filter.should_enter(path)

    def _follow_symlinks(
        self, root: Path, seen_files: set[str], symlinks: list[os.DirEntry[str]], skipped_counts: Counter[str]
    ) -> Iterator[tuple[str, FileState]]:
        for entry in symlinks:
            target, reason = self._resolve_symlink(root, Path(entry.path))
            state = None if reason else _get_state(target)
            if os.fspath(target) in seen_files:
                continue
            if state is None:
                skipped_counts[reason or "unreadable"] += 1
            else:
                seen_files.add(os.fspath(target))
                yield Path(entry.path).relative_to(root).as_posix(), state

    def _resolve_symlink(self, root: Path, link: Path) -> tuple[Path, str]:
        """Return the file that a link leads to, and why it is left out, or an empty string."""
        try:
            target = link.resolve(strict=True)
        except (OSError, RuntimeError):
            return link, "broken link"
        if not target.is_relative_to(root):
            return target, "link leading outside"
        if not target.is_file():
            return target, "" if _get_state(target) is None else "link to a folder"
        return target, "" if self._is_taken(target.relative_to(root)) else "link to what is left out"

    def _is_taken(self, path: PurePath) -> bool:
        """Return whether no rule keeps a file, or a folder above it, out: then a link may lead to it."""
        # Kubernetes keeps the files of a mounted ConfigMap in `..DATE/`, and links to them.
        parts = path.parts[1:] if path.parts[0].startswith("..") else path.parts
        folders = ["/".join(parts[: depth + 1]) for depth in range(len(parts) - 1)]
        is_hidden = any(part.startswith(".") for part in parts[:-1])
        name = "/".join(parts)
        return (
            not is_hidden
            and all(self._path_filter.should_enter(folder) for folder in folders)
            and self._path_filter.matches(name)
            and self._path_filter.skip_reason(name, 0) not in ("generated", "hidden")
        )

    def _read_bytes(self, path: str) -> bytes:
        """Return a file's content as it is now.

        Raises `OSError`, also for a link that may not be followed any more, and for a file that has become too large.
        """
        with self._open(path) as file:
            return _read_limited(file, path, self._path_filter.max_bytes(path))

    def _open(self, path: str) -> BinaryIO:
        """Open a file for reading. Raises `OSError`, also for a link that may not be followed any more."""
        if self._path.is_file():
            return self._path.open("rb")
        root = self._path.resolve()
        target = root / path
        if target.is_symlink():
            target, reason = self._resolve_symlink(root, target)
            if reason:
                raise OSError(errno.ELOOP, reason, path)
        return _open_without_links(root, target.relative_to(root))

    def _read(self, path: str, kind: str) -> bytes | None:
        try:
            data = self._read_bytes(path)
        except OSError:
            return None
        return None if unusable_reason(data, allow_binary=kind in DOCUMENT_KINDS) else data


def _expand(path: str, kind: str, data: bytes, load: Load) -> Expansion:
    """Return a file with those that it includes."""
    may_include = kind in INCLUDING_KINDS or get_outline_kind(path, kind) == "text"
    return expand_includes(path, kind, decode(data), load) if may_include else Expansion("")


def _open_without_links(root: Path, path: PurePath) -> BinaryIO:
    """Open a file below a folder for reading. Raises `OSError` when any step of the path is a link by now."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.parts[:-1]:
            child = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = child
        # A pipe that took the file's place would wait for a writer.
        descriptor = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _read_limited(file: BinaryIO, path: str, max_bytes: int) -> bytes:
    """Return the content of a file. Raises `OSError` for one that has grown since its size was looked at."""
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, "too large", path)
    return content


def _get_state(file: Path | os.DirEntry[str]) -> FileState | None:
    """Return a file's state, or None when it cannot be read: its folder may be listed but not searched."""
    try:
        return FileState.from_stat(file.stat())
    except OSError:
        return None


def _is_valid_unicode(name: str) -> bool:
    """Return whether a file's name is valid Unicode: others cannot be stored or linked."""
    return name.encode("utf-8", "ignore").decode("utf-8") == name
