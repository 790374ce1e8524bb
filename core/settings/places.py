"""Where sources lie: the folder, file, website, repository or service that each reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from core.settings.sources import (
    FaqSource,
    FilesSource,
    GithubSource,
    GitlabSource,
    GitSource,
    LearnedSource,
    OwnSource,
    SourceSettings,
    StandingSource,
    WebsiteSource,
)

_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?([^/:\[\]]+):(?!//)(.+)")
_WEB_PORTS = {"http": 80, "https": 443}
# What names the host that a source reads, which may be written in several places.
_HOST_FIELDS = ("base_url", "url")
# What tells apart the services of those that name no host; all else tells apart what sources take of them.
_SERVICE_FIELDS = ("plugin", "provider")
# Before the number of a project: which of those with a path it is, only their server knows.
_NUMBER_SIGN = "#"


def find_place(source: SourceSettings) -> str:
    """Return the folder, file or website that a source reads, whichever way it is written; "" for all others."""
    if isinstance(source, WebsiteSource):
        return _to_address(source.url)
    path = str(source.path) if isinstance(source, FilesSource | FaqSource) else ""
    if isinstance(source, GitSource):
        url = source.url.removeprefix("file://")
        path = "" if ":" in url.partition("/")[0] else url.rstrip("/").removesuffix("/.git")
    return os.path.realpath(Path(path).expanduser()) if path else ""


def find_area(source: SourceSettings, sources: Mapping[str, SourceSettings]) -> str:
    """Return the place that a source reads as a whole or in part; "" for taught answers, which are made elsewhere.

    It is a folder, a repository, a project of a forge, or else a host, whatever is read there and in which way: a crawl
    comes to all pages of it, and what one address of a service leaves, another may have. Nor are branches, labels,
    channels or pages a part of it: what one source leaves, another may take. Results of standing queries lie where the
    one of the `sources` reads that they come from. Compare areas with `is_overlapping`.
    """
    if isinstance(source, StandingSource):
        return find_area(sources[source.of], sources) if source.of in sources else ""
    if isinstance(source, LearnedSource):
        return ""
    if isinstance(source, GithubSource | GitlabSource):
        project = _get_project(source).strip("/").casefold()
        return f"{source.kind}/{find_host(source.api_url)}/{_NUMBER_SIGN if project.isdigit() else ''}{project}"
    if isinstance(source, FilesSource | FaqSource | GitSource):
        return find_place(source) or f"{source.kind}/{find_address(source)}"
    options = source.options if isinstance(source, OwnSource) else {}
    addresses = (*(getattr(source, name, "") for name in _HOST_FIELDS), options.get("url"))
    if host := next(filter(None, (find_host(str(each or "")) for each in addresses)), ""):
        return f"web/{host}"
    return "/".join((source.kind, *(str(getattr(source, name, "")) for name in _SERVICE_FIELDS))).rstrip("/")


def find_host(url: str) -> str:
    """Return the host of an address, with its port unless it is the scheme's own; "" for no address of the web.

    >>> find_host("HTTPS://Example.org.:443/a"), find_host("http://b\u00fccher.example:8000"), find_host("/a")
    ('example.org', 'xn--bcher-kva.example:8000', '')
    """
    host, _, port = (split_remote(url)[0] if "://" in url else "").partition(":")
    try:
        host = host.rstrip(".").encode("idna").decode("ascii")
    except UnicodeError:
        # One that nothing can be read from.
        host = host.rstrip(".")
    return f"{host}:{port}" if port else host


def _get_project(source: GithubSource | GitlabSource) -> str:
    return source.repository if isinstance(source, GithubSource) else source.project


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


def is_overlapping(area: str, other_area: str) -> bool:
    """Return whether one of two areas is the other one, lies within it, or may be it.

    >>> is_overlapping("/kb/team", "/kb"), is_overlapping("/kb/team", "/kb/teams")
    (True, False)
    >>> is_overlapping("gitlab/a.example/#42", "gitlab/a.example/b/c"), is_overlapping("gitlab/a/#42", "gitlab/a/#43")
    (True, False)
    """
    path, other_path = PurePath(area), PurePath(other_area)
    if _is_numbered(path) != _is_numbered(other_path):
        path, other_path = (each.parent if _is_numbered(each) else each for each in (path, other_path))
    return path.is_relative_to(other_path) or other_path.is_relative_to(path)


def _is_numbered(area: PurePath) -> bool:
    return not area.is_absolute() and area.name.startswith(_NUMBER_SIGN)
