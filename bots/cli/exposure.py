"""Finds what more people may see than it is meant for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from urllib.parse import urlsplit

from core.errors import SourceError
from core.settings import Settings
from core.settings.audience import Audiences
from core.settings.places import find_address, find_area, find_place, is_overlapping
from core.settings.sources import (
    FeedSource,
    FilesSource,
    FilteredSource,
    GithubSource,
    GitlabSource,
    OwnSource,
    SourceSettings,
    WebsiteSource,
)
from knowledge.sources.common.documents import PathFilter, PathGlobs

EXPOSED = "{outer} reads {place} too, and more people may see that source: exclude it there, or move it"

OPEN_SOURCE = (
    "everybody may see what its token reads: name an audience, or use a token that reads nothing that is not public"
)
LIES_BETWEEN = "{path} lies in the folder of sources.{source}, which shows nothing of it: exclude it there, or move it"


def find_exposed(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the closed sources that lie within a source for more people: their path in the settings, and why."""
    audiences = Audiences.from_settings(settings)
    for outer, inner in permutations(settings.sources, 2):
        place = _find_place(outer, settings.sources[outer], settings.sources[inner])
        if place and not audiences.readers_see(outer, inner):
            yield f"sources.{inner}.audience", EXPOSED.format(outer=f"sources.{outer}", place=place)


def find_open_tokens(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the plug-in sources that everybody may see and a token reads: their path in the settings, and why."""
    audiences = Audiences.from_settings(settings).by_source
    for name, source in settings.sources.items():
        if isinstance(source, OwnSource) and (source.token or source.options.get("token")) and not audiences[name]:
            yield f"sources.{name}.audience", OPEN_SOURCE


def find_secrets_between(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the secrets whose files lie among those of a source: their path in the settings, and where."""
    files = {path: Path(secret.file).resolve() for path, secret in settings.secrets().items() if secret.file}
    folders = {name: source for name, source in settings.sources.items() if isinstance(source, FilesSource)}
    for (name, source), (path, file) in product(folders.items(), files.items()):
        folder = Path(find_place(source))
        if folder in file.parents and _may_show(name, source, file.relative_to(folder).as_posix()):
            yield path, LIES_BETWEEN.format(source=name, path=file)


def _find_place(name: str, outer: SourceSettings, inner: SourceSettings) -> str:
    """Return where an inner source lies if the outer one reads it, or an empty string."""
    outer_path, inner_path = (Path(find_place(source)) for source in (outer, inner))
    if outer_path.is_absolute() and inner_path.is_absolute():
        if not inner_path.is_relative_to(outer_path):
            return ""
        path = inner_path.relative_to(outer_path).as_posix()
        return "" if _leaves_out(name, outer, inner, "" if path == "." else f"{path}/") else str(inner_path)
    if isinstance(inner, GithubSource | GitlabSource):
        return _get_project(inner) if isinstance(outer, type(inner)) and _takes_items_of(outer, inner) else ""
    if isinstance(inner, OwnSource):
        return inner.plugin if isinstance(outer, OwnSource) and _takes_parts_of(outer, inner) else ""
    if isinstance(outer, WebsiteSource) and isinstance(inner, WebsiteSource | FeedSource):
        # By its links and its sitemap it comes to all pages of the host, wherever it begins.
        path = "" if isinstance(inner, FilteredSource) and inner.include else urlsplit(inner.url).path.strip("/")
        is_read = _share_area(outer, inner)
        return inner.url if is_read and not _leaves_out(name, outer, inner, f"{path}/" if path else "") else ""
    outer_url, inner_url = map(find_address, (outer, inner))
    is_within = bool(outer_url) and f"{inner_url}/".startswith(f"{outer_url}/") and outer.kind == inner.kind
    return inner_url if is_within and not _leaves_out(name, outer, inner, "") else ""


def _share_area(outer: SourceSettings, inner: SourceSettings) -> bool:
    return is_overlapping(find_area(outer, {}), find_area(inner, {}))


def _takes_items_of(outer: GithubSource | GitlabSource, inner: GithubSource | GitlabSource) -> bool:
    """Return whether a forge source has what another takes of the same project, without leaving out its labels."""
    is_left_out = bool(inner.labels) and set(inner.labels) <= set(outer.exclude_labels)
    return _share_area(outer, inner) and not is_left_out and not set(outer.take).isdisjoint(inner.take)


def _takes_parts_of(outer: OwnSource, inner: OwnSource) -> bool:
    """Return whether a plug-in takes for one source what it takes for another.

    That is one of the parts that the options list; without any, what the token may read.
    """
    if outer.plugin != inner.plugin or not _share_area(outer, inner):
        return False
    parts, inner_parts = (
        {str(part) for name, value in source.options.items() if _is_list_of_parts(name, value) for part in value}
        for source in (outer, inner)
    )
    if parts or inner_parts:
        return not (parts and inner_parts) or not parts.isdisjoint(inner_parts)
    return (outer.token, outer.options.get("token")) == (inner.token, inner.options.get("token"))


def _is_list_of_parts(name: str, value: object) -> bool:
    return isinstance(value, list | tuple) and name != "allow_private"


def _get_project(source: GithubSource | GitlabSource) -> str:
    return source.repository if isinstance(source, GithubSource) else source.project


def _leaves_out(name: str, outer: SourceSettings, inner: SourceSettings, path: str) -> bool:
    """Return whether the globs of a source keep out what another reads below a path within it."""
    if not isinstance(outer, FilteredSource):
        return False
    try:
        globs = PathGlobs(name, (), outer.exclude)
    except SourceError:
        # The check of that source says what is wrong with its globs.
        return False
    areas = _list_areas(inner, path)
    if areas == [""]:
        return isinstance(inner, FilteredSource) and bool(inner.include) and set(inner.include) <= set(outer.exclude)
    outer_areas = _list_areas(outer, "")
    return all(
        # Whatever is in the folder is kept out where any name in it is.
        globs.excludes(area)
        or globs.excludes(f"{area}x.md")
        or not any(area.startswith(outer_area) or outer_area.startswith(area) for outer_area in outer_areas)
        for area in areas
    )


def _list_areas(source: SourceSettings, path: str) -> list[str]:
    """Return where the documents of a source lie that is at a path: what its `include` globs begin with, if all say."""
    globs = source.include if isinstance(source, FilteredSource) else ()
    if not globs or any(glob.startswith("!") or "/" not in glob[:-1] for glob in globs):
        return [path]
    return [path + re.split(r"[*?\[\\]", glob.lstrip("/"), maxsplit=1)[0] for glob in globs]


def _may_show(name: str, source: FilesSource, path: str) -> bool:
    """Return whether a page of a source could show a file, if it were no secret."""
    try:
        return PathFilter(name, source).may_include(path)
    except SourceError:
        return False
