"""The sources of knowledge, by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Secret, Section


class LinkedSource(Section):
    """What file-like sources share."""

    include: tuple[str, ...] = Field((), description="Git-style globs of the paths to take; none means all")
    exclude: tuple[str, ...] = Field((), description="Git-style globs of the paths to leave out")
    link: str = Field("", description="Link template with {path}, {start}, {end} and, for git, {commit}")
    max_file_kb: PositiveInt = Field(1024, description="Larger files are skipped and counted")
    max_document_kb: PositiveInt = Field(20480, description="The same for PDF, office documents, HTML and notebooks")


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


class WebSource(Section):
    """What sources that are fetched over the web share."""

    timeout_s: PositiveFloat = Field(20, description="Longest time for one request, seconds")
    max_page_kb: PositiveInt = Field(2048, description="Larger pages are skipped and counted")
    allow_private: tuple[str, ...] = Field((), description="Host names that may have private addresses")


class WebsiteSource(WebSource):
    """The pages of one web site: those that its sitemap lists, and those that its first page leads to."""

    kind: Literal["website"]
    url: str = Field(pattern=r"^https?://[^/\s]+", description="The first page")
    sitemap: bool = Field(True, description="Use the site's sitemap where it has one")
    include: tuple[str, ...] = Field((), description="Git-style globs of the paths to take; none means all")
    exclude: tuple[str, ...] = Field((), description="Git-style globs of the paths to leave out")
    depth: int = Field(3, ge=0, le=20, description="Links followed from the first page, one after the other, at most")
    max_pages: PositiveInt = Field(500, description="Pages taken at most")
    delay_s: float = Field(0.5, ge=0, description="Pause between two requests, seconds; robots.txt may ask for more")


class FeedSource(WebSource):
    """A feed: RSS or Atom."""

    kind: Literal["feed"]
    url: str = Field(pattern=r"^https?://[^/\s]+", description="The feed's address")
    max_entries: PositiveInt = Field(200, description="Entries kept at most, the newest first")
    keep_days: PositiveInt = Field(365, description="Older entries are forgotten")


class ForgeSource(WebSource):
    """What the items of a repository's host share: issues, discussions, releases, read through its API."""

    token: Secret | None = Field(None, description="An access token that may read; public projects do without")
    state: Literal["open", "closed", "all"] = Field("all", description="Issues and discussions in this state only")
    labels: tuple[str, ...] = Field((), description="Only issues and discussions with one of these labels; none: all")
    exclude_labels: tuple[str, ...] = Field((), description="Issues and discussions with one of these are left out")
    max_items: PositiveInt = Field(1000, description="Items of each kind taken at most, those changed last first")
    max_comments: int = Field(50, ge=0, le=100, description="Comments taken of an item at most, the first ones")
    skip_authors: tuple[str, ...] = Field((), description="Whose comments are left out; those of bots always are")
    full_days: PositiveFloat = Field(7, description="How often all is read anew, days: what was deleted goes then")
    max_page_kb: PositiveInt = Field(16384, description="A larger reply is refused")


class GithubSource(ForgeSource):
    """Issues, discussions and releases of a repository on GitHub or a GitHub Enterprise server."""

    kind: Literal["github"]
    repository: str = Field(pattern=r"^[A-Za-z0-9_-]+/[A-Za-z0-9._-]+$", description="owner/name")
    api_url: str = Field(
        "https://api.github.com", pattern=r"^https?://[^/\s]+", description="Of your own server: https://HOST/api/v3"
    )
    take: tuple[Literal["issues", "discussions", "releases"], ...] = Field(
        ("issues", "releases"), min_length=1, description="What is taken; discussions need a token"
    )

    @model_validator(mode="after")
    def _complete(self) -> GithubSource:
        if "discussions" in self.take and self.token is None:
            raise ValueError("take: discussions need token, for GitHub gives them to nobody without")
        return self


class GitlabSource(ForgeSource):
    """Issues and releases of a project on GitLab."""

    kind: Literal["gitlab"]
    project: str = Field(pattern=r"^[A-Za-z0-9._/-]+$", description="group/name, or the project's number")
    api_url: str = Field(
        "https://gitlab.com/api/v4", pattern=r"^https?://[^/\s]+", description="Of your own server: https://HOST/api/v4"
    )
    take: tuple[Literal["issues", "releases"], ...] = Field(
        ("issues", "releases"), min_length=1, description="What is taken"
    )


