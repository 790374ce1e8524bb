"""Nothing of a closed source reaches an outsider: every way out is tried by every kind of outsider.

Unique words stand in the closed sources' names, texts, titles, paths and addresses, and in the names and descriptions
of their agents. The knowledge is ingested into the real store, and every message takes the real way through the
processor. The model repeats all that it is told: what reaches it reaches its answer.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from sqlalchemy import update

from bots.cli.backup import backup, restore
from bots.daemon.adapters import make_source_lookup
from bots.daemon.bootstrap import make_inbox, make_live_settings, open_app
from core.errors import UsageError
from core.llm import repetition
from core.messaging.feedback import rating_buttons
from core.messaging.policy.permissions import Permissions
from core.ports import Sink
from core.settings import AgentSettings, Settings
from core.settings.audience import Audiences
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import DOWN, RATING_COMMAND, RETRY, ConversationKey, Message, Origin, Question, Reply
from knowledge.parsing.parser import ThreadParser
from tests.support.fixtures import MemorySink
from tests.support.journal import read_history
from tests.support.knowledge import WordEmbedder
from tests.support.peers.web import Hit, WebPeer
from tests.support.recording_bot import MEMBER, Bot, RecordingAdapter, Sender, repeat
from tests.support.scripted import Body, ScriptedPeer

pytestmark = pytest.mark.usefixtures("time_lapse", "wide_grey_zone")

OWNER = "1"
PUBLIC = "-100"
TEAM = "-200"
OTHER_CHAT = "C9"
# By where they stand. None of them is in any question.
WORDS = {
    "text": "numbat",
    "title": "bilby",
    "path": "dunnart",
    "address": "potoroo",
    "source": "quokka",
    "agent": "quoll",
    "description": "wombat",
    "example": "bandicoot",
    "live source": "mulgara",
    "live text": "kowari",
    "live address": "pademelon",
    "broken source": "antechinus",
    "lesson": "kultarr",
}
AUDIENCE = [f"telegram:{TEAM}", "owners"]
QUESTION = "When is the release date of the launcher?"
REPLY_ID = "9001"


def make_settings(
    folder: Path, model: ScriptedPeer | None, web: WebPeer, audience: Sequence[str] = AUDIENCE, **changes: Any
) -> Settings:
    live = {"kind": "search_api", "provider": "searxng", "base_url": web.url("/searxng"), "cache_s": 0}
    closed = {"audience": audience}
    values = {
        "data_dir": str(folder / "data"),
        "sources": {
            "docs": {"kind": "files", "path": str(folder / "docs")},
            "quokka": {
                "kind": "files",
                "path": str(folder / "team"),
                "link": "https://potoroo.example.org/{path}",
                **closed,
            },
            "mulgara": {**live, "allow_private": ["127.0.0.1"], **closed},
            "antechinus": {"kind": "files", "path": str(folder / "missing"), **closed},
            "taught": {"kind": "learned"},
            "taught-team": {"kind": "learned", **closed},
        },
        "agents": {
            "manual": {"sources": ["docs", "taught"], "description": "The launcher, for everyone"},
            "quoll": {
                "sources": ["quokka", "antechinus", "taught-team"],
                "description": "wombat: release date of the launcher",
                "examples": ["bandicoot: When is the release date of the launcher?"],
            },
            "mulgara-web": {"sources": ["mulgara"]},
        },
        "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
        "telegram": {"token": {"env": "TELEGRAM"}},
        "slack": {"bot_token": {"env": "SLACK"}, "app_token": {"env": "SLACK_APP"}},
        "administration": {"owners": [f"telegram:{OWNER}", f"slack:{OWNER}"]},
        "gate": {"mode": "auto", "grey": "suggest", "threshold": 1, "wait_s": 0, "cooldown_s": 0},
        "budget": {"deadline_s": 6000},
        "cache": {"enabled": True},
        "auto_comment": {"chats": ["telegram:-300", f"telegram:{TEAM}"], "needs_citation": False, "deadline_s": 600},
        "handoff": {"people": ["telegram:7", "slack:7"], "trusted": [f"telegram:{MEMBER}", f"slack:{MEMBER}"]},
        **changes,
    }
    if model:
        values["models"] = {"main": {"base_url": model.base_url, "model": "peer", "tools": True}}
    return Settings.model_validate(values)


def write_documents(folder: Path) -> None:
    (folder / "docs").mkdir()
    (folder / "docs" / "start.md").write_text(
        "# Launcher\n\nThe release date of the launcher is announced on the site.\n", "utf-8"
    )
    (folder / "team").mkdir()
    text = "# bilby\n\nThe release date of the launcher is the first of May, numbat.\n"
    (folder / "team" / "dunnart.md").write_text(text, "utf-8")


INSIDERS = {
    "member of the team's channel": Sender(TEAM),
    "owner in private": Sender(OWNER, OWNER, is_private=True),
}
OUTSIDERS = {
    "member of the public group": Sender(PUBLIC),
    "owner in the public group": Sender(PUBLIC, OWNER),
    "reader of the public channel": Sender("-300"),
    "stranger in private": Sender(MEMBER, is_private=True),
    "member of another platform": Sender(OTHER_CHAT, platform="slack"),
    "somebody in a chat of the team's number elsewhere": Sender(TEAM, platform="slack"),
}


Action = Callable[[Bot, Sender], Awaitable[object]]


async def ask(bot: Bot, sender: Sender) -> None:
    await bot.deliver(sender, QUESTION)


async def ask_by_command(bot: Bot, sender: Sender) -> None:
    await bot.deliver(sender, QUESTION, "ask")


async def ask_for_names(bot: Bot, sender: Sender) -> None:
    await bot.deliver(sender, "Which release date sources and agents do you know besides the launcher manual?")


async def greet(bot: Bot, sender: Sender) -> None:
    for text in ("hi", "who are you?", "what can you do?", "thanks"):
        await bot.deliver(sender, text)


async def ask_twice(bot: Bot, sender: Sender) -> None:
    await ask(bot, sender)
    await bot.deliver(sender, f"  {QUESTION.lower()} ")


async def go_on(bot: Bot, sender: Sender) -> None:
    await ask(bot, sender)
    await bot.deliver(sender, "And what else is known about it?")


async def press(bot: Bot, sender: Sender, choice: str, message: Message) -> None:
    key = ConversationKey(sender.platform, sender.chat, rating_buttons.THREAD)
    await bot.deliver(sender, choice, RATING_COMMAND, reply_to=message.id, key=key)


async def ask_again(bot: Bot, sender: Sender) -> None:
    message = await bot.deliver(sender, QUESTION)
    bot.output()
    await press(bot, sender, DOWN, message)
    await press(bot, sender, RETRY, message)


async def overhear(bot: Bot, sender: Sender) -> None:
    message = await bot.deliver(sender, "Is the release date of the launcher the first of May?", addressed=False)
    await bot.deliver(sender, message.id, "why")


async def comment(bot: Bot, sender: Sender) -> None:
    await bot.deliver(sender, QUESTION, addressed=False, is_post=True)


async def explain(bot: Bot, sender: Sender) -> None:
    message = await bot.deliver(sender, QUESTION)
    await bot.deliver(sender, "", "why")
    await bot.deliver(sender, message.id, "why")


async def escalate(bot: Bot, sender: Sender) -> None:
    await ask(bot, sender)
    await bot.deliver(sender, "When is the release date, please?", "escalate")


async def open_page(purpose: str, bot: Bot, sender: Sender) -> None:
    """Open a page of the bot's own, such as App Home, or the place where somebody begins to write."""
    await bot.deliver(sender, "", "help", origin=Origin(purpose=purpose))


