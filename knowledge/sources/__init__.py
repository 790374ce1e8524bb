"""Bodies of knowledge: one module per kind, each behind the `Source` protocol."""

from __future__ import annotations

from pathlib import Path

from core.settings import FaqSource, FilesSource, SourceSettings
from knowledge.ports import Source
from knowledge.sources.faq import FaqFile
from knowledge.sources.files import FilesFolder
from knowledge.sources.git import GitRepository

__all__ = ["open_source"]


def open_source(name: str, settings: SourceSettings, data_dir: Path) -> Source:
    """Return the source that the settings describe. Nothing is read yet; clones go to `data_dir/git/<name>`.

    Raises `SourceError` for globs or a branch name that cannot be used.
    """
    if isinstance(settings, FilesSource):
        return FilesFolder(name, settings)
    if isinstance(settings, FaqSource):
        return FaqFile(name, settings)
    return GitRepository(name, settings, data_dir.expanduser() / "git" / name)
