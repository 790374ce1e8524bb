"""The Discord peer is strict: what Discord refuses, it refuses."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.support.peers.discord import DiscordPeer

PROPERTIES = {"os": "linux", "browser": "t", "device": "t"}


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as peer:
        yield peer


class Caller:
    """Calls the peer as a bot would."""

    def __init__(self, peer: DiscordPeer, session: aiohttp.ClientSession) -> None:
        self.peer = peer
        self.session = session

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        all_headers = {"Authorization": f"Bot {self.peer.token}", "User-Agent": "DiscordBot (x, 1)", **headers}
        async with self.session.request(method, self.peer.api_url + path, json=body, headers=all_headers) as response:
            return response.status, await response.json() if response.status != 204 else None


@pytest.fixture
async def call(peer: DiscordPeer) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as session:
        yield Caller(peer, session)


async def test_credentials_and_routes(call: Caller) -> None:
    assert (await call("GET", "/users/@me"))[0] == 200
    assert (await call("GET", "/users/@me", Authorization="Bot no"))[0] == 401
    assert (await call("GET", "/users/@me", **{"User-Agent": "curl"}))[0] == 403
    assert (await call("GET", "/users/1"))[0] == 404


async def test_messages(peer: DiscordPeer, call: Caller) -> None:
    channel_id = peer.channel()
    path = f"/channels/{channel_id}/messages"
    reference = {"message_reference": {"message_id": "1"}}
    for body, code in (
        ({"content": " "}, 50006),
        ({"content": "x" * 2001}, 50035),
        ({"content": "😀" * 1001}, 50035),
        ({"content": "x", "surprise": 1}, 50035),
        ({"content": "x", "nonce": "n" * 26}, 50035),
        ({"content": "x", **reference}, 50035),
    ):
        status, answer = await call("POST", path, body)
        assert (status, answer["code"]) == (400, code)
    first = await call("POST", path, {"content": "x", "nonce": "1", "enforce_nonce": True})
    second_response = await call("POST", path, {"content": "x", "nonce": "1", "enforce_nonce": True})
    assert first[1]["id"] == second_response[1]["id"]
    await call("POST", path, {"content": "<@1001> @everyone https://e.org/x <https://e.org/y>"})
    assert (peer.notified, peer.unfolded) == (["1001", "everyone"], ["https://e.org/x"])
    hers = await peer.say(channel_id, "hello")
    assert (await call("PATCH", f"{path}/{hers}", {"content": "x"}))[1]["code"] == 50005
    assert (await call("PATCH", f"{path}/1", {"content": "x"}))[1]["code"] == 10008
    status, page = await call("GET", f"{path}?after={first[1]['id']}&limit=1")
    assert (status, len(page)) == (200, 1)
    assert "everyone" in page[0]["content"]


async def test_limits(peer: DiscordPeer, call: Caller) -> None:
    peer.limit = (2, 5.0)
    channel_id = peer.channel()
    statuses = [(await call("POST", f"/channels/{channel_id}/messages", {"content": "x"}))[0] for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert (await call("POST", f"/channels/{peer.channel()}/messages", {"content": "x"}))[0] == 200


async def hold(
    peer: DiscordPeer, call: Caller, *payloads: Any, query: str = "?v=10&encoding=json&compress=zlib-stream"
) -> tuple[list[Any], int]:
    """Send payloads and return what came until the server closed or a READY, and the close code."""
    inflate = zlib.decompressobj()
    chunks: list[Any] = []
    async with call.session.ws_connect(peer.gateway.url + "/" + query) as socket:
        for payload in payloads:
            await socket.send_str(payload if isinstance(payload, str) else json.dumps(payload))
        async for message in socket:
            chunks.append(json.loads(inflate.decompress(message.data)))
            if chunks[-1]["t"] in ("GUILD_CREATE", "RESUMED") or chunks[-1]["op"] == 9:
                break
        return chunks, socket.close_code or 0


@pytest.mark.parametrize(
    ("payloads", "code"),
    [
        (["{"], 4002),
        ([{"op": 3, "d": {}}], 4003),
        ([{"op": 2, "d": {"token": "no", "properties": PROPERTIES, "intents": 1}}], 4004),
        ([{"op": 2, "d": {"token": "T", "properties": PROPERTIES, "intents": 1 << 40}}], 4013),
        ([{"op": 2, "d": {"token": "T", "properties": PROPERTIES, "intents": 1 << 1}}], 4014),
        ([{"op": 2, "d": {"token": "T", "properties": {}, "intents": 1}}], 4002),
        ([{"op": 6, "d": {"token": "no", "session_id": "x", "seq": 1}}], 4004),
    ],
)
async def test_the_gateway_closes_for_mistakes(peer: DiscordPeer, call: Caller, payloads: list[Any], code: int) -> None:
    parsed_payloads = [json.loads(json.dumps(payload).replace('"T"', json.dumps(peer.token))) for payload in payloads]
    assert (await hold(peer, call, *parsed_payloads))[1] == code
    assert peer.gateway.closed == [code]


async def test_the_gateway_identifies_resumes_and_hides(peer: DiscordPeer, call: Caller) -> None:
    channel_id = peer.channel()
    identify = {"op": 2, "d": {"token": peer.token, "properties": PROPERTIES, "intents": 1 | 1 << 9}}
    payloads, _ = await hold(peer, call, {"op": 1, "d": None}, identify)
    assert [entry["op"] for entry in payloads] == [10, 11, 0, 0]
    session = payloads[2]["d"]["session_id"]
    await peer.say(channel_id, "secret")
    await peer.say(channel_id, f"{peer.mention} open")
    resume = {"op": 6, "d": {"token": peer.token, "session_id": session, "seq": 2}}
    second_reply, _ = await hold(peer, call, resume)
    assert [entry["d"].get("content") for entry in second_reply if entry["t"] == "MESSAGE_CREATE"] == [
        "",
        f"{peer.mention} open",
    ]
    assert [entry["s"] for entry in second_reply if entry["s"]] == [3, 4, 5]
    unknown, _ = await hold(peer, call, {"op": 6, "d": {"token": peer.token, "session_id": "x", "seq": 2}})
    assert (unknown[-1]["op"], unknown[-1]["d"]) == (9, False)
    assert (await hold(peer, call, query="?v=9"))[1] == 4012


async def test_commands_have_three_seconds(peer: DiscordPeer, call: Caller) -> None:
    invalid_commands = [{"name": "Ask!", "type": 1, "description": "x", "options": []}]
    assert (await call("PUT", "/applications/5002/commands", invalid_commands))[0] == 400
    valid_commands = [{"name": "ask", "type": 1, "description": "x", "options": []}]
    assert (await call("PUT", "/applications/5002/commands", valid_commands))[0] == 200
    command = await peer.command(peer.channel(), "ask")
    respond = f"/webhooks/5002/{command.token}/messages/@original"
    assert (await call("PATCH", respond, {"content": "early"}))[1]["code"] == 10015
    callback = f"/interactions/{command.id}/{command.token}/callback"
    assert (await call("POST", callback, {"type": 5}))[0] == 204
    assert (await call("POST", callback, {"type": 5}))[1]["code"] == 40060
    assert (await call("PATCH", respond, {"content": "now"}))[0] == 200
    peer.token_s = 0
    assert (await call("PATCH", respond, {"content": "late"}))[1]["code"] == 50027
    peer.acknowledge_s = 0
    late_command = await peer.command(command.channel, "ask")
    assert (await call("POST", f"/interactions/{late_command.id}/{late_command.token}/callback", {"type": 5}))[1][
        "code"
    ] == 10062
