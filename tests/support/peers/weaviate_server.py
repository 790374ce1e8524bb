"""Real Weaviate servers for tests: a cluster on the loopback, of a binary that KIMAS_TEST_WEAVIATE_BINARY names."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from core.settings import WeaviateSettings

BINARY = os.environ.get("KIMAS_TEST_WEAVIATE_BINARY", "")
START_S = 60
STOP_S = 30
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
        command = (BINARY, "--host", "127.0.0.1", "--port", str(self.ports["http"]), "--scheme", "http")
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.environment}
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=log, stderr=log)

    async def ready(self) -> None:
        """Wait until it serves."""
        assert self.process is not None
        until = time.monotonic() + START_S
        while not await self._serves():
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

    async def _serves(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.ports["http"])
            writer.write(b"GET /v1/.well-known/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            line = await reader.readline()
            writer.close()
        except OSError:
            return False
        return b" 200 " in line


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
    ports = [dict(zip(PORTS, _free_ports(len(PORTS)), strict=True)) for _ in range(count)]
    # On one machine a server looks for the others' ports of this kind right above those that it was told.
    for port in ports:
        port["data"] = port["gossip"] + 1
        port["rpc"] = port["raft"] + 1
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
        "BLOCKMAX_WAND_PER_SEGMENT_LIMIT": "10000",
    } | ({} if at == 0 else {"CLUSTER_JOIN": f"127.0.0.1:{first['gossip']}"})


def _free_ports(count: int) -> list[int]:
    """Return ports that are free, each with the next one free as well."""
    results: list[int] = []
    while len(results) < count:
        with closing(socket.socket()) as item, closing(socket.socket()) as other:
            item.bind(("127.0.0.1", 0))
            port = item.getsockname()[1]
            try:
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            if port not in results and port + 1 not in results and port - 1 not in results:
                results.append(port)
    return results