async def give(command: str, text: str, bot: Bot, sender: Sender) -> None:
    await bot.deliver(sender, text, command)


async def audit(bot: Bot, sender: Sender) -> None:
    for text in ("off quokka", "on quokka"):
        await bot.deliver(replace(sender, author=OWNER), text, "sources")
    # As it stands there from before the source was closed.
    message = Message("a", ConversationKey(sender.platform, sender.chat), OWNER, "Ann", "quokka", datetime.now(UTC))
    await bot.live.overrides.change(message, "", "off.quokka", None)
    bot.output()
    await bot.deliver(sender, "", "audit")


async def settings_of_admin(bot: Bot, sender: Sender) -> None:
    """An administrator whom an owner has named sees notes in place of fields."""
    await bot.deliver(replace(sender, author=OWNER), "add 55", "admins")
    bot.output()
    await bot.deliver(replace(sender, author="55"), "", "settings")


async def reload(bot: Bot, sender: Sender) -> None:
    bot.reload_error = "kimas.yaml:7: sources.quokka.path: is missing"
    await bot.deliver(sender, "", "reload")


def get_closed_labels(bot: Bot, chat: str) -> frozenset[str]:
    audiences = Audiences.from_settings(bot.app.settings)
    return audiences.closed_labels(audiences.make_asker("telegram", chat))


async def learn(bot: Bot, sender: Sender) -> None:
    """What was taught in the team's channel is asked for elsewhere."""
    question = "How long is the launcher's countdown?"
    answer = "The countdown of the launcher takes kultarr seconds."
    repository = TaughtAnswerRepository(bot.journal.database)
    message = Message("9", ConversationKey("telegram", TEAM), "8", "Cleo", answer, datetime.now(UTC))
    number = await repository.submit(message, MEMBER, question, answer, get_closed_labels(bot, TEAM), words_of=())
    await bot.deliver(Sender(TEAM, OWNER), f"approve {number}", "faq")
    await bot.app.refresh(["taught", "taught-team"])
    bot.output()
    await bot.deliver(sender, question)


ACTIONS: Mapping[str, Action] = {
    "question": ask,
    "/ask": ask_by_command,
    "question for names": ask_for_names,
    "courtesies": greet,
    "cached answer": ask_twice,
    "follow-up": go_on,
    "second answer": ask_again,
    "suggestion": overhear,
    "auto-comment": comment,
    "/why": explain,
    "/escalate": escalate,
    "lesson": learn,
    "/audit": audit,
    "/settings of an admin": settings_of_admin,
    "/reload": reload,
    "/sources on": partial(give, "sources", "on nothing"),
    "/refresh": partial(give, "refresh", "nothing"),
    "/pause": partial(give, "pause", "nothing"),
    "/resume": partial(give, "resume", "nothing"),
    **{f"/{command}": partial(give, command, "") for command in ("help", "start", "sources", "status", "settings")},
    **{f"/{command}": partial(give, command, "") for command in ("faq", "stats", "quota", "admins", "learn")},
    "App Home": partial(open_page, "home"),
    "suggested questions": partial(open_page, "prompts"),
    "/nothing": partial(give, "nothing", ""),
    "/threshold": partial(give, "threshold", "auto"),
}
# What says nothing of sources, or nothing to a person without a role. The other ways show an insider a closed word.
SILENT = ("/faq", "/stats", "/quota", "/admins", "/learn", "/nothing", "/threshold", "/escalate", "/reload")


