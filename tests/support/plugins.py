"""Sources of other packages."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, module: str, code: str, **names: str) -> None:
    """Put a package there as an installer would: its code, and what it offers."""
    (folder / f"{module}.py").write_text(code, "utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
    entry_points = "".join(f"{name} = {module}:{target}\n" for name, target in names.items())
    (info / "entry_points.txt").write_text(f"[kimas.sources]\n{entry_points}", "utf-8")
