"""Bodies of knowledge: one module per kind, each behind the `Source` protocol."""

from __future__ import annotations

from pathlib import Path

from core.settings import FaqSource, FilesSource, SourceSettings
from knowledge.ports import Source


def open_source(name: str, settings: SourceSettings, data_dir: Path) -> Source:
    """Return the source that a configuration describes. Nothing is read yet."""
    from knowledge.sources.faq import Faq
    from knowledge.sources.files import Files
    from knowledge.sources.git import Git

    if isinstance(settings, FilesSource):
        return Files(name, settings)
    if isinstance(settings, FaqSource):
        return Faq(name, settings)
    return Git(name, settings, data_dir / "git" / name)
