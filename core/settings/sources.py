"""The sources of knowledge, by kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import EVERYONE, Audience, Name, Secret, Section


class Source(Section):
    """The settings that all sources share."""

    audience: Audience = (EVERYONE,)


class LiveSource(Source):
    """The settings that all live sources share: they are queried for each question."""

    limit: int = Field(8, ge=1, le=50, description="Maximum number of results")
    timeout_s: PositiveFloat = Field(4, description="Time limit for one call, seconds")
    cache_s: float = Field(300, ge=0, description="How long the results of a query are cached, seconds; 0: not at all")
    allow_private: tuple[str, ...] = Field((), description="Host names that may have private addresses")
    api_key: Secret | None = Field(None, description="Replaces {api_key} in the templates")
    ask: Literal["always", "when_needed"] = Field(
        "always", description="when_needed: only if the stored passages of the same agent do not answer the question"
    )
    enough: float = Field(
        0.6, ge=0, le=1, description="For when_needed: minimum similarity of a stored passage that answers the question"
    )
    requests_per_day: PositiveInt | None = Field(None, description="Maximum number of requests per day; null: no limit")


class HttpApiSource(LiveSource):
    """Any HTTP API with JSON replies, queried for each question by request templates and a response mapping.

    Templates may contain {query}, {limit}, {page} and {api_key}. The mapping is written in JMESPath.
    """

    kind: Literal["http_api"]
    url: str = Field(min_length=1, description="Address; placeholders in it are percent-encoded")
    method: Literal["GET", "POST"] = Field("GET", description="Method of the request")
    params: dict[str, str] = Field(default_factory=dict, description="Query parameters; empty ones are omitted")
    headers: dict[str, str] = Field(default_factory=dict, description="Headers")
    body: dict[str, Any] = Field(default_factory=dict, description="JSON body for POST; templates at any depth")
    results: str = Field("results", description="JMESPath of the list of results; @ for the whole reply")
    title: str = Field("title", description="JMESPath of the title within a result")
    text: str = Field("text", description="JMESPath of the text within a result; lists are joined")
    link: str = Field("url", description="JMESPath of the URL within a result")
    date: str = Field("date", description="JMESPath of the date within a result")
    pages: int = Field(1, ge=1, le=5, description="Number of pages to request at once, where {page} is used")
    first_page: int = Field(1, ge=0, description="Number of the first page")


class SearchApiSource(LiveSource):
    """A web search service, queried for each question."""

    kind: Literal["search_api"]
    provider: Literal["tavily", "brave", "searxng", "google", "bing"] = Field(description="The provider of the API")
    base_url: str = Field("", description="Address of the API; required for searxng and bing")
    engine: str = Field("", description="For google: id of the search engine")
    sites: tuple[str, ...] = Field((), description="Only results from these domains")
    fresh: Literal["day", "week", "month", "year"] | None = Field(None, description="Maximum age of the results")
    language: str = Field("", pattern=r"^([a-z]{2}(-[A-Z]{2})?)?$", description="Preferred language, such as en or zh")
    api_key: Secret | None = Field(None, description="Key of the search service; all providers except searxng need one")

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
    """Knowledge bases of a remote retrieval service, queried for each question."""

    kind: Literal["remote_rag"]
    base_url: str = Field(pattern=r"^https?://[^/\s]+", description="Address of the service, without /bases/ID/search")
    bases: dict[str, Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="Ids of its knowledge bases, each with a factor for its scores"
    )
    enhanced: bool = Field(True, description="Use /retrieve, or /search if it does not exist; false: only /search")
    use_rerank: bool = Field(True, description="Let /retrieve rerank its results")
    use_compression: bool = Field(False, description="Let /retrieve shorten its results")
    body: dict[str, Any] = Field(default_factory=dict, description="Further fields of the JSON body")
    api_key: Secret | None = Field(None, description="Sent as a bearer token")


class RefreshSettings(Section):
    """When `kimas run` refreshes a source: at an interval or at the times of a cron expression."""

    minutes: float | None = Field(
        None, ge=0, description="Minutes between two refreshes; null: knowledge.refresh_minutes; 0: only at the start"
    )
    cron: str = Field("", description="Instead: minute, hour, day, month and weekday, such as 30 6 * * mon-fri")
    timezone: str = Field("", description="Time zone of cron, such as Europe/Berlin; empty: the machine's")
    jitter: float | None = Field(
        None, ge=0, le=1, description="Maximum random delay, as a share of the interval; null: 0.1, or none with cron"
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


def _check_link(link: str, names: Sequence[str]) -> None:
    """Raise `ValueError` for a placeholder in a template of links that nothing fills."""
    for placeholder in re.findall(r"\{([^{}]*)\}", link):
        if placeholder not in names:
            known_names = ", ".join(f"{{{name}}}" for name in names)
            raise ValueError(f"link: nothing fills {{{placeholder}}}; a template may contain {known_names}")


class StoredSource(Source):
    """The settings that all stored sources share."""

    refresh: RefreshSettings = RefreshSettings()


class LinkedSource(StoredSource):
    """The settings that sources of files share."""

    include: tuple[str, ...] = Field((), description="Git-style globs of the paths to read; empty: all")
    exclude: tuple[str, ...] = Field((), description="Git-style globs of the paths to skip")
    link: str = Field("", description="Template of links with {path}, {start}, {end} and, for git, {commit}")
    max_file_kb: PositiveInt = Field(1024, description="Larger files are skipped and counted, KB")
    max_document_kb: PositiveInt = Field(20480, description="The same for PDF, office documents, HTML and notebooks")
    max_documents: PositiveInt = Field(100_000, description="Further files are skipped and counted")
    max_total_mb: PositiveInt = Field(4096, description="Files beyond this sum of sizes are skipped and counted, MB")


class FilesSource(LinkedSource):
    """A folder, or a single file."""

    kind: Literal["files"]
    path: Path = Field(description="The folder or file")

    @model_validator(mode="after")
    def _check_template(self) -> FilesSource:
        _check_link(self.link, ("path", "start", "end"))
        return self


class GitSource(LinkedSource):
    """A git repository: a remote URL (cloned into the data directory) or a local path (its committed state)."""

    kind: Literal["git"]
    url: str = Field(min_length=1, description="Remote URL or local path")
    branch: str = Field("", description="Branch or tag; empty: the default branch")
    branches: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="Several branches or tags instead of branch, the most important first"
    )
    timeout_s: PositiveFloat = Field(300, description="Time limit for a clone or fetch, seconds")
    token: Secret | None = Field(None, description="Access token with read permission, for an https address")
    username: str = Field("git", pattern=r"^[^\s:]+$", description="User name for the token, if the server checks it")
    ssh_key: Path | None = Field(None, description="A private key without passphrase, for an SSH address")
    known_hosts: Path | None = Field(None, description="File with the keys of servers; null: those of ssh")
    host_keys: Literal["strict", "accept_new"] = Field(
        "strict", description="An unknown SSH server: strict refuses it, accept_new remembers it"
    )

    @model_validator(mode="after")
    def _check_url(self) -> GitSource:
        _check_link(self.link, ("path", "start", "end", "commit"))
        if self.branch and self.branches:
            raise ValueError("give branch or branches, not both")
        if len(set(self.branches)) < len(self.branches):
            raise ValueError("branches contains a name twice")
        scheme = self.url.partition("://")[0] if "://" in self.url else ""
        if self.token and not (scheme == "https" or re.match(r"http://(127\.0\.0\.1|localhost)[:/]", self.url)):
            raise ValueError("token needs an https address, so that it travels encrypted")
        if self.token and "@" in self.url.partition("://")[2].partition("/")[0]:
            raise ValueError("give token or a user name in url, not both")
        if scheme in ("http", "https", "file") and (self.ssh_key or self.known_hosts):
            raise ValueError("ssh_key and known_hosts need an SSH address (git@HOST:PATH or ssh://)")
        return self


class FaqSource(StoredSource):
    """Questions and answers from YAML, CSV or JSON Lines."""

    kind: Literal["faq"]
    path: Path = Field(description="A file ending in .yaml, .yml, .csv or .jsonl")
    link: str = Field("", description="Template of links with {path}, {start} and {end}")

    @model_validator(mode="after")
    def _check_template(self) -> FaqSource:
        _check_link(self.link, ("path", "start", "end"))
        return self


class LearnedSource(StoredSource):
    """Approved answers of trusted people (docs/feedback.md)."""

    kind: Literal["learned"]


class WebSource(StoredSource):
    """The settings that sources on the web share."""

    timeout_s: PositiveFloat = Field(20, description="Time limit for one request, seconds")
    max_page_kb: PositiveInt = Field(2048, description="Larger pages are skipped and counted, KB")
    allow_private: tuple[str, ...] = Field((), description="Host names that may have private addresses")


class WebsiteSource(WebSource):
    """The pages of one web site: from its sitemap, and by links from its first page."""

    kind: Literal["website"]
    url: str = Field(pattern=r"^https?://[^/\s]+", description="The first page")
    sitemap: bool = Field(True, description="Use the site's sitemap if it has one")
    include: tuple[str, ...] = Field((), description="Git-style globs of the paths to read; empty: all")
    exclude: tuple[str, ...] = Field((), description="Git-style globs of the paths to skip")
    depth: int = Field(3, ge=0, le=20, description="Maximum number of links from the first page to a page")
    max_pages: PositiveInt = Field(500, description="Maximum number of pages")
    delay_s: float = Field(0.5, ge=0, description="Pause between two requests, seconds; robots.txt may demand more")


class FeedSource(WebSource):
    """An RSS or Atom feed."""

    kind: Literal["feed"]
    url: str = Field(pattern=r"^https?://[^/\s]+", description="The feed's address")
    max_entries: PositiveInt = Field(200, description="Maximum number of entries; the newest stay")
    keep_days: PositiveInt = Field(365, description="Older entries are removed, days")


class ForgeSource(WebSource):
    """The settings that GitHub and GitLab share: issues and releases, read through the API."""

    token: Secret | None = Field(None, description="Access token with read permission; public projects need none")
    state: Literal["open", "closed", "all"] = Field("all", description="Only issues in this state")
    labels: tuple[str, ...] = Field((), description="Only issues with one of these labels; empty: all")
    exclude_labels: tuple[str, ...] = Field((), description="Skip issues with one of these labels")
    max_items: PositiveInt = Field(1000, description="Maximum number of items of each kind, the last changed first")
    max_comments: int = Field(50, ge=0, le=100, description="Maximum number of comments per item, the first ones")
    skip_authors: tuple[str, ...] = Field((), description="Skip the comments of these people, besides bots")
    full_days: PositiveFloat = Field(7, description="Days between two complete reads, which also remove deleted items")
    max_page_kb: PositiveInt = Field(16384, description="Larger replies are rejected, KB")


class GithubSource(ForgeSource):
    """Issues, discussions and releases of a repository on GitHub or a GitHub Enterprise server."""

    kind: Literal["github"]
    repository: str = Field(pattern=r"^[A-Za-z0-9_-]+/[A-Za-z0-9._-]+$", description="owner/name")
    api_url: str = Field(
        "https://api.github.com",
        pattern=r"^https?://[^/\s]+",
        description="Address of the API; on your own server https://HOST/api/v3",
    )
    take: tuple[Literal["issues", "discussions", "releases"], ...] = Field(
        ("issues", "releases"), min_length=1, description="What to read; discussions need a token"
    )
    state: Literal["open", "closed", "all"] = Field("all", description="Only issues and discussions in this state")
    labels: tuple[str, ...] = Field((), description="Only issues and discussions with one of these labels; empty: all")
    exclude_labels: tuple[str, ...] = Field((), description="Skip issues and discussions with one of these labels")

    @model_validator(mode="after")
    def _check_token(self) -> GithubSource:
        if "discussions" in self.take and self.token is None:
            raise ValueError("take: discussions need token; GitHub requires one for them")
        return self


class GitlabSource(ForgeSource):
    """Issues and releases of a project on GitLab."""

    kind: Literal["gitlab"]
    project: str = Field(pattern=r"^[A-Za-z0-9._/-]+$", description="group/name, or the project's number")
    api_url: str = Field(
        "https://gitlab.com/api/v4",
        pattern=r"^https?://[^/\s]+",
        description="Address of the API; on your own server https://HOST/api/v4",
    )
    take: tuple[Literal["issues", "releases"], ...] = Field(
        ("issues", "releases"), min_length=1, description="What to read"
    )


class StandingSource(StoredSource):
    """Standing queries: sent to a live source at each refresh; their results are stored for a while."""

    kind: Literal["standing"]
    of: Name = Field(description="Name of the live source")
    queries: tuple[Annotated[str, Field(min_length=1, max_length=400)], ...] = Field(
        (), max_length=1000, description="The queries"
    )
    queries_file: Path | None = Field(None, description="More queries: a text file with one per line")
    keep_hours: PositiveFloat = Field(48, description="Hours after which a result that no longer appears is removed")
    limit: int = Field(8, ge=1, le=50, description="Maximum number of results per query")
    timeout_s: PositiveFloat = Field(20, description="Time limit for one query, seconds")

    @model_validator(mode="after")
    def _check_queries(self) -> StandingSource:
        if not self.queries and not self.queries_file:
            raise ValueError("give queries or queries_file")
        return self


class OwnSource(StoredSource):
    """A source of your own, which an installed package provides."""

    kind: Literal["own"]
    plugin: str = Field(min_length=1, description="Name of its entry point in the group kimas.sources")
    options: dict[str, Any] = Field(default_factory=dict, description="Options that are passed to it")
    timeout_s: PositiveFloat = Field(300, description="Time limit for its list and for each document, seconds")


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
