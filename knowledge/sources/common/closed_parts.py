"""What another source reads, for fewer people, of the place that a source reads: no page of this one may show it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from core.errors import SourceError
from core.settings import FeedSource, GitSource, SourceSettings, WebsiteSource
from core.settings.audience import Audiences
from core.settings.places import find_address, find_area, find_place, find_within, is_overlapping
from core.settings.sources import DocumentSource, FilteredSource, ForgeSource
from knowledge.ports import StoredDocument
from knowledge.sources.common.documents import TAKEN_MARK, PathGlobs

# What of a forge's project a source takes.
_FORGE_FILTERS = {"take", "state", "labels", "exclude_labels"}


@dataclass(frozen=True, slots=True)
class ClosedPart:
    """What one other source reads: the files `below` a path of this source, which lies `inside` a path of the other.

    The globs judge paths of the other source.
    """

    below: str = ""
    inside: str = ""
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()


def find_closed_parts(name: str, sources: Mapping[str, SourceSettings], audiences: Audiences) -> Sequence[ClosedPart]:
    """Return what other sources read of the files of a source, where not all of its readers may see them."""
    source = sources[name]
    parts = (_find_part(source, sources[other]) for other in _list_closed(name, sources, audiences))
    return [part for part in parts if part]


def describe_closed_parts(name: str, sources: Mapping[str, SourceSettings], audiences: Audiences) -> str:
    """Return a hash of what others read of a source's place for fewer people, and what this one takes; "" for nothing.

    What is private of the files in its place is for nobody.

    With another hash, what was read before may be for others: a page that shows a file, an item that has a label.
    """
    source = sources[name]
    others = [sources[other] for other in _list_closed(name, sources, audiences)]
    parts: list[object] = [asdict(part) for each in others if (part := _find_part(source, each))]
    parts += [each.model_dump(mode="json", include=_FORGE_FILTERS) for each in others if _is_project(source, each)]
    if isinstance(source, DocumentSource):
        parts += find_within(find_place(source), audiences.private_files)
    if not parts:
        return ""
    filters = source.model_dump(mode="json", include={"include", "exclude", *_FORGE_FILTERS})
    texts = sorted(json.dumps(part, sort_keys=True) for part in parts)
    return hashlib.sha256(json.dumps([filters, *texts]).encode()).hexdigest()[:12]


def shares_site(name: str, sources: Mapping[str, SourceSettings], audiences: Audiences) -> bool:
    """Return whether another source reads pages of a website's host for fewer people."""
    source = sources[name]
    others = (sources[other] for other in _list_closed(name, sources, audiences))
    return isinstance(source, WebsiteSource) and any(
        isinstance(other, WebsiteSource | FeedSource) and _share_area(source, other) for other in others
    )


def find_taking(manifest: Mapping[str, StoredDocument]) -> frozenset[str]:
    """Return the documents that take something from other files, which may be others' alone by now."""
    return frozenset(path for path, document in manifest.items() if TAKEN_MARK in document.fingerprint)


def make_closed_check(name: str, parts: Sequence[ClosedPart]) -> Callable[[str], bool]:
    """Return whether a path of a source is one of its closed parts'. Globs that cannot be used close all."""
    judges: list[tuple[ClosedPart, PathGlobs | None]] = []
    for part in parts:
        try:
            judges.append((part, PathGlobs(name, part.include, part.exclude)))
        except SourceError:
            judges.append((part, None))

    def is_closed(path: str) -> bool:
        return any(_has(part, globs, path) for part, globs in judges)

    return is_closed


def _list_closed(name: str, sources: Mapping[str, SourceSettings], audiences: Audiences) -> Sequence[str]:
    known = audiences.by_source.keys()
    return [other for other in sources if other != name and other in known and not audiences.readers_see(name, other)]


def _find_part(source: SourceSettings, other: SourceSettings) -> ClosedPart | None:
    if not isinstance(source, DocumentSource):
        # Its documents show no other files.
        return None
    include, exclude = (other.include, other.exclude) if isinstance(other, FilteredSource) else ((), ())
    place, other_place = (Path(find_place(each)) for each in (source, other))
    if place.is_absolute() and other_place.is_absolute():
        if other_place.is_relative_to(place):
            return ClosedPart(_to_path(other_place.relative_to(place)), "", include, exclude)
        if place.is_relative_to(other_place):
            return ClosedPart("", _to_path(place.relative_to(other_place)), include, exclude)
        return None
    is_same = isinstance(source, GitSource) and isinstance(other, GitSource) and bool(find_address(source))
    return ClosedPart("", "", include, exclude) if is_same and find_address(source) == find_address(other) else None


def _is_project(source: SourceSettings, other: SourceSettings) -> bool:
    return isinstance(source, ForgeSource) and isinstance(other, ForgeSource) and _share_area(source, other)


def _share_area(source: SourceSettings, other: SourceSettings) -> bool:
    return is_overlapping(find_area(source, {}), find_area(other, {}))


def _to_path(path: Path) -> str:
    text = path.as_posix()
    return "" if text == "." else text


def _has(part: ClosedPart, globs: PathGlobs | None, path: str) -> bool:
    if part.below and path == part.below:
        # A single file.
        return True
    if part.below and not path.startswith(f"{part.below}/"):
        return False
    path = path.removeprefix(f"{part.below}/") if part.below else path
    path = f"{part.inside}/{path}" if part.inside else path
    return globs is None or globs.matches(path)
