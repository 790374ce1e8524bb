"""Which addresses may be fetched: public ones, and private ones only where the configuration names the host."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from core.errors import SourceError

SCHEMES = ("http", "https")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Python calls these ranges global, but they lead to special hosts, or to other addresses that are not seen here:
# RFC 6890 (protocol assignments), 7526 (6to4 relays), 9602 (segment routing), 6052 and 8215 (NAT64), 3879 (site-local),
# 4291 (IPv4-compatible), 7915 (IPv4-translated). The last one is where virtual machines on Azure find their host.
_SPECIAL_RANGES = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",
        "192.88.99.0/24",
        "5f00::/16",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "fec0::/10",
        "::/96",
        "::ffff:0:0:0/96",
        "168.63.129.16/32",
    )
)


def check_url(url: str, allowed_hosts: Collection[str]) -> None:
    """Refuse an address that is not http(s), carries credentials, or is a private literal.

    Names are checked again when they are resolved. `allowed_hosts` are host names that may have private addresses.
    Raises `SourceError`.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise SourceError(f"{redact_url(url)} is no web address: {error}") from error
    if parts.scheme.lower() not in SCHEMES or not host:
        raise SourceError(f"{redact_url(url)} is no web address: it must begin with http:// or https://")
    if parts.username or parts.password:
        raise SourceError(f"{redact_url(url)} holds a user name or a password: use headers and an api_key instead")
    literal = parse_literal(_to_ascii_host(host, url))
    if literal is not None and not {host, str(literal)}.intersection(allowed_hosts):
        check_address(host, literal)


def check_address(host: str, address: Address) -> None:
    """Raise `SourceError` for an address that is not on the public Internet. `host` is how the error names it."""
    mapped_address = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    is_special = any(address in network for network in _SPECIAL_RANGES)
    if not mapped_address.is_global or mapped_address.is_multicast or is_special:
        name = f"{host} is a private address" if host == str(address) else f"{host} is the private address {address}"
        raise SourceError(
            f"{name}, which is not fetched. If it is meant, name the host under allow_private of the source"
        )


def is_web_address(text: str) -> bool:
    """Return whether a text begins like an http(s) address."""
    return text.split("://", maxsplit=1)[0].lower() in SCHEMES


def normalize_url(url: str, ignored_parameters: Collection[str] = ()) -> str:
    """Return the one form of an address: host in lower case and ASCII, no default port, no fragment, escapes alike.

    `ignored_parameters` are patterns of names that are left out of the query, and of the parameters of the path
    (`;jsessionid=1`). Raises `ValueError` for what is no address.

    >>> normalize_url("HTTP://Example.ORG:80/%7ea?sid=1&b=2#top", ["sid"])
    'http://example.org/~a?b=2'
    """
    from yarl import URL

    address = URL(url.strip())
    _ = address.port
    if address.absolute and address.raw_path == "/":
        # The path may be left out.
        address = address.with_path("/", keep_query=True)
    normalized = str(address.with_fragment(None))
    if not ignored_parameters:
        return normalized
    base, _, query = normalized.partition("?")
    segments = (_without_parameters(segment, ";", ignored_parameters, 1) for segment in base.split("/"))
    query = _without_parameters(query, "&", ignored_parameters, 0)
    return "/".join(segments) + (f"?{query}" if query else "")


def get_site(url: str) -> tuple[str, int | None]:
    """Return the host of an address, and its port unless it is the scheme's own; an empty host for no web address."""
    from yarl import URL

    try:
        address = URL(url)
        return (address.raw_host or "").rstrip("."), None if address.is_default_port() else address.explicit_port
    except ValueError:
        return "", None


def _without_parameters(text: str, separator: str, patterns: Collection[str], first: int) -> str:
    """Return parameters but for those whose names match; the parts before `first` are none."""
    parts = text.split(separator)
    kept_parts = (
        part
        for position, part in enumerate(parts)
        if position < first or not any(fnmatchcase(part.partition("=")[0].lower(), pattern) for pattern in patterns)
    )
    return separator.join(kept_parts)


def redact_url(url: str) -> str:
    """Return an address without credentials, query and fragment, so that messages may show it.

    >>> redact_url("https://user:secret@example.org/path?key=1#top")
    'https://example.org/path'
    """
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "the address"


def parse_literal(host: str) -> Address | None:
    """Return the address that a host spells out, without its zone; None for a name."""
    try:
        return ipaddress.ip_address(host.split("%", maxsplit=1)[0])
    except ValueError:
        return None


def _to_ascii_host(host: str, url: str) -> str:
    """Return a host as the HTTP client reads it: wide digits and other full stops become plain ones."""
    if host.isascii():
        return host
    from yarl import URL

    try:
        return URL(url).host or host
    except ValueError as error:
        raise SourceError(f"{redact_url(url)} is no web address: {error}") from error
