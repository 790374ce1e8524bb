"""Properties of every parser, converter and renderer that meets data from outside, over texts that nobody thought of.

No exception but ours, output of bounded length, and the same result when it is applied again. `HYPOTHESIS_PROFILE`
chooses how many examples are tried: few and always the same ones by default, many and new ones with `thorough`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from aiogram.types import Update
from hypothesis import HealthCheck, given, settings, strategies as st

from bots.bluesky import convert as bluesky, render as bluesky_render
from bots.bluesky.client import Identity as BlueskyIdentity
from bots.common.message_split import split_html, strip_tags, utf16_length
from bots.console.adapter import parse_line
from bots.discord import convert as discord, render as discord_render
from bots.forges import convert as forges, render as forges_render
from bots.forges.client import Account, Comment as ForgeComment, Identity as ForgeIdentity, Topic as ForgeTopic
from bots.http import convert as http
from bots.mastodon import convert as mastodon, render as mastodon_render
from bots.mastodon.client import Identity as MastodonIdentity
from bots.slack import convert as slack, render as slack_render
from bots.telegram import convert as telegram, render as telegram_render
from bots.telegram.render import render_rich
from core.answering.agents.decision_maker import DECISION_SCHEMA
from core.answering.agents.vision import sanitize_description
from core.citations.markers import resolve_markers, strip_markers
from core.errors import ConfigurationError, SourceError
from core.evidence.rendering import escape_delimiters
from core.formatting import replace_lone_surrogates, strip_control_characters
from core.language.languages import detect_language
from core.language.tokens import distinct_words, lexical_tokens, query_tokens, query_words
from core.llm.decision_schema import iter_parsed_replies
from core.llm.images import UnusableImage, validate_image
from core.llm.reasoning import remove_reasoning
from core.messaging.gate.features import hash_ngrams
from core.observability.logs import make_redactor
from core.settings.loader import load_settings
from core.types import Message
from core.types.messages import OWN_COMMENT_MARKER
from knowledge.chunking import chunk
from knowledge.formats.question_pairs import read_entries
from knowledge.parsing.limits import FormatError
from knowledge.ports import Document
from knowledge.web.addresses import check_url
from knowledge.web.charsets import decode_content
from tests.support.foreign import OUR_ERRORS, PASSAGES, Function, find_functions
from tests.support.peers.telegram_rich import parse_rich_html

DEADLINE = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("default", max_examples=12, derandomize=True, database=None, **DEADLINE)
settings.register_profile("thorough", max_examples=1000, database=None, **DEADLINE)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)
# A thousand examples of all functions take some minutes.
pytestmark = [pytest.mark.timeout(0)] if PROFILE == "thorough" else []

# What texts from outside are made of: marks of markup, of formats and of our own prompts, other scripts, and garbage.
PIECES = (
    "```",
    "```py\n",
    "`",
    "**",
    "*",
    "_",
    "~~",
    "# ",
    "## ",
    "> ",
    "- ",
    "1. ",
    "| a | b |\n",
    "|---|\n",
    "---\n",
    "[1]",
    "[p1]",
    "[p1, p2]",
    "[",
    "](",
    ")",
    "![",
    "<b>",
    "</b>",
    "<a href='x'>",
    "<!--",
    "-->",
    "&amp;",
    "&#0;",
    "<",
    "https://example.org/a?b=c",
    "javascript:x",
    "<@U1>",
    "<#C1|x>",
    "<!here>",
    "@here",
    "@everyone",
    "\\",
    "\n",
    "\n\n",
    "{",
    "}",
    '{"a": ',
    '"keep": ["p1"]',
    "action: ",
    "search(",
    "<think>",
    "</think>",
    "</question>",
    "：",
    "?",
    "。",
    "安装",
    "如何",
    "é",
    "\u202e",
    "\u200b",
    "\x00",
    "\ud800",
    "\udfff",
    "🤷🏽\u200d♀️",
    "\r",
    "\t",
    " ",
    "a",
    "install",
    "0.5",
    "%PDF-1.4",
    "PK\x03\x04",
    "openapi: 3.0.0\npaths:\n",
    "<?xml?>",
    "<rss>",
    "<urlset><url><loc>",
    "User-agent: *\n",
    "def f():\n",
    "class A:\n    ",
    "====\n",
    ".. note::\n\n",
    '"""',
    "%%",
    "a,b\n",
    '"',
    "'",
    *("- question: a\n  answer: b\n"),
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
RENDERERS = {
    "telegram": (telegram_render.render, 4096, lambda part: utf16_length(strip_tags(part))),
    "discord": (discord_render.render, 2000, utf16_length),
    "slack": (slack_render.render, slack_render.MAX_CHARS, len),
    "forges": (forges_render.render, 65_536, len),
    "bluesky": (lambda text: bluesky_render.render(text, ()), 300, bluesky_render.count_chars),
    "mastodon": (lambda text: mastodon_render.render(text, (), 500), 500, mastodon_render.count_chars),
}
NOW = datetime(2026, 3, 5, tzinfo=UTC)


