"""What `kimas check` says of the addresses of models: common slips, and the way out where no answer comes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from urllib.parse import urlsplit

from bots.cli.console import Finding
from core.errors import EndpointError, KimasError
from core.language.secrets import mask_secrets
from core.llm.client import OpenAIClient
from core.runtime.tasks import capture_error
from core.settings.answering import is_private_host
from knowledge.web.addresses import redact_url

MAX_LISTED_MODELS = 12
# What a client adds to the address of an API by itself.
_CALLS = re.compile(
    r"(?<!/)/{1,9}(?:chat/completions|audio/transcriptions|completions|embeddings|responses|rerank|models|chat)/{0,9}$",
    re.IGNORECASE,
)
EXAMPLE_URL = "http://localhost:8000/v1"
_HOST = re.compile(
    r"(?:localhost|[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}|[\w-]{1,63}(?=:\d))(?::\d{1,5})?(?:/[\w./-]{0,200})?", re.ASCII
)
_RERANK_BASE = re.compile(r"(?:/+v\d\w*)?/*", re.IGNORECASE)
# With these, the address or the model may be wrong; a key that is missing or refused says so itself.
_UNEXPLAINED_STATUSES = frozenset({400, 404, 405, 422, None})


def check_base_url(subject: str, model: str, base_url: str, *, has_key: bool) -> Finding:
    """Return what an address says without being asked."""
    if fault := find_address_fault(base_url):
        return Finding("error", subject, f"base_url {fault}")
    if not (has_key or is_private_host(base_url)):
        text = f"{model} at {base_url}, without an api_key, for which endpoints outside of your network usually ask"
        return Finding("warning", subject, text)
    return Finding("ok", subject, f"{model} at {base_url}")


def find_address_fault(base_url: str) -> str:
    """Return why a text is no base address of an API, to follow a subject; "" for one that may be.

    It repeats a text without http:// only where that is a host: what was pasted here by mistake may be a key.

    >>> find_address_fault("localhost:1234")
    'is no address: it begins with http:// or https://, for example http://localhost:1234'
    """
    if not base_url.startswith(("http://", "https://")):
        is_host = _HOST.fullmatch(base_url) and mask_secrets(base_url) == base_url
        example = f"http://{base_url}" if is_host else EXAMPLE_URL
        return f"is no address: it begins with http:// or https://, for example {example}"
    if re.search(r"\s", base_url):
        return "has a space in it"
    try:
        parts = urlsplit(base_url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host:
        return f"is no address: it names a host, for example {EXAMPLE_URL}"
    if extra := _CALLS.search(parts.path):
        return f"has a path too much: leave out {extra[0]}; {strip_call(base_url)} is left"
    return ""


def strip_call(base_url: str) -> str:
    """Return an address without what the client adds.

    >>> strip_call("http://h/v1/chat/completions/"), strip_call("http://h/v1")
    ('http://h/v1', 'http://h/v1')
    """
    return _CALLS.sub("", base_url)


def check_rerank_url(subject: str, url: str) -> Finding:
    """Return what the address of a reranker says without being asked: it is that of the call itself."""
    path = urlsplit(url).path
    if _RERANK_BASE.fullmatch(path):
        text = f"url {redact_url(url)} lacks the path of the call: most services have it at {_add_path(url, 'rerank')}"
        return Finding("warning", subject, text)
    extra = _CALLS.search(path)
    if extra and "rerank" not in extra[0].lower():
        right_url = f"{redact_url(strip_call(url))}/rerank"
        return Finding("error", subject, f"url is that of another call, {extra[0]}: a reranker is at {right_url}")
    return Finding("ok", subject, f"{redact_url(url)}")


async def explain_failure(error: EndpointError, base_url: str, model: str, api_key: str, timeout_s: float) -> str:
    """Return what an endpoint said, and the way out: a model that it has, or an address where a list of models is."""
    if error.status not in _UNEXPLAINED_STATUSES or error.is_timeout:
        return str(error)
    names = await _list_models(base_url, api_key, timeout_s)
    if model in names:
        return str(error)
    if names:
        similar_names = get_close_matches(model, names, 3) or sorted(names)[:MAX_LISTED_MODELS]
        return f"{error}. {base_url} has no model {model}; it has {', '.join(similar_names)}"
    for url in dict.fromkeys((strip_call(base_url), _add_path(strip_call(base_url), "v1"))):
        if url != base_url and await _list_models(url, api_key, timeout_s):
            return f"{error}. There is a list of models at {url}: base_url should probably be that"
    return str(error)


def _add_path(url: str, name: str) -> str:
    return f"{url.rstrip('/')}/{name}"


async def _list_models(base_url: str, api_key: str, timeout_s: float) -> Sequence[str]:
    client = OpenAIClient.open(base_url, api_key, timeout_s)
    try:
        result = await capture_error(client.list_models())
    finally:
        await client.close()
    return () if isinstance(result, KimasError) else result
