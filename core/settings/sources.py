"""The sources of knowledge, by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from core.settings.base import Section


class LinkedSource(Section):
    """What file-like sources share."""

    include: tuple[str, ...] = Field((), description="Git-style globs of the paths to take; none means all")
    exclude: tuple[str, ...] = Field((), description="Git-style globs of the paths to leave out")
    link: str = Field("", description="Link template with {path}, {start}, {end} and, for git, {commit}")
    max_file_kb: PositiveInt = Field(1024, description="Larger files are skipped and counted")


class FilesSource(LinkedSource):
    """A folder, or a single file."""

    kind: Literal["files"]
    path: Path = Field(description="The folder or file")


class GitSource(LinkedSource):
    """A git repository: a remote URL (cloned into the data directory) or a local path (its committed state)."""

    kind: Literal["git"]
    url: str = Field(min_length=1, description="Remote URL or local path")
    branch: str = Field("", description="Branch or tag; empty means the default branch")
    timeout_s: PositiveFloat = Field(300, description="Longest time a clone or fetch may take, seconds")


class FaqSource(Section):
    """Questions with answers, from YAML, CSV or JSON Lines."""

    kind: Literal["faq"]
    path: Path = Field(description="A file ending in .yaml, .yml, .csv or .jsonl")
    link: str = Field("", description="Link template with {path}, {start} and {end}")


SourceSettings = Annotated[FilesSource | GitSource | FaqSource, Field(discriminator="kind")]
