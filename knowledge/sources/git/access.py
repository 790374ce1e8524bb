"""How git reaches a repository: credentials, ssh keys, and redirects on the same host (git itself would follow any)."""

from __future__ import annotations

import base64
import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from core.errors import SourceError
from core.settings import GitSource, Secret
from knowledge.web.client import Request, Response, WebClient

# Run by git in a shell, with `get`, `store` or `erase`. `printf` is part of every shell: no process is started for it.
_CREDENTIAL_HELPER = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$KIMAS_GIT_USER" "$KIMAS_GIT_TOKEN"; }; f'
)
_BAD_IN_TOKEN = re.compile(r"[\x00-\x20\x7f]")
_BAD_IN_PATH = re.compile(r"[\x00-\x1f\x7f\"\\]")
_ADVICE = (
    ("host key has changed", "Make sure that it is the same server before you correct known_hosts"),
    ("host key", "Compare the server's fingerprint, then add its key to known_hosts (ssh-keyscan HOST)"),
    ("permission denied", "The server refused the SSH key: check ssh_key, and that its public half may read there"),
    ("load key", "Check ssh_key: it is no private key that ssh can read, or it has a passphrase"),
    ("authentication failed", "The login was refused: check token, and that it may read this repository"),
    ("could not read username", "The server asks for a login: give a token, see docs/sources.md"),
    ("returned error: 403", "Access was refused: check that token may read this repository"),
    ("not found", "Check url; a private repository may need a token (docs/sources.md)"),
)

_REFS_PATH = "/info/refs"
_TIMEOUT_S = 30.0

# Of an older server, which names all its branches whatever it is asked.
_MAX_REFERENCES_KB = 65_536
_UNAUTHORIZED = 401

# So that a server answers with what it can do, and not with all of its branches.
_PROTOCOL_HEADER = {"Git-Protocol": "version=2"}


@dataclass(frozen=True, slots=True)
class GitAccess:
    """Additional environment variables for git, and the secret that no message may contain."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret: str = field(default="", repr=False)


def build_access(name: str, settings: GitSource) -> GitAccess:
    """Return the access that the settings describe. Raises `SourceError` for a secret or key that cannot be used."""
    if settings.token is not None:
        return _build_token_access(name, settings, settings.token)
    if settings.ssh_key or settings.known_hosts or settings.host_keys != "strict":
        return _build_ssh_access(name, settings)
    return GitAccess()


def build_anonymous_access(url: str) -> GitAccess:
    """Return the access of somebody without a login: none of a helper, a header or the `.netrc` of this account."""
    home = Path.home()
    config = [("credential.helper", ""), ("http.extraHeader", ""), (f"http.{url}.extraHeader", "")]
    if "GIT_CONFIG_GLOBAL" not in os.environ:
        # It may name the proxy.
        config.insert(0, ("include.path", str(home / ".gitconfig")))
    variables = _to_config_variables(config)
    variables["XDG_CONFIG_HOME"] = os.environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    return GitAccess({**variables, "HOME": os.devnull})


def get_advice(message: str) -> str:
    """Return what to do about a failure of git, by its words."""
    hints = (text for words, text in _ADVICE if words in message.lower())
    return next(hints, "Check url, the network and the access rights (docs/sources.md)")


def _build_token_access(name: str, settings: GitSource, secret: Secret) -> GitAccess:
    try:
        token = secret.value().strip()
    except (KeyError, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"source {name}: token: {secret.missing_reason()}.") from error
    if not token or _BAD_IN_TOKEN.search(token):
        raise SourceError(f"source {name}: token is empty, or holds blanks or control characters.")
    parts = urlsplit(settings.url)
    helper = f"credential.{parts.scheme}://{parts.netloc}.helper"
    variables = _to_config_variables([("credential.helper", ""), (helper, _CREDENTIAL_HELPER)])
    return GitAccess({**variables, "KIMAS_GIT_USER": settings.username, "KIMAS_GIT_TOKEN": token}, token)


def _to_config_variables(config: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the variables that give git some configuration, the last that counts, and no program that asks."""
    variables = {"GIT_CONFIG_COUNT": str(len(config)), "GIT_ASKPASS": ""}
    for number, (key, value) in enumerate(config):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def _build_ssh_access(name: str, settings: GitSource) -> GitAccess:
    options = ["BatchMode=yes", f"ConnectTimeout={max(1, int(settings.timeout_s))}"]
    options.append(f"StrictHostKeyChecking={'yes' if settings.host_keys == 'strict' else 'accept-new'}")
    command = ["ssh"]
    if settings.ssh_key:
        command += ["-i", _check_key(name, settings.ssh_key.expanduser())]
        options.append("IdentitiesOnly=yes")
    if settings.known_hosts:
        options.append(f'UserKnownHostsFile="{_to_ssh_path(name, settings.known_hosts.expanduser())}"')
    for option in options:
        command += ["-o", option]
    return GitAccess({"GIT_SSH_COMMAND": shlex.join(command), "GIT_SSH_VARIANT": "ssh"})


