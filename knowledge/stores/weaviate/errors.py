"""Errors of a Weaviate server, in plain words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from core.errors import StoreError, StoreUnreachable
from knowledge.stores.weaviate.versions import TOO_OLD_HINT

SETTINGS_SECTION = "knowledge.store.weaviate"
STARTING_HINT = "it is starting, or its collections were deleted"
INACTIVE_HINT = f"the tenant is switched off, and has to be active; see {SETTINGS_SECTION}.tenant"
FULL_HINT = (
    "the server takes nothing more, look at its disk and its memory; before version 1.36 start it again afterwards"
)
UNREACHABLE_HINT = f"is it running, and are host and ports in {SETTINGS_SECTION} right?"
# Part of an error text, and the way out; the first match counts.
HINTS = (
    (
        ("unauthenticated", "anonymous access not enabled", "status code: 401", "invalid api key", "unauthorized"),
        f"it refuses the API key, see {SETTINGS_SECTION}.api_key",
    ),
    (("forbidden", "permission", "status code: 403"), "the API key has not the rights for it"),
    (
        ("enough weaviate nodes", "leader not found", "consistency level", "cannot achieve", "can not resolve nodes"),
        f"too few of its machines are up for {SETTINGS_SECTION}.replicas and {SETTINGS_SECTION}.consistency",
    ),
    (
        ("no space left", "read-only", "readonly", "read only", "disk usage"),
        FULL_HINT,
    ),
    # The client has a lower limit of its own.
    (("is not supported. please use weaviate version",), TOO_OLD_HINT),
    (("found similar class",), f"a collection has this name in other letters, see {SETTINGS_SECTION}.collection"),
    (("tenant not active",), INACTIVE_HINT),
    # It takes requests before it has read which collections it holds.
    (("could not find class", "class not found", "non-existing index", "tenant not found"), STARTING_HINT),
    # Of OpenSSL and of gRPC's own library.
    (
        ("certificate verify failed", "certificate_verify_failed", "handshake", "wrong version number", "ssl"),
        f"TLS failed, see {SETTINGS_SECTION}.secure; certificates of an authority of your own are "
        "named by SSL_CERT_FILE",
    ),
    # The last three: a proxy whose server is away.
    (
        (
            "connect",
            "unavailable",
            "not reachable",
            "startup",
            "timed out",
            "deadline exceeded",
            "status code: 502",
            "status code: 503",
            "status code: 504",
        ),
        UNREACHABLE_HINT,
    ),
)


class StoreStarting(StoreUnreachable):
    """The server answers, and does not know its collections yet."""


HINT_ERRORS: Mapping[str, type[StoreError]] = {UNREACHABLE_HINT: StoreUnreachable, STARTING_HINT: StoreStarting}


@asynccontextmanager
async def map_errors(store_name: str, action: str, timeout_s: float) -> AsyncIterator[None]:
    """Turn the client's failures into `StoreError`. `action` says what is tried: opened, read, written.

    What takes longer than `timeout_s` has failed as well. A server that nobody answers for is a `StoreUnreachable`.
    """
    import httpx  # what the client sends HTTP through; some of its exceptions come through
    from weaviate.exceptions import WeaviateBaseError

    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        reason = f"no answer within {timeout_s:g} seconds"
        raise StoreUnreachable(f"{store_name} could not be {action}: {reason}") from error
    # The last three: the client met a reply that is none of Weaviate's.
    except (WeaviateBaseError, httpx.HTTPError, OSError, ValueError, LookupError, TypeError) as error:
        reason = _describe_causes(error)
        error_class = HINT_ERRORS.get(find_hint(reason), StoreError)
        raise error_class(explain_error(store_name, action, reason)) from error


def _describe_causes(error: BaseException) -> str:
    """Return what a failure says, and what its causes say that it does not: the client leaves out what TLS refused."""
    message = str(error) or type(error).__name__
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if str(cause) and str(cause) not in message:
            message += f": {cause}"
        cause = cause.__cause__ or cause.__context__
    return message


def explain_error(store_name: str, action: str, reason: str) -> str:
    """Say what happened and the way out. The client's reasons are long; their beginning tells enough."""
    short_reason = " ".join(reason.split())[:300]
    hint = find_hint(reason)
    return f"{store_name} could not be {action}{hint and ': '}{hint} ({short_reason})"


def find_hint(reason: str) -> str:
    """Return the way out of an error, or an empty string."""
    lowered = reason.lower()
    return next((hint for markers, hint in HINTS if any(marker in lowered for marker in markers)), "")
