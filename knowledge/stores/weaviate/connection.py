"""Connects to a Weaviate server: by the settings, with TLS if configured, and only to a supported version."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import StoreError
from core.observability.logs import get_logger
from core.settings import WeaviateSettings
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.errors import map_errors

if TYPE_CHECKING:
    from weaviate import WeaviateAsyncClient

MIN_VERSION = (1, 33)  # the first with the filter "none of these"
# Older ones miss words of the last minute: the blocks of their memory tables count as worthless when a search is cut.
RECOMMENDED_VERSION = (1, 38, 3)
# Where OpenSSL is told of certificates of one's own. The client takes them for HTTP, but for gRPC it has to be told.
CERTIFICATES_VARIABLE = "SSL_CERT_FILE"


async def connect(settings: WeaviateSettings) -> Cluster:
    """Connect to the server. Raises `StoreError` when it cannot be reached, refuses the key, or is too old."""
    store_name = f"the passage store in Weaviate at {settings.host}:{settings.http_port}"
    await asyncio.to_thread(_import_weaviate)
    async with map_errors(store_name, "opened", settings.connect_timeout_s):
        client = _make_client(settings, await asyncio.to_thread(_read_certificates) if settings.secure else None)
        try:
            await client.connect()
            version = str((await client.get_meta())["version"])
        except BaseException:
            await client.close()
            raise
    version_numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if version_numbers < MIN_VERSION:
        await client.close()
        raise StoreError(f"{store_name} is version {version}: it needs {'.'.join(map(str, MIN_VERSION))} or newer")
    if version_numbers < RECOMMENDED_VERSION:
        get_logger(__name__).info("store.old_server", version=version, wanted=".".join(map(str, RECOMMENDED_VERSION)))
    return Cluster(client, settings, store_name)


def _make_client(settings: WeaviateSettings, certificates: bytes | None) -> WeaviateAsyncClient:
    import weaviate
    from grpc import ssl_channel_credentials  # type: ignore[import-untyped]
    from weaviate.classes.init import AdditionalConfig, Auth, GrpcConfig, Proxies, Timeout

    key = settings.api_key.value() if settings.api_key else ""
    return weaviate.use_async_with_custom(
        http_host=settings.host,
        http_port=settings.http_port,
        http_secure=settings.secure,
        grpc_host=settings.host,
        grpc_port=settings.grpc_port,
        grpc_secure=settings.secure,
        auth_credentials=Auth.api_key(key) if key else None,
        additional_config=AdditionalConfig(
            timeout=Timeout(
                init=settings.connect_timeout_s, query=settings.read_timeout_s, insert=settings.write_timeout_s
            ),
            # Certificates of one's own are read from the environment; that alone: no proxies in front of both ports.
            trust_env=certificates is not None,
            proxies=Proxies(),
            grpc_config=GrpcConfig(
                credentials=ssl_channel_credentials(root_certificates=certificates) if certificates else None
            ),
        ),
        # They ask the package index for a newer version of the client.
        skip_init_checks=True,
    )


def _read_certificates() -> bytes | None:
    """Return the certificates of authorities that the environment names, None for those that everybody trusts."""
    path = os.environ.get(CERTIFICATES_VARIABLE, "")
    return Path(path).read_bytes() if path else None


def _import_weaviate() -> None:
    import weaviate
    import weaviate.classes.query  # noqa: F401

    # It logs refused objects as a whole, passages and all; a `StoreError` says what there is to say.
    logging.getLogger("weaviate-client").setLevel(logging.CRITICAL)
