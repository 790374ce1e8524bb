"""The sources that are asked at question time, by kind."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Secret, Section


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