@cache
def functions() -> dict[str, Function]:
    return dict(find_functions())


def size_of(value: object) -> int:
    """Return how many characters there are in a value."""
    if isinstance(value, str | bytes):
        return len(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return sum(size_of(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, dict):
        return sum(size_of(item) for pair in value.items() for item in pair)
    return sum(map(size_of, value)) if isinstance(value, list | tuple | set | frozenset) else 1


def get_error(function: Callable[[], object], kind: type[Exception]) -> Exception | None:
    """Return the error of this kind that a function raises."""
    try:
        function()
    except kind as error:
        return error
    return None


@given(text=TEXTS)
def test_no_function_raises_or_writes_more_than_it_read(text: str) -> None:
    # Halves of surrogate pairs are replaced where texts come in: by the processor, and where documents are decoded.
    text = replace_lone_surrogates(text)
    for name, function in functions().items():
        try:
            result = function(text)
        except OUR_ERRORS:
            continue
        except Exception as error:
            raise AssertionError(f"{name}({text!r}) raises {error!r}") from error
        assert size_of(result) <= 4000 + 60 * len(text), f"{name}({text!r})"


IDEMPOTENT = {
    "escape_delimiters": escape_delimiters,
    "remove_reasoning": remove_reasoning,
    "replace_lone_surrogates": replace_lone_surrogates,
    "strip_control_characters": strip_control_characters,
    "strip_markers": strip_markers,
    "sanitize_description": sanitize_description,
    "redact": make_redactor(["hunter2-secret"]),
}


@pytest.mark.parametrize("name", IDEMPOTENT)
@given(text=TEXTS)
def test_what_cleans_a_text_leaves_a_clean_one_as_it_is(name: str, text: str) -> None:
    clean = IDEMPOTENT[name](text)
    assert IDEMPOTENT[name](clean) == clean


@given(text_before=TEXTS, text_after=TEXTS)
def test_no_secret_comes_through_the_redactor(text_before: str, text_after: str) -> None:
    secret = "hunter2-secret-of-ours"
    assert secret not in make_redactor([secret])(f"{text_before}{secret}{text_after}")


@pytest.mark.parametrize("platform", RENDERERS)
@given(text=TEXTS, repeats=st.integers(1, 120))
def test_a_reply_is_split_within_the_limit_and_without_a_broken_block(platform: str, text: str, repeats: int) -> None:
    render, limit, measure = RENDERERS[platform]
    parts = render(text * repeats)
    assert parts
    for part in parts:
        assert 0 < measure(part) <= limit
        assert part == replace_lone_surrogates(part)
        if platform == "telegram":
            assert open_tags(part) == []
        else:
            assert len(re.findall(r"^(?:> )?```", part, re.MULTILINE)) % 2 == 0


@given(text=TEXTS, repeats=st.integers(1, 120))
def test_a_rich_message_is_one_that_telegram_takes(text: str, repeats: int) -> None:
    html = render_rich(f"# Title\n\n{text * repeats}")
    assert html is None or parse_rich_html(html).text.startswith("Title")


def open_tags(html: str) -> list[str]:
    """Return the tags that are not closed, in order; a closing one that closes nothing is among them."""
    tags: list[str] = []
    for slash, name in re.findall(r"<(/?)([a-z][\w-]*)[^<>]*>", html):
        if slash and tags and tags[-1] == name:
            tags.pop()
        else:
            tags.append(slash + name)
    return tags


@given(words=st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1, max_size=900))
def test_the_parts_of_a_split_text_are_the_text(words: list[str]) -> None:
    for render, _, _ in RENDERERS.values():
        assert " ".join(render(" ".join(words))).split() == words


@given(text=TEXTS)
def test_citations_name_passages_that_are_there(text: str) -> None:
    result = resolve_markers(text, PASSAGES)
    assert [citation.n for citation in result.citations] == list(range(1, len(result.citations) + 1))
    assert {citation.passage_id for citation in result.citations} <= {passage.id for passage in PASSAGES}


@given(value=st.one_of(VALUES.map(lambda value: json.dumps(value, default=str)), TEXTS))
def test_a_reply_is_read_as_the_schema_says(value: str) -> None:
    for reply in iter_parsed_replies(value, DECISION_SCHEMA):
        assert set(reply.values) <= {field.name for field in DECISION_SCHEMA.fields}


@given(text=TEXTS)
def test_words_and_languages(text: str) -> None:
    assert re.fullmatch("[a-z]{0,3}", detect_language(text))
    words = query_words(text, 20)
    tokens = query_tokens(text, 20).split()
    assert len(tokens) == len(set(tokens)) == sum(map(len, words))
    assert len(words) <= 20
    assert {tokens[0] for tokens in words} == distinct_words(text, 20) <= set(lexical_tokens(text).split())


@pytest.mark.parametrize("kind", ["markdown", "rst", "python", "javascript", "text"])
@given(text=TEXTS, repeats=st.integers(1, 20))
def test_chunks_are_lines_of_their_document(kind: str, text: str, repeats: int) -> None:
    document = Document("a", replace_lone_surrogates(text) * repeats, kind)
    line_count = len(document.text.splitlines()) + 1
    for piece in chunk(document):
        assert piece.text.strip()
        assert 1 <= piece.start_line <= piece.end_line <= line_count


PRIVATE = (
    "127.0.0.1",
    "10.1.2.3",
    "169.254.169.254",
    "192.168.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
)
WIDE = str.maketrans("0123456789.", "０１２３４５６７８９。")


@given(host=st.sampled_from(PRIVATE), wide=st.booleans(), path=TEXTS, port=st.integers(1, 65535))
def test_a_private_literal_is_refused_in_every_spelling(host: str, wide: bool, path: str, port: int) -> None:
    spelling = host.translate(WIDE) if wide and "[" not in host else host
    with pytest.raises(SourceError):
        check_url(f"http://{spelling}:{port}/{path}", ())


@given(data=st.one_of(st.binary(max_size=80), st.binary(max_size=80).map(lambda data: b"\xff\xd8\xff" + data)))
def test_a_picture_is_valid_or_unusable(data: bytes) -> None:
    with suppress(UnusableImage):
        assert validate_image(data).url.startswith("data:image/")


@given(text=st.one_of(TEXTS, st.text(max_size=40)), content=st.binary(max_size=40))
def test_no_header_stops_a_text_from_being_read(text: str, content: bytes) -> None:
    for content_type in (text, f"text/plain; charset={text}", f"text/plain; charset*0*={text}"):
        assert isinstance(decode_content(content, content_type), str)


@pytest.mark.parametrize("suffix", ["yaml", "json", "jsonl", "csv"])
@given(content=st.one_of(TEXTS, VALUES.map(lambda value: json.dumps(value, default=str))))
def test_a_faq_is_read_or_refused(suffix: str, content: str) -> None:
    data = replace_lone_surrogates(content).encode()
    error = get_error(lambda: read_entries(f"faq.{suffix}", data), FormatError)
    assert error is None or str(error).startswith(f"faq.{suffix}:")


@given(content=st.one_of(TEXTS, VALUES.map(lambda value: json.dumps(value, default=str))))
def test_faults_of_the_configuration_are_told(content: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "kimas.yaml"
    file.write_text(replace_lone_surrogates(content), "utf-8")
    error = get_error(lambda: load_settings([file], (), {}), ConfigurationError)
    if isinstance(error, ConfigurationError):
        assert error.errors
        assert all(len(line) < 2000 for line in error.errors)


def mutate(event: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return events of this form whose values, also the inner ones, are missing or something else."""

    def replace_some(value: Any) -> st.SearchStrategy[Any]:
        if isinstance(value, dict):
            changed_fields = st.fixed_dictionaries(
                {}, optional={key: replace_some(item) for key, item in value.items()}
            )
            return st.one_of(changed_fields, changed_fields, changed_fields, VALUES)
        if isinstance(value, list):
            return st.one_of(st.tuples(*map(replace_some, value)).map(list), VALUES)
        return st.one_of(st.just(value), st.just(value), TEXTS if isinstance(value, str) else VALUES)

    return st.fixed_dictionaries({}, optional={key: replace_some(item) for key, item in event.items()})


HTTP_EVENT = {
    "kind": "message",
    "id": "1",
    "chat": "lobby",
    "text": "How?",
    "private": False,
    "thread": "2",
    "author": {"id": "7", "name": "Ann", "bot": False},
    "addressed": True,
    "reply_to": "0",
    "sent_at": "2026-03-05T10:00:00Z",
    "attachments": [{"kind": "picture", "name": "a.png", "data": "iVBORw0KGgo="}],
}


@given(event=st.one_of(mutate(HTTP_EVENT), VALUES))
def test_an_event_over_http_is_a_message_or_refused(event: object) -> None:
    error = get_error(lambda: http.to_message(event, NOW), http.MalformedEvent)
    assert error is None or 0 < len(str(error)) < 500


TELEGRAM_UPDATE = {
    "update_id": 1,
    "message": {
        "message_id": 5,
        "date": 1_700_000_000,
        "chat": {"id": -100, "type": "supergroup", "title": "G"},
        "from": {"id": 7, "is_bot": False, "first_name": "Ann"},
        "text": "@kimas_bot how?",
        "caption": "x",
    },
}
ENTITY_TYPES = ("mention", "bot_command", "url", "text_link", "text_mention", "code", "pre", "hashtag")
ENTITIES = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(ENTITY_TYPES), "offset": st.integers(0, 40), "length": st.integers(0, 40)}
    ),
    max_size=5,
)


@given(text=TEXTS, name=TEXTS, entities=ENTITIES)
def test_an_update_of_telegram_is_a_message_or_ignored(text: str, name: str, entities: list[dict[str, Any]]) -> None:
    """The library refuses what has not the documented form, so these have it: texts and places are arbitrary."""
    update = json.loads(json.dumps(TELEGRAM_UPDATE))
    update["message"] |= {"text": replace_lone_surrogates(text), "entities": entities}
    update["message"]["from"]["first_name"] = replace_lone_surrogates(name)
    message = telegram.to_message(Update.model_validate(update), telegram.Identity(1, "kimas_bot"))
    if isinstance(message, Message):
        assert len(message.text) <= max(len(text), len("x"))


SLACK_EVENT = {
    "type": "message",
    "channel": "C1",
    "channel_type": "channel",
    "user": "U7",
    "text": "<@U1> how?",
    "ts": "1.2",
    "thread_ts": "1.1",
    "subtype": "file_share",
    "parent_user_id": "U1",
    "files": [{"id": "F1", "mimetype": "a/b"}],
}
DISCORD_EVENT = {
    "id": "175928847299117063",
    "channel_id": "5",
    "guild_id": "6",
    "content": "<@1> how?",
    "type": 0,
    "author": {"id": "7", "username": "ann", "bot": False},
    "member": {"nick": "Ann"},
    "mentions": [{"id": "1"}],
    "attachments": [{"id": "9", "filename": "a.png", "content_type": "image/png"}],
    "referenced_message": None,
}


@given(text=TEXTS, title=TEXTS, quoted=TEXTS)
def test_an_issue_and_a_comment_are_messages(text: str, title: str, quoted: str) -> None:
    me = ForgeIdentity("kimas", "github.com")
    topic = ForgeTopic("a/b", "issues/7", 7, title, text, Account("ann", 1), 0.0)
    own = ForgeComment(1, "issues/7", f"{quoted}\n\n{OWN_COMMENT_MARKER}", Account("kimas", 2), 0.0, 0.0)
    comment = ForgeComment(2, "issues/7", f"> {quoted}\n\n{text}", Account("ben", 3), 0.0, 0.0)
    for message in (
        forges.to_message("github", topic, me),
        forges.to_comment_message("github", topic, comment, [own], me, is_edit=False),
    ):
        assert message.key.chat == "a/b"
        assert len(message.text) <= 4000


MASTODON_STATUS = {
    "id": "7",
    "created_at": "2026-03-05T10:00:00.000Z",
    "visibility": "public",
    "language": "en",
    "mentions": [{"id": "1", "url": "https://e.org/@kimas", "acct": "kimas"}],
    "media_attachments": [{"type": "image", "url": "https://e.org/a.png"}],
    "in_reply_to_id": None,
}


@given(text=TEXTS, name=TEXTS, data=st.data())
def test_a_status_of_mastodon_is_a_message_or_ignored(text: str, name: str, data: st.DataObject) -> None:
    optional = data.draw(st.sets(st.sampled_from(("visibility", "language", "mentions", "media_attachments"))))
    status = {key: value for key, value in MASTODON_STATUS.items() if key not in optional}
    account = {"id": "2", "username": "ann", "acct": "ann@b.example", "display_name": name}
    above = [{**status, "id": "6", "account": account, "content": text}] * data.draw(st.integers(0, 2))
    me = MastodonIdentity("1", "kimas", "e.org")
    message = mastodon.to_message({**status, "account": account, "content": text, "spoiler_text": name}, above, me, 5)
    assert not isinstance(message, Message) or message.key.chat in ("mentions", "ann@b.example")


@given(text=TEXTS, name=TEXTS, start=st.integers(-3, 9), end=st.integers(-3, 9), uri=TEXTS)
def test_a_post_of_bluesky_is_a_message(text: str, name: str, start: int, end: int, uri: str) -> None:
    author = {"did": "did:plc:ann", "handle": "ann.example", "displayName": name}
    facets = [
        {"index": {"byteStart": start + shift, "byteEnd": end}, "features": [{"uri": uri}, {"did": "did:plc:bot"}]}
        for shift in range(2)
    ]
    record = {"text": text, "facets": facets, "langs": [name], "embed": {"external": {"uri": uri}}}
    post = {"uri": "at://a", "cid": "b", "author": author, "record": record, "indexedAt": "2026-03-05T10:00:00.000Z"}
    quoted = {**post, "embed": {"record": {"author": author, "value": record}}}
    for thread in ({"post": post}, {"post": quoted, "parent": {"post": post, "parent": {"notFound": True}}}):
        message = bluesky.to_message(thread, BlueskyIdentity("did:plc:bot", "kimas.example"), 5)
        assert isinstance(message, Message)
        assert message.key.chat == "mentions"


@given(text=TEXTS)
def test_what_is_a_link_on_bluesky_stands_in_the_text(text: str) -> None:
    for part in bluesky_render.render(f"{text} [{text}](https://e.org) {text}", ()):
        shown_text, facets = bluesky_render.to_post(part)
        content = shown_text.encode()
        for facet in facets:
            assert content[facet["index"]["byteStart"] : facet["index"]["byteEnd"]].decode()


@given(text=TEXTS, name=TEXTS, data=st.data())
def test_an_event_of_slack_is_a_message_or_ignored(text: str, name: str, data: st.DataObject) -> None:
    optional = data.draw(st.sets(st.sampled_from(("thread_ts", "subtype", "parent_user_id", "files"))))
    event = {key: value for key, value in SLACK_EVENT.items() if key not in optional}
    payload = {"team_id": "T1", "event_id": "E1", "event": {**event, "text": text, "username": name}}
    message = slack.from_event(payload, slack.Identity("U1", "kimas"))
    assert not isinstance(message, Message) or (message.key.platform, message.key.chat) == ("slack", "C1")


@given(text=TEXTS, name=TEXTS, data=st.data())
def test_an_event_of_discord_is_a_message_or_ignored(text: str, name: str, data: st.DataObject) -> None:
    missing_fields = data.draw(
        st.sets(st.sampled_from(("member", "mentions", "attachments", "referenced_message", "guild_id")))
    )
    event = {key: value for key, value in DISCORD_EVENT.items() if key not in missing_fields}
    event = {**event, "content": text, "author": {**DISCORD_EVENT["author"], "username": name}}
    location = discord.to_location({"id": "5", "type": 0, "guild_id": "6"})
    message = discord.to_message(event, discord.Identity("1", "kimas", "2"), location)
    assert not isinstance(message, Message) or (message.key.platform, message.key.chat) == ("discord", "5")


def test_what_the_properties_have_shown() -> None:
    """A line without words is none, a closing tag without an opening one closes nothing, and one has a name."""
    assert parse_line("").text == ""
    assert hash_ngrams("\ud800")
    assert split_html("</b>" + "a " * 30, 20)[0].startswith("</b>")
    assert split_html("1 < > <=> 2", 20) == ["1 < > <=> 2"]
