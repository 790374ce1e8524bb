"""Reading documents: bytes to text, content to fingerprints, and links to a document's lines."""

from __future__ import annotations

import codecs
import hashlib
import re
from urllib.parse import quote, urlsplit

_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?([^/:\[\]]+):(?!//)(.+)")
_LINK_TEMPLATES = (
    ("gitlab", "/-/blob/{commit}/{path}#L{start}-{end}"),
    ("bitbucket", "/src/{commit}/{path}#lines-{start}:{end}"),
    ("github", "/blob/{commit}/{path}#L{start}-L{end}"),
    ("gitee", "/blob/{commit}/{path}#L{start}-L{end}"),
    ("codeberg", "/src/commit/{commit}/{path}#L{start}-L{end}"),
    ("gitea", "/src/commit/{commit}/{path}#L{start}-L{end}"),
    ("forgejo", "/src/commit/{commit}/{path}#L{start}-L{end}"),
)


def fill_template(template: str, path: str, commit: str = "") -> str:
    """Fill `{path}` (percent-encoded) and `{commit}`; `{start}` and `{end}` stay for the chunks.

    >>> fill_template("https://example.org/blob/{commit}/{path}#L{start}", "a b.md", "1f2e")
    'https://example.org/blob/1f2e/a%20b.md#L{start}'
    """
    return template.replace("{commit}", commit).replace("{path}", quote(path, safe="/"))


def derive_template(remote: str) -> str:
    """Return the link template for a repository on a known kind of host, or an empty string."""
    host, path = _split_remote(remote)
    path = path.strip("/").removesuffix(".git")
    template = next((template for word, template in _LINK_TEMPLATES if word in host), "")
    return f"https://{host}/{quote(path, safe='/')}{template}" if template and "/" in path else ""


def _split_remote(remote: str) -> tuple[str, str]:
    """Return the web host (without credentials and SSH ports) and the path of a remote address."""
    if "://" not in remote:
        match = _SCP_ADDRESS.fullmatch(remote)
        return (match[1].lower(), match[2]) if match else ("", "")
    try:
        parts = urlsplit(remote)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port and parts.scheme in ("http", "https") else ""
    except ValueError:
        return "", ""
    return (host + port, parts.path) if parts.scheme in ("http", "https", "ssh", "git") else ("", "")


def redact_credentials(text: str) -> str:
    """Blank user names, passwords and query parameters in every address of a text, for messages and logs."""
    text = re.sub(r"(\w://)[^/\s'\"]*@", r"\1", text)
    return re.sub(r"(\w://[^?\s'\"]*)\?[^\s'\"]*", r"\1", text)


_UTF32_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"))
_UTF16_BOMS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(data: bytes) -> str:
    """Return bytes as text: UTF-8, or UTF-16 and UTF-32 with a byte order mark. What does not fit is replaced."""
    # The mark of UTF-32 starts with that of UTF-16: it has to be looked for first.
    for bom, encoding in _UTF32_BOMS + _UTF16_BOMS:
        if data.startswith(bom):
            return data.decode(encoding, errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def unusable_reason(data: bytes, *, allow_binary: bool = False) -> str:
    """Return why content cannot be used ("binary", "empty"), or an empty string.

    With `allow_binary`, binary content is usable.
    """
    if allow_binary:
        return "" if data.strip() else "empty"
    has_bom = any(data.startswith(bom) for bom, _ in _UTF32_BOMS + _UTF16_BOMS)
    if b"\0" in data and not has_bom:
        return "binary"
    return "" if data.removeprefix(codecs.BOM_UTF8).strip() else "empty"


def fingerprint(data: bytes) -> str:
    """Return a hash of content: 32 hexadecimal digits, the same on every machine."""
    return hashlib.sha256(data).hexdigest()[:32]
