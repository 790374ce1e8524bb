"""Bodies of knowledge: one module per kind, each behind the `Source` protocol."""

from __future__ import annotations

from pathlib import Path

from core.errors import SourceError
from core.settings import (
    FaqSource,
    FeedSource,
    FilesSource,
    GithubSource,
    GitlabSource,
    GitSource,
    SourceSettings,
    WebsiteSource,
)
from knowledge.ports import Source
from knowledge.sources.faq import FaqFile
from knowledge.sources.feed import Feed
from knowledge.sources.files import FilesFolder
from knowledge.sources.forge import ForgeProject
from knowledge.sources.git import GitRepository
from knowledge.sources.website import Website

__all__ = ["open_source"]


def open_source(name: str, settings: SourceSettings, data_dir: Path) -> Source:
    """Return the source that the settings describe. Nothing is read yet; clones go to `data_dir/git/<name>`, pages to
    `data_dir/web/<name>`, issues and releases to `data_dir/forge/<name>`.

    Raises `SourceError` for globs or a branch name that cannot be used, and for a source that is asked live.
    """
    if isinstance(settings, FilesSource):
        return FilesFolder(name, settings)
    if isinstance(settings, FaqSource):
        return FaqFile(name, settings)
    if isinstance(settings, WebsiteSource):
        return Website(name, settings, data_dir.expanduser() / "web" / name)
    if isinstance(settings, FeedSource):
        return Feed(name, settings, data_dir.expanduser() / "web" / name)
    if isinstance(settings, GithubSource | GitlabSource):
        return ForgeProject(name, settings, data_dir.expanduser() / "forge" / name)
    if isinstance(settings, GitSource):
        return GitRepository(name, settings, data_dir.expanduser() / "git" / name)
    raise SourceError(f"source {name} is asked at question time: there is nothing to read in")
