"""From bytes to text, and from content to a fingerprint."""

from __future__ import annotations

import codecs
import hashlib
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


_WIDE_MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"))
_UTF16_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(data: bytes) -> str:
    """Return bytes as text: UTF-8, or UTF-16 and UTF-32 with a byte order mark. What does not fit is replaced."""
    # The mark of UTF-32 starts with that of UTF-16: it has to be looked for first.
    for mark, encoding in _WIDE_MARKS + _UTF16_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def defect(data: bytes, *, packed: bool = False) -> str:
    """Return why content cannot be used ("binary", "empty"), or an empty string. `packed` content may be binary."""
    if packed:
        return "" if data.strip() else "empty"
    marked = any(data.startswith(mark) for mark, _ in _WIDE_MARKS + _UTF16_MARKS)
    if b"\0" in data and not marked:
        return "binary"
    return "" if data.removeprefix(codecs.BOM_UTF8).strip() else "empty"


def fingerprint(data: bytes) -> str:
    """Return a hash of content: 32 hexadecimal digits, the same on every machine."""
    return hashlib.sha256(data).hexdigest()[:32]
