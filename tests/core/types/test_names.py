"""A name means something in one network: no network can send an id that stands for something in another one."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings, strategies as st

from bots.common.namespaced import NamespacedAdapter
from bots.http.convert import MalformedEvent, check_namespace
from core.types import ConversationKey, Message, PlatformName
from tests.support.plain_bot import Plain, message

NETWORKS = ("", "shop", "shop-2", "2")
# Made of what the ending of a named network is made of, and of what may be taken for it.
IDS = st.text(st.sampled_from("@shop-2.＠ｓA \n\0"), min_size=1)


async def receive(network: str, identifier: str) -> Message | None:
    """Return what the daemon gets as a message of a network's person in their chat; None where it refuses it."""
    key = ConversationKey("http", identifier)
    sent = message("1", "", key=key, author_id=identifier, quoted_authors=(identifier,))
    if not network:
        try:
            for names in ({"chat": identifier}, {"author": {"id": identifier}}, {"quoted_author": identifier}):
                check_namespace(names)
        except MalformedEvent:
            return None
        return sent
    adapter = Plain("http")
    adapter.inbox.append(sent)
    received: list[Message] = []

    async def take(item: Message) -> None:
        received.append(item)

    await NamespacedAdapter(network, adapter).listen(take)
    return received[0]


@settings(deadline=None)
@given(st.sampled_from(NETWORKS), IDS, st.sampled_from(NETWORKS), IDS)
def test_no_network_writes_an_id_of_another(network: str, identifier: str, other: str, other_id: str) -> None:
    async def receive_all() -> list[Message | None]:
        as_the_other_writes = (identifier, other_id, f"{other_id}@{other}", f"{other_id}@{other}\n")
        return [await receive(other, other_id), *[await receive(network, text) for text in as_the_other_writes]]

    theirs, *ours = asyncio.run(receive_all())
    for name, received in ((other, theirs), *((network, item) for item in ours)):
        if received:
            expected_network = f"http@{name}" if name else "http"
            assert PlatformName("http", received.key.chat).network == expected_network
            for person in (received.author_id, *received.quoted_authors):
                assert PlatformName("http", person).network == expected_network
    if theirs and network != other:
        assert theirs.key.chat not in [received.key.chat for received in ours if received]


@pytest.mark.parametrize(
    ("text", "network", "bot", "native_id"),
    [
        ("http:lobby@shop", "http@shop", "shop", "lobby"),
        ("http:ann@example.org@shop", "http@shop", "shop", "ann@example.org"),
        ("http:ann@example.org", "http", "", "ann@example.org"),
        ("telegram:5@support", "telegram", "support", "5"),
        ("slack:C1", "slack", "", "C1"),
        ("console:group", "console", "", "group"),
    ],
)
def test_a_name_says_its_network_its_bot_and_the_id_there(text: str, network: str, bot: str, native_id: str) -> None:
    name = PlatformName.parse(text)
    assert (name.network, name.bot, name.native_id, str(name)) == (network, bot, native_id, text)
