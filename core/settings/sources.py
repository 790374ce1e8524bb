"""The sources of knowledge, by kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Name, Secret, Section


class LiveSource(Section):
    """What sources that are asked at question time share."""

    limit: int = Field(8, ge=1, le=50, description="Results taken at most")
    timeout_s: PositiveFloat = Field(4, description="Longest time for one call, seconds")
    cache_s: float = Field(300, ge=0, description="How long the results of a query are used again, seconds; 0: never")
    allow_private: tuple[str, ...] = Field((), description="Host names that may have private addresses")
    api_key: Secret | None = Field(None, description="Put in where a template says {api_key}")
    ask: Literal["always", "when_needed"] = Field(
        "always", description="when_needed: not where stored passages of the same agent already answer the question"
    )
    enough: float = Field(
        0.6, ge=0, le=1, description="For when_needed: how similar to the question a stored passage must be for that"
    )
    requests_per_day: PositiveInt | None = Field(
        None, description="Requests sent from midnight to midnight at most; null sets no limit"
    )


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
    def _check_provider(self) -> SearchApiSource:
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


class RefreshSettings(Section):
    """When `kimas run` refreshes a source: every so many minutes, or at the times of a cron expression."""

    minutes: float | None = Field(
        None, ge=0, description="Time between two refreshes; null: knowledge.refresh_minutes; 0: at each start only"
    )
    cron: str = Field("", description="Instead: minute, hour, day, month and weekday, such as 30 6 * * mon-fri")
    timezone: str = Field("", description="Of cron: a name such as Europe/Berlin; empty means the machine's own")
    jitter: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Latest delay, as a share of the time to the next refresh; null: 0.1, with cron none",
    )

    @model_validator(mode="after")
    def _check_schedule(self) -> RefreshSettings:
        if self.cron and self.minutes is not None:
            raise ValueError("give minutes or cron, not both")
        if self.timezone and not self.cron:
            raise ValueError("timezone belongs to cron, which is missing")
        if self.cron:
            from core.settings.cron import parse_cron

            parse_cron(self.cron, self.timezone)
        return self


class StoredSource(Section):
    """What sources that are read into the store share."""

    refresh: RefreshSettings = RefreshSettings()


class LinkedSource(StoredSource):
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
    branches: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="Several branches or tags in place of branch, the most important first"
    )
    timeout_s: PositiveFloat = Field(300, description="Longest time a clone or fetch may take, seconds")
    token: Secret | None = Field(None, description="An access token that may read, for an https address")
    username: str = Field("git", pattern=r"^[^\s:]+$", description="Name that goes with the token, where it matters")
    ssh_key: Path | None = Field(None, description="A private key without passphrase, for an SSH address")
    known_hosts: Path | None = Field(None, description="Keys of servers; none: those that ssh knows")
    host_keys: Literal["strict", "accept_new"] = Field(
        "strict", description="Whether an SSH server that is not known yet is refused, or learned"
    )

    @model_validator(mode="after")
    def _check_url(self) -> GitSource:
        if self.branch and self.branches:
            raise ValueError("give branch or branches, not both")
        if len(set(self.branches)) < len(self.branches):
            raise ValueError("branches names one twice")
        scheme = self.url.partition("://")[0] if "://" in self.url else ""
        if self.token and not (scheme == "https" or re.match(r"http://(127\.0\.0\.1|localhost)[:/]", self.url)):
            raise ValueError("token needs an https address, so that nobody reads it on its way")
        if self.token and "@" in self.url.partition("://")[2].partition("/")[0]:
            raise ValueError("give token, or a name in url, not both")
        if scheme in ("http", "https", "file") and (self.ssh_key or self.known_hosts):
            raise ValueError("ssh_key and known_hosts need an SSH address (git@HOST:PATH or ssh://)")
        return self


class FaqSource(StoredSource):
    """Questions with answers, from YAML, CSV or JSON Lines."""

    kind: Literal["faq"]
    path: Path = Field(description="A file ending in .yaml, .yml, .csv or .jsonl")
    link: str = Field("", description="Link template with {path}, {start} and {end}")


class LearnedSource(StoredSource):
    """Answers that trusted people gave and somebody approved (docs/feedback.md)."""

    kind: Literal["learned"]


class WebSource(StoredSource):
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
    def _check_token(self) -> GithubSource:
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


class StandingSource(StoredSource):
    """Standing queries: asked of a live source at each refresh, their results stored for a while."""

    kind: Literal["standing"]
    of: Name = Field(description="Name of the live source that is asked")
    queries: tuple[Annotated[str, Field(min_length=1, max_length=400)], ...] = Field(
        (), max_length=1000, description="What it is asked"
    )
    queries_file: Path | None = Field(None, description="More queries: a text file with one in each line")
    keep_hours: PositiveFloat = Field(
        48, description="A result that was not found again for so long is no longer shown"
    )
    limit: int = Field(8, ge=1, le=50, description="Results kept of each query at most")
    timeout_s: PositiveFloat = Field(20, description="Longest time for one query, seconds")

    @model_validator(mode="after")
    def _check_queries(self) -> StandingSource:
        if not self.queries and not self.queries_file:
            raise ValueError("give queries or queries_file")
        return self


class OwnSource(StoredSource):
    """A source of your own, which an installed package offers."""

    kind: Literal["own"]
    plugin: str = Field(min_length=1, description="Name of its entry point in the group kimas.sources")
    options: dict[str, Any] = Field(default_factory=dict, description="What it is told, as it wants it")
    timeout_s: PositiveFloat = Field(300, description="Longest time for its list and for each document, seconds")


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
    | RemoteRagSource
    | StandingSource
    | OwnSource
    | LearnedSource,
    Field(discriminator="kind"),
]
