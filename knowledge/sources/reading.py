"""What file-like sources share: which paths to take, what kind of text they hold, and bytes to text."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import PurePosixPath

from core.settings import LinkedSource

BINARY_PROBE = 8192

KINDS = {
    **dict.fromkeys((".md", ".markdown", ".mdx", ".mkd"), "markdown"),
    **dict.fromkeys((".rst", ".rest"), "rst"),
    **dict.fromkeys((".py", ".pyi"), "python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "javascript"),
    **dict.fromkeys((".ts", ".tsx", ".mts"), "typescript"),
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "cpp"),
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    **dict.fromkeys((".cs", ".kt", ".kts", ".swift", ".scala", ".rb", ".php", ".lua", ".r", ".jl"), "code"),
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ps1", ".sql", ".proto", ".graphql", ".vue", ".svelte"), "code"),
    **dict.fromkeys((".txt", ".text", ".adoc", ".org", ".tex", ".csv", ".tsv"), "text"),
    **dict.fromkeys((".toml", ".yaml", ".yml", ".json", ".ini", ".cfg", ".conf", ".service", ".properties"), "text"),
}
KNOWN_NAMES = {
    "dockerfile",
    "makefile",
    "cmakelists.txt",
    "license",
    "notice",
    "authors",
    "changelog",
    "readme",
    "news",
}
LEFT_OUT_FOLDERS = frozenset(
    {"node_modules", "__pycache__", "site-packages", "venv", "bower_components", "third_party", "vendor", "dist"}
)
LEFT_OUT_SUFFIXES = (".min.js", ".min.css", ".map", ".lock", ".snap", ".svg", "-lock.json", "-lock.yaml", ".lock.json")


def selector(settings: LinkedSource) -> Callable[[str], bool]:
    """Return a function that says whether a path (with slashes) is wanted, by the source's include and exclude."""
    from pathspec import GitIgnoreSpec

    include = GitIgnoreSpec.from_lines(settings.include) if settings.include else None
    exclude = GitIgnoreSpec.from_lines(settings.exclude)

    def wanted(path: str) -> bool:
        return (include is None or include.match_file(path)) and not exclude.match_file(path)

    return wanted


def left_out(path: str, *, named: bool) -> str:
    """Return why a path is left out by default, or an empty string.

    Hidden and bulk folders and generated files are left out; an explicit include (`named`) takes them all the same.
    """
    if named:
        return ""
    parts = PurePosixPath(path).parts
    if any(part.startswith(".") for part in parts) or LEFT_OUT_FOLDERS.intersection(parts[:-1]):
        return "hidden or bulk"
    return "generated" if path.lower().endswith(LEFT_OUT_SUFFIXES) else ""


def kind_of(path: str) -> str:
    """Return how to chunk a path's text, or an empty string for what is no text that we know."""
    pure = PurePosixPath(path)
    if pure.suffix.lower() in KINDS:
        return KINDS[pure.suffix.lower()]
    return "text" if pure.name.lower() in KNOWN_NAMES or pure.stem.lower() in KNOWN_NAMES else ""


def is_binary(data: bytes) -> bool:
    """Say whether bytes are no text: a zero byte near the beginning, unless a byte order mark explains it."""
    return b"\0" in data[:BINARY_PROBE] and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def decode(data: bytes) -> str:
    """Return bytes as text: UTF-8, or UTF-16 with a byte order mark; what is invalid becomes a replacement sign."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def fill_link(template: str, path: str, commit: str = "") -> str:
    """Fill a link template but for {start} and {end}, which each chunk fills."""
    from urllib.parse import quote

    return template.replace("{path}", quote(path)).replace("{commit}", commit)
