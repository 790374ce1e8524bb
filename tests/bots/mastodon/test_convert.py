"""From a status to a message: whose words it quotes, and whose a content warning is."""

from __future__ import annotations

import pytest

from bots.mastodon.client import Identity
from bots.mastodon.convert import to_message
from core.types import Message
from tests.support.peers.mastodon import BOT, DOMAIN, MastodonPeer


@pytest.mark.parametrize("is_quote_post", [False, True])
@pytest.mark.parametrize("is_own", [False, True])
async def test_a_message_knows_whether_it_quotes_the_bot(*, is_own: bool, is_quote_post: bool) -> None:
    peer = MastodonPeer()
    ann = peer.account("ann")
    quoted_id = await peer.say(BOT if is_own else ann, "The plan is to move.")
    quoted_status = peer.to_json(peer.statuses[quoted_id])
    extra = {"quote": {"quoted_status": quoted_status}} if is_quote_post else {"reply_to": quoted_id}
    question_id = await peer.say(ann, "@kimas why?", **extra)  # type: ignore[arg-type]
    above = [] if is_quote_post else [quoted_status]
    message = to_message(peer.to_json(peer.statuses[question_id]), above, Identity(BOT.id, BOT.username, DOMAIN), 5)
    assert isinstance(message, Message)
    assert message.quoted == "The plan is to move."
    assert message.quoted_authors == ((f"{BOT.username}@{DOMAIN}",) if is_own else ())


async def reply_below(
    peer: MastodonPeer, warning: str, text: str, own_warning: str, *, is_shown: bool = True
) -> Message:
    """Return the reply of somebody to a stranger's post that has a content warning."""
    parent_id = await peer.say(peer.account("eve"), "@kimas @ann look", spoiler_text=warning)
    reply_id = await peer.say(peer.account("ann"), text, reply_to=parent_id, spoiler_text=own_warning)
    above = [peer.to_json(peer.statuses[parent_id])] if is_shown else []
    message = to_message(peer.to_json(peer.statuses[reply_id]), above, Identity(BOT.id, BOT.username, DOMAIN), 5)
    assert isinstance(message, Message)
    return message


@pytest.mark.parametrize("own_warning", ["/forget", "re: /forget", "RE: re: /forget"])
@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_warning_that_an_app_took_over_is_not_of_its_author(own_warning: str, *, is_shown: bool) -> None:
    """Apps put the warning of what is replied to into the reply, and a stranger has written it."""
    message = await reply_below(MastodonPeer(), "/forget", "@eve @kimas what is this?", own_warning, is_shown=is_shown)
    assert message.command == ""
    assert message.text.removeprefix("@eve ") == "what is this?"
    # Kept where its author's other words are, and go with them.
    assert "/forget" not in str(message.reference)
    assert message.quoted[: message.reference["quoted_warning_chars"]] == ("/forget" if is_shown else "")


async def test_what_stands_in_a_warning_of_ones_own_is_said_and_no_command() -> None:
    message = await reply_below(MastodonPeer(), "", "@eve @kimas how?", "/forget")
    assert (message.command, message.text) == ("", "/forget\n\nhow?")


async def test_a_command_is_given_behind_a_warning() -> None:
    message = await reply_below(MastodonPeer(), "support", "@eve @kimas /why 12", "support")
    assert (message.command, message.text) == ("why", "12")


async def test_a_warning_does_not_make_a_mention_of_all_above_mean_the_bot() -> None:
    """A reply begins with the names of all who were mentioned before; so it does behind a warning."""
    assert not (await reply_below(MastodonPeer(), "work", "@eve @kimas thank you", "work")).addressed
    assert (await reply_below(MastodonPeer(), "work", "@eve thank you, @kimas how?", "work")).addressed
