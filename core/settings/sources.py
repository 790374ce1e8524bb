"""The sources of knowledge, by kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Name, RequestingSection, RestrictedSection, Secret, Section, WebAddress


class LiveSource(RestrictedSection, RequestingSection):
    """The settings that all live sources share: they are queried for each question."""

    limit: int = Field(8, ge=1, le=50, description="results taken at most")
    timeout_s: PositiveFloat = Field(4, description="longest time for one call, seconds")
    cache_s: float = Field(300, ge=0, description="how long the results of a query are cached, seconds; 0: not at all")
    api_key: Secret | None = Field(
        None,
        examples=[{"env": "SEARCH_KEY"}],
        description="a secret, if the service needs one: in place of `{api_key}` in the templates of `http_api`, as a "
        "bearer token for `remote_rag` and `mcp`; all providers of `search_api` except searxng need one",
    )
    ask: Literal["always", "when_needed"] = Field(
        "always",
        description="`always`, or `when_needed`: not where stored passages of the same agent already answer the "
        "question",
    )
    enough: float = Field(
        0.6, ge=0, le=1, description="for `when_needed`: how similar to the question a stored passage must be for that"
    )
    requests_per_day: PositiveInt | None = Field(
        None, description="requests per day at most, from midnight to midnight"
    )


class MappedSource(LiveSource):
    """The settings of what finds the results in JSON. They are written in JMESPath."""

    results: str = Field("results", description="JMESPath to the list of results; `@` for the whole reply")
    title: str = Field("not_null(title, name)", description="JMESPath within a result to its title")
    text: str = Field(
        "not_null(text, content, snippet, description)",
        description="JMESPath within a result to its text; lists are joined",
    )
    link: str = Field("not_null(url, link, uri)", description="JMESPath within a result to its address")
    date: str = Field("date", description="JMESPath within a result to its date")


class HttpApiSource(MappedSource):
    """Any HTTP API with JSON replies, queried for each question by request templates and a response mapping.

    Templates may contain {query}, {limit}, {page} and {api_key}. The mapping is written in JMESPath.
    """

    kind: Literal["http_api"]
    url: str = Field(
        min_length=1,
        examples=["https://api.example.org/search"],
        description="address; it may hold `{query}`, `{limit}`, `{page}` and `{api_key}`, percent-encoded, as the "
        "next three may",
    )
    method: Literal["GET", "POST"] = Field("GET", description="`GET` or `POST`")
    params: dict[str, str] = Field(
        default_factory=dict,
        description='query parameters, such as `{q: "{query}", size: "{limit}"}`; empty ones are left out',
    )
    headers: dict[str, str] = Field(default_factory=dict, description="headers")
    body: dict[str, Any] = Field(default_factory=dict, description="JSON body for POST; templates at any depth")
    pages: int = Field(1, ge=1, le=5, description="pages requested, all at once, where `{page}` is used")
    first_page: int = Field(1, ge=0, description="number of the first page")


class SearchApiSource(LiveSource):
    """A web search service, queried for each question."""

    kind: Literal["search_api"]
    provider: Literal["tavily", "brave", "searxng", "google", "bing"] = Field(
        examples=["tavily"], description="`tavily`, `brave`, `searxng`, `google` or `bing`"
    )
    base_url: WebAddress | Literal[""] = Field(
        "", description="another address of the API; needed for searxng and bing"
    )
    engine: str = Field("", description="for google: the search engine's id")
    sites: tuple[str, ...] = Field((), description="only results from these domains")
    fresh: Literal["day", "week", "month", "year"] | None = Field(
        None, description="only results as new as `day`, `week`, `month` or `year`; with bing `year` means `month`"
    )
    language: str = Field(
        "",
        pattern=r"^([a-z]{2}(-[A-Z]{2})?)?$",
        description="preferred language, such as `en` or `zh-CN`; not with tavily",
    )

    topic: Literal["general", "news"] = Field("general", description="`news` searches the news alone; not with google")
    depth: Literal["basic", "advanced"] = Field(
        "basic", description="`advanced` finds more, and costs more; with tavily alone"
    )

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
    base_url: WebAddress = Field(
        examples=["https://rag.example.org/v1"],
        description="the address above `/bases/ID/search`",
    )
    bases: dict[str, Annotated[float, Field(gt=0)]] = Field(
        min_length=1,
        examples=[{"manual": 1.0}],
        description="ids of its knowledge bases, each with the factor for its scores, such as `{manual: 1.0, forum: "
        "0.5}`",
    )
    body: dict[str, Any] = Field(
        default_factory=dict,
        description="further keys for the JSON body, besides `query` and `limit`, such as `{tenant: docs}`",
    )


class McpSource(MappedSource):
    """A tool of an MCP server that only reads, called for each question by KIMAs itself, never by a model."""

    kind: Literal["mcp"]
    url: WebAddress | Literal[""] = Field(
        "", examples=["https://mcp.example.org/mcp"], description="address of the server; or give `command`"
    )
    command: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (),
        description="a program that speaks MCP over standard input and output, with its arguments, such as `[npx, "
        "some-server]`; it runs with the rights of KIMAs",
    )
    environment: dict[str, Secret] = Field(
        default_factory=dict,
        description="for `command`: secrets that the program finds in its environment, such as `{TOKEN: {env: "
        "WIKI_TOKEN}}`; of the environment of KIMAs it has nothing but the usual, such as `PATH` and `HOME`",
    )
    tool: str = Field(min_length=1, examples=["search"], description="name of the tool; it must not say that it writes")
    query_argument: str = Field("query", min_length=1, description="the argument of the tool that takes the query")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="other arguments, always the same, such as `{project: docs}`"
    )

    @model_validator(mode="after")
    def _check_server(self) -> McpSource:
        if bool(self.url) == bool(self.command):
            raise ValueError("give exactly one of url (an address) or command (a program)")
        if self.command and self.api_key:
            raise ValueError("api_key belongs to url: give a program its secrets under environment")
        if self.environment and not self.command:
            raise ValueError("environment belongs to command, which is missing")
        if self.query_argument in self.arguments:
            raise ValueError(f"{self.query_argument} takes the query: leave it out of arguments")
        return self


class RefreshSettings(Section):
    """When `kimas run` refreshes a source: at an interval or at the times of a cron expression."""

    minutes: float | None = Field(
        None,
        ge=0,
        description="time between two refreshes, minutes; null: `knowledge.refresh_minutes`; 0: at each start only",
    )
    cron: str = Field("", description="instead: minute, hour, day, month and weekday, such as `30 6 * * mon-fri`")
    timezone: str = Field("", description="for `cron`: a name such as `Europe/Berlin`; empty: the machine's own")
    jitter: float | None = Field(
        None,
        ge=0,
        le=1,
        description="longest random delay, as a share of the time to the next refresh; null: 0.1, or 0 with `cron`",
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


class StoredSource(RestrictedSection):
    """The settings that all stored sources share."""

    refresh: RefreshSettings = RefreshSettings()


class FilteredSource(StoredSource):
    """The settings that sources with paths share."""

    include: tuple[str, ...] = Field((), description="Git-style globs of the paths to take; none: all")
    exclude: tuple[str, ...] = Field((), description="Git-style globs of the paths to leave out")


class LinkedSource(StoredSource):
    """The settings that sources without addresses of their own share."""

    link: str = Field(
        "",
        description="template for the link of a passage, with `{path}`, `{start}` and `{end}` (lines), and for git "
        "`{commit}`; for example `https://docs.example.org/{path}#L{start}`",
    )


class DocumentSource(FilteredSource, LinkedSource):
    """The settings that sources of files share."""

    max_file_kb: PositiveInt = Field(1024, description="larger files are skipped and counted, KB")
    max_document_kb: PositiveInt = Field(20480, description="the same for PDF, office documents, HTML and notebooks")
    max_documents: PositiveInt = Field(100_000, description="further files are skipped and counted")
    max_total_mb: PositiveInt = Field(4096, description="files beyond this sum of sizes are skipped and counted, MB")


class FilesSource(DocumentSource):
    """A folder, or a single file."""

    kind: Literal["files"]
    path: Path = Field(examples=["docs"], description="the folder or file")

    @model_validator(mode="after")
    def _check_template(self) -> FilesSource:
        _check_link(self.link, ("path", "start", "end"))
        return self


class GitSource(DocumentSource):
    """A git repository: a remote URL (cloned into the data directory) or a local path (its committed state)."""

    kind: Literal["git"]
    url: str = Field(
        min_length=1,
        examples=["https://git.example.org/team/project.git"],
        description="remote URL, or the path of a local repository",
    )
    branch: str = Field("", description="branch or tag; empty: the default branch")
    branches: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="several branches or tags in place of `branch`, the most important first"
    )
    timeout_s: PositiveFloat = Field(300, description="longest time a clone or fetch may take, seconds")
    token: Secret | None = Field(
        None,
        description="an access token that may read, for an https address; without it, git uses its own credentials",
    )
    username: str = Field(
        "git", pattern=r"^[^\s:]+$", description="user name to send with the token, for hosts that need one"
    )
    ssh_key: Path | None = Field(None, description="a private key without passphrase, for an SSH address")
    known_hosts: Path | None = Field(None, description="a file with the keys of servers; null: the one of the account")
    host_keys: Literal["strict", "accept_new"] = Field(
        "strict", description="an SSH server that is not known yet: `strict` refuses it, `accept_new` learns its key"
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


class FaqSource(LinkedSource):
    """Questions and answers from YAML, CSV or JSON Lines."""

    kind: Literal["faq"]
    path: Path = Field(examples=["faq.yaml"], description="a file ending in `.yaml`, `.yml`, `.csv` or `.jsonl`")

    @model_validator(mode="after")
    def _check_template(self) -> FaqSource:
        _check_link(self.link, ("path", "start", "end"))
        return self


class LearnedSource(StoredSource):
    """Approved answers of trusted people (docs/feedback.md)."""

    kind: Literal["learned"]


class WebSource(StoredSource, RequestingSection):
    """The settings that sources on the web share."""

    timeout_s: PositiveFloat = Field(20, description="longest time for one request, seconds")
    max_page_kb: PositiveInt = Field(2048, description="larger pages are skipped and counted, KB")


class WebsiteSource(FilteredSource, WebSource):
    """The pages of one web site: from its sitemap, and by links from its first page."""

    kind: Literal["website"]
    url: WebAddress = Field(examples=["https://docs.example.org/"], description="the first page")
    sitemap: bool = Field(True, description="use the site's sitemap where it has one")
    depth: int = Field(3, ge=0, le=20, description="how many links away from the first page a page may be")
    max_pages: PositiveInt = Field(
        500,
        description="pages taken at most; a crawl requests at most four times as many pages, and ends after 4 × "
        "`max_pages` × (`delay_s` + 2) seconds",
    )
    ignore_parameters: tuple[str, ...] = Field(
        ("utm_*", "gclid", "fbclid", "phpsessid", "jsessionid", "sessionid"),
        description="parameters of addresses that make no other page, in lower case; `*` stands for any characters",
    )
    render: bool = Field(
        False, description="run the scripts of pages that are empty without, in Chromium; needs the extra `render`"
    )
    delay_s: float = Field(0.5, ge=0, description="pause between two requests, seconds; robots.txt may ask for more")


class FeedSource(WebSource):
    """An RSS or Atom feed."""

    kind: Literal["feed"]
    url: WebAddress = Field(examples=["https://blog.example.org/feed.xml"], description="the feed's address")
    max_entries: PositiveInt = Field(200, description="entries kept at most, the newest first")
    keep_days: PositiveInt = Field(365, description="older entries are forgotten, days")


class ForgeSource(WebSource):
    """The settings that GitHub and GitLab share: issues and releases, read through the API."""

    token: Secret | None = Field(
        None, description="a secret: an access token that may read; public projects do without"
    )
    state: Literal["open", "closed", "all"] = Field(
        "all", description="issues and discussions in this state only: `open`, `closed` or `all`"
    )
    labels: tuple[str, ...] = Field((), description="only issues and discussions with one of these labels; none: all")
    exclude_labels: tuple[str, ...] = Field((), description="issues and discussions with one of these are left out")
    max_items: PositiveInt = Field(1000, description="items of each kind taken at most, those changed last first")
    max_comments: int = Field(50, ge=0, le=100, description="comments taken of an item at most, the first ones")
    skip_authors: tuple[str, ...] = Field(
        (), description="authors whose comments are left out; comments of bots always are"
    )
    full_days: PositiveFloat = Field(
        7, description="how often everything is read again, days; only then do deletions show"
    )
    max_page_kb: PositiveInt = Field(16384, description="a larger reply is refused, KB")


class GithubSource(ForgeSource):
    """Issues, discussions and releases of a repository on GitHub or a GitHub Enterprise server."""

    kind: Literal["github"]
    repository: str = Field(
        pattern=r"^[A-Za-z0-9_-]+/[A-Za-z0-9._-]+$", examples=["example/project"], description="`owner/name`"
    )
    api_url: WebAddress = Field(
        "https://api.github.com",
        description="of your own server: `https://HOST/api/v3`",
    )
    take: tuple[Literal["issues", "discussions", "releases"], ...] = Field(
        ("issues", "releases"), min_length=1, description="what is taken, also `discussions`; these need a token"
    )

    @model_validator(mode="after")
    def _check_token(self) -> GithubSource:
        if "discussions" in self.take and self.token is None:
            raise ValueError("take: discussions need token; GitHub requires one for them")
        return self


class GitlabSource(ForgeSource):
    """Issues and releases of a project on GitLab."""

    kind: Literal["gitlab"]
    project: str = Field(
        pattern=r"^[A-Za-z0-9._/-]+$", examples=["group/project"], description="`group/name`, or the project's number"
    )
    api_url: WebAddress = Field(
        "https://gitlab.com/api/v4",
        description="of your own server: `https://HOST/api/v4`",
    )
    take: tuple[Literal["issues", "releases"], ...] = Field(
        ("issues", "releases"), min_length=1, description="what is taken"
    )


class StandingSource(StoredSource):
    """Standing queries: sent to a live source at each refresh; their results are stored for a while."""

    kind: Literal["standing"]
    of: Name = Field(examples=["search_api"], description="name of the live source to query")
    queries: tuple[Annotated[str, Field(min_length=1, max_length=400)], ...] = Field(
        (), max_length=1000, examples=[["latest release", "opening hours"]], description="the queries"
    )
    queries_file: Path | None = Field(None, description="more queries: a text file with one per line")
    timeout_s: PositiveFloat = Field(20, description="longest time for one query, seconds")
    keep_hours: PositiveFloat = Field(
        48, description="a result expires if no query has found it again for this long, hours"
    )
    limit: int = Field(8, ge=1, le=50, description="results kept per query at most")

    @model_validator(mode="after")
    def _check_queries(self) -> StandingSource:
        if not self.queries and not self.queries_file:
            raise ValueError("give queries or queries_file")
        return self


class OwnSource(StoredSource):
    """A source of your own, which an installed package provides."""

    kind: Literal["own"]
    plugin: str = Field(
        min_length=1, examples=["wiki"], description="name of its entry point in the group `kimas.sources`"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="options for the plug-in, passed on unchanged")
    token: Secret | None = Field(
        None, description="a secret, if the service needs one: the plug-in gets it as its option `token`"
    )
    timeout_s: PositiveFloat = Field(300, description="longest time for its list and for each document, seconds")


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
    | McpSource
    | StandingSource
    | OwnSource
    | LearnedSource,
    Field(discriminator="kind"),
]
