"""Where sources lie: the folder, file or website that each reads."""

from __future__ import annotations

import os
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


def is_overlapping(folder: str, other_folder: str) -> bool:
    """Return whether one of two folders is the other one, or lies within it.

    >>> is_overlapping("/kb/team", "/kb"), is_overlapping("/kb/team", "/kb/teams")
    (True, False)
    """
    return PurePath(folder).is_relative_to(other_folder) or PurePath(other_folder).is_relative_to(folder)