def _check_key(name: str, key: Path) -> str:
    """Return the key as ssh wants it named. Raises `SourceError` where ssh would only say that it was refused."""
    try:
        key_stat = key.stat()
        with key.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise SourceError(f"source {name}: ssh_key {key} cannot be read: {error.strerror}.") from error
    if key_stat.st_uid == os.getuid() and stat.S_IMODE(key_stat.st_mode) & 0o077:
        mode = f"{stat.S_IMODE(key_stat.st_mode):o}"
        raise SourceError(f"source {name}: ssh_key {key} is open to others (mode {mode}): chmod 600.")
    return _to_ssh_path(name, key)


def _to_ssh_path(name: str, path: Path) -> str:
    """Return a path that ssh takes literally. Raises `SourceError` for one that cannot be written so."""
    if _BAD_IN_PATH.search(str(path)):
        raise SourceError(f"source {name}: the path {str(path)!r} cannot be told to ssh; choose a plainer one.")
    return str(path).replace("%", "%%")


async def resolve_redirect(url: str, access: GitAccess) -> str:
    """Return where a repository has moved to, as git would find out: by asking for its references.

    The host that is configured may have a private address, and may upgrade to https; a redirect to any other host is
    refused, and nothing is asked there. Raises `SourceError`.
    """
    parts = urlsplit(url)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    if access.secret:
        login = f"{access.environment['KIMAS_GIT_USER']}:{access.secret}"
    refs_url = urlunsplit(
        (parts.scheme, _host(url), parts.path.rstrip("/") + _REFS_PATH, "service=git-upload-pack", "")
    )

    def check_redirect(target: str) -> None:
        if not _is_same_server(url, target):
            message = f"it redirects to another host ({_host(target)}), which is not followed"
            raise SourceError(f"{message}. If it is meant, give that address as url")

    request = Request(refs_url, headers=_PROTOCOL_HEADER, timeout_s=_TIMEOUT_S, max_kb=_MAX_REFERENCES_KB)
    async with WebClient({parts.hostname or ""}) as client:
        response = await client.fetch(request, check_redirect)
        if response.status == _UNAUTHORIZED and login:
            auth_header = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
            # Where it led without a login: from there it may lead on with one.
            request = replace(request, url=response.url, headers={**_PROTOCOL_HEADER, **auth_header})
            response = await client.fetch(request, check_redirect)
    return _to_repository_url(url, response)


def _to_repository_url(url: str, response: Response) -> str:
    """Return the address of the repository whose references were found, with the login of the configured one."""
    path = urlsplit(response.url).path
    if not path.endswith(_REFS_PATH):
        raise SourceError("it redirects to what is no repository")
    target = urlsplit(response.url)
    login, separator, _ = urlsplit(url).netloc.rpartition("@")
    return urlunsplit((target.scheme, f"{login}{separator}{target.netloc}", path.removesuffix(_REFS_PATH), "", ""))


def _is_same_server(url: str, target: str) -> bool:
    """Return whether a target is on an address's host: by the same scheme and port, or by https in place of http."""
    try:
        url_parts = urlsplit(url)
        target_parts = urlsplit(target)
        is_upgrade = (
            (url_parts.scheme, target_parts.scheme) == ("http", "https")
            and url_parts.port is None
            and target_parts.port is None
        )
        is_same_origin = (url_parts.scheme, url_parts.port) == (target_parts.scheme, target_parts.port)
        return url_parts.hostname == target_parts.hostname and (is_same_origin or is_upgrade)
    except ValueError:
        return False


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
