"""Builds the wheel: `bots`, `core` and `knowledge` go below the package `kimas`, and so do the imports of them.

These names are too common for a shared environment: another package with a module `core` would overwrite ours. In the
repository they stay top-level folders. Only import statements change, each within its line, so line numbers in
tracebacks are those of the repository. No text in the code may name one of our modules:
`tests/deployment/test_wheel.py` runs what was built without the repository.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMESPACE = "kimas"
PACKAGES = ("bots", "core", "knowledge")
# It answers `kimas ask` where there is no configuration. What only contributors read would make the first answer late.
NO_GUIDE = ("README.md", "architecture.md", "decisions.md", "protocols.md", "quality.md")


class NamespaceHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts our packages into a wheel; an editable installation uses the repository as it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the packages as they are installed, and name them to the builder."""
        if version == "editable":
            return
        root = Path(self.root)
        self._folder = Path(tempfile.mkdtemp(prefix="kimas-wheel-"))
        for file in (path for package in PACKAGES for path in sorted((root / package).rglob("*"))):
            if file.is_file() and "__pycache__" not in file.parts:
                self._add(file, str(file.relative_to(root)))
        for file in (root / NAMESPACE).glob("*.*"):
            self._add(file, file.name)
        pages = (page for page in sorted((root / "docs").glob("*.md")) if page.name not in NO_GUIDE)
        for file in (root / "README.md", *pages):
            self._add(file, f"guide/{file.name}")
        build_data["force_include"] |= {str(self._folder): NAMESPACE, str(root / "config"): f"{NAMESPACE}/config"}

    def _add(self, file: Path, name: str) -> None:
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".py":
            target.write_text(add_namespace(file.read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(file, target)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what `initialize` wrote."""
        if version != "editable":
            shutil.rmtree(self._folder)


def add_namespace(source: str) -> str:
    """Return a module that imports our packages from below the namespace.

    Raises `ValueError` for `import core.text`: it binds the name `core`, which would be another one then.
    """
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(_is_ours(alias.name) for alias in node.names):
            raise ValueError(f"line {node.lineno}: write `from ... import ...` for our own modules")
        if isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
            line = lines[node.lineno - 1]
            start = node.col_offset
            before, keyword, rest = line[:start], *line[start:].partition(b"from ")[1:]
            lines[node.lineno - 1] = before + keyword + f"{NAMESPACE}.".encode() + rest
    return b"".join(lines).decode()


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES
