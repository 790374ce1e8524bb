"""The form of `/kimas settings`: opened once and in time, taken as the commands it stands for, told what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from bots.slack.adapter import SlackAdapter
from bots.slack.settings_modal import MAX_FIELDS
from core.catalogue import ENGLISH
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.inbox import Inbox
from core.storage.messages import Journal
from core.types import ConversationKey, Message
from core.types.forms import FormField, SettingsForm
from tests.conformance.bot import Gate, Script
from tests.support import slack_helpers
from tests.support.fixtures import settings
from tests.support.peers.slack import SlackPeer
from tests.support.peers.slack_events import Envelope
from tests.support.peers.slack_views import View
from tests.support.wiring import make_processor, running, wire_dispatcher

ANN = "U1ANN"
LENA = "U2LENA"
OWNER = "U9OWNER"
CHAT = "slack:C1"
SOURCES = {name: {"kind": "faq", "path": f"{name}.yaml"} for name in ("docs", "code")}
MODE = "mode {}"
THRESHOLD = "threshold {}"
DOCS = "sources {} docs"
SCALE = "sources scale docs {}"


@dataclass
class Bot:
    peer: SlackPeer
    adapter: SlackAdapter
    journal: Journal
    dispatcher: CommandDispatcher
    processor: Inbox

    async def opened(self, user: str = OWNER) -> View:
        """Give the command and return the modal."""
        count = len(self.peer.views.all)
        self.peer.command("settings", user=user)
        await self.peer.wait_until(lambda: len(self.peer.views.all) > count, 30)
        return self.peer.views.all[-1]

    async def sent(self, view: View, values: dict[str, str], **extra_fields: Any) -> Envelope:
        """Send the modal and wait until that is taken."""
        envelope = self.peer.submit(view, values, **extra_fields)
        await self.peer.wait_until(envelope.acknowledged.is_set, 30)
        assert not view.trouble
        return envelope

    async def run_command(self, words: str, user: str) -> dict[str, Any]:
        """Use the command and wait for its answer."""
        count = len(self.peer.responses)
        self.peer.command(words, user=user)
        await self.peer.wait_until(lambda: len(self.peer.responses) > count, 30)
        return self.peer.responses[-1]

    async def written(self) -> list[tuple[str, str, str, str]]:
        """Return the audit, oldest first: outcome, command, before and after."""
        entries = await self.dispatcher.context.audit.get_newest(100, chat=None)
        return [(entry.outcome, entry.command, entry.before, entry.after) for entry in reversed(entries)]


Start = Callable[..., Awaitable[Bot]]


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        # Three seconds are not much for a busy machine; other tests look at them.
        peer.views.trigger_s = 60
        peer.deliveries.patience_s = 60
        yield peer


@pytest.fixture
async def start(peer: SlackPeer, tmp_path: Path) -> AsyncIterator[Start]:
    """Return what starts a bot that listens to the peer; another start ends the one before."""
    async with AsyncExitStack() as outer:
        stack = AsyncExitStack()

        async def end() -> None:
            await stack.aclose()

        outer.push_async_callback(end)

        async def started(
            *,
            http: bool = False,
            submit_s: float = 30.0,
            mute: bool = False,
            script: Script | None = None,
            **changes: Any,
        ) -> Bot:
            nonlocal stack
            await end()
            stack = AsyncExitStack()
            journal = await Journal.open(tmp_path / "journal.db")
            stack.push_async_callback(journal.close)
            pace = replace(slack_helpers.PACE, submit_timeout_s=submit_s)
            slack_settings = slack_helpers.settings(peer, tmp_path, http=http)
            threads = slack_helpers.Threads()
            adapter = SlackAdapter(slack_settings, threads.answered_in, pace, read_only=mute)
            configuration = settings(administration={"owners": [f"slack:{OWNER}"]}, **{"sources": SOURCES, **changes})
            dispatcher = wire_dispatcher(configuration, journal)
            processor = make_processor(configuration, journal, script or Script(), dispatcher=dispatcher)
            await stack.enter_async_context(running(adapter, processor))
            if http:
                await peer.wait_until(lambda: bool(adapter.port), 30)
                peer.deliveries.target = f"http://127.0.0.1:{adapter.port}{slack_settings.path}"
            return Bot(peer, adapter, journal, dispatcher, processor)

        yield started


@pytest.mark.parametrize("http", [False, True], ids=["socket mode", "http"])
async def test_what_is_saved_is_what_the_commands_would_have_done(start: Start, http: bool) -> None:
    bot = await start(http=http)
    view = await bot.opened()
    assert view.user == OWNER
    assert view.get_values() == {
        MODE: "default",
        THRESHOLD: "default",
        DOCS: "on",
        SCALE: "1",
        "sources {} code": "on",
        "sources scale code {}": "1",
    }
    await bot.sent(view, {MODE: "auto", THRESHOLD: "0.7", DOCS: "off", SCALE: "2.50"})
    assert not view.open
    overrides = bot.dispatcher.context.overrides
    assert (overrides.mode(CHAT), overrides.threshold(CHAT)) == ("auto", 0.7)
    assert (overrides.is_off("docs"), overrides.scale("docs"), overrides.is_off("code")) == (True, 2.5, False)
    assert await bot.written() == [
        ("changed", "mode auto", "mention", "auto"),
        ("changed", "threshold 0.7", "0.5", "0.7"),
        ("changed", "sources off docs", "on", "off"),
        ("changed", "sources scale docs 2.50", "1", "2.5"),
    ]
    assert bot.peer.responses == [], "nobody is told what a form shows already"

    bot = await start(http=http)
    second_form = await bot.opened()
    assert (
        second_form.get_values() | {MODE: "auto", THRESHOLD: "0.7", DOCS: "off", SCALE: "2.5"}
        == second_form.get_values()
    )
    await bot.sent(second_form, {MODE: "default", THRESHOLD: "default", DOCS: "on", SCALE: "1"})
    assert (bot.dispatcher.context.overrides.mode(CHAT), bot.dispatcher.context.overrides.threshold(CHAT)) == (
        None,
        None,
    )
    assert not bot.dispatcher.context.overrides.has_source_overrides


async def test_what_nobody_touched_is_not_changed(start: Start) -> None:
    bot = await start()
    view = await bot.opened()
    # Somebody else was faster with one of the values; the form does not take that back.
    await bot.run_command("mode off", OWNER)
    await bot.sent(view, {SCALE: "1.0"})
    assert not view.open
    assert bot.dispatcher.context.overrides.mode(CHAT) == "off"
    assert await bot.written() == [("changed", "mode off", "mention", "off")]


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        (THRESHOLD, "1.2", "value must be a number from 0 to 1"),
        (THRESHOLD, "nan", "value must be a number"),
        (THRESHOLD, "0.5 off", "Too many words"),
        (SCALE, "0", "factor must be a number from 0.1 to 10"),
        (SCALE, "<!channel>", "factor must be a number"),
    ],
)
async def test_a_bad_value_is_told_at_its_field_and_changes_nothing(
    start: Start, field: str, value: str, error: str
) -> None:
    bot = await start()
    view = await bot.opened()
    await bot.sent(view, {MODE: "auto", field: value})
    assert view.open
    assert list(view.errors) == [field]
    assert view.errors[field].startswith(error)
    assert await bot.written() == []
    await bot.sent(view, {MODE: "auto", field: "0.5"})
    assert not view.open
    assert [entry[1].split()[0] for entry in await bot.written()] == ["mode", field.partition(" ")[0]]


async def test_an_admin_changes_the_chat_and_only_sees_the_sources(start: Start) -> None:
    bot = await start()
    await bot.run_command(f"admins add {LENA}", OWNER)
    await bot.run_command("sources off docs", OWNER)
    view = await bot.opened(LENA)
    assert list(view.get_values()) == [MODE, THRESHOLD]
    assert view.notes().splitlines() == [
        "docs: not used for answers, weight 1; only owners change that",
        "code: used for answers, weight 1; only owners change that",
    ]
    await bot.sent(view, {MODE: "off"})
    assert bot.dispatcher.context.overrides.mode(CHAT) == "off"


async def test_who_may_is_asked_again_when_the_form_is_sent(start: Start) -> None:
    bot = await start()
    await bot.run_command(f"admins add {LENA}", OWNER)
    view = await bot.opened(LENA)
    await bot.run_command(f"admins remove {LENA}", OWNER)
    await bot.sent(view, {MODE: "auto", THRESHOLD: "0.1"})
    text = "Only this bot's admins in this chat can do that."
    assert view.errors == {MODE: text, THRESHOLD: text}
    assert (bot.dispatcher.context.overrides.mode(CHAT), bot.dispatcher.context.overrides.threshold(CHAT)) == (
        None,
        None,
    )
    assert [entry[:2] for entry in await bot.written()][-2:] == [("refused", "mode"), ("refused", "threshold")]
    # Whoever sends it, it is the sender who is asked about.
    theirs = await bot.opened(OWNER)
    await bot.sent(theirs, {DOCS: "off"}, user=ANN)
    assert theirs.errors == {DOCS: "Only the owners of this bot may do that."}
    assert not bot.dispatcher.context.overrides.is_off("docs")


async def test_others_get_a_word_and_no_form(start: Start) -> None:
    bot = await start()
    answer = await bot.run_command("settings", ANN)
    assert answer["response_type"] == "ephemeral"
    assert answer["text"] == "Only this bot's admins in this chat can do that."
    assert bot.peer.get_calls("views.open") == []
    assert [entry[:2] for entry in await bot.written()] == [("refused", "settings")]
    assert (await bot.run_command("settings of the cache?", ANN))["text"].startswith(
        "> ann: settings of the cache?\n\nAnswer to"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("expired_trigger_id", "Slack opens a form within three seconds of the command, and only once"),
        ("exchanged_trigger_id", "Slack opens a form within three seconds of the command, and only once"),
        ("internal_error", "views.open failed"),
        ("ratelimited", "Slack asks to wait 7 s before views.open"),
        ("dropped", "Slack cannot be reached for views.open"),
    ],
)
async def test_a_form_that_does_not_open_is_told(start: Start, error: str, reason: str) -> None:
    bot = await start()
    if error == "expired_trigger_id":
        bot.peer.views.trigger_s = 0.0
    elif error == "dropped":
        bot.peer.fail("views.open", drop="before")
    else:
        is_slow = error == "ratelimited"
        bot.peer.fail("views.open", error, status=429 if is_slow else 200, retry_after=7 if is_slow else 0)
    answer = await bot.run_command("settings", OWNER)
    assert answer["response_type"] == "ephemeral"
    assert reason in answer["text"]
    assert "Nothing was changed. Give the command again" in answer["text"]
    assert len(bot.peer.get_calls("views.open")) == 1
    bot.peer.views.trigger_s = 60
    assert (await bot.opened()).open


@pytest.mark.parametrize("http", [False, True], ids=["socket mode", "http"])
async def test_delivered_again_it_changes_nothing_twice_and_is_answered_the_same(start: Start, http: bool) -> None:
    bot = await start(http=http)
    view = await bot.opened()
    envelope = await bot.sent(view, {MODE: "auto", SCALE: "3"})
    second_outcome = bot.peer.deliveries.deliver("interactive", envelope.payload)
    await bot.peer.wait_until(second_outcome.acknowledged.is_set, 30)
    assert second_outcome.response == envelope.response == {}
    assert len(await bot.written()) == 2
    # What was refused is not tried again either, and is told again.
    view = await bot.opened()
    envelope = await bot.sent(view, {MODE: "off"}, user=ANN)
    second_outcome = bot.peer.deliveries.deliver("interactive", envelope.payload)
    await bot.peer.wait_until(second_outcome.acknowledged.is_set, 30)
    assert second_outcome.response == envelope.response
    assert second_outcome.response["errors"][MODE].startswith("Only ")
    assert len(await bot.written()) == 3


async def test_delivered_again_after_a_restart_it_changes_nothing_twice(start: Start) -> None:
    bot = await start()
    view = await bot.opened()
    envelope = await bot.sent(view, {MODE: "auto"})
    bot = await start(submit_s=0.1)
    second_outcome = bot.peer.deliveries.deliver("interactive", envelope.payload)
    await bot.peer.wait_until(second_outcome.acknowledged.is_set, 30)
    assert second_outcome.response["errors"] == {MODE: ENGLISH.form_save_timeout}
    assert len(await bot.written()) == 1


async def test_a_form_opened_before_a_restart_can_be_sent_after_it(start: Start) -> None:
    view = await (await start()).opened()
    bot = await start()
    await bot.sent(view, {MODE: "auto"})
    assert not view.open
    assert bot.dispatcher.context.overrides.mode(CHAT) == "auto"


async def test_a_part_that_was_saved_is_not_saved_again_with_the_rest(start: Start) -> None:
    bot = await start()
    view = await bot.opened()
    previous_settings = bot.dispatcher.context.settings
    bot.dispatcher.context.live.settings = previous_settings.model_copy(
        update={"sources": {"code": previous_settings.sources["code"]}}
    )
    await bot.sent(view, {MODE: "auto", DOCS: "off"})
    assert list(view.errors) == [DOCS]
    assert view.errors[DOCS] == "No source has that name. The sources are: code."
    bot.dispatcher.context.live.settings = previous_settings
    await bot.sent(view, {MODE: "auto", DOCS: "off"})
    assert not view.open
    assert [entry[1] for entry in await bot.written()] == ["mode auto", "sources off docs"]


async def test_what_comes_too_late_for_the_form_is_told_by_a_note(start: Start) -> None:
    bot = await start(submit_s=0.0)
    view = await bot.opened()
    await bot.sent(view, {MODE: "auto"})
    assert view.errors == {MODE: ENGLISH.form_save_timeout}
    await bot.peer.wait_until(lambda: len(bot.peer.responses) == 1, 30)
    note = bot.peer.responses[0]
    assert (note["response_type"], note["text"]) == (
        "ephemeral",
        "The mode of this chat is now `auto`; it was `mention`.",
    )
    assert bot.dispatcher.context.overrides.mode(CHAT) == "auto"


async def test_a_change_that_a_crash_interrupted_is_made_and_told(start: Start) -> None:
    bot = await start()
    view = await bot.opened()
    envelope = await bot.sent(view, {MODE: "off"}, user=ANN)
    assert [entry[0] for entry in await bot.written()] == ["refused"]
    assert isinstance(envelope.payload, dict)
    payload = {**envelope.payload, "user": {"id": OWNER, "name": "o"}, "trigger_id": "9.9.9"}
    results = bot.adapter._convert(payload)
    [change] = [item for item in results.changes if item.value != item.initial_value]  # type: ignore[union-attr]
    assert await bot.journal.record_message(change.message)
    await bot.processor.resume(bot.adapter)
    await bot.peer.wait_until(lambda: len(bot.peer.responses) == 1, 30)
    assert bot.peer.responses[0]["text"] == "The mode of this chat is now `off`; it was `mention`."


async def test_unsigned_foreign_and_malformed_submissions_change_nothing(start: Start) -> None:
    bot = await start(http=True)
    view = await bot.opened()
    envelope = await bot.sent(view, {})
    assert isinstance(envelope.payload, dict)
    payload = {**envelope.payload, "trigger_id": "7.7.7"}
    payload["view"]["state"]["values"][MODE]["value"]["selected_option"]["value"] = "auto"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    request = bot.peer.deliveries.request
    skipped_counts = bot.adapter.skipped
    assert (await request(urlencode({"payload": json.dumps(payload)}), secret="another", **form))[0] == 401
    foreign = {**payload, "view": {**payload["view"], "callback_id": "another-apps"}}
    for payload_without in (foreign, {**payload, "view": {}}, {**payload, "user": None}, {"type": "view_submission"}):
        assert await request(urlencode({"payload": json.dumps(payload_without)}), **form) == (200, "")
    assert sum(skipped_counts.values()) == 4
    assert await bot.written() == []


async def test_a_form_holds_what_a_modal_can(start: Start) -> None:
    sources = {f"s{number:02d}{'x' * 60}": {"kind": "faq", "path": "f.yaml"} for number in range(60)}
    bot = await start(sources=sources)
    view = await bot.opened()
    assert len(view.get_values()) == MAX_FIELDS
    assert view.notes() == ENGLISH.form_too_many_fields
    last = next(name for name in sources if name.startswith("s45"))
    await bot.sent(view, {f"sources {{}} {last}": "off"})
    assert bot.dispatcher.context.overrides.is_off(last)


async def test_a_dry_run_opens_nothing(start: Start) -> None:
    bot = await start(mute=True)
    bot.peer.command("settings", user=OWNER)
    await bot.peer.wait_until(bot.peer.deliveries.envelopes[0].acknowledged.is_set, 30)
    await bot.processor.drain(30)
    assert bot.peer.get_calls("views.open") == []
    assert bot.peer.responses == []


async def test_lost_connections_and_a_refusing_journal_lose_or_double_no_form(start: Start) -> None:
    bot = await start()
    view = await bot.opened()
    bot.peer.deliveries.patience_s = 1.0
    envelope = bot.peer.submit(view, {MODE: "auto"})
    await bot.peer.wait_until(lambda: bool(envelope.attempts), 30)
    bot.peer.deliveries.abort()
    await bot.peer.wait_until(envelope.acknowledged.is_set, 30)
    assert not view.open
    assert [entry[1] for entry in await bot.written()] == ["mode auto"]


async def test_a_form_does_not_wait_for_answers_in_the_making(start: Start) -> None:
    gate = Gate()
    script = Script(before=gate)
    bot = await start(script=script, run={"workers": 1})
    bot.peer.command("ask How?", user=OWNER)
    await asyncio.wait_for(gate.reached.wait(), 30)
    view = await bot.opened()
    await bot.sent(view, {MODE: "auto", DOCS: "off"})
    assert not view.open
    assert bot.dispatcher.context.overrides.is_off("docs")
    assert bot.peer.responses == []
    gate.open.set()


async def test_what_cannot_be_kept_is_not_acknowledged(peer: SlackPeer, tmp_path: Path) -> None:
    pace = replace(slack_helpers.PACE, submit_timeout_s=0.05)
    adapter = SlackAdapter(slack_helpers.settings(peer, tmp_path), slack_helpers.Threads().answered_in, pace)
    inbox = slack_helpers.Inbox()
    async with slack_helpers.listening(adapter, inbox):
        peer.command("settings", user=OWNER)
        command = await inbox.until(1)
        await adapter.show_form(command, SettingsForm((FormField("pause {}", "Minutes of silence", "5"),)))
        peer.deliveries.patience_s = 1.0
        inbox.refusals = 1
        envelope = peer.submit(peer.views.all[0], {"pause {}": "7"})
        messages = await inbox.until(2)
        await peer.wait_until(envelope.acknowledged.is_set, 30)
    assert len(envelope.attempts) >= 2
    assert (messages.command, messages.text, messages.author_id, messages.addressed) == ("pause", "7", OWNER, True)
    assert (messages.key, messages.private) == (command.key, False)
    assert peer.views.all[0].errors == {"pause {}": ENGLISH.form_save_timeout}, "nobody says here what came of it"


async def test_where_there_are_no_forms_the_same_is_said_in_words(start: Start) -> None:
    bot = await start()
    await bot.run_command("sources scale docs 2", OWNER)
    await bot.run_command("threshold 0.8", OWNER)
    key = ConversationKey("slack", "C1")
    message = Message("1", key, OWNER, "Boss", "", datetime.now(UTC), addressed=True, command="settings")
    assert (await bot.dispatcher.dispatch(message, None)).splitlines() == [
        "- When I speak in this chat: As configured (mention). `/mode default|off|mention|auto|draft`",
        "- How sure I must be to speak unprompted: 0.8. `/threshold VALUE` "
        "(0 to 1, or default for the configured value (0.5))",
        "- docs: used for answers: On. `/sources on|off docs`",
        "- docs: weight of its passages: 2. `/sources scale docs VALUE` (0.1 to 10; 1 is the normal weight)",
        "- code: used for answers: On. `/sources on|off code`",
        "- code: weight of its passages: 1. `/sources scale code VALUE` (0.1 to 10; 1 is the normal weight)",
    ]


@pytest.mark.parametrize("given_by", ["words", "ask"])
async def test_a_call_shows_the_words_that_nobody_else_saw(start: Start, given_by: str) -> None:
    bot = await start(handoff={"people": ["slack:U7HELP"], "cooldown_minutes": 0})
    question = "Why does *it* <!channel> fail & `burn`?"
    if given_by == "words":
        bot.peer.command(f"escalate {question}", user=ANN)
    else:
        await bot.run_command(f"ask {question}", ANN)
        bot.peer.command("escalate", user=ANN)

    def calls() -> list[str]:
        return [response["text"] for response in bot.peer.responses if "U7HELP" in response["text"]]

    await bot.peer.wait_until(lambda: bool(calls()), 30)
    handoff = ENGLISH.handoff.format(author="ann")
    assert calls() == [f"<@U7HELP> {handoff}\n\n`Why does *it* &lt;!channel&gt; fail &amp; 'burn'?`"]


async def test_a_call_for_a_question_that_everybody_sees_does_not_repeat_it(start: Start) -> None:
    bot = await start(handoff={"people": ["slack:U7HELP"], "cooldown_minutes": 0})
    bot.peer.say("C1", "<@UBOT> And this?")
    await bot.peer.wait_for_reply("C1", 30, containing="Answer to: And this?")
    bot.peer.command("escalate", user=ANN)
    call = await bot.peer.wait_for_reply("C1", 30, containing="U7HELP")
    assert call.text == f"<@U7HELP> {ENGLISH.handoff.format(author=ANN)}"
