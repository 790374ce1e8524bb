"""What a file is written in: the language of code by its name, as fences name it, and the markup of a plain text."""

from __future__ import annotations

import re

_DIRECTIVES = {
    "markdown": re.compile(r"^(?:`{3,10}|:{3,10})\{[a-z][a-z:-]{0,60}\}", re.MULTILINE),
    "rst": re.compile(r"^[ \t]{0,20}\.\. [a-z][a-z-]{0,40}::(?:[ \t]|$)", re.MULTILINE),
}

_NAMES = {
    "bash": "bash", "c": "c", "cc": "cpp", "cfg": "ini", "conf": "", "cpp": "cpp", "cs": "csharp", "css": "css",
    "go": "go", "h": "c", "hpp": "cpp", "html": "html", "ini": "ini", "java": "java", "js": "javascript",
    "json": "json", "jsx": "jsx", "kt": "kotlin", "kts": "kotlin", "lua": "lua", "php": "php", "ps1": "powershell",
    "py": "python", "rb": "ruby", "rs": "rust", "scala": "scala", "sh": "bash", "sql": "sql", "swift": "swift",
    "toml": "toml", "ts": "typescript", "tsx": "tsx", "xml": "xml", "yaml": "yaml", "yml": "yaml",
}  # fmt: skip
_OTHER_NAMES = "asciidoc console diff dockerfile groovy js markdown nginx perl plaintext r shell ts yml"
_LANGUAGES = frozenset((*_NAMES.values(), *_OTHER_NAMES.split())) - {""}


def is_language(name: str) -> bool:
    """Return whether a word is the name of a language of code, as fences have it."""
    return name in _LANGUAGES


def get_language(path: str) -> str:
    """Return the language of a file, or an empty string.

    >>> get_language("examples/server.py"), get_language("LICENSE")
    ('python', '')
    """
    return _NAMES.get(path.rpartition("/")[2].rpartition(".")[2].lower(), "")


def find_markup(text: str) -> str:
    """Return what a plain text is read as: one with directives of Sphinx as `markdown` or `rst`, others as `text`."""
    return next((kind for kind, sign in _DIRECTIVES.items() if sign.search(text)), "text")
