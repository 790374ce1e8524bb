"""The language of code by the name of its file, as fences name it."""

from __future__ import annotations

_NAMES = {
    "bash": "bash", "c": "c", "cc": "cpp", "cfg": "ini", "conf": "", "cpp": "cpp", "cs": "csharp", "css": "css",
    "go": "go", "h": "c", "hpp": "cpp", "html": "html", "ini": "ini", "java": "java", "js": "javascript",
    "json": "json", "jsx": "jsx", "kt": "kotlin", "kts": "kotlin", "lua": "lua", "php": "php", "ps1": "powershell",
    "py": "python", "rb": "ruby", "rs": "rust", "scala": "scala", "sh": "bash", "sql": "sql", "swift": "swift",
    "toml": "toml", "ts": "typescript", "tsx": "tsx", "xml": "xml", "yaml": "yaml", "yml": "yaml",
}  # fmt: skip


def get_language(path: str) -> str:
    """Return the language of a file, or an empty string.

    >>> get_language("examples/server.py"), get_language("LICENSE")
    ('python', '')
    """
    return _NAMES.get(path.rpartition("/")[2].rpartition(".")[2].lower(), "")
