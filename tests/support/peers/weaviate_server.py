"""Real Weaviate servers for tests: a cluster on the loopback, of the binary that `make weaviate` builds.

KIMAS_TEST_WEAVIATE_BINARY names another one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from core.settings import WeaviateSettings
from tests.support.free_ports import free_ports

# Where `make weaviate` puts it: outside of the checkout, because building it takes minutes.
BUILT = Path.home() / ".cache" / "kimas-weaviate" / "weaviate-server"
BINARY = os.environ.get("KIMAS_TEST_WEAVIATE_BINARY", "") or (str(BUILT) if os.access(BUILT, os.X_OK) else "")
NO_BINARY = "WEAVIATE IS NOT TESTED: `make weaviate` builds its server, once, in 7 minutes"
START_S = 90
STOP_S = 30
# On one machine a server looks for the others' "data" and "rpc" right above the ports that it was told.
PORTS = ("http", "grpc", "gossip", "data", "raft", "rpc")


@dataclass
class Node:
    """One server: its address, its ports, and its process while it runs."""

    name: str
    folder: Path
    ports: Mapping[str, int]
    environment: Mapping[str, str]
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, without waiting until it is ready."""
        self.folder.mkdir(exist_ok=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.environment}
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *_make_command(self.ports), env=environment, stdout=log, stderr=log
            )

    async def ready(self) -> None:
        """Wait until it serves, by gRPC too: after a kill, that comes later."""
        assert self.process is not None
        until = time.monotonic() + START_S
        while not (await asyncio.to_thread(_serves, self.ports) and await _accepts(self.ports["grpc"])):
            assert self.process.returncode is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < until, (self.folder / "log").read_text()[-2000:]
            await asyncio.sleep(0.1)

    async def listens(self) -> None:
        """Wait until other servers can join it. A cluster's first server serves only when the others have joined."""
        assert self.process is not None
        until = time.monotonic() + START_S
        while not await _accepts(self.ports["gossip"]):
            assert self.process.returncode is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < until, (self.folder / "log").read_text()[-2000:]
            await asyncio.sleep(0.1)

    async def stop(self, stop_signal: signal.Signals = signal.SIGKILL) -> None:
        """End it and wait for its end."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(stop_signal)
            await self.process.wait()

    def settings(self, **changes: object) -> WeaviateSettings:
        """Return how to reach it."""
        address = {"host": "127.0.0.1", "http_port": self.ports["http"], "grpc_port": self.ports["grpc"]}
        return WeaviateSettings.model_validate(address | changes)


def _serves(ports: Mapping[str, int]) -> bool:
    """Return whether a server is ready. Blocking."""
    try:
        with closing(HTTPConnection("127.0.0.1", ports["http"], timeout=START_S)) as connection:
            connection.request("GET", "/v1/.well-known/ready")
            return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


def _make_command(ports: Mapping[str, int]) -> Sequence[str]:
    return BINARY, "--host", "127.0.0.1", "--port", str(ports["http"]), "--scheme", "http"


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@dataclass
class Cluster:
    """Some servers that know each other."""

    nodes: list[Node] = field(default_factory=list)

    async def start(self) -> None:
        """Start all, and wait until they serve."""
        for node in self.nodes:
            await node.start()
            # The others join the first one, and end at once where it does not listen yet.
            await node.listens()
        for node in self.nodes:
            await node.ready()


@asynccontextmanager
async def weaviate_servers(folder: Path, count: int = 1, **environment: str) -> AsyncIterator[Cluster]:
    """Run so many servers as one cluster until the block ends."""
    ports = _choose_ports(count)
    cluster = Cluster(
        [
            Node(f"node{at}", folder / f"node{at}", entry, _environment(at, ports, folder) | environment)
            for at, entry in enumerate(ports)
        ]
    )
    try:
        await cluster.start()
        yield cluster
    finally:
        for node in cluster.nodes:
            await node.stop()


@contextmanager
def run_server(folder: Path) -> Iterator[WeaviateSettings]:
    """Run one server until the block ends, which gets how to reach it."""
    (ports,) = _choose_ports(1)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **_environment(0, [ports], folder)}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(_make_command(ports), env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + START_S
        while not _serves(ports):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < until, (folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        yield Node("node0", folder, ports, environment).settings()
    finally:
        process.kill()
        process.wait()


def _choose_ports(count: int) -> list[dict[str, int]]:
    """Return the ports of so many servers; all of them differ."""
    ports = iter(free_ports(count * len(PORTS)))
    return [{name: next(ports) for name in PORTS} for _ in range(count)]


def _environment(at: int, ports: list[dict[str, int]], folder: Path) -> dict[str, str]:
    own_port = ports[at]
    first = ports[0]
    return {
        "PERSISTENCE_DATA_PATH": str(folder / f"node{at}" / "data"),
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
        "DEFAULT_VECTORIZER_MODULE": "none",
        "ENABLE_MODULES": "",
        "CLUSTER_HOSTNAME": f"node{at}",
        "CLUSTER_IN_LOCALHOST": "true",
        "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
        "CLUSTER_GOSSIP_BIND_PORT": str(own_port["gossip"]),
        "CLUSTER_DATA_BIND_PORT": str(own_port["data"]),
        "RAFT_PORT": str(own_port["raft"]),
        "RAFT_INTERNAL_RPC_PORT": str(own_port["rpc"]),
        "RAFT_BOOTSTRAP_EXPECT": str(len(ports)),
        "RAFT_JOIN": ",".join(f"node{number}:{port['raft']}" for number, port in enumerate(ports)),
        "GRPC_PORT": str(own_port["grpc"]),
        "DISABLE_TELEMETRY": "true",
        "GO_PROFILING_DISABLE": "true",
        "GOMAXPROCS": "1",
    } | ({} if at == 0 else {"CLUSTER_JOIN": f"127.0.0.1:{first['gossip']}"})
