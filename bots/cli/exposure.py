"""Finds what more people may see than it is meant for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

from core.errors import SourceError
from core.settings import Settings
from core.settings.audience import Audiences
from core.settings.places import find_place
from core.settings.sources import FilteredSource, GithubSource, GitlabSource, OwnSource, SourceSettings
from knowledge.sources.common.documents import PathGlobs

EXPOSED = "{outer} reads {place} too, and more people may see that source: exclude it there, or move it"

OPEN_SOURCE = (
    "everybody may see what its token reads: name an audience, or use a token that reads nothing that is not public"
)


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


def _find_place(name: str, outer: SourceSettings, inner: SourceSettings) -> str:
    """Return where an inner source lies if the outer one reads it, or an empty string."""
    outer_path, inner_path = (Path(find_place(source)) for source in (outer, inner))
    if outer_path.is_absolute() and inner_path.is_absolute():
        if not inner_path.is_relative_to(outer_path):
            return ""
        return "" if _is_excluded(name, outer, inner_path.relative_to(outer_path)) else str(inner_path)
    if isinstance(inner, GithubSource | GitlabSource):
        return _get_project(inner) if isinstance(outer, type(inner)) and _takes_items_of(outer, inner) else ""
    outer_url, inner_url = (
        str(getattr(source, "url", "")).rstrip("/").removesuffix(".git") for source in (outer, inner)
    )
    is_within = bool(outer_url) and f"{inner_url}/".startswith(f"{outer_url}/") and outer.kind == inner.kind
    return inner_url if is_within else ""


def _takes_items_of(outer: GithubSource | GitlabSource, inner: GithubSource | GitlabSource) -> bool:
    """Return whether a forge source has what another takes of the same project, without leaving out its labels."""
    projects = {(source.api_url, _get_project(source).casefold()) for source in (outer, inner)}
    is_left_out = bool(inner.labels) and set(inner.labels) <= set(outer.exclude_labels)
    return len(projects) == 1 and not is_left_out and not set(outer.take).isdisjoint(inner.take)


def _get_project(source: GithubSource | GitlabSource) -> str:
    return source.repository if isinstance(source, GithubSource) else source.project


def _is_excluded(name: str, outer: SourceSettings, path: Path) -> bool:
    if not isinstance(outer, FilteredSource) or path == Path():
        return False
    try:
        globs = PathGlobs(name, (), outer.exclude)
    except SourceError:
        # The check of that source says what is wrong with its globs.
        return False
    # Whatever is in the folder is kept out where any name in it is.
    return globs.excludes(f"{path.as_posix()}/") or globs.excludes(f"{path.as_posix()}/x.md")
