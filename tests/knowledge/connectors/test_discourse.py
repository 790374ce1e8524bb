"""A Discourse forum: long topics, solutions, whispers and hidden posts, categories, a token."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.errors import SourceError
from knowledge.formats.discourse import Post, write_topic
from knowledge.ports import Store
from tests.support.connectors import OpenSource, Update, read_documents
from tests.support.peers.discourse import DiscoursePeer, Entry, Topic


@pytest.fixture
async def forum() -> AsyncIterator[DiscoursePeer]:
    async with DiscoursePeer() as peer:
        yield peer


async def test_a_long_topic_is_read_to_its_end_and_its_solution_comes_first(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store
) -> None:
    posts = [Entry(f"Reply {number}.") for number in range(1, 46)]
    posts[0] = Entry("How do I *rotate* the log?\n\n```sh\nrotate --now\n```")
    posts[43] = Entry("Use the zebra switch.", fields={"accepted_answer": True})
    forum.topics[7] = Topic("Rotation", posts)
    (document,) = (await read_documents(open_connector("discourse", forum.url()))).values()
    assert (document.title, document.url) == ("Rotation", forum.url("/t/a-slug/7"))
    assert document.text.index("rotate --now") < document.text.index("zebra switch") < document.text.index("Reply 2.")
    assert "## Solution, 2026-01-02" in document.text
    assert "Reply 45." in document.text
    assert forum.paths() == ["/latest.json", "/t/7.json", "/t/7/posts.json", "/t/7/posts.json"]
    await update(open_connector("discourse", forum.url()))
    (passage, *_) = await store.search("zebra", None, ["docs"], 1)
    assert passage.url == forum.url("/t/a-slug/7")


async def test_nothing_is_taken_that_visitors_do_not_see(forum: DiscoursePeer, open_connector: OpenSource) -> None:
    forum.topics[1] = Topic(
        "Open",
        [
            Entry("Question."),
            Entry("whispered", kind=4),
            Entry("moved", kind=3),
            Entry("flagged", fields={"hidden": True}),
            Entry("removed", fields={"deleted_at": "2026-01-03T00:00:00Z"}),
            Entry("withdrawn", fields={"user_deleted": True}),
            Entry('[quote="ann, post:1, topic:1"]\nQuestion.\n[/quote]\nAnswer.'),
        ],
    )
    forum.topics[2] = Topic("Unlisted", [Entry("secret")], fields={"visible": False})
    forum.topics[3] = Topic("Letter", [Entry("secret")], fields={"archetype": "private_message"})
    documents = await read_documents(open_connector("discourse", forum.url()))
    text = documents["topics/1"].text
    assert "Answer." in text
    for word in ("whispered", "moved", "flagged", "removed", "withdrawn", "ann", "Ann"):
        assert word not in text
    assert [documents[f"topics/{number}"].unreadable_reason for number in (2, 3)] == ["not listed"] * 2
    assert not any("secret" in document.text for document in documents.values())


async def test_categories_are_read_one_after_the_other(forum: DiscoursePeer, open_connector: OpenSource) -> None:
    forum.topics = {
        number: Topic(f"Topic {number}", [Entry("Text.")], category)
        for number, category in enumerate(("support/5", "news/6", "team/lounge/7", "support/5"), 1)
    }
    forum.page_size = 1
    source = open_connector("discourse", forum.url("/"), categories=["support/5", "team/lounge/7"])
    assert set(await read_documents(source)) == {"topics/1", "topics/3", "topics/4"}


async def test_a_closed_forum_is_read_with_a_token(forum: DiscoursePeer, open_connector: OpenSource) -> None:
    forum.is_closed = True
    forum.topics[1] = Topic("Closed", [Entry("Inside.")])
    with pytest.raises(SourceError, match="status 403: the token may not read it"):
        await open_connector("discourse", forum.url()).probe()
    source = open_connector("discourse", forum.url(), token="SERVICE_TOKEN", username="reader")
    assert await source.probe() == f"{forum.url()}: answers with topics of 1 list"
    assert (await read_documents(source))["topics/1"].text == "Inside."
    assert forum.requests[-1].headers["Api-Username"] == "reader"


async def test_a_forum_without_topics_is_told(forum: DiscoursePeer, open_connector: OpenSource) -> None:
    with pytest.raises(SourceError, match="are the categories right"):
        await open_connector("discourse", forum.url()).probe()


async def test_strange_replies_harm_nobody(forum: DiscoursePeer, open_connector: OpenSource) -> None:
    forum.topics[1] = Topic("Good", [Entry("Fine.")])
    forum.topics[2] = Topic(
        "Odd", [Entry("x", fields={"raw": None, "cooked": 7, "created_at": [], "post_number": "1"})]
    )
    forum.topics[3] = Topic("Odd", [Entry("x")], fields={"id": "../1", "title": None})
    documents = await read_documents(open_connector("discourse", forum.url()))
    assert documents["topics/1"].text == "Fine."
    assert documents["topics/2"].unreadable_reason == "it holds no text"
    assert len(documents) == 2


def test_what_was_written_wins_over_its_html() -> None:
    posts = [
        Post("# Big\n\nraw **text**", 0.0),
        Post("<p>a<br>b</p><pre><code>x &lt; y</code></pre>", 0.0, is_html=True),
    ]
    text = write_topic(posts)
    assert "### Big" in text
    assert "raw **text**" in text
    assert "x < y" in text
    assert write_topic([]) == ""
