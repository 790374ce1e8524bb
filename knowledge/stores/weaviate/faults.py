"""What goes wrong with a Weaviate server, said plainly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from core.errors import StoreError

SECTION = "knowledge.store.weaviate"
REFUSED = ("unauthenticated", "anonymous access not enabled", "401", "invalid api key", "unauthorized")
FORBIDDEN = ("forbidden", "permission", "403")
UNREACHABLE = ("connect", "unavailable", "not reachable", "startup")


@asynccontextmanager
async def mapped(where: str, doing: str, seconds: float) -> AsyncIterator[None]:
    """Turn the client's failures into `StoreError`. `doing` says what is tried: opened, read, written.

    What takes longer than `seconds` has failed as well.
    """
    import httpx  # what the client sends HTTP through; some of its exceptions come through
    from weaviate.exceptions import WeaviateBaseError

    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as fault:
        raise StoreError(f"{where} could not be {doing}: no answer within {seconds:g} seconds") from fault
    # The last three: the client met a reply that is none of Weaviate's.
    except (WeaviateBaseError, httpx.HTTPError, OSError, ValueError, LookupError, TypeError) as fault:
        raise StoreError(explained(where, doing, str(fault) or type(fault).__name__)) from fault


def explained(where: str, doing: str, reason: str) -> str:
    """Say what happened and the way out. The client's reasons are long; their beginning tells enough."""
    short, lower = " ".join(reason.split())[:300], reason.lower()
    if any(mark in lower for mark in REFUSED):
        return f"{where} could not be {doing}: it refuses the API key, see {SECTION}.api_key ({short})"
    if any(mark in lower for mark in FORBIDDEN):
        return f"{where} could not be {doing}: the API key has not the rights for it ({short})"
    if any(mark in lower for mark in UNREACHABLE):
        return f"{where} could not be {doing}: is it running, and are host and ports in {SECTION} right? ({short})"
    return f"{where} could not be {doing} ({short})"


def differing(where: str, held: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Say that the store was built for something else; both are given as embedder, dimension and format."""
    one, other = (f"{it['embedder']} (dimension {it['dimension']}, format {it['format']})" for it in (held, wanted))
    return (
        f"{where} was built with {one}, but the configuration asks for {other}; "
        "go back to that configuration, or run `kimas ingest --rebuild`"
    )
