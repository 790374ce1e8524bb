"""What goes wrong with a Weaviate server, said plainly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from core.errors import StoreError

SECTION = "knowledge.store.weaviate"
# What a reason holds, and the way out; the first that fits.
HINTS = (
    (
        ("unauthenticated", "anonymous access not enabled", "status code: 401", "invalid api key", "unauthorized"),
        f"it refuses the API key, see {SECTION}.api_key",
    ),
    (("forbidden", "permission", "status code: 403"), "the API key has not the rights for it"),
    (
        ("enough weaviate nodes", "leader not found", "consistency level", "cannot achieve", "can not resolve nodes"),
        f"too few of its machines are up for {SECTION}.replicas and {SECTION}.consistency",
    ),
    (
        ("no space left", "read-only", "readonly", "read only", "disk usage"),
        "the server takes nothing more, look at its disk and its memory; before version 1.36 start it again afterwards",
    ),
    # Of OpenSSL and of gRPC's own library.
    (
        ("certificate verify failed", "certificate_verify_failed", "handshake", "wrong version number", "ssl"),
        f"TLS failed, see {SECTION}.secure; certificates of an authority of your own are named by SSL_CERT_FILE",
    ),
    (
        ("connect", "unavailable", "not reachable", "startup"),
        f"is it running, and are host and ports in {SECTION} right?",
    ),
)


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
        raise StoreError(explained(where, doing, _reason(fault))) from fault


def _reason(fault: BaseException) -> str:
    """Return what a failure says, and what its causes say that it does not: the client leaves out what TLS refused."""
    told = str(fault) or type(fault).__name__
    cause = fault.__cause__ or fault.__context__
    while cause is not None:
        if str(cause) and str(cause) not in told:
            told += f": {cause}"
        cause = cause.__cause__ or cause.__context__
    return told


def explained(where: str, doing: str, reason: str) -> str:
    """Say what happened and the way out. The client's reasons are long; their beginning tells enough."""
    short, lower = " ".join(reason.split())[:300], reason.lower()
    hint = next((hint for marks, hint in HINTS if any(mark in lower for mark in marks)), "")
    return f"{where} could not be {doing}{hint and ': '}{hint} ({short})"


def differing(where: str, held: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Say that the store was built for something else; both are given as embedder, dimension and format."""
    one, other = (f"{it['embedder']} (dimension {it['dimension']}, format {it['format']})" for it in (held, wanted))
    return (
        f"{where} was built with {one}, but the configuration asks for {other}; "
        "go back to that configuration, or run `kimas ingest --rebuild`"
    )
