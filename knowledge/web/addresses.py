"""Which addresses may be fetched: public ones, and private ones only where the configuration names the host."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from core.errors import SourceError

SCHEMES = ("http", "https")


def check_url(url: str, allowed_hosts: Collection[str]) -> None:
    """Refuse an address that is not http(s), carries credentials, or is a private literal.

    Names are checked again when they are resolved. `allowed_hosts` are host names that may have private addresses.
    Raises `SourceError`.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise SourceError(f"{redact_url(url)} is no web address: {error}") from error
    if parts.scheme.lower() not in SCHEMES or not host:
        raise SourceError(f"{redact_url(url)} is no web address: it must begin with http:// or https://")
    if parts.username or parts.password:
        raise SourceError(f"{redact_url(url)} holds a user name or a password: use headers and an api_key instead")
    if host not in allowed_hosts and _is_ip_literal(host):
        check_address(host, ipaddress.ip_address(host.split("%")[0]))


def check_address(host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Raise `SourceError` for an address that is not on the public Internet."""
    mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if not mapped.is_global or mapped.is_multicast:
        raise SourceError(
            f"{host} is the private address {address}, which is not fetched. If it is meant, name the host under "
            "allow_private of the source"
        )


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


def _is_ip_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    return True