class LiveSource(Section):
    """What sources that are asked at question time share."""

    limit: int = Field(8, ge=1, le=50, description="Results taken at most")
    timeout_s: PositiveFloat = Field(4, description="Longest time for one call, seconds")
    cache_s: float = Field(300, ge=0, description="How long the results of a query are used again, seconds; 0: never")
    allow_private: tuple[str, ...] = Field((), description="Host names that may have private addresses")
    api_key: Secret | None = Field(None, description="Put in where a template says {api_key}")


class HttpApiSource(LiveSource):
    """Any HTTP API that answers a query with JSON, asked at question time: request templates and a response mapping.

    Templates may hold {query}, {limit}, {page} and {api_key}. The mapping is written in JMESPath.
    """

    kind: Literal["http_api"]
    url: str = Field(min_length=1, description="Address; placeholders in it are percent-encoded")
    method: Literal["GET", "POST"] = Field("GET", description="How it is asked")
    params: dict[str, str] = Field(default_factory=dict, description="Query parameters; empty ones are left out")
    headers: dict[str, str] = Field(default_factory=dict, description="Headers")
    body: dict[str, Any] = Field(default_factory=dict, description="JSON body for POST; templates at any depth")
    results: str = Field("results", description="JMESPath to the list of results; @ for the whole reply")
    title: str = Field("title", description="JMESPath within a result to its title")
    text: str = Field("text", description="JMESPath within a result to its text; lists are joined")
    link: str = Field("url", description="JMESPath within a result to its address")
    date: str = Field("date", description="JMESPath within a result to its date")
    pages: int = Field(1, ge=1, le=5, description="Pages asked for, all at once, where {page} is used")
    first_page: int = Field(1, ge=0, description="Number of the first page")


class SearchApiSource(LiveSource):
    """A web search service, asked at question time."""

    kind: Literal["search_api"]
    provider: Literal["tavily", "brave", "searxng", "google", "bing"] = Field(description="Whose API it is")
    base_url: str = Field("", description="Another address of the API; needed for searxng and bing")
    engine: str = Field("", description="For google: the search engine's id")
    sites: tuple[str, ...] = Field((), description="Only results from these domains")
    fresh: Literal["day", "week", "month", "year"] | None = Field(None, description="Only results as new as this")
    language: str = Field("", pattern=r"^([a-z]{2}(-[A-Z]{2})?)?$", description="Preferred language, such as en or zh")

    @model_validator(mode="after")
    def _complete(self) -> SearchApiSource:
        if self.provider in ("searxng", "bing") and not self.base_url:
            raise ValueError(f"provider {self.provider} needs base_url")
        if self.provider == "google" and not self.engine:
            raise ValueError("provider google needs engine, the id of a search engine")
        if self.provider != "searxng" and self.api_key is None:
            raise ValueError(f"provider {self.provider} needs api_key")
        return self


class RemoteRagSource(LiveSource):
    """Knowledge bases of a remote retrieval service, asked at question time."""

    kind: Literal["remote_rag"]
    base_url: str = Field(pattern=r"^https?://[^/\s]+", description="Address above /bases/ID/search")
    bases: dict[str, Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="Ids of its knowledge bases, each with what its scores are multiplied with"
    )
    enhanced: bool = Field(True, description="Ask /retrieve, and /search where there is none; false: /search only")
    use_rerank: bool = Field(True, description="Let /retrieve rerank what it found")
    use_compression: bool = Field(False, description="Let /retrieve shorten what it found")
    body: dict[str, Any] = Field(default_factory=dict, description="More for the JSON body beside query and limit")
    api_key: Secret | None = Field(None, description="Sent as a bearer token")


SourceSettings = Annotated[
    FilesSource
    | GitSource
    | FaqSource
    | WebsiteSource
    | FeedSource
    | GithubSource
    | GitlabSource
    | HttpApiSource
    | SearchApiSource
    | RemoteRagSource,
    Field(discriminator="kind"),
]