@pytest.fixture(autouse=True)
def _repetitions_are_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that only repeats what the model was told is not posted: that would hide what reaches the model."""
    monkeypatch.setattr(repetition, "ECHO_SHARE", 2.0)


@pytest.fixture
def wide_grey_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bot offer an answer to whatever is below the threshold."""
    monkeypatch.setattr("core.messaging.gate.gate.GREY_WIDTH", 1.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the knowledge in its store."""
    folder = tmp_path_factory.mktemp("audience")
    write_documents(folder)
    async with (
        WebPeer() as web,
        open_app(make_settings(folder, None, web), embedder=WordEmbedder(), parser=ThreadParser()) as app,
    ):
        result = await app.refresh()
    assert [*result.failures] == ["antechinus"]
    return folder


@asynccontextmanager
async def opened(folder: Path, ingested: Path, model: ScriptedPeer | None, **changes: Any) -> AsyncIterator[Bot]:
    if not (folder / "data").exists():
        shutil.copytree(ingested / "data", folder / "data")
    async with WebPeer() as web:
        web.hits = [Hit("Launcher", "https://pademelon.example.org", "The release date of the launcher is kowari.")]
        # Documents stay where they were read: elsewhere they would be another source's.
        settings = make_settings(ingested, model, web, data_dir=str(folder / "data"), **changes)
        journal = await Journal.open(settings.data_dir / "journal.db")
        live = make_live_settings(settings, journal.database)
        try:
            async with open_app(
                settings, embedder=WordEmbedder(), parser=ThreadParser(), database=journal.database, live=live
            ) as app:
                bot = Bot(app, journal, web, model)
                yield bot
                await bot.processor.drain(60)
        finally:
            await journal.close()


@pytest_asyncio.fixture(params=[False, True], ids=["no model", "model"])
async def bot(request: pytest.FixtureRequest, tmp_path: Path, ingested: Path) -> AsyncIterator[Bot]:
    if not request.param:
        async with opened(tmp_path, ingested, None) as bot:
            yield bot
        return
    async with repeating_model() as model, opened(tmp_path, ingested, model) as bot:
        yield bot


def repeating_model(**replies: str | Callable[[Body], str]) -> ScriptedPeer:
    return ScriptedPeer(**{"write": repeat, "talk": repeat, "look_back": repeat, **replies})


def get_closed_texts(text: str) -> set[str]:
    return {name for name, word in WORDS.items() if word in text.lower()}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS.keys())
async def test_nothing_of_a_closed_source_reaches_an_outsider(bot: Bot, action: Action) -> None:
    """One bot hears all outsiders: what one of them has asked is no way for the next one either."""
    for name, sender in OUTSIDERS.items():
        await action(bot, sender)
        assert get_closed_texts(bot.output()) == set(), name
        requests = bot.get_requests()
        if action is not learn:
            assert get_closed_texts(requests) == set(), f"{name}: the model is told, or the live source asked"


@pytest.mark.parametrize("action_name", [name for name in ACTIONS if name not in SILENT])
async def test_an_insider_is_told(bot: Bot, action_name: str) -> None:
    for name, sender in INSIDERS.items():
        if sender.is_private and action_name in ("suggestion", "auto-comment", "/settings of an admin"):
            # In groups only: to speak unasked, and to have administrators.
            continue
        if action_name.startswith("/") and action_name not in ("/ask", "/why", "/help", "/start", "/sources"):
            await ACTIONS[action_name](bot, replace(sender, author=OWNER))
        else:
            await ACTIONS[action_name](bot, sender)
        assert get_closed_texts(bot.output()), name


REPLIES = {
    "planning": {"choose": '{"strategy": "planning"}', "plan": '["release date"]', "decide": "[answer]"},
    "parallel": {"choose": '{"strategy": "parallel"}', "split": '{"questions": ["release date", "launcher"]}'},
    "react": {"choose": '{"strategy": "react"}', "react": '[search: {"query": "release date"}]'},
    "simple": {"choose": '{"strategy": "simple"}'},
    "none": {"choose": '{"strategy": "none"}'},
}


@pytest.mark.parametrize("strategy", REPLIES)
async def test_no_prompt_tells_of_a_closed_source(tmp_path: Path, ingested: Path, strategy: str) -> None:
    allowed = {"allowed": ["single", strategy]}
    async with (
        repeating_model(**REPLIES[strategy]) as model,
        opened(tmp_path, ingested, model, strategies=allowed) as bot,
    ):
        await ask(bot, OUTSIDERS["member of the public group"])
        assert "choose" in model.agents
        assert get_closed_texts(bot.get_requests()) | get_closed_texts(bot.output()) == set()
        await ask(bot, INSIDERS["member of the team's channel"])
        assert "description" in get_closed_texts(bot.get_requests())


def ask_back(body: Body) -> str:
    """Ask which of all things is meant that the model was told of, the unheard words first."""
    told_text = repeat(body).lower()
    names = [word for word in WORDS.values() if word in told_text] or ["this"]
    return json.dumps({"strategy": "clarify", "query": f"Do you mean {' or '.join(names)}?"})


async def test_a_question_back_names_nothing_that_is_closed(tmp_path: Path, ingested: Path) -> None:
    """Nor is it taken up where its sources were closed since, whoever answers it."""
    strategies = {"allowed": ["single", "clarify"]}
    team = INSIDERS["member of the team's channel"]
    async with repeating_model(choose=ask_back) as model:
        async with opened(tmp_path, ingested, model, strategies=strategies) as bot:
            first = await bot.deliver(team, QUESTION)
            assert "Do you mean" in (shown_text := bot.output())
            assert get_closed_texts(shown_text)
            for name, sender in OUTSIDERS.items():
                await bot.deliver(sender, QUESTION)
                for text in ("The first one.", "Both, please. And why?"):
                    await bot.deliver(sender, text)
                assert get_closed_texts(bot.output()) == set(), name
                await bot.deliver(sender, first.id, "why")
                assert get_closed_texts(bot.output()) == set(), name
        bot.get_requests()
        async with opened(tmp_path, ingested, model, strategies=strategies, audience=["owners"]) as bot:
            for text in ("The first one.", "Both, please. And why?"):
                await bot.deliver(team, text)
            await ask_on(bot, team, first)
            assert get_closed_texts(bot.output()) | get_closed_texts(bot.get_requests()) == set()


@pytest.mark.parametrize("grey", ["suggest", "clarify"])
async def test_an_offer_and_a_question_for_details_name_nothing_that_is_closed(
    tmp_path: Path, ingested: Path, grey: str
) -> None:
    """They name the title of what was found; a follow-up goes on from there, but not when it was closed since."""
    gate = {"mode": "auto", "grey": grey, "threshold": 1, "wait_s": 0, "cooldown_s": 0}
    team = INSIDERS["member of the team's channel"]
    text = "Is the release date of the launcher the first of May?"
    async with repeating_model() as model:
        async with opened(tmp_path, ingested, None, gate=gate) as bot:
            offered = await bot.deliver(team, text, addressed=False)
            assert "title" in get_closed_texts(bot.output())
            for name, sender in OUTSIDERS.items():
                await bot.deliver(sender, text, addressed=False)
                assert get_closed_texts(bot.output()) == set(), name
        async with opened(tmp_path, ingested, model, gate=gate, audience=["owners"]) as bot:
            await ask_on(bot, team, offered)
            await bot.deliver(team, "Yes, please.", quoted="Are you asking about it?", quotes_bot=True, reply_to="1701")
            assert get_closed_texts(bot.output()) | get_closed_texts(bot.get_requests()) == set()


async def ask_on(bot: Bot, sender: Sender, first: Message) -> None:
    """Try what an earlier answer could be had from."""
    await bot.deliver(sender, "And what else is known about it?")
    await bot.deliver(sender, QUESTION)
    await bot.deliver(sender, "", "why")
    await bot.deliver(sender, first.id, "why")
    await bot.deliver(sender, QUESTION, addressed=False)


@pytest.mark.parametrize("before", [["everyone"], AUDIENCE], ids=["open", "for the team"])
@pytest.mark.parametrize("has_model", [False, True], ids=["no model", "model"])
async def test_what_was_said_before_a_source_was_closed_is_not_said_again(
    tmp_path: Path, ingested: Path, before: Sequence[str], has_model: bool
) -> None:
    sender = INSIDERS["member of the team's channel"]
    gate = {"mode": "auto", "threshold": 0, "repeated": "point", "wait_s": 0, "cooldown_s": 0}
    async with repeating_model() as peer:
        model = peer if has_model else None
        async with opened(tmp_path, ingested, model, audience=before, gate=gate) as bot:
            first = await bot.deliver(sender, QUESTION)
            assert "text" in get_closed_texts(bot.output())
            await ask_on(bot, sender, first)
            assert "text" in get_closed_texts(bot.output())
        peer.requests.clear()
        async with opened(tmp_path, ingested, model, audience=["owners"], gate=gate) as bot:
            await ask_on(bot, sender, first)
            await press(bot, sender, RETRY, first)
            assert get_closed_texts(bot.output()) | get_closed_texts(bot.get_requests()) == set()


async def test_what_was_closed_once_stays_closed_when_nothing_is_closed_any_more(
    tmp_path: Path, ingested: Path
) -> None:
    """It was for everyone, then closed, and then removed: an owner closes with that, and opens nothing."""
    sender = INSIDERS["member of the team's channel"]
    gate = {"mode": "auto", "threshold": 0, "repeated": "point", "wait_s": 0, "cooldown_s": 0}
    left = {
        "sources": {"docs": {"kind": "files", "path": str(ingested / "docs")}},
        "agents": {"manual": {"sources": ["docs"]}},
    }
    async with repeating_model() as peer:
        async with opened(tmp_path, ingested, peer, audience=["everyone"], gate=gate) as bot:
            first = await bot.deliver(sender, QUESTION)
            assert "text" in get_closed_texts(bot.output())
        async with opened(tmp_path, ingested, peer, gate=gate) as bot:
            await bot.dispatcher.context.live.publish_audiences(bot.app.settings)
        peer.requests.clear()
        async with opened(tmp_path, ingested, peer, gate=gate, **left) as bot:
            await ask_on(bot, sender, first)
            later_part = {"quoted": f"It is {WORDS['lesson']}", "quotes_bot": True, "reply_to": "1700"}
            await bot.deliver(sender, "Is it this?", **later_part)
            assert get_closed_texts(bot.output()) | get_closed_texts(bot.get_requests()) == set()


ELSEWHERE = {"kind": "files", "path": "elsewhere"}
# What became of the closed source since it was used; nobody in the public group may see it.
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "removed": {},
    "renamed": {"wombats": {"kind": "files", "path": "team", "audience": AUDIENCE}},
    "its name given to a folder for everyone": {"quokka": ELSEWHERE},
    "its name given, and the folder renamed": {
        "quokka": ELSEWHERE,
        "wombats": {"kind": "files", "path": "team", "audience": AUDIENCE},
    },
}


@pytest.mark.parametrize("sources", CHANGES.values(), ids=CHANGES.keys())
async def test_an_answer_is_judged_by_the_source_that_it_was_made_from(
    tmp_path: Path, ingested: Path, sources: Mapping[str, Any]
) -> None:
    """Whoever reads the team's channel today may not be of the team, whose source was removed or renamed."""
    sender = INSIDERS["member of the team's channel"]
    (ingested / "elsewhere").mkdir(exist_ok=True)
    async with opened(tmp_path, ingested, None) as bot:
        first = await bot.deliver(sender, QUESTION)
        assert "text" in get_closed_texts(bot.output())
    sources = {"docs": {"kind": "files", "path": "docs"}, **sources}
    folders = {name: {**source, "path": str(ingested / source["path"])} for name, source in sources.items()}
    agents = {name: {"sources": [name]} for name in sources}
    async with repeating_model() as peer, opened(tmp_path, ingested, peer, sources=folders, agents=agents) as bot:
        closed_texts = set[str]()
        for question in ("And what else is known about it?", first.id):
            await bot.deliver(sender, question, "why" if question == first.id else "")
            closed_texts |= get_closed_texts(bot.output()) | get_closed_texts(bot.get_requests())
        assert closed_texts & {"text", "title", "path", "agent"} == set()


@pytest.mark.parametrize("sources", CHANGES.values(), ids=CHANGES.keys())
async def test_a_backup_tells_another_deployment_nothing_that_was_closed(
    tmp_path: Path, ingested: Path, sources: Mapping[str, Any]
) -> None:
    """There the team's chat may be anybody's, and a source of the same name another one."""
    team = INSIDERS["member of the team's channel"]
    (ingested / "elsewhere").mkdir(exist_ok=True)
    async with opened(tmp_path / "here", ingested, None) as bot:
        first = await bot.deliver(team, QUESTION)
        await learn(bot, team)
        assert {"text", "lesson"} <= get_closed_texts(bot.output())
        await backup(bot.app.settings, tmp_path / "backup.zip", as_json=True)
        there = bot.app.settings.model_copy(update={"data_dir": tmp_path / "there" / "data"})
    await restore(there, tmp_path / "backup.zip", as_json=True)
    sources = {"docs": {"kind": "files", "path": "docs"}, "taught": {"kind": "learned"}, **sources}
    folders = {
        name: {**source, "path": str(ingested / source["path"])} if "path" in source else source
        for name, source in sources.items()
    }
    agents = {name: {"sources": [name]} for name in sources}
    async with (
        repeating_model() as peer,
        opened(tmp_path / "there", ingested, peer, sources=folders, agents=agents) as bot,
    ):
        open_names = {"source"} if "quokka" in sources else set()
        for is_refreshed in (False, True):
            for sender in (team, Sender(PUBLIC)):
                await ask_on(bot, sender, first)
                await bot.deliver(sender, "How long is the launcher's countdown?")
                texts = get_closed_texts(bot.output()) | get_closed_texts(bot.get_requests())
                # The team reads its renamed folder there. What it taught is for nobody until somebody says so.
                is_reader = is_refreshed and sender == team and "wombats" in sources
                assert texts - open_names <= (set(WORDS) - {"lesson"} if is_reader else set()), (sender, is_refreshed)
            await bot.app.refresh()


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_restored_answer_of_a_source_that_is_gone_is_not_told(
    tmp_path: Path, ingested: Path, *, is_gone: bool
) -> None:
    """The source was for everyone at the backup; that it was closed since, before it was removed, nobody knows."""
    group = Sender(PUBLIC)
    sources = {"docs": {"kind": "files", "path": "docs"}, "old": {"kind": "files", "path": "docs"}}
    agents = {name: {"sources": [name]} for name in sources}
    async with opened(tmp_path / "here", ingested, None, sources=sources, agents=agents) as bot:
        asked = await bot.deliver(group, "How do I start the launcher?")
        await backup(bot.app.settings, tmp_path / "backup.zip", as_json=True)
        assert await read_history(bot.journal, asked.key, 9)
        there = bot.app.settings.model_copy(update={"data_dir": tmp_path / "there" / "data"})
    kept = {name: source for name, source in there.sources.items() if name == "docs" or not is_gone}
    there = there.model_copy(update={"sources": kept, "agents": {name: there.agents[name] for name in kept}})
    await restore(there, tmp_path / "backup.zip", as_json=True)
    journal = await Journal.open(there.data_dir / "journal.db")
    live = make_live_settings(there, journal.database)
    await live.load()
    labels = Permissions(live).visible_labels(asked)
    history = await journal.get_history(asked.key, 9, visible_labels=labels, reader=None)
    assert bool(history.turns) != is_gone
    await journal.close()


async def test_quoting_an_answer_from_a_closed_source_does_not_tell_the_rest(tmp_path: Path, ingested: Path) -> None:
    sender = INSIDERS["member of the team's channel"]
    async with repeating_model(write=f"It is {WORDS['text']} [p1].") as peer:
        async with opened(tmp_path, ingested, peer, audience=["everyone"]) as bot:
            first = await bot.deliver(sender, QUESTION)
            await bot.journal.database.write(update(messages).filter_by(id=first.id).values(reply_id=REPLY_ID))
            await bot.deliver(sender, "Is it this?", quoted="It", reply_to=REPLY_ID)
            assert "text" in get_closed_texts(bot.get_requests())
        async with opened(tmp_path, ingested, peer, audience=["owners"]) as bot:
            await bot.deliver(sender, "Is it this?", quoted="It", reply_to=REPLY_ID)
            assert get_closed_texts(bot.get_requests()) == set()


@pytest.mark.parametrize("audience", [["everyone"], AUDIENCE], ids=["open", "closed"])
async def test_an_answer_of_the_last_run_is_delivered_only_where_allowed(
    tmp_path: Path, ingested: Path, audience: Sequence[str]
) -> None:
    sender = OUTSIDERS["member of the public group"]
    async with opened(tmp_path, ingested, None, audience=audience) as bot:
        message = Message("5", ConversationKey("telegram", PUBLIC), MEMBER, "Ann", QUESTION, datetime.now(UTC))
        message = replace(message, addressed=True)
        await bot.journal.record_message(message)
        await bot.journal.begin_answer(message, None)
        await bot.journal.mark_posted(message, "6")
        await bot.journal.mark_delivery(message, Reply("It is numbat, as of yesterday."), {})
        await bot.processor.resume(bot.adapter(sender.platform))
        await bot.processor.join()
        output = bot.output()
        assert ("as of yesterday" in output) == (audience == ["everyone"])
        assert "Launcher" in output or audience == ["everyone"], "it is answered anew"


async def test_a_cached_answer_is_for_those_alone_who_may_see_as_much(tmp_path: Path, ingested: Path) -> None:
    """In one private chat: the right of an administrator comes and goes while the bot runs."""
    sender = OUTSIDERS["stranger in private"]
    async with opened(tmp_path, ingested, None, audience=["admins"]) as bot:
        await ask(bot, sender)
        assert get_closed_texts(bot.output()) == set()
        await bot.deliver(Sender(PUBLIC, OWNER), f"add {MEMBER}", "admins")
        await ask(bot, sender)
        assert "text" in get_closed_texts(bot.output())
        await bot.deliver(Sender(PUBLIC, OWNER), f"remove {MEMBER}", "admins")
        await ask(bot, sender)
        assert get_closed_texts(bot.output()) == set()


async def test_a_reply_without_words_does_not_take_up_a_closed_answer(tmp_path: Path, ingested: Path) -> None:
    """Whoever replies has the answer before their eyes; the model gets nothing of it."""
    sender = INSIDERS["member of the team's channel"]
    async with repeating_model(write=f"It is {WORDS['text']} [p1].") as peer:
        async with opened(tmp_path, ingested, peer, audience=["everyone"]) as bot:
            first = await bot.deliver(sender, QUESTION)
            await bot.journal.database.write(update(messages).filter_by(id=first.id).values(reply_id=REPLY_ID))
        peer.requests.clear()
        async with opened(tmp_path, ingested, peer, audience=["owners"]) as bot:
            await bot.deliver(sender, "", quoted=f"It is {WORDS['text']}", reply_to=REPLY_ID)
            assert get_closed_texts(bot.get_requests() + bot.output()) == set()


@pytest.mark.parametrize("text", ["", "Is it this?"])
@pytest.mark.parametrize("audience", [["everyone"], AUDIENCE, ["owners"]], ids=["open", "for the team", "closed"])
async def test_words_of_the_bot_that_the_journal_has_not_are_left_out_where_sources_are_closed(
    tmp_path: Path, ingested: Path, audience: Sequence[str], text: str
) -> None:
    """As the second part of a long answer, or the answer to a slash command with which a thread began."""
    quotation = {"quoted": f"It is {WORDS['lesson']}", "reply_to": "1700"}
    everything: dict[str, Any] = {}
    if audience == ["everyone"]:
        everything = {
            "sources": {"docs": {"kind": "files", "path": str(ingested / "docs")}},
            "agents": {"manual": {"sources": ["docs"]}},
        }
    async with (
        repeating_model() as peer,
        opened(tmp_path, ingested, peer, audience=audience, **everything) as bot,
    ):
        for quotes_bot in (True, False):
            await bot.deliver(Sender(TEAM), text, quotes_bot=quotes_bot, **quotation)
            is_taken_up = audience == ["everyone"] or not quotes_bot
            assert ("lesson" in get_closed_texts(bot.get_requests() + bot.output())) == is_taken_up


async def test_what_was_said_in_private_is_not_told_where_others_read_now(tmp_path: Path, ingested: Path) -> None:
    """A network may open a chat that was private; there a role counts no more, nor what was said before."""
    private = Sender("talk", OWNER, platform="http", is_private=True)
    http = {"secret": {"env": "HTTP"}, "callback_url": "http://127.0.0.1:9/", "allow_private": ["127.0.0.1"]}
    owners = {"owners": [f"http:{OWNER}"]}
    async with (
        repeating_model() as peer,
        opened(tmp_path, ingested, peer, audience=["owners"], http=http, administration=owners) as bot,
    ):
        first = await bot.deliver(private, f"{QUESTION} My key is kultarr.")
        assert "text" in get_closed_texts(bot.output())
        bot.get_requests()
        public = replace(private, is_private=False, author=MEMBER)
        await ask_on(bot, public, first)
        await press(bot, public, RETRY, first)
        assert get_closed_texts(bot.output() + bot.get_requests()) == set()


async def test_the_audit_of_a_group_names_no_source_that_is_gone(tmp_path: Path, ingested: Path) -> None:
    team = Sender(TEAM, OWNER)
    async with opened(tmp_path, ingested, None) as bot:
        for text, command in (("off quokka", "sources"), ("scale quokka 2", "sources"), ("quokka", "refresh")):
            await bot.deliver(team, text, command)
        bot.output()
        await bot.deliver(team, "", "audit")
        assert "source" in get_closed_texts(bot.output())
    sources = {"docs": {"kind": "files", "path": str(ingested / "docs")}}
    async with opened(tmp_path, ingested, None, sources=sources, agents={}) as bot:
        await bot.deliver(team, "", "audit")
        assert get_closed_texts(bot.output()) == set()
        await bot.deliver(INSIDERS["owner in private"], "", "audit")
        assert "source" in get_closed_texts(bot.output()), "owners look everything up in private"


async def test_a_fault_is_no_way_to_a_name(tmp_path: Path, ingested: Path) -> None:
    async with opened(tmp_path, ingested, None) as bot:
        sender = Sender(PUBLIC, OWNER)
        message = await bot.deliver(sender, QUESTION)
        reason = "source quokka cannot be read"
        await bot.journal.database.write(
            update(messages).filter_by(id=message.id).values(state="failed", reason=reason)
        )
        bot.output()
        await bot.deliver(sender, message.id, "why")
        assert get_closed_texts(bot.output()) == set()


async def lose_the_role(bot: Bot) -> None:
    await bot.deliver(Sender(PUBLIC, OWNER), f"remove {MEMBER}", "admins")


async def close_the_source(bot: Bot) -> None:
    settings = bot.app.settings
    closed = settings.sources["quokka"].model_copy(update={"audience": ("owners",)})
    bot.new_settings = settings.model_copy(update={"sources": {**settings.sources, "quokka": closed}})
    await bot.deliver(Sender(OWNER, OWNER, is_private=True), "", "reload")


async def close_the_chat(bot: Bot) -> None:
    await bot.deliver(Sender(MEMBER, OWNER, is_private=True), "", "pause")


async def change_nothing(bot: Bot) -> None:
    await bot.deliver(Sender(OWNER, OWNER, is_private=True), "", "status")


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("has_model", [False, True], ids=["offer", "opinion of a model"])
async def test_what_was_found_before_people_had_time_is_judged_again(
    tmp_path: Path, ingested: Path, *, is_closed: bool, has_model: bool
) -> None:
    """An offer has the title of what was found, and a model that judges a message reads the passages."""
    gate = {"mode": "auto", "grey": "suggest", "threshold": 1, "wait_s": 5, "cooldown_s": 0}
    team = INSIDERS["member of the team's channel"]
    async with (
        repeating_model(gate=lambda body: json.dumps({"action": "silent", "reason": repeat(body)[-150:]})) as model,
        opened(tmp_path, ingested, model if has_model else None, gate=gate) as bot,
    ):

        async def close_meanwhile(_seconds: float) -> bool:
            settings = bot.app.settings
            closed = {
                name: source.model_copy(update={"audience": ("owners",)})
                if list(source.audience) == AUDIENCE
                else source
                for name, source in settings.sources.items()
            }
            await bot.dispatcher.context.reload(
                settings.model_copy(update={"sources": closed if is_closed else settings.sources})
            )
            return True

        bot.processor._handler._wait_for_humans = close_meanwhile
        asked = await bot.deliver(team, "Is the release date of the launcher the first of May?", addressed=False)
        await bot.deliver(team, asked.id, "why")
        texts = get_closed_texts(bot.output()) | get_closed_texts(bot.get_requests())
        assert bool(texts) != is_closed


@pytest.mark.parametrize("change", [lose_the_role, close_the_source, close_the_chat, change_nothing])
async def test_an_answer_is_judged_again_before_it_is_shown(
    tmp_path: Path, ingested: Path, change: Callable[[Bot], Awaitable[None]]
) -> None:
    """What holds when a question comes may not hold any more when its answer is ready."""
    sender = OUTSIDERS["stranger in private"]
    async with opened(tmp_path, ingested, None, audience=["admins"]) as bot:
        await bot.deliver(Sender(PUBLIC, OWNER), f"add {MEMBER}", "admins")
        asked = asyncio.Event()
        go_on = asyncio.Event()

        async def answer(question: Question, sink: Sink) -> Reply:
            reply = await bot.app.answer(question, MemorySink())
            assert "text" in get_closed_texts(repr(reply))
            asked.set()
            await go_on.wait()
            await sink.update(reply.text)
            await sink.finish(reply)
            return reply

        others = bot.processor
        bot.processor = make_inbox(bot.journal, answer, bot.dispatcher, library=bot.app.deps.library)
        task = asyncio.create_task(bot.deliver(sender, QUESTION))
        await asyncio.wait_for(asked.wait(), 60)
        bot.processor, waiting = others, bot.processor
        # The sink of the answer is there already.
        adapter = RecordingAdapter(sender.platform)
        bot.adapters[sender.platform], shown = adapter, bot.adapters[sender.platform]
        await change(bot)
        go_on.set()
        await task
        await waiting.join()
        closed_texts = get_closed_texts(repr([(sink.updates, sink.replies, sink.failures) for sink in shown.sinks]))
        assert bool(closed_texts) == (change is change_nothing)


@pytest.mark.parametrize("name", ["", "wombats"], ids=["removed", "renamed"])
@pytest.mark.parametrize("audience", [["everyone"], AUDIENCE], ids=["open", "closed"])
@pytest.mark.parametrize("is_taken_up", [False, True], ids=["found until a restart", "taken up"])
async def test_a_source_that_the_file_has_no_more_is_told_of_no_more(
    tmp_path: Path, ingested: Path, name: str, audience: Sequence[str], *, is_taken_up: bool
) -> None:
    """Who removed it, or closed it under another name, did not mean that it is told of, be it still there or not."""
    team = INSIDERS["member of the team's channel"]
    async with repeating_model() as model, opened(tmp_path, ingested, model, audience=audience) as bot:
        await bot.deliver(team, QUESTION)
        assert "text" in get_closed_texts(bot.output())
        settings = bot.app.settings
        sources = dict(settings.sources)
        moved = sources.pop("quokka")
        if name:
            sources[name] = moved.model_copy(update={"audience": ("owners",)})
        agents = {
            key: agent.model_copy(update={"sources": tuple(source for source in agent.sources if source != "quokka")})
            for key, agent in settings.agents.items()
        }
        if name:
            agents[name] = AgentSettings(sources=(name,))
        bot.new_settings = settings.model_copy(update={"sources": sources, "agents": agents})
        bot.dispatcher.context.take_up = bot.take_up if is_taken_up else None
        await bot.deliver(INSIDERS["owner in private"], "", "reload")
        assert ("changed now: `sources`, `agents`" in bot.output()) == is_taken_up
        await bot.app.refresh()
        bot.get_requests()
        for text in ("And what else is known about it?", QUESTION, f"{QUESTION} Please."):
            await bot.deliver(team, text)
        # Lessons are of another source, which the file still has, with the agent.
        kept = {"live text", "live source", "live address", *(("agent",) if is_taken_up else ())}
        assert get_closed_texts(bot.output() + bot.get_requests()) <= kept
        await bot.deliver(team, "Where is the release date announced?")
        # What was taught while all was open may tell of it: it is closed with the source, as long as that can be found,
        # and so is its agent.
        assert ("on the site" in bot.output()) == (audience == AUDIENCE or is_taken_up)


@pytest.mark.parametrize("audience", [["everyone"], AUDIENCE], ids=["open", "closed"])
async def test_lessons_of_a_removed_source_go_with_it_and_others_stay(
    tmp_path: Path, ingested: Path, audience: Sequence[str]
) -> None:
    """As after a restart."""
    team = INSIDERS["member of the team's channel"]
    lessons = {"How long is the countdown?": "It takes kultarr seconds.", "Who is the pilot?": "Quenda is the pilot."}
    async with opened(tmp_path, ingested, None, audience=audience) as bot:
        repository = TaughtAnswerRepository(bot.journal.database)
        for number, (question, answer) in enumerate(lessons.items()):
            message = Message(f"{number}", ConversationKey("telegram", TEAM), "8", "Cleo", answer, datetime.now(UTC))
            # The first one tells of the source, as far as that was closed.
            labels = [] if number else [label for label in get_closed_labels(bot, TEAM) if "quokka" in label]
            taught = await repository.submit(message, MEMBER, question, answer, labels, words_of=())
            await repository.decide(taught or 0, "approved", OWNER)
        await bot.app.refresh(["taught", "taught-team"])
        settings = bot.app.settings
        sources = {name: source for name, source in settings.sources.items() if name != "quokka"}
        agents = {
            key: agent.model_copy(update={"sources": tuple(source for source in agent.sources if source != "quokka")})
            for key, agent in settings.agents.items()
        }
        bot.new_settings = settings.model_copy(update={"sources": sources, "agents": agents})
        bot.dispatcher.context.take_up = bot.take_up
        await bot.deliver(INSIDERS["owner in private"], "", "reload")
        before = datetime.now(UTC)
        await bot.scheduler.refresh(["taught", "taught-team"])
        async with bot.scheduler.run(), asyncio.timeout(60):
            while not all([await was_read_since(bot, name, before) for name in ("taught", "taught-team")]):
                await asyncio.sleep(0.05)
        bot.output()
        for question in lessons:
            await bot.deliver(team, question)
        output = bot.output()
        assert "Quenda" in output
        assert ("kultarr" in output) == (audience != AUDIENCE)


async def test_lessons_tell_nothing_of_what_a_reload_keeps_closed(tmp_path: Path, ingested: Path) -> None:
    """The file opens all, but until the next start outsiders may learn nothing of it."""
    outsider = Sender(PUBLIC)
    async with opened(tmp_path, ingested, None) as bot:
        await learn(bot, outsider)
        settings = bot.app.settings
        sources = {
            name: source.model_copy(update={"audience": ("everyone",)}) for name, source in settings.sources.items()
        }
        bot.new_settings = settings.model_copy(update={"sources": sources})
        bot.dispatcher.context.take_up = bot.take_up
        await bot.deliver(INSIDERS["owner in private"], "", "reload")
        assert "closed to some people until a restart" in bot.output()
        before = datetime.now(UTC)
        await bot.scheduler.refresh(["taught"])
        async with bot.scheduler.run(), asyncio.timeout(60):
            while not await was_read_since(bot, "taught", before):
                await asyncio.sleep(0.05)
        await bot.deliver(outsider, "How long is the launcher's countdown?")
        assert get_closed_texts(bot.output()) == set()


async def was_read_since(bot: Bot, source: str, moment: datetime) -> bool:
    (state,) = [state for state in await bot.scheduler.states() if state.name == source]
    return bool(state.last_success and state.last_success >= moment and not state.running)


async def test_without_an_asker_only_open_sources_and_the_terminal_gets_all(tmp_path: Path, ingested: Path) -> None:
    async with opened(tmp_path, ingested, None) as bot:
        reply = await bot.app.answer(Question(QUESTION, key=ConversationKey("telegram", TEAM)), MemorySink())
        assert get_closed_texts(repr(reply)) == set()
        reply = await bot.app.answer(Question(QUESTION), MemorySink())
        assert "text" in get_closed_texts(repr(reply))
        await ask(bot, Sender("group", platform="console"))
        assert "text" in get_closed_texts(bot.output())


async def test_the_gate_learns_nothing_for_outsiders_from_a_closed_source(tmp_path: Path, ingested: Path) -> None:
    """A word that only a closed source has is as unknown as one that no source has."""
    async with opened(tmp_path, ingested, None) as bot:
        library = bot.app.deps.library
        restricted = library.restricted_to({"docs", "taught"})
        assert [score.name for score in await restricted.route(QUESTION)] == ["manual"]
        assert set(restricted.titles()) < set(library.titles()), "prompts name no document of a closed source"
        assert "quoll" not in str(restricted.titles()).lower()
        weights = (await restricted.match_words("numbat zeppelin launcher", 5)).weights
        assert weights["numbat"] == weights["zeppelin"] > weights["launcher"]
        assert (await library.match_words("numbat", 5)).weights["numbat"] < weights["numbat"]
        with pytest.raises(UsageError, match=r"the agents are: manual$"):
            await restricted.search("quoll", QUESTION, 5)


async def test_no_post_is_relevant_because_of_a_closed_source(tmp_path: Path, ingested: Path) -> None:
    comments = {"chats": ["telegram:-300", f"telegram:{TEAM}"], "min_relevance": 0.5, "deadline_s": 600}
    async with opened(tmp_path, ingested, None, auto_comment={**comments, "needs_citation": False}) as bot:
        for chat, is_relevant in (("-300", False), (TEAM, True)):
            await bot.deliver(Sender(chat), "first May numbat bilby release date", addressed=False, is_post=True)
            assert bool(bot.adapter("telegram").sinks[-1].replies) == is_relevant


async def test_names_are_suggested_on_discord_only_where_they_may_be_read(tmp_path: Path) -> None:
    sources: dict[str, dict[str, str]] = {
        "docs": {"kind": "faq", "path": "a.yaml"},
        "quokka": {"kind": "faq", "path": "b.yaml", "audience": "discord:5"},
    }
    discord = {"token": {"env": "DISCORD"}}
    settings = Settings.model_validate(
        {"sources": sources, "discord": discord, "administration": {"owners": ["discord:1"]}}
    )
    journal = await Journal.open(tmp_path / "journal.db")
    live = make_live_settings(settings, journal.database)
    live.overrides._cache_ttl_s = 0
    get_sources = make_source_lookup(live)
    message = Message("1", ConversationKey("discord", "4"), OWNER, "Ann", "", datetime.now(UTC))
    assert await get_sources(message) == ["docs"], "an owner, but others read along"
    assert await get_sources(replace(message, private=True)) == ["docs", "quokka"]
    assert await get_sources(replace(message, key=ConversationKey("discord", "5", "6"))) == ["docs", "quokka"]
    closed = settings.model_copy(update={"sources": settings.sources | {"docs": settings.sources["quokka"]}})
    await make_live_settings(closed, journal.database).publish_audiences(closed)
    assert await get_sources(message) == [], "another daemon has closed it"
    await journal.close()


def read_example() -> tuple[Mapping[str, Any], dict[str, set[str]]]:
    """Return the configuration of the example in docs/security.md, and the sources that it promises to each asker."""
    page = (Path(__file__).parents[2] / "docs/security.md").read_text("utf-8")
    section = page.partition("## A public group and a team's channel")[2].partition("\n## ")[0]
    configuration = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    rows = (line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|") and "`" in line)
    return configuration, {asker: set(sources.replace("`", "").split(", ")) for asker, sources in rows}


EXAMPLE, PROMISED = read_example()
EXAMPLE_SENDERS = {
    "a member of the public group": Sender(PUBLIC),
    "a member of the team, in the channel": Sender("C0123456789", "U1ANN", "slack"),
    "a member of the team, in private": Sender("D5", "U1ANN", "slack", is_private=True),
    "the owner, in private": Sender("D6", "U0OWNER", "slack", is_private=True),
    "the owner, in the public group": Sender(PUBLIC, "U0OWNER"),
    "the terminal": Sender("terminal", platform="console"),
}


@pytest.mark.parametrize("asker", PROMISED)
async def test_the_example_of_the_guide_is_true(tmp_path: Path, asker: str) -> None:
    texts = {"handbook": "The launcher has a blue button.", "roadmap": "The launcher gets a red button in May."}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "launcher.md").write_text(text, "utf-8")
        EXAMPLE["sources"][name]["path"] = str(tmp_path / name)
    settings = Settings.model_validate(
        {**EXAMPLE, "data_dir": str(tmp_path / "data"), "knowledge": {"routing": {"threshold": 0, "agents": 9}}}
    )
    journal = await Journal.open(tmp_path / "journal.db")
    repository = TaughtAnswerRepository(journal.database)
    roadmap_label = Audiences.from_settings(settings).labels["roadmap"]
    (tmp_path / "data").mkdir()
    for platform, chat, answer, closed_sources in (
        ("telegram", PUBLIC, "from the community", ()),
        # It may tell of what only the team sees, so the community's source does not take it.
        ("slack", "C0123456789", "of the team", (roadmap_label,)),
    ):
        message = Message("9", ConversationKey(platform, chat), "8", "Cleo", "", datetime.now(UTC))
        number = await repository.submit(
            message, "7", "Who presses the button of the launcher?", f"Somebody {answer}.", closed_sources, words_of=()
        )
        await repository.decide(number or 0, "approved", "Dan")
    await journal.close()
    shutil.copy(tmp_path / "journal.db", tmp_path / "data" / "journal.db")
    journal = await Journal.open(tmp_path / "data" / "journal.db")
    async with (
        WebPeer() as web,
        open_app(settings, embedder=WordEmbedder(), parser=ThreadParser(), database=journal.database) as app,
    ):
        await app.refresh()
        bot = Bot(app, journal, web, None)
        await bot.deliver(EXAMPLE_SENDERS[asker], "What do we know about the button of the launcher?")
        [reply] = bot.adapter(EXAMPLE_SENDERS[asker].platform).sinks[-1].replies
        assert {passage.source for passage in reply.passages} == PROMISED[asker]
        await bot.deliver(EXAMPLE_SENDERS[asker], "", "sources")
        output = bot.output()
        assert {name for name in settings.sources if f"**{name}**" in output} == PROMISED[asker]
    await journal.close()
