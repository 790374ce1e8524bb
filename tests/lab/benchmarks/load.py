"""A thousand messages in a minute over 200 chats of four platforms, without and with kills: who was answered, and when.

One daemon as a process, the model as another, the platforms in this one. A tenth of the messages are questions about
this project's own documents: most are put to the bot, the others to nobody, half of those in chats where the gate may
speak unasked. People also thank, plan and joke in the threads that answers open. What the journal says is compared
with what people saw and with what the model was asked.
"""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import aiohttp
import psutil

from tests.lab.benchmarks.figures import Figure, percentile
from tests.lab.benchmarks.load_model import FORMS, Model, model_process
from tests.lab.benchmarks.load_platforms import (
    SECRETS,
    BotMessage,
    Chat,
    Discord,
    Http,
    Platform,
    Slack,
    Telegram,
)
from tests.lab.comparison.workload import SUBJECTS
from tests.support.deployment import ROOT, Deployment
from tests.support.forked import ForkedProcess
from tests.support.free_ports import free_port

Kind = Literal["chatter", "asked", "unasked"]

TTFT_S = 0.3
RATE = 50.0
QUESTIONS = 0.1
UNASKED = 0.3
CHATTER = (
    "good morning everybody",
    "I had lunch already",
    "that was a great match yesterday",
    "lol",
    "see you tomorrow",
    "the train is late again",
    "I pushed my branch",
    "thanks a lot!",
    "it works on my machine",
    "nice weather today",
    "I will be away next week",
    "the meeting moves to three",
    "congratulations to the team!",
    "haha, same here",
    "are you coming to lunch today?",
    "did you see the match yesterday?",
    "who wants coffee?",
    "ok, see you there",
    "I like the new colours",
    "my keyboard is broken",
    "we should do that more often",
    "back in ten minutes",
)
# What is said in the thread of an answer, by who asked and by others.
ASIDES = (
    "thanks, that works!",
    "nice one",
    "I will try that tomorrow",
    "and thanks for the quick answer",
    "yes",
    "see you at lunch",
    "P12, are you coming to lunch?",
    "then I'll do it at home",
    "when I tried it, it was slow",
)
# The journal's reason where a crash left in doubt whether a reply was posted: docs/protocols.md, "Exactly once".
IN_DOUBT = "killed while the reply was being posted"
SETTLED = ("answered", "silent", "failed")
# What a platform refuses after a kill, and is then done otherwise: an edit to what is shown already, a poll beside the
# one that died, an edit of a stream that is still open, a reaction that is there.
AFTER_A_KILL = (
    "telegram editMessageText 400",
    "telegram getUpdates 409",
    "slack chat.update streaming_state_conflict",
    "slack reactions.add already_reacted",
)
# The mark of a citation, which may stand in the middle of the question that an answer repeats.
MARK = re.compile(r" \[\d+\]")
# What a kill may leave in a chat of Telegram, which cannot be asked for what was posted.
PLACEHOLDER = "…"
RULES = ("twice", "lost", "unsettled", "unexplained", "out of order", "chatter", "limit", "unseen")


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of what: messages over so many chats in so many seconds, and how often the daemon is killed."""

    messages: int
    chats: int
    seconds: float
    wait_s: float
    kills: int = 0
    lives_s: float = 12.0
    seed: int = 20261121
    documents: Sequence[str] = ("docs",)
    max_wait_s: float = 120.0


FULL = Shape(1000, 200, 60, wait_s=5)
KILLED = Shape(1000, 200, 60, wait_s=5, kills=5)


@dataclass(slots=True)
class Line:
    """One message as it was planned, and what became of it."""

    kind: Kind
    chat: Chat
    text: str
    author: int
    at: float
    below: Line | None = None
    said_at: float = 0.0
    id: str = ""
    number: int = 0
    state: str = ""
    reason: str = ""
    unknown: bool = False
    given_up: bool = False
    posts: list[BotMessage] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What one run showed. `violations` are by the rule that was broken, a line each; all of them should be empty."""

    lines: list[Line]
    violations: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    first_s: list[float] = field(default_factory=list)
    behind_s: list[float] = field(default_factory=list)
    answer_s: list[float] = field(default_factory=list)
    limits: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    lag_s: float = 0.0
    memory_mib: float = 0.0
    in_doubt: int = 0
    unknown: int = 0
    given_up: int = 0
    killed: int = 0
    ready_s: list[float] = field(default_factory=list)

    def of(self, kind: Kind, state: str = "") -> list[Line]:
        return [line for line in self.lines if line.kind == kind and state in ("", line.state)]

    def figures(self, name: str) -> list[Figure]:
        rules = [Figure(f"{name}: {rule}", len(self.violations[rule]), "times", 0.5) for rule in RULES]
        killed = self.killed > 0
        return [
            *rules,
            Figure(f"{name}: asked and answered", len(self.of("asked", "answered")), "messages"),
            Figure(f"{name}: unasked and answered", len(self.of("unasked", "answered")), "messages"),
            Figure(f"{name}: silent for a reason", sum(line.state == "silent" for line in self.lines), "messages"),
            Figure(f"{name}: closed in doubt after a kill", self.in_doubt, "messages"),
            Figure(f"{name}: in private chats that Discord does not name", self.unknown, "messages"),
            Figure(f"{name}: tried four times by Slack and given up", self.given_up, "messages"),
            *(Figure(f"{name}: model calls, {text}", count, "calls") for text, count in sorted(self.calls.items())),
            Figure(f"{name}: first sign p50", percentile(self.first_s, 0.5), "s"),
            Figure(f"{name}: first sign p95", percentile(self.first_s, 0.95), "s", None if killed else 1),
            Figure(f"{name}: first sign, the latest", max(self.first_s), "s"),
            Figure(f"{name}: first sign behind another question, p95", percentile(self.behind_s, 0.95), "s"),
            Figure(f"{name}: answer p50", percentile(self.answer_s, 0.5), "s"),
            Figure(f"{name}: answer p95", percentile(self.answer_s, 0.95), "s"),
            Figure(f"{name}: answer, the latest", max(self.answer_s), "s"),
            Figure(f"{name}: longest event-loop lag", self.lag_s * 1000, "ms"),
            Figure(f"{name}: resident memory", self.memory_mib, "MiB", 400),
        ]


