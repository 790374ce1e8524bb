"""Web search services: each is nothing more than a request template and a response mapping over `http_api`.

Tavily, Brave, SearXNG, Google Programmable Search, and services that kept the shape of the Bing Web Search API.
"""

from __future__ import annotations

from typing import Any

from core.errors import SourceError
from core.settings import HttpApiSource, SearchApiSource

# How each service names the age of results. Without an exact match the next shorter age is used: no result is ever
# older than requested.
BRAVE_AGE = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
GOOGLE_AGE = {"day": "d1", "week": "w1", "month": "m1", "year": "y1"}
BING_AGE = {"day": "Day", "week": "Week", "month": "Month", "year": "Month"}


def to_http_api_source(settings: SearchApiSource, name: str = "") -> HttpApiSource:
    """Return a search service as an HTTP API.

    Raises `SourceError`, with the source's name, for an option that the service has no parameter for.
    """
    if settings.provider == "tavily" and settings.language:
        raise SourceError(f"source {name}: provider tavily cannot be told a language: leave language out")
    if settings.provider != "tavily" and settings.depth != "basic":
        raise SourceError(f"source {name}: provider {settings.provider} has no depth of search: leave depth out")
    if settings.provider == "google" and settings.topic != "general":
        raise SourceError(f"source {name}: provider google cannot search the news alone: leave topic out")
    builders = {"tavily": _tavily, "brave": _brave, "searxng": _searxng, "google": _google, "bing": _bing}
    shared_fields = {
        name: getattr(settings, name) for name in ("limit", "timeout_s", "cache_s", "allow_private", "api_key")
    }
    return HttpApiSource.model_validate({"kind": "http_api", **shared_fields, **builders[settings.provider](settings)})


def _tavily(settings: SearchApiSource) -> dict[str, Any]:
    body: dict[str, Any] = {"query": "{query}", "max_results": "{limit}", "search_depth": settings.depth}
    if settings.topic != "general":
        body["topic"] = settings.topic
    if settings.sites:
        body["include_domains"] = list(settings.sites)
    if settings.fresh:
        body["time_range"] = settings.fresh
    return {
        "url": _build_url(settings, "https://api.tavily.com", "/search"),
        "method": "POST",
        "headers": {"Authorization": "Bearer {api_key}"},
        "body": body,
        "results": "results",
        "text": "content",
        "date": "published_date",
    }


def _brave(settings: SearchApiSource) -> dict[str, Any]:
    age = BRAVE_AGE[settings.fresh] if settings.fresh else ""
    is_news = settings.topic == "news"
    return {
        "url": _build_url(settings, "https://api.search.brave.com", f"/res/v1/{'news' if is_news else 'web'}/search"),
        "headers": {"X-Subscription-Token": "{api_key}", "Accept": "application/json"},
        "params": {
            "q": _restrict_query(settings),
            "count": "{limit}",
            "freshness": age,
            "search_lang": settings.language[:2],
            "text_decorations": "" if is_news else "false",
        },
        "results": "results" if is_news else "web.results",
        "text": "[description, extra_snippets[]]",
        "date": "age",
    }


def _searxng(settings: SearchApiSource) -> dict[str, Any]:
    params = {"q": _restrict_query(settings), "format": "json", "language": settings.language}
    params["categories"] = "" if settings.topic == "general" else settings.topic
    return {
        "url": _build_url(settings, "", "/search"),
        "params": params | {"time_range": settings.fresh or ""},
        "headers": {"Authorization": "Bearer {api_key}"} if settings.api_key else {},
        "results": "results",
        "text": "content",
        "date": "publishedDate",
    }


def _google(settings: SearchApiSource) -> dict[str, Any]:
    return {
        "url": _build_url(settings, "https://www.googleapis.com", "/customsearch/v1"),
        "params": {
            "key": "{api_key}",
            "cx": settings.engine,
            "q": _restrict_query(settings),
            # It refuses more than ten.
            "num": str(min(settings.limit, 10)),
            "dateRestrict": GOOGLE_AGE[settings.fresh] if settings.fresh else "",
            "lr": f"lang_{settings.language[:2]}" if settings.language else "",
        },
        "results": "items",
        "text": "snippet",
        "link": "link",
        "date": 'pagemap.metatags[0]."article:published_time"',
    }


def _bing(settings: SearchApiSource) -> dict[str, Any]:
    is_news = settings.topic == "news"
    return {
        "url": _build_url(settings, "", "/v7.0/news/search" if is_news else "/v7.0/search"),
        "headers": {"Ocp-Apim-Subscription-Key": "{api_key}"},
        "params": {
            "q": _restrict_query(settings),
            "count": "{limit}",
            "freshness": BING_AGE[settings.fresh] if settings.fresh else "",
            "mkt": settings.language if "-" in settings.language else "",
            "setLang": settings.language[:2],
        },
        "results": "value" if is_news else "webPages.value",
        "title": "name",
        "text": "description" if is_news else "snippet",
        "date": "datePublished",
    }


def _build_url(settings: SearchApiSource, default_url: str, path: str) -> str:
    """Return the address of the API; braces in a configured one are meant as they stand."""
    return (settings.base_url or default_url).rstrip("/").replace("{", "{{").replace("}", "}}") + path


def _restrict_query(settings: SearchApiSource) -> str:
    sites = " OR ".join(f"site:{site}" for site in settings.sites)
    return f"{{query}} ({sites})" if len(settings.sites) > 1 else f"{{query}} {sites}".strip()
