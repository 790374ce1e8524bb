"""Where sources lie: the folder, file, website, repository or service that each reads."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product, starmap
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from core.settings.connectors import get_default_address
from core.settings.sources import (
    FaqSource,
    FilesSource,
    GithubSource,
    GitlabSource,
    GitSource,
    LearnedSource,
    McpSource,
    OwnSource,
    SearchApiSource,
    SourceSettings,
    StandingSource,
    WebsiteSource,
)

_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?([^/:\[\]]+):(?!//)(.+)")
_WEB_PORTS = {"http": 80, "https": 443}
# What names the host that a source reads, which may be written in several places.
_HOST_FIELDS = ("base_url", "url")
# What tells apart the services that sources read; all else tells apart what they take of them.
_SERVICE_FIELDS = ("plugin", "provider")
# How the places on hosts begin.
_WEB = "web"
# Before a host, with which a search engine finds the pages of all hosts below it.
_DOMAIN_SIGN = "*."
# How a domain may begin in the settings of a search engine.
_SITE = re.compile(r"^(?:\w+://)?(?:\*?\.)?")
# Around addresses and paths in what a program or plug-in is told, as in `--root=/kb`; and between paths: `/kb:/data`.
_AROUND_WORDS = re.compile(r"[\s=,;\"']+")
_BETWEEN_PATHS = ":"
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


def find_area(source: SourceSettings, sources: Mapping[str, SourceSettings]) -> frozenset[str]:
    """Return the places that a source reads as a whole or in part; none for taught answers, which are made elsewhere.

    A place is a folder or file of this machine, a host, or a repository or project on one, whatever is read there and
    in which way: a crawl comes to all pages of a host, and what one address of a service leaves, another may have. Nor
    are branches, labels, channels or pages a part of it: what one source leaves, another may take. Results of standing
    queries lie where the one of the `sources` reads that they come from. Compare areas with `is_overlapping`.
    """
    if isinstance(source, StandingSource):
        return find_area(sources[source.of], sources) if source.of in sources else frozenset()
    if isinstance(source, LearnedSource):
        return frozenset()
    if isinstance(source, GithubSource | GitlabSource):
        return _find_project(source)
    if isinstance(source, FilesSource | FaqSource | GitSource):
        if place := find_place(source):
            return frozenset({place})
        host, path = split_remote(source.url) if isinstance(source, GitSource) else ("", "")
        return _list_repository(host, path) if host else frozenset({f"{source.kind}/{find_address(source)}"})
    words = _list_words(source)
    hosts = [host for word in words if (host := find_host(word))]
    paths = {path for word in words for path in _list_paths(word)}
    sites = source.sites if isinstance(source, SearchApiSource) else ()
    domains = {f"{_WEB}/{_DOMAIN_SIGN}{host}" for site in sites if (host := find_host(_SITE.sub("https://", site)))}
    service = "/".join(filter(None, (source.kind, *(str(getattr(source, name, "")) for name in _SERVICE_FIELDS))))
    # One that names no host may read any that the others of its service name; so may a program, whatever it names.
    is_program = isinstance(source, McpSource) and bool(source.command)
    services = {service} if is_program else {f"{service}/{host}" for host in hosts} or {service}
    return frozenset({*(f"{_WEB}/{host}" for host in hosts), *services, *domains, *paths})


def _list_words(source: SourceSettings) -> list[str]:
    """Return what may be addresses of the web and paths that a source names, or has if it names none."""
    if isinstance(source, OwnSource):
        texts = _iter_texts({"url": get_default_address(source.plugin), **source.options})
    elif isinstance(source, McpSource):
        texts = _iter_texts((source.url, source.command, source.arguments))
    else:
        return [str(getattr(source, name, "")) for name in _HOST_FIELDS]
    return [word for text in texts for word in {text, *_AROUND_WORDS.split(text)}]


def _iter_texts(value: Any) -> Iterator[str]:
    """Yield the texts in what a program or a plug-in is told, however deep they lie."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.items() if isinstance(value, Mapping) else value:
            yield from _iter_texts(each)


