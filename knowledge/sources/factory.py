"""Opens the source that the settings describe."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from core.errors import SourceError
from core.settings import (
    FaqSource,
    FeedSource,
    FilesSource,
    GithubSource,
    GitlabSource,
    GitSource,
    JournalSettings,
    LearnedSource,
    OwnSource,
    SourceSettings,
    StandingSource,
    WebsiteSource,
)
from core.settings.audience import Audiences
from core.settings.places import find_place, find_within
from knowledge.parsing.parser import Parser
from knowledge.ports import Source
from knowledge.sources.common.closed_parts import find_closed_parts, shares_site
from knowledge.sources.faq import FaqFile
from knowledge.sources.feed.source import Feed
from knowledge.sources.files import FilesFolder
from knowledge.sources.forge.source import ForgeProject
from knowledge.sources.git.source import GitRepository
from knowledge.sources.plugin import PluginSource
from knowledge.sources.standing import StandingQueries
from knowledge.sources.taught import TaughtAnswers
from knowledge.sources.website.source import Website


def open_source(
    name: str,
    settings: SourceSettings,
    data_dir: Path,
    sources: Mapping[str, SourceSettings] = MappingProxyType({}),
    parser: Parser | None = None,
    *,
    journal: JournalSettings | None = None,
    audiences: Audiences | None = None,
) -> Source:
    """Return the source that the settings describe. Nothing is read yet; clones go to `data_dir/git`, what was
    learned of files to `files`, and to `<name>` in `data_dir/web` pages, in `forge` issues and releases, in `standing`
    results of standing queries. `sources` are all that are configured, for those that ask another one. `parser` reads
    the documents (None: threads, no limits), `journal` says where taught answers are (None: a file there), `audiences`
    which ones a source may have, which files its pages may not show (None: all), and which no source tells of.

    Raises `SourceError` for globs or a branch name that cannot be used, and for what is asked live or asks no such.
    """
    closed_parts = find_closed_parts(name, {**sources, name: settings}, audiences) if audiences else ()
    private_paths = find_within(find_place(settings), audiences.private_files) if audiences else ()
    if "." in private_paths:
        raise SourceError(f"source {name} is KIMAs' own configuration, or a secret of it: no answer may tell of that")
    if isinstance(settings, FilesSource | FaqSource):
        return (
            FaqFile(name, settings, parser)
            if isinstance(settings, FaqSource)
            else FilesFolder(name, settings, data_dir, parser, closed_parts, private_paths=private_paths)
        )
    if isinstance(settings, WebsiteSource | FeedSource):
        page_directory = data_dir.expanduser() / "web" / name
        is_shared = audiences is not None and shares_site(name, {**sources, name: settings}, audiences)
        return (
            Website(name, settings, page_directory, parser, is_shared=is_shared)
            if isinstance(settings, WebsiteSource)
            else Feed(name, settings, page_directory, parser)
        )
    if isinstance(settings, GithubSource | GitlabSource):
        return ForgeProject(name, settings, data_dir.expanduser() / "forge" / name, parser)
    if isinstance(settings, GitSource):
        return GitRepository(
            name, settings, data_dir.expanduser() / "git", parser, closed_parts, private_paths=private_paths
        )
    if isinstance(settings, StandingSource):
        return StandingQueries(name, settings, sources.get(settings.of), data_dir)
    if isinstance(settings, OwnSource | LearnedSource):
        accepts = partial((audiences or Audiences()).accepts_lesson, name)
        return (
            PluginSource(name, settings, data_dir, parser)
            if isinstance(settings, OwnSource)
            else TaughtAnswers(name, data_dir, journal or JournalSettings(), accepts)
        )
    raise SourceError(f"source {name} is asked at question time: there is nothing to read in")
