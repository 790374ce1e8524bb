"""What is new in a repository, against a strict server: each issue and comment once, in order, whatever breaks."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from bots.common.diagnosis import Scope
from bots.forges.adapter import MAX_WATCHED_ANSWERS, ForgeAdapter, connect
from bots.forges.client import Comment
from bots.forges.diagnosis import diagnose
from core.errors import PlatformError
from core.storage.erasure import erase_on_platform
from core.storage.retention import delete_events
from core.storage.tables import feedback
from tests.support.forge_helpers import PACE, ForgeBot, settings
from tests.support.journalled_bot import MemoryPositions
from tests.support.peers.github import BOT, REPOSITORY, GithubPeer
from tests.support.waiting import until

AUTO = {"gate": {"mode": "auto", "wait_s": 0, "threshold": 0}}


async def test_an_issue_and_a_comment_that_mention_the_bot_are_answered(bot: ForgeBot, peer: GithubPeer) -> None:
    answer = await bot.ask()
    assert answer.text.startswith("Use pip.")
    number = peer.open("It crashes", "At the start.", "ben")
    comment = peer.comment(number, "Any idea, @Kimas?", "cat")
    assert await bot.outcome(comment) == ("answered", "")
    assert [question.text for question in bot.questions] == ["A question\n\nhow do I install it?", "Any idea?"]
    # Somebody wrote below the issue before the bot looked.
    await bot.skipped("answered by people")
    assert peer.violations == []


async def test_the_first_start_answers_nothing_of_old(peer: GithubPeer, tmp_path: Path) -> None:
    for number in range(200):
        issue = peer.open(f"Old {number}", "@kimas how?")
        peer.comment(issue, "@kimas and how?")
    bot = ForgeBot(peer, tmp_path)
    async with bot:
        await bot.ask()
        assert len(peer.posts()) == 1
        # Neither does any later one.
        await bot.restart()
        await bot.ask()
    assert len(peer.posts()) == 2


async def test_pull_requests_and_comments_below_them_are_left_alone(bot: ForgeBot, peer: GithubPeer) -> None:
    pull = peer.open("A change", "@kimas how is it?", is_pull=True)
    peer.comment(pull, "@kimas and this?")
    await bot.skipped("not below an issue")
    position = f"{bot.adapter._position_name(bot.adapter._projects[0], 'topics')}"
    async with asyncio.timeout(30):
        while await bot.adapter._positions.load(position) != pull:
            await asyncio.sleep(0.01)
    await bot.ask()
    assert len(peer.posts()) == 1


async def test_what_came_while_the_bot_was_down_is_answered_once_and_in_order(bot: ForgeBot, peer: GithubPeer) -> None:
    first = await bot.ask()
    await bot.stop()
    issues = [peer.open(f"Issue {number}", "@kimas how?", f"person{number}") for number in range(3)]
    comments = [peer.comment(first.number, f"@kimas how, {number}?", f"person{number}") for number in range(3)]
    await bot.start()
    for message in (*(f"issues/{number}" for number in issues), *comments):
        assert await bot.outcome(message) == ("answered", "")
    await bot.restart()
    await bot.ask()
    assert len(peer.posts()) == 8
    assert [question.text for question in bot.questions if ", " in question.text] == [f"how, {n}?" for n in range(3)]


async def test_the_last_of_250_comments_is_found(bot: ForgeBot, peer: GithubPeer) -> None:
    number = peer.open("A long thread", "Hello.")
    await bot.stop()
    peer.bots.add("robot")
    for _ in range(250):
        peer.comment(number, "Me too.", "robot")
    last = peer.comment(number, "@kimas how?")
    await bot.start()
    assert await bot.outcome(last) == ("answered", "")


@pytest.mark.parametrize("is_same_second", [False, True])
async def test_what_is_deleted_between_two_pages_hides_no_comment(
    peer: GithubPeer, tmp_path: Path, is_same_second: bool
) -> None:
    number = peer.open("A long thread", age_h=2)
    ids = [peer.comment(number, "Me too.") for _ in range(250)]
    for position, comment in enumerate(ids):
        note = peer.handbook.notes[comment]
        note.created = note.updated = 1e9 + (0 if is_same_second else position)

    async def delete(name: str, phase: str) -> None:
        if (name, phase) == ("GET issues/comments", "after") and not is_same_second:
            peer.handbook.notes.pop(ids[peer.calls.count(name)], None)

    peer.watch = delete
    client = await connect(settings(peer, tmp_path), PACE)
    comments = [item async for item in client.list_comments(REPOSITORY, 0) if isinstance(item, Comment)]
    await client.close()
    assert [comment.number for comment in comments] == ids


async def test_a_comment_that_changed_while_others_came_hides_none(bot: ForgeBot, peer: GithubPeer) -> None:
    answer = await bot.ask()
    await bot.stop()
    first = peer.comment(answer.number, "@kimas one?", "ben")
    second = peer.comment(answer.number, "@kimas two?", "cat")
    # It is listed behind the second one now.
    peer.edit(first, "@kimas one, please?")
    peer.handbook.notes[first].updated += 2
    await bot.start()
    assert await bot.outcome(second) == ("answered", "")
    assert await bot.outcome(first) == ("answered", "")


async def test_a_question_that_changes_before_its_answer_is_read_anew(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path)
    bot.changes = {"run": {"workers": 1}}
    async with bot:
        bot.hold = asyncio.Event()
        first = peer.open("Another question", "@kimas why?", "ben")
        await bot.heard(f"issues/{first}")
        comment = peer.comment(first, "@kimas how?")
        await bot.heard(comment)
        peer.edit(comment, "@kimas how, on Windows?")
        peer.handbook.notes[comment].updated += 1
        await peer.until_polled(3)
        bot.hold.set()
        assert await bot.outcome(comment) == ("answered", "")
    assert [question.text for question in bot.questions] == ["Another question\n\nwhy?", "how, on Windows?"]
    assert len(peer.posts()) == 2


async def test_a_question_that_changes_after_its_answer_asks_nothing(bot: ForgeBot, peer: GithubPeer) -> None:
    answer = await bot.ask()
    comment = peer.comment(answer.number, "@kimas how?")
    assert await bot.outcome(comment) == ("answered", "")
    peer.edit(comment, "@kimas how, on Windows?")
    peer.handbook.notes[comment].updated += 1
    await peer.until_polled(3)
    assert len(peer.posts()) == 2


@pytest.mark.parametrize("place", ["a comment", "an issue"])
async def test_what_was_edited_gives_no_command(peer: GithubPeer, tmp_path: Path, place: str) -> None:
    """Whoever may write to the repository edits what an owner of the bot wrote, and the forge does not say who did."""
    bot = ForgeBot(peer, tmp_path)
    bot.changes = {"administration": {"owners": ["github:ann"]}}
    async with bot:
        answer = await bot.ask()
        await bot.stop()
        if place == "a comment":
            message = str(peer.comment(answer.number, "thanks", "ann"))
            peer.edit(int(message), "@kimas /pause")
            peer.handbook.notes[int(message)].updated += 1
        else:
            number = peer.open("@kimas", "@kimas /pause", "ann")
            peer.handbook.issues[number].edited = time.time() + 2
            message = f"issues/{number}"
        await bot.start()
        assert await bot.outcome(message) == ("answered", "")
        assert bot.questions[-1].text.endswith("/pause")
        await bot.ask(author="ben")
        await bot.outcome(peer.comment(answer.number, "@kimas /pause", "ann"))
        paused = peer.comment(answer.number, "@kimas and how?", "ben")
        assert (await bot.outcome(paused))[0] == "silent"


@pytest.mark.parametrize(
    ("title", "body"),
    [
        ("@kimas /pause", "@kimas /pause <!--\n\n_Originally posted by @eve in https://github.example/a/b/issues/1_"),
        ("@kimas /pause", ""),
        ("A request", "@kimas /pause"),
    ],
    ids=["referenced comment", "converted task", "clone"],
)
async def test_a_new_issue_gives_no_command(peer: GithubPeer, tmp_path: Path, title: str, body: str) -> None:
    """Forges open issues with the words of others in the name of who pressed, and do not say so."""
    bot = ForgeBot(peer, tmp_path)
    bot.changes = {"administration": {"owners": ["github:ann"]}}
    async with bot:
        number = peer.open(title, body, "ann")
        assert await bot.outcome(f"issues/{number}") == ("answered", "")
        assert bot.questions[-1].text.endswith("/pause")
        assert "silent" in await bot.command("/pause")


@pytest.mark.parametrize(
    ("author", "text", "reason"),
    [
        (BOT, "@kimas how?", "written by the bot itself"),
        ("KIMAS", "@kimas how?", "written by the bot itself"),
        ("somebody", "@kimas how?\n<!-- kimas 1234 -->", "written by the bot itself"),
        ("dependabot[bot]", "@kimas how?", "written by a bot"),
        ("robot", "@kimas how?", "written by a bot"),
        ("", "@kimas how?", "written by a bot"),
    ],
)
async def test_bots_are_left_alone(bot: ForgeBot, peer: GithubPeer, author: str, text: str, reason: str) -> None:
    peer.bots.add("robot")
    number = peer.open("Hello", "Hello.")
    comment = peer.comment(number, text, author)
    issue = peer.open("Hello", text, author)
    await bot.skipped(reason)
    await bot.ask()
    assert [note.id for note in peer.posts() if note.number in (number, issue) and note.id != comment] == []


async def test_two_programs_that_answer_each_other_stop(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path, answers_per_thread=3)
    async with bot:
        answer = await bot.ask(author="program")
        for _ in range(2):
            assert await bot.outcome(peer.comment(answer.number, "@kimas and why?", "program")) == ("answered", "")
        peer.comment(answer.number, "@kimas and why?", "program")
        await bot.skipped("3 answers below this issue already")
    assert len(peer.posts()) == 3


async def test_an_owner_is_known_whatever_the_letter_case(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path)
    bot.changes = {"administration": {"owners": ["github:aNN"]}}
    async with bot:
        assert "ben-lee" in await bot.command("/admins add Ben-Lee", "Ann")
        assert "silent" in await bot.command("/pause", "ben-lee")


async def test_many_comments_between_two_looks_get_no_more_answers_than_a_thread_has(
    peer: GithubPeer, tmp_path: Path
) -> None:
    bot = ForgeBot(peer, tmp_path, answers_per_thread=3)
    async with bot:
        answer = await bot.ask()
        await bot.stop()
        comments = [peer.comment(answer.number, "@kimas and why?", f"program{number}") for number in range(9)]
        await bot.start()
        await bot.skipped("3 answers below this issue already")
        for comment in comments[:2]:
            assert await bot.outcome(comment) == ("answered", "")
        await peer.until_polled(3)
    assert len(peer.posts()) == 3


@pytest.mark.parametrize(
    "text",
    [
        "> @kimas how do I install it?\n\nI wonder as well.",
        "`@kimas` is a bot.",
        "```\n@kimas how?\n```",
        "<!-- @kimas how? -->\nHello there.",
        "Ask @kimas-team, or me@kimas.dev.",
        "See https://example.org/@kimas for more.",
    ],
)
async def test_a_name_in_what_is_quoted_or_code_asks_nothing(bot: ForgeBot, peer: GithubPeer, text: str) -> None:
    answer = await bot.ask()
    comment = peer.comment(answer.number, text, "ben")
    issue = peer.open("Hello", text, "ben")
    assert (await bot.outcome(comment))[0] == "silent"
    assert (await bot.outcome(f"issues/{issue}"))[0] == "silent"
    assert len(peer.posts()) == 1


async def test_a_comment_that_quotes_an_answer_is_a_question_about_it(bot: ForgeBot, peer: GithubPeer) -> None:
    answer = await bot.ask()
    comment = peer.comment(answer.number, "> Use pip.\n\nWhich version of it?", "ben")
    assert await bot.outcome(comment) == ("answered", "")
    assert bot.questions[1].text.endswith("Which version of it?")


async def test_a_follow_up_below_an_answer_needs_no_mention(bot: ForgeBot, peer: GithubPeer) -> None:
    answer = await bot.ask()
    follow_up = peer.comment(answer.number, "And how do I install it on Windows?")
    assert await bot.outcome(follow_up) == ("answered", "")
    thanks = peer.comment(answer.number, "Thanks a lot.")
    assert (await bot.outcome(thanks))[0] == "silent"


@pytest.mark.parametrize(("change", "reason"), [({"state": "closed"}, "closed"), ({"locked": True}, "locked")])
async def test_closed_and_locked_issues_are_left_alone(
    bot: ForgeBot, peer: GithubPeer, change: dict[str, object], reason: str
) -> None:
    number = peer.open("Old", "Hello.", **change)
    peer.comment(number, "@kimas how?")
    await bot.skipped(reason)
    peer.open("Older", "@kimas how?", **change)
    await bot.ask()
    assert len(peer.posts()) == 1


async def test_people_answer_first(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path, wait_h=2)
    bot.changes = AUTO
    async with bot:
        answered = peer.open("How do I install it?", age_h=1.9999)
        peer.comment(answered, "Use apt.", "ben")
        unanswered = peer.open("How do I remove it?", age_h=1.9999)
        peer.comment(unanswered, "How do I remove it, please?", "ann")
        fresh = peer.open("How do I start it?", age_h=1)
        urgent = peer.open("@kimas how do I stop it?")
        assert await bot.outcome(f"issues/{urgent}") == ("answered", "")
        await bot.skipped("people answer first")
        peer.handbook.issues[answered].created -= 3600
        peer.handbook.issues[unanswered].created -= 3600
        await bot.skipped("answered by people")
        # There is no knowledge to judge by: the gate was asked, and the others were not even delivered.
        assert (await bot.outcome(f"issues/{unanswered}"))[0] == "silent"
        await bot.restart()
        await peer.until_polled(3)
        assert [note.number for note in peer.posts()] == [urgent]
        assert f"issues/{fresh}" not in await bot.list_messages()


async def test_without_a_wait_people_count_as_well(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path)
    bot.changes = AUTO
    async with bot:
        await bot.stop()
        number = peer.open("How do I install it?", age_h=480)
        peer.comment(number, "Use apt.", "ben", age_h=470)
        await bot.start()
        await bot.skipped("answered by people")
    assert peer.posts() == []


async def test_reactions_rate_an_answer_and_can_be_taken_back(bot: ForgeBot, peer: GithubPeer) -> None:
    answer = await bot.ask()
    await peer.until_polled()
    peer.bots.add("robot")
    peer.react(answer.id, "+1", "robot")
    reaction = peer.react(answer.id, "-1", "ben")
    assert "down" in (await bot.outcome(f"reaction {reaction}"))[1]
    # A daemon that starts again knows older answers.
    await bot.restart()
    second = peer.react(answer.id, "+1", "cat")
    assert "up" in (await bot.outcome(f"reaction {second}"))[1]
    del peer.reactions[answer.id][reaction]
    await bot.heard(f"reaction {reaction} off")


@pytest.mark.parametrize("login", ["ben", "on"], ids=["another name", "a name that the ids of reactions have"])
async def test_a_rating_that_was_forgotten_stays_away(bot: ForgeBot, peer: GithubPeer, login: str) -> None:
    """The reaction still stands there, and is found again at every start."""
    answer = await bot.ask()
    await peer.until_polled()
    reaction = peer.react(answer.id, "+1", login)
    assert "up" in (await bot.outcome(f"reaction {reaction}"))[1]
    await erase_on_platform(bot.journal.database, "github", login, date.today())
    await delete_events(bot.journal.database, datetime.now(UTC) + timedelta(days=1))
    await bot.restart()
    other = peer.react(answer.id, "-1", "cat")
    assert "down" in (await bot.outcome(f"reaction {other}"))[1]
    assert [row.author_id for row in await bot.journal.database.fetch_all(select(feedback))] == ["cat"]


async def test_an_answer_that_is_watched_no_more_keeps_its_rating(bot: ForgeBot, peer: GithubPeer) -> None:
    answer = await bot.ask()
    reaction = peer.react(answer.id, "-1", "ben")
    assert "down" in (await bot.outcome(f"reaction {reaction}"))[1]
    for number in range(MAX_WATCHED_ANSWERS):
        peer.comment(answer.number, f"Answer {number} <!-- kimas {number} -->", BOT)
    newest_answer = await bot.ask()
    later = peer.react(newest_answer.id, "-1", "ben")
    await bot.heard(f"reaction {later}")
    assert f"reaction {reaction} off" not in await bot.list_messages()


async def test_labels_say_what_the_bot_did(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path, answered_label="bot: answered", not_found_label="bot: unknown")
    async with bot:
        answer = await bot.ask()
        assert peer.handbook.issues[answer.number].labels == ["bot: answered"]
        bot.finds_nothing = True
        answer = await bot.ask()
        assert peer.handbook.issues[answer.number].labels == ["bot: unknown"]
        # A label that is refused costs nothing else.
        peer.fail("POST issues/{}/labels", 403, message="Resource not accessible by personal access token")
        answer = await bot.ask()
        assert peer.handbook.issues[answer.number].labels == []


async def test_a_repository_that_is_gone_does_not_hold_up_others(peer: GithubPeer, tmp_path: Path) -> None:
    peer.repositories["example/moved"].moved_to = "/repositories/42"
    bot = ForgeBot(peer, tmp_path, repositories=("example/moved", REPOSITORY))
    async with bot:
        await bot.ask()
        assert "example/moved is not there, has moved" in bot.adapter.connection.warning
        peer.repositories["example/moved"].moved_to = ""
        await until(lambda: not bot.adapter.connection.warning)


async def test_an_outage_is_waited_out(bot: ForgeBot, peer: GithubPeer) -> None:
    peer.fail("GET issues", 502)
    peer.fail("GET issues/comments", drop="before")
    peer.fail("GET issues/comments", 200, message="no list")
    await bot.ask()
    await peer.away()
    number = peer.open("While it was away", "@kimas how?")
    await peer.listen()
    assert await bot.outcome(f"issues/{number}") == ("answered", "")


async def test_a_listing_that_fails_half_way_hides_no_issue(bot: ForgeBot, peer: GithubPeer) -> None:
    peer.bots.add("robot")
    await bot.ask()
    await peer.until_polled()

    async def fail(name: str, phase: str) -> None:
        if (name, phase) == ("GET issues", "after") and len(peer.handbook.issues) > 100:
            # The first page is on its way, and the second one fails.
            peer.watch = None
            peer.fail("GET issues", 502)

    peer.watch = fail
    numbers = [peer.open("Hello", "Hello.", "robot") for _ in range(101)]
    peer.handbook.issues[numbers[0]].author = "ann"
    peer.handbook.issues[numbers[0]].text = "@kimas how?"
    assert await bot.outcome(f"issues/{numbers[0]}") == ("answered", "")


async def test_what_is_too_large_alone_holds_up_nothing_else(
    peer: GithubPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.forges.transport.MAX_PAGE_KB", 64)
    numbers = [peer.open(f"Issue {number}", "x" * 15_000) for number in range(120)]
    for position in (7, 8, 60, 119):
        peer.handbook.issues[numbers[position]].text = "中" * 30_000
    client = await connect(settings(peer, tmp_path), PACE)
    topics = [topic async for topic in client.list_topics(REPOSITORY, 0, is_conditional=False)]
    await client.close()
    assert sorted(topic.number for topic in topics) == [
        number for position, number in enumerate(numbers) if position not in (7, 8, 60, 119)
    ]


async def test_a_revoked_token_ends_the_adapter(peer: GithubPeer, tmp_path: Path) -> None:
    adapter = ForgeAdapter(settings(peer, tmp_path), MemoryPositions())
    peer.token = "another one"
    with pytest.raises(PlatformError, match="401"):
        await adapter.open()


async def test_check_names_what_is_wrong(peer: GithubPeer, tmp_path: Path) -> None:
    names = ("gone", "closed", "archived", "fine")
    for name in names[1:]:
        peer.repositories[f"example/{name}"].can_write = name != "closed"
    peer.repositories["example/archived"].archived = True
    section = settings(peer, tmp_path, repositories=tuple(f"example/{name}" for name in names))
    diagnosis = await diagnose(section, Scope(("example/other",)))
    texts = [problem.text for problem in diagnosis.problems]
    assert diagnosis.identity.startswith("kimas on 127.0.0.1")
    assert [text.partition(" (")[0] for text in texts] == [
        "example/gone is not there, has moved, has no issues, or the token may not read it",
        "the bot cannot comment in example/closed",
        "example/archived is archived: nobody can comment there",
        "the chat example/other is in no project that the bot reads: add it there",
    ]
    assert peer.violations == []
