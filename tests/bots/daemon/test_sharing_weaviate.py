"""Two daemons on one journal and one Weaviate: passages are written once, and both answer from them.

The servers are real ones, Weaviate and PostgreSQL.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from core.catalogue import ENGLISH
from tests.lab.benchmarks.daemons import Fleet, Shape
from tests.support.deployment import make_repository
from tests.support.peers.postgresql import PostgresServer
from tests.support.peers.weaviate_server import BINARY, NO_BINARY, Node, weaviate_servers

pytestmark = [pytest.mark.skipif(not BINARY, reason=NO_BINARY), pytest.mark.slow]
QUESTION = "How do I install Rocket with pip, thing number {number}?"
SHAPE = Shape(40, 10, 20, workers=8, model_s=0.3, lease_s=3, max_wait_s=60, question=QUESTION)
INGEST_S = 120
OUTAGE_S = 3


def make_shape(node: Node, repository: Path) -> Shape:
    store = {"provider": "weaviate", "weaviate": node.settings().model_dump(mode="json", exclude_none=True)}
    sources = {"code": {"kind": "git", "url": str(repository)}}
    settings = {"strategies": {"allowed": ["single"]}, "sources": sources, "knowledge": {"store": store}}
    return replace(SHAPE, settings=settings)


async def wait_for_passages(fleet: Fleet) -> int:
    """Wait until somebody has read the source; return how many daemons did."""
    async with asyncio.timeout(INGEST_S):
        while not (count := sum('"source.refreshed"' in item.log() for item in fleet.deployments)):
            for deployment, process in zip(fleet.deployments, fleet.processes, strict=True):
                assert process.returncode is None, deployment.log()
            await asyncio.sleep(0.1)
    return count


@pytest.mark.timeout(400)
async def test_both_answer_from_one_store_through_a_kill_and_an_outage(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    repository = await asyncio.to_thread(make_repository, tmp_path / "repository")
    async with weaviate_servers(tmp_path) as cluster, AsyncExitStack() as stack:
        (node,) = cluster.nodes
        fleet = Fleet(tmp_path / "fleet", make_shape(node, repository), postgres_server)
        await fleet.open(stack)
        assert await wait_for_passages(fleet) == 1, "a refresh has one owner"
        ask_task = asyncio.create_task(fleet.ask())
        await asyncio.sleep(SHAPE.seconds / 4)
        await fleet.kill_leader()
        await node.stop(signal.SIGKILL)
        await asyncio.sleep(OUTAGE_S)
        await node.start()
        await node.ready()
        await ask_task
        await fleet.wait_until_finished()
        # Who asks while the store is away is told so.
        _check(fleet, ENGLISH.service_unavailable)
        fleet.model.requests.clear()
        await fleet.ask()
        await fleet.wait_until_finished()
        _check(fleet)
        prompts = [str(request["messages"]) for request in fleet.model.requests]
    assert sum("<passage " in prompt for prompt in prompts) >= SHAPE.messages, "questions without passages"


def _check(fleet: Fleet, apology: str = "") -> None:
    """Check that every question has one answer, or an apology if there is one."""
    outcome = fleet.outcome()
    posted = [item.text for chat in fleet.telegram.chats.values() for item in chat.messages.values() if item.from_bot]
    apologies = sum(bool(apology) and apology in text for text in posted)
    assert (outcome.lost, outcome.twice, outcome.out_of_order) == (apologies, 0, 0), fleet.deployments[0].log()[-3000:]
