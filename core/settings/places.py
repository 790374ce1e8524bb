"""Where sources lie: the folder, file, website, repository or service that each reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from core.settings.sources import (
    FaqSource,
    FilesSource,
    GitSource,
    LearnedSource,
    OwnSource,
    SourceSettings,
    StandingSource,
    WebsiteSource,
)

_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?([^/:\[\]]+):(?!//)(.+)")
_WEB_PORTS = {"http": 80, "https": 443}
# What tells apart the services and projects that sources of one kind read; all else tells apart what they take of it.
_AREA_FIELDS = ("plugin", "provider", "api_url", "base_url", "repository", "project")


def find_place(source: SourceSettings) -> str:
    """Return the folder, file or website that a source reads, whichever way it is written; "" for all others."""
    if isinstance(source, WebsiteSource):
        return _to_address(source.url)
    path = str(source.path) if isinstance(source, FilesSource | FaqSource) else ""
    if isinstance(source, GitSource):
        url = source.url.removeprefix("file://")
        path = "" if ":" in url.partition("/")[0] else url.rstrip("/").removesuffix("/.git")
    return os.path.realpath(Path(path).expanduser()) if path else ""


def find_area(source: SourceSettings) -> str:
    """Return the place that a source reads as a whole or in part; "" for answers, which are made elsewhere.

    Which branches, labels, channels or pages it takes is no part of it: what one source leaves, another may take.
    """
    if isinstance(source, LearnedSource | StandingSource):
        return ""
    options = source.options if isinstance(source, OwnSource) else {}
    parts = (*(getattr(source, name, "") for name in _AREA_FIELDS), find_address(source), options.get("url"))
    words = (_to_address(str(part)).strip("/").casefold() for part in parts if part)
    return find_place(source) or "/".join((source.kind, *words))


def find_address(source: SourceSettings) -> str:
    """Return the address of a source in one form; a repository has several that lead to it, in any case."""
    url = str(getattr(source, "url", ""))
    if isinstance(source, GitSource):
        url = "/".join(part.strip("/") for part in split_remote(url)).casefold()
    return _to_address(url).rstrip("/").removesuffix(".git")


def _to_address(url: str) -> str:
    """Return an address of the web in one form, without its query; others stay.

    >>> _to_address("HTTPS://Example.org:443/a?b=1"), _to_address("http://example.org/a"), _to_address("a.example/b")
    ('https://example.org/a', 'https://example.org/a', 'a.example/b')
    """
    host, path = split_remote(url) if "://" in url else ("", "")
    # One is the other, in all but name.
    return f"https://{host}{path}" if host else url


def split_remote(remote: str) -> tuple[str, str]:
    """Return the web host (without credentials and SSH ports) and the path of a remote address."""
    if "://" not in remote:
        match = _SCP_ADDRESS.fullmatch(remote)
        return (match[1].lower(), match[2]) if match else ("", "")
    try:
        parts = urlsplit(remote)
        host = parts.hostname or ""
        is_needed = parts.scheme in _WEB_PORTS and parts.port not in (None, _WEB_PORTS[parts.scheme])
        port = f":{parts.port}" if is_needed else ""
    except ValueError:
        return "", ""
    return (host + port, parts.path) if parts.scheme in ("http", "https", "ssh", "git") else ("", "")


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
