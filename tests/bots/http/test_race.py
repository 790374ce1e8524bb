"""Races over HTTP, where the network compares for itself: nothing slips in between our last look and its post."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bots.http.adapter import HttpAdapter
from tests.support.http_helpers import QUICK, http_settings
from tests.support.peers.callback import CallbackPeer
from tests.support.race_helpers import LATER_S, raced

pytestmark = pytest.mark.usefixtures("time_lapse")


@dataclass
class OverHttp:
    """Implements `Network` over the peer, whose events go to the adapter."""

    peer: CallbackPeer
    adapter: HttpAdapter
    chats: tuple[str, ...] = ("http:games",)

    async def ready(self) -> None:
        await self.adapter.ready.wait()

    async def post(self, chat: str, number: int, text: str) -> str:
        await self._send(f"post-{number}", "post", "Games", text)
        return f"post-{number}"

    async def reply(self, post: str, competitor: str) -> None:
        self.peer.texts["games", post].append(competitor)
        await self._send(f"{post}-{competitor}", "comment", competitor, "What a jump!", thread=post, bot=True)

    def below(self, post: str) -> list[str]:
        return self.peer.texts["games", post]

    async def _send(self, number: str, kind: str, name: str, text: str, *, thread: str = "", bot: bool = False) -> None:
        author = {"id": name, "name": name, "bot": bot}
        sent_at = (datetime.now(UTC) + timedelta(seconds=LATER_S)).isoformat()
        event = {"id": number, "chat": "games", "author": author, "text": text, "kind": kind, "sent_at": sent_at}
        body = {**event, **({"thread": thread} if thread else {})}
        assert (await self.peer.send(self.adapter.port, body))[0] == 202


async def test_over_http_we_are_among_the_first_two_or_silent_never_the_third(tmp_path: Path) -> None:
    async with CallbackPeer() as peer:
        adapter = HttpAdapter(http_settings(peer, tmp_path), QUICK)
        series = await raced(tmp_path, OverHttp(peer, adapter), lambda _: adapter)
        series.judge()
    assert max(map(series.position, series.posts)) <= 2
    assert all(event["citations"] for event in peer.of("final"))
    assert peer.violations == []