def planned(shape: Shape, platforms: Sequence[Platform], chance: random.Random) -> tuple[list[Line], list[Chat]]:
    """Return what is said when, and the chats where the gate may speak unasked.

    In private chats nobody chats: whatever is said there is for the bot. Every third question to the bot follows at
    once upon another one in the same conversation.
    """
    chats_per_platform = shape.chats // len(platforms)
    chats = [chat for platform in platforms for chat in platform.chats(chats_per_platform, chats_per_platform // 5)]
    mention = {platform.name: platform.mention for platform in platforms}
    groups = [chat for chat in chats if not chat.private]
    chance.shuffle(groups)
    auto = groups[: len(groups) // 3]
    other = groups[len(groups) // 3 :]
    wordings = [form.format(subject) for form in FORMS for subject in SUBJECTS]
    chance.shuffle(wordings)
    request_count = round(shape.messages * QUESTIONS * (1 - UNASKED))
    unasked = round(shape.messages * QUESTIONS * UNASKED)
    lines = list[Line]()
    texts = iter(wordings)
    for number in range(unasked):
        # Each chat once: what follows would be silent for the cooldown alone.
        chat = (auto if number % 2 else other)[number // 2]
        lines.append(Line("unasked", chat, next(texts), number, chance.uniform(0, shape.seconds)))
    for number, some in zip(range(request_count), _spread(chats, chance), strict=False):
        chat = some
        at = chance.uniform(0, shape.seconds - 1)
        author = chance.randrange(40)
        if number % 3 == 2:
            chat = lines[-1].chat
            at = lines[-1].at + 0.4
            author = lines[-1].author
        text = next(texts)
        lines.append(Line("asked", chat, text if chat.private else mention[chat.platform] + text, author, at))
    lines += _asides(lines, shape, chance)
    while len(lines) < shape.messages:
        at = chance.uniform(0, shape.seconds)
        chat = chance.choice(groups)
        lines.append(Line("chatter", chat, chance.choice(CHATTER), 50 + chance.randrange(40), at))
    return sorted(lines, key=lambda line: line.at), auto


def _asides(lines: Sequence[Line], shape: Shape, chance: random.Random) -> list[Line]:
    """Return what is said below answers where each opens a thread: three lines a question, one of its author's."""
    opening = [
        line for line in lines if line.kind == "asked" and line.chat.platform == "slack" and not line.chat.private
    ]
    return [
        Line(
            "chatter",
            line.chat,
            chance.choice(ASIDES),
            author,
            min(shape.seconds, line.at + chance.uniform(1, 9)),
            line,
        )
        for line in opening
        for author in (line.author, 50, 51)
    ]


def _spread(chats: Sequence[Chat], chance: random.Random) -> Iterator[Chat]:
    """Yield chats, all platforms in turn, every second time a private one."""
    by_kind = {
        (platform, private): [chat for chat in chats if (chat.platform, chat.private) == (platform, private)]
        for platform in dict.fromkeys(chat.platform for chat in chats)
        for private in (True, False)
    }
    while True:
        for results in by_kind.values():
            yield chance.choice(results)


async def measure(folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    for name, shape in (("load", FULL), ("load with kills", KILLED)):
        directory = folder / name.replace(" ", "-")
        directory.mkdir()
        outcome = await run(directory, shape)
        for rule, results in outcome.violations.items():
            print(*(f"{name}: {rule}: {result}" for result in results[:12]), sep="\n", flush=True)
        figures += outcome.figures(name)
    return figures


async def run(folder: Path, shape: Shape) -> Outcome:
    """Let it all happen and return what it showed."""
    chance = random.Random(shape.seed)
    async with AsyncExitStack() as stack:
        platforms: list[Platform] = [Telegram(), Discord(), Slack(), Http()]
        for platform in platforms:
            await platform.open(stack)
        model = await stack.enter_async_context(model_process(TTFT_S, RATE))
        lines, auto = planned(shape, platforms, chance)
        port = free_port()
        deployment = _deployment(folder, shape, platforms, auto, model, port)
        await asyncio.to_thread(deployment.call, "ingest")
        outcome = Outcome(lines)
        daemon = Daemon(deployment, platforms, port, outcome)
        await daemon.start()
        stack.push_async_callback(daemon.kill)
        by_name = {platform.name: platform for platform in platforms}
        async with asyncio.TaskGroup() as tasks:
            watch_task = tasks.create_task(daemon.watch())
            disturbing = tasks.create_task(_disturb(shape, daemon, platforms, chance))
            await _say(lines, by_name, chance if shape.kills else None)
            await disturbing
            await _wait_until_finished(folder, lines, shape.max_wait_s)
            watch_task.cancel()
        outcome.killed = shape.kills
        judge(outcome, folder, by_name, model)
        return outcome


def _deployment(
    folder: Path, shape: Shape, platforms: Sequence[Platform], auto: Sequence[Chat], model: Model, port: int
) -> Deployment:
    sources = {Path(document).stem: {"kind": "files", "path": str(ROOT / document)} for document in shape.documents}
    chats = {f"{chat.platform}:{chat.id}": {"mode": "auto"} for chat in auto}
    settings = {
        "sources": sources,
        "models": {"main": {"base_url": model.base_url, "model": "peer"}},
        "gate": {"wait_s": shape.wait_s},
        "chats": chats,
        "metrics": {"port": port},
        **{platform.name: platform.settings() for platform in platforms},
    }
    return Deployment(folder, settings, SECRETS)


class Daemon:
    """The daemon's process, killed and started again."""

    def __init__(self, deployment: Deployment, platforms: Sequence[Platform], port: int, outcome: Outcome) -> None:
        self._deployment = deployment
        self._platforms = platforms
        self._port = port
        self._outcome = outcome
        self._running = AsyncExitStack()
        self._process: asyncio.subprocess.Process | ForkedProcess | None = None

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        started_at = time.monotonic()
        process = await self._running.enter_async_context(self._deployment.daemon())
        self._process = process
        async with asyncio.timeout(60):
            while not (
                await self._metric("kimas_ready") and all([await platform.connected() for platform in self._platforms])
            ):
                assert process.returncode is None, self._deployment.log()[-3000:]
                await asyncio.sleep(0.05)
        self._outcome.ready_s.append(time.monotonic() - started_at)

    async def kill(self) -> None:
        """End it by SIGKILL, at once."""
        self._process = None
        await self._running.aclose()

    async def watch(self) -> None:
        """Note the most memory that it takes, and how late its event loop ever was, until cancelled."""
        while True:
            await asyncio.sleep(0.5)
            if self._process is None or self._process.returncode is not None:
                continue
            try:
                resident = psutil.Process(self._process.pid).memory_info().rss / 2**20
            except psutil.NoSuchProcess:
                continue
            self._outcome.memory_mib = max(self._outcome.memory_mib, resident)
            lag = await self._metric("kimas_event_loop_lag_seconds")
            self._outcome.lag_s = max(self._outcome.lag_s, lag)

    async def _metric(self, name: str) -> float:
        """Return a number that the daemon tells of itself, or 0 while it tells none."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self._port}/metrics") as answer,
            ):
                result = re.search(rf"^{name} (\S+)$", await answer.text(), re.MULTILINE)
        except aiohttp.ClientError:
            return 0.0
        return float(result[1]) if result else 0.0


async def _say(lines: Sequence[Line], platforms: dict[str, Platform], chance: random.Random | None) -> None:
    """Let people write at their times. With `chance` every eighth message is delivered a second time."""
    started_at = time.monotonic()

    async def follow_line(line: Line) -> None:
        platform = platforms[line.chat.platform]
        line.said_at = time.monotonic()
        # Below a question that was written earlier: at most its delivery is still under way.
        while line.below is not None and not line.below.id:
            await asyncio.sleep(0.05)
        line.id = await platform.say(line.chat, line.text, line.author, line.below.id if line.below else "")
        if chance is not None and chance.random() < 0.125:
            await asyncio.sleep(chance.uniform(0, 6))
            await platform.deliver_again(line.chat, line.id)

    async with asyncio.TaskGroup() as tasks:
        for line in lines:
            await asyncio.sleep(started_at + line.at - time.monotonic())
            tasks.create_task(follow_line(line))


async def _disturb(shape: Shape, daemon: Daemon, platforms: Sequence[Platform], chance: random.Random) -> None:
    """Break connections and kill the daemon at random moments, each some seconds after it was ready."""
    for _ in range(shape.kills):
        await asyncio.sleep(chance.uniform(0.1, 0.4) * shape.lives_s)
        for platform in platforms:
            platform.drop(chance)
        await asyncio.sleep(chance.uniform(0.2, 0.6) * shape.lives_s)
        await daemon.kill()
        await daemon.start()


async def _wait_until_finished(folder: Path, lines: Sequence[Line], seconds: float) -> None:
    """Wait until the journal has finished every message, at most so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rows = await asyncio.to_thread(journalled, folder)
        if sum(state in SETTLED for _, state, _ in rows.values()) >= len(lines) - len(_unknown(lines, rows)):
            return
        await asyncio.sleep(0.25)


def journalled(folder: Path) -> dict[tuple[str, str, str], tuple[int, str, str]]:
    """Return the number, the state and the reason of every message by platform, chat and id."""
    with closing(sqlite3.connect(folder / "data" / "journal.db")) as connection:
        rows = connection.execute("SELECT platform, chat, id, number, state, reason FROM messages").fetchall()
    return {
        (platform, chat, name): (number, state, reason or "") for platform, chat, name, number, state, reason in rows
    }


def _unknown(lines: Sequence[Line], rows: Mapping[tuple[str, str, str], object]) -> list[Line]:
    """Return what was written in private chats of Discord before the bot had heard of them: docs/discord.md."""
    chats = set[Chat]()
    messages = list[Line]()
    for line in lines:
        if (line.chat.platform, line.chat.id, line.id) in rows:
            chats.add(line.chat)
        elif line.chat.platform == "discord" and line.chat.private and line.chat not in chats:
            messages.append(line)
    return messages


def judge(outcome: Outcome, folder: Path, platforms: dict[str, Platform], model: Model) -> None:
    """Compare what was said with the journal, with what people saw, and with what the model was asked."""
    rows = journalled(folder)
    violations = outcome.violations
    unknown = _unknown(outcome.lines, rows) if outcome.killed else []
    for line in outcome.lines:
        line.number, line.state, line.reason = rows.pop((line.chat.platform, line.chat.id, line.id), (0, "", ""))
        if line.kind != "chatter":
            messages = platforms[line.chat.platform].get_messages(line.chat)
            line.posts = [message for message in messages if get_question(line) in MARK.sub("", message.text)]
        platform = platforms[line.chat.platform]
        line.unknown = any(line is message for message in unknown)
        line.given_up = bool(outcome.killed) and not line.state and platform.given_up(line.chat, line.id)
        _judge_line(outcome, line)
    violations["unsettled"] += [f"nobody said {row}" for row in rows]
    _judge_chats(outcome, platforms)
    _judge_model(outcome, model)
    outcome.limits = sum((platform.broken() for platform in platforms.values()), Counter())
    expected = AFTER_A_KILL if outcome.killed else ()
    violations["limit"] += [
        f"{limit_name}: {count}" for limit_name, count in outcome.limits.items() if limit_name not in expected
    ]
    _measure_times(outcome, platforms)


def _measure_times(outcome: Outcome, platforms: dict[str, Platform]) -> None:
    """Note how long it took to the first sign and to the whole answer of what was put to the bot.

    What is asked while another question of its conversation is being answered waits for its turn, and counts apart.
    """
    busy = defaultdict[Chat, float](float)
    for line in outcome.of("asked", "answered"):
        signs = platforms[line.chat.platform].signs(line.chat, line.id)
        first = min((at for at in signs if at >= line.said_at), default=float("inf")) - line.said_at
        (outcome.behind_s if line.said_at < busy[line.chat] else outcome.first_s).append(first)
        for message in line.posts[:1]:
            busy[line.chat] = message.last_at
            outcome.answer_s.append(message.last_at - line.said_at)


def get_question(line: Line) -> str:
    """Return the words of a question without the mention."""
    return next(line.text[line.text.index(form.split("{")[0]) :] for form in FORMS if form.split("{")[0] in line.text)


def _judge_line(outcome: Outcome, line: Line) -> None:
    violations = outcome.violations
    description = f"{line.chat.platform} {line.chat.id}: {line.text!r}: {line.state} {line.reason}"
    if line.unknown or line.given_up:
        outcome.unknown += line.unknown
        outcome.given_up += line.given_up
        return
    if line.state not in SETTLED:
        violations["unsettled"].append(description)
    if line.state == "silent" and not line.reason:
        violations["unexplained"].append(description)
    if len(line.posts) > 1:
        violations["twice"].append(description)
    if line.state == "answered" and line.kind != "chatter" and not line.posts:
        violations["unseen"].append(description)
    if line.state == "failed" and line.reason == IN_DOUBT and outcome.killed:
        outcome.in_doubt += 1
    elif line.state == "failed" or (line.kind == "asked" and line.state != "answered"):
        violations["lost"].append(description)
    if line.kind == "chatter" and line.state != "silent":
        violations["chatter"].append(description)
    if line.state == "silent" and line.posts:
        violations["twice"].append(f"shown although silent: {description}")


def _judge_chats(outcome: Outcome, platforms: dict[str, Platform]) -> None:
    """Look for messages of the bot that answer nothing, and for answers in another order than their questions."""
    by_chat = defaultdict[Chat, list[Line]](list)
    for line in outcome.lines:
        by_chat[line.chat].append(line)
    for chat, messages in by_chat.items():
        # Before a restart a later message may be delivered sooner: what counts is the order in which they came.
        lines = sorted(messages, key=lambda line: line.number) if outcome.killed else messages
        outputs = platforms[chat.platform].get_messages(chat)
        if outcome.killed and chat.platform == "telegram":
            outputs = [output for output in outputs if output.text != PLACEHOLDER]
        spoken = sum(line.state == "answered" or line.reason == IN_DOUBT for line in lines)
        if len(outputs) > spoken:
            texts = [output.text[:120] for output in outputs]
            outcome.violations["twice"].append(
                f"{chat.platform} {chat.id}: {len(outputs)} posts, {spoken} answers: {texts}"
            )
        # On Slack every question in a channel opens a conversation of its own.
        if chat.platform == "slack" and not chat.private:
            continue
        first = [line.posts[0].first_at for line in lines if line.kind == "asked" and line.posts]
        if first != sorted(first):
            outcome.violations["out of order"].append(f"{chat.platform} {chat.id}")


def _judge_model(outcome: Outcome, model: Model) -> None:
    outcome.calls = Counter(item.purpose for item in model.requests)
    questions = {get_question(line) for line in outcome.lines if line.kind != "chatter"}
    answered_questions = {
        get_question(line) for line in outcome.lines if line.kind != "chatter" and line.state != "silent"
    }
    for request in model.requests:
        # In doubt, a model is asked whether to speak at all.
        if request.purpose == "second_opinion":
            continue
        if request.question not in (questions if outcome.killed else answered_questions):
            outcome.violations["chatter"].append(f"the model was asked to {request.purpose}: {request.question!r}")
    write_counts = Counter(event.question for event in model.of("write"))
    # An answer may be begun on a guess, and once more when the light model knows better: `context.head_start`.
    guessed = {event.question for event in (*model.of("context"), *model.of("rewrite"))}
    repeated_names = [name for name, count in write_counts.items() if count > 1 + outcome.killed + (name in guessed)]
    outcome.violations["twice"] += [f"written more than once: {question}" for question in repeated_names]
