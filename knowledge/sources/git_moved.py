"""Where a repository has moved to on its own host: git itself follows no redirect, for it would follow one anywhere."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit, urlunsplit

from core.errors import SourceError
from knowledge.sources.git_access import Access
from knowledge.web.client import Request, Response, WebClient

_ASKED = "/info/refs"
_TIMEOUT_S = 30.0
# Of an older server, which names all its branches whatever it is asked.
_REFERENCES_KB = 65_536
_UNAUTHORIZED = 401
# So that a server answers with what it can do, and not with all of its branches.
_VERSION = {"Git-Protocol": "version=2"}


async def new_address(url: str, access: Access) -> str:
    """Return where a repository has moved to, as git would find out: by asking for its references.

    The host that is configured may have a private address, and may upgrade to https; a redirect to any other host is
    refused, and nothing is asked there. Raises `SourceError`.
    """
    parts = urlsplit(url)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    if access.secret:
        login = f"{access.variables['KIMAS_GIT_USER']}:{access.secret}"
    asked = urlunsplit((parts.scheme, _host(url), parts.path.rstrip("/") + _ASKED, "service=git-upload-pack", ""))

    def check(target: str) -> None:
        if not _same_server(url, target):
            told = f"it redirects to another host ({_host(target)}), which is not followed"
            raise SourceError(f"{told}. If it is meant, give that address as url")

    async with WebClient({parts.hostname or ""}) as client:
        reply = await client.fetch(Request(asked, headers=_VERSION, timeout_s=_TIMEOUT_S, kb=_REFERENCES_KB), check)
        if reply.status == _UNAUTHORIZED and login:
            basic = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
            # Where it led without a login: from there it may lead on with one.
            request = Request(reply.url, headers={**_VERSION, **basic}, timeout_s=_TIMEOUT_S, kb=_REFERENCES_KB)
            reply = await client.fetch(request, check)
    return _repository(url, reply)


def _repository(url: str, reply: Response) -> str:
    """Return the address of the repository whose references were found, with the login of the configured one."""
    path = urlsplit(reply.url).path
    if not path.endswith(_ASKED):
        raise SourceError("it redirects to what is no repository")
    found = urlsplit(reply.url)
    login, at, _ = urlsplit(url).netloc.rpartition("@")
    return urlunsplit((found.scheme, f"{login}{at}{found.netloc}", path.removesuffix(_ASKED), "", ""))


def _same_server(url: str, target: str) -> bool:
    """Say whether a target is on the host of an address: by the same scheme and port, or by https in place of http."""
    try:
        one, other = urlsplit(url), urlsplit(target)
        upgraded = (one.scheme, other.scheme) == ("http", "https") and one.port is None and other.port is None
        same = (one.scheme, one.port) == (other.scheme, other.port)
        return one.hostname == other.hostname and (same or upgraded)
    except ValueError:
        return False


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
