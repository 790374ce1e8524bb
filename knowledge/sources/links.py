"""Links to the place of a passage: a template of the configuration, or one derived from a repository's address."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

_SCP = re.compile(r"(?:[^@/:]+@)?([^/:\[\]]+):(?!//)(.+)")
_VIEWS = (
    ("gitlab", "/-/blob/{commit}/{path}#L{start}-{end}"),
    ("bitbucket", "/src/{commit}/{path}#lines-{start}:{end}"),
    ("github", "/blob/{commit}/{path}#L{start}-L{end}"),
    ("gitee", "/blob/{commit}/{path}#L{start}-L{end}"),
    ("codeberg", "/src/commit/{commit}/{path}#L{start}-L{end}"),
    ("gitea", "/src/commit/{commit}/{path}#L{start}-L{end}"),
    ("forgejo", "/src/commit/{commit}/{path}#L{start}-L{end}"),
)


def fill(template: str, path: str, commit: str = "") -> str:
    """Fill `{path}` (percent-encoded) and `{commit}`; `{start}` and `{end}` stay for the chunks."""
    return template.replace("{commit}", commit).replace("{path}", quote(path, safe="/"))


def derived_template(remote: str) -> str:
    """Return the link template for a repository on a known kind of host, or an empty string."""
    host, path = _place(remote)
    path = path.strip("/").removesuffix(".git")
    view = next((view for word, view in _VIEWS if word in host), "")
    return f"https://{host}/{quote(path, safe='/')}{view}" if view and "/" in path else ""


def _place(remote: str) -> tuple[str, str]:
    """Return the web host (without credentials and SSH ports) and the path of a remote address."""
    if "://" not in remote:
        match = _SCP.fullmatch(remote)
        return (match[1].lower(), match[2]) if match else ("", "")
    try:
        parts = urlsplit(remote)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port and parts.scheme in ("http", "https") else ""
    except ValueError:
        return "", ""
    return (host + port, parts.path) if parts.scheme in ("http", "https", "ssh", "git") else ("", "")


def without_credentials(text: str) -> str:
    """Blank user names, passwords and query parameters in every address of a text, for messages and logs."""
    text = re.sub(r"(\w://)[^/\s'\"]*@", r"\1", text)
    return re.sub(r"(\w://[^?\s'\"]*)\?[^\s'\"]*", r"\1", text)
