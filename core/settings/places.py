"""Where sources lie: the folder, file or website that each reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePath

from core.settings.sources import FaqSource, FilesSource, GitSource, SourceSettings, WebsiteSource


def find_place(source: SourceSettings) -> str:
    """Return the folder, file or website that a source reads, whichever way it is written; "" for all others."""
    if isinstance(source, WebsiteSource):
        return source.url.partition("?")[0]
    path = str(source.path) if isinstance(source, FilesSource | FaqSource) else ""
    if isinstance(source, GitSource):
        url = source.url.removeprefix("file://")
        path = "" if ":" in url.partition("/")[0] else url
    return os.path.realpath(Path(path).expanduser()) if path else ""


def find_within(folder: str, files: Iterable[Path]) -> list[str]:
    """Return where some files lie below a folder: by their names, and where links of those names lead."""
    places = [os.path.join(os.path.realpath(file.parent), file.name) for file in map(Path.absolute, files)]
    paths = map(PurePath, (*places, *map(os.path.realpath, places)))
    return sorted({path.relative_to(folder).as_posix() for path in paths if path.is_relative_to(folder)})


def is_overlapping(folder: str, other_folder: str) -> bool:
    """Return whether one of two folders is the other one, or lies within it.

    >>> is_overlapping("/kb/team", "/kb"), is_overlapping("/kb/team", "/kb/teams")
    (True, False)
    """
    return PurePath(folder).is_relative_to(other_folder) or PurePath(other_folder).is_relative_to(folder)