def _list_paths(word: str) -> list[str]:
    """Return the folders and files of this machine that a word may name: a relative one only if it is there."""
    word = word.removeprefix("file://")
    if "://" in word:
        return []
    paths = map(os.path.expanduser, {word, *word.split(_BETWEEN_PATHS)})
    return [os.path.realpath(path) for path in paths if os.path.isabs(path) or os.path.exists(path)]


def _find_project(source: GithubSource | GitlabSource) -> frozenset[str]:
    """Return the places of a forge's project: those where its API, its pages and its repository are."""
    project = source.repository if isinstance(source, GithubSource) else source.project
    number_sign = _NUMBER_SIGN if project.strip("/").isdigit() else ""
    host = find_host(source.api_url)
    # The pages of a server may be below the same path as its API.
    roots = {"", split_remote(source.api_url)[1].partition("/api/")[0]}
    paths = [f"{root}/{number_sign}{project.strip('/')}" for root in roots]
    return frozenset().union(
        *(_list_repository(host.removeprefix(api), path) for api in ("", "api.") for path in paths)
    )


def _list_repository(host: str, path: str) -> frozenset[str]:
    """Return the places of a repository: over SSH its host has another port than on the web."""
    path = path.strip("/").removesuffix(".git").casefold()
    host = _to_one_form(host)
    return frozenset(f"{_WEB}/{each}/{path}" for each in (host, host.partition(":")[0] or host))


def find_host(url: str) -> str:
    """Return the host of an address, with its port unless it is the scheme's own; "" for no address of the web.

    >>> find_host("HTTPS://Example.org.:443/a"), find_host("http://b\u00fccher.example:8000"), find_host("/a")
    ('example.org', 'xn--bcher-kva.example:8000', '')
    """
    return _to_one_form(split_remote(url)[0]) if "://" in url else ""


def _to_one_form(host_and_port: str) -> str:
    host, _, port = host_and_port.partition(":")
    try:
        host = host.rstrip(".").encode("idna").decode("ascii")
    except UnicodeError:
        # One that nothing can be read from.
        host = host.rstrip(".")
    return f"{host}:{port}" if port else host


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


def is_overlapping(area: Collection[str], other_area: Collection[str]) -> bool:
    """Return whether a place of one of two areas is one of the other, lies within it, or may be it.

    >>> is_overlapping(["/kb/team"], ["/kb"]), is_overlapping(["/kb/team"], ["/kb/teams"])
    (True, False)
    >>> is_overlapping(["web/a.example/#42"], ["web/a.example/b/c"]), is_overlapping(["web/a/#42"], ["web/a/#43"])
    (True, False)
    >>> is_overlapping(["web/*.a.example"], ["web/wiki.a.example/b"]), is_overlapping(["web/*.a"], ["web/aa"])
    (True, False)
    """
    return any(starmap(_share_place, product(area, other_area)))


def _share_place(place: str, other_place: str) -> bool:
    path, other_path = PurePath(place), PurePath(other_place)
    if _is_numbered(path) != _is_numbered(other_path):
        path, other_path = (each.parent if _is_numbered(each) else each for each in (path, other_path))
    is_within = path.is_relative_to(other_path) or other_path.is_relative_to(path)
    return is_within or _is_found(place, other_place) or _is_found(other_place, place)


def _is_found(place: str, other_place: str) -> bool:
    """Return whether a place is on a host that a search engine searches, if the other place is one that it does."""
    domain = f"{_WEB}/{_DOMAIN_SIGN}"
    host = place.removeprefix(domain).removeprefix(f"{_WEB}/").partition("/")[0]
    return other_place.startswith(domain) and f".{host}".endswith(f".{other_place.removeprefix(domain)}")


def _is_numbered(place: PurePath) -> bool:
    return not place.is_absolute() and place.name.startswith(_NUMBER_SIGN)
