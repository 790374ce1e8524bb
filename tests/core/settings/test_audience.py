"""Who belongs to an audience, and which audiences a configuration may have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from core.settings import Settings
from core.settings.audience import ALL_OPEN, Asker, Audiences, find_unknown_networks, may_see
from core.settings.labels import to_narrowest
from tests.support.audiences import get_audiences

BOTS = {
    "telegram": {"token": {"env": "A"}},
    "http": {"secret": {"env": "B"}, "callback_url": "https://example.org"},
    "bots": {
        "shop": {"http": {"secret": {"env": "C"}, "callback_url": "https://example.org"}},
        "help": {"telegram": {"token": {"env": "D"}}},
    },
}


def configured(audiences: dict[str, Any], **changes: Any) -> Settings:
    sources = {
        name: {"kind": "learned" if name.startswith("taught") else "faq", "audience": audience}
        | ({} if name.startswith("taught") else {"path": f"{name}.yaml"})
        for name, audience in audiences.items()
    }
    return Settings.model_validate({**BOTS, "sources": sources, **changes})


GROUP = Asker("slack", "slack:C1")
DIRECT = Asker("slack", "slack:D1", is_private=True)


@pytest.mark.parametrize(
    ("audience", "asker", "is_visible"),
    [
        ({"everyone"}, GROUP, True),
        ({"slack:C1"}, GROUP, True),
        ({"slack:C2"}, GROUP, False),
        ({"telegram:C1"}, GROUP, False),
        ({"slack"}, GROUP, True),
        ({"slack"}, DIRECT, True),
        ({"slack:D1"}, DIRECT, True),
        ({"http"}, Asker("http@shop", "http:lobby@shop"), False),
        ({"http@shop"}, Asker("http@shop", "http:lobby@shop"), True),
        ({"owners", "admins"}, Asker("slack", "slack:C1", role="owner"), False),
        ({"owners", "admins"}, Asker("slack", "slack:C1", role="admin"), False),
        ({"owners"}, Asker("slack", "slack:D1", True, "owner"), True),
        ({"slack:C2"}, Asker("slack", "slack:D1", True, "owner"), True),
        ({"admins"}, Asker("slack", "slack:D1", True, "admin"), True),
        ({"owners"}, Asker("slack", "slack:D1", True, "admin"), False),
        ({"admins"}, DIRECT, False),
        ({"slack:C2"}, Asker("console", "console:group"), True),
    ],
)
def test_who_belongs_to_an_audience(audience: set[str], asker: Asker, is_visible: bool) -> None:
    assert may_see(frozenset(audience), asker) == is_visible


def test_an_agent_closes_its_sources_and_both_audiences_must_agree() -> None:
    agents = {"all": {"sources": ["a"], "audience": ["telegram:-1", "telegram:-2"]}, "open": {"sources": ["b"]}}
    settings = configured({"a": ["telegram:-2", "telegram:-3"], "b": "everyone"}, agents=agents)
    audiences = Audiences.from_settings(settings)
    visible = {chat: audiences.visible_sources(audiences.make_asker("telegram", chat)) for chat in ("-1", "-2", "-3")}
    assert visible == {"-1": {"b"}, "-2": {"a", "b"}, "-3": {"b"}}
    assert audiences.visible_sources(None) == {"b"}
    restricted = settings.restricted_to({"b"})
    assert (list(restricted.sources), list(restricted.retrieval_agents())) == (["b"], ["open"])
    closed = configured({"a": "owners"}, agents={"all": {"sources": ["a"]}}).restricted_to(())
    assert (closed.sources, closed.retrieval_agents()) == ({}, {}), "no agent is made for what nobody may see"


def test_networks_over_http_are_apart_though_their_chats_have_like_names() -> None:
    audiences = Audiences.from_settings(configured({"a": "http", "b": "http@shop", "c": "http:lobby"}))
    chats = {"lobby": {"a", "c"}, "lobby@shop": {"b"}, "ann@example.org": {"a"}, "lobby@removed": set()}
    for chat, visible in chats.items():
        assert audiences.visible_sources(audiences.make_asker("http", chat)) == visible


@pytest.mark.parametrize(
    ("audience", "expected_text"),
    [
        ("bosses", "no role and no platform with a bot (known: everyone, admins, owners, http, http@shop, telegram)"),
        ("slack", "no role and no platform with a bot"),
        (["everyone", "owners"], "everyone stands alone: remove it, or the other entries"),
        ("slack:C1", "is on slack, where no bot is configured: add its section, or remove the entry"),
        ("telegram:team", "is no chat: write telegram:-1001234567890"),
        ("telegram:-9", "the bot does not answer in 'telegram:-9': add it to gate.chats, or remove it here"),
        ("telegram:5@shop", "no such chat carries the name of a bot: write telegram:5"),
        ("api:page", "are the visitors of the page, which is off: switch on api.page.enabled"),
        ("api:webui", "there is no client api.clients.webui"),
        ("api", "no role and no platform with a bot"),
        ([], "at least 1 item"),
    ],
)
def test_an_audience_of_nobody_is_a_fault_that_says_the_way_out(audience: object, expected_text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        configured({"a": audience}, gate={"chats": ["telegram:-1"]})
    assert expected_text in str(caught.value)
    assert "audience" in str(caught.value)


def test_a_chat_of_a_network_that_was_removed_is_named_as_a_fault() -> None:
    settings = configured({"a": ["http:lobby@shop"], "b": ["http:lobby@removed", "owners"]})
    assert find_unknown_networks(settings) == [
        (
            "sources.b.audience",
            "'http:lobby@removed': there is no network bots.removed.http: add it, or remove the entry",
        )
    ]


@pytest.mark.parametrize("entry", ["telegram:-1", "telegram:5", "telegram:5@help", "telegram", "http@shop", "admins"])
def test_what_the_bot_has_may_be_named(entry: str) -> None:
    assert configured({"a": entry}, gate={"chats": ["telegram:-1"]}).sources["a"].audience == (entry,)


def test_one_agent_has_one_audience() -> None:
    agents = {"all": {"sources": ["a", "b"]}}
    with pytest.raises(ValidationError, match=r"agents.all: its sources have different .*give each audience an agent"):
        configured({"a": "everyone", "b": "owners"}, agents=agents)
    agents["other"] = {"sources": ["b"], "audience": "owners"}  # type: ignore[dict-item]
    with pytest.raises(ValidationError, match=r"\(a: everyone; b: owners\)"):
        configured({"a": "everyone", "b": "everyone"}, agents=agents)


def test_results_of_a_closed_live_source_are_not_stored_for_others() -> None:
    live = {"kind": "search_api", "provider": "searxng", "base_url": "https://example.org", "audience": "owners"}
    sources = {"web": live, "daily": {"kind": "standing", "of": "web", "queries": ["news"]}}
    agents = {name: {"sources": [name]} for name in sources}
    with pytest.raises(ValidationError, match=r"daily.audience: it stores results of web \(owners\): give both"):
        Settings.model_validate({"sources": sources, "agents": agents})
    with pytest.raises(ValidationError, match=r"daily.audience: it stores results of web"):
        Settings.model_validate({"sources": sources})


@pytest.mark.parametrize(
    ("source", "chat", "is_accepted"),
    [
        ("taught", "http:lobby", True),
        ("taught", "telegram:-1", False),
        ("taught", "telegram:-3", False),
        ("taught-team", "telegram:-1", True),
        ("taught-team", "telegram:-3", False),
        ("taught-platform", "telegram:-1", False),
        ("taught-platform", "telegram:-3", True),
        ("taught-platform", "http:lobby", False),
        ("taught-owners", "telegram:-1", False),
    ],
)
def test_taught_answers_follow_the_chat_that_they_come_from(source: str, chat: str, is_accepted: bool) -> None:
    """What one chat alone may know is not for its whole platform, nor what a platform may know for everyone."""
    audiences = {
        "secret": ["telegram:-1", "telegram:-2"],
        "taught": "everyone",
        "taught-team": ["telegram:-1", "owners"],
        "taught-platform": "telegram",
        "taught-owners": "owners",
    }
    platform, _, name = chat.partition(":")
    known = Audiences.from_settings(configured(audiences))
    closed_sources = known.closed_labels(known.make_asker(platform, name))
    assert known.accepts_lesson(source, platform, name, closed_sources) == is_accepted


def test_visitors_of_the_page_are_told_nothing_that_was_taught_of_what_programs_may_see() -> None:
    """A token opens what is for `api`, and visitors have none."""
    clients = {"webui": {"token": {"env": "E"}}}
    api = {"port": 8090, "clients": clients, "page": {"enabled": True}}
    audiences = {
        "secret": ["telegram:-1", "api"],
        "taught": ["telegram:-1", "api:page"],
        "taught-programs": ["telegram:-1", "api:webui"],
    }
    known = Audiences.from_settings(configured(audiences, api=api))
    told_of = [known.labels["secret"]]
    assert known.visible_sources(known.make_asker("api", "page")) == {"taught"}
    assert not known.accepts_lesson("taught", "telegram", "-1", told_of)
    assert known.accepts_lesson("taught-programs", "telegram", "-1", told_of)


@pytest.mark.parametrize(
    ("source", "closed_sources", "is_accepted"),
    [
        # The team's chat has another id today: what it could see when it taught still counts.
        ("taught", ["secret"], False),
        ("taught-team", ["secret", "taught-team"], True),
        ("taught", ["secret", "a source that was renamed"], False),
        ("taught-team", ["a source that was removed", "taught-team"], False),
        # It was open when it was taught, or has been opened since.
        ("taught", [], True),
        ("taught", ["open"], True),
        # An earlier version did not record it.
        ("taught", None, False),
        ("taught-team", None, False),
    ],
)
def test_a_taught_answer_is_judged_by_what_its_place_could_see(
    source: str, closed_sources: list[str] | None, is_accepted: bool
) -> None:
    team = ["telegram:-2"]
    audiences = {"secret": team, "open": "everyone", "taught": "everyone", "taught-team": team}
    known = Audiences.from_settings(configured(audiences))
    labels = None if closed_sources is None else [known.labels.get(name, name) for name in closed_sources]
    assert known.accepts_lesson(source, "telegram", "-1", labels) == is_accepted


def test_a_source_that_got_the_name_of_a_closed_one_is_another_source() -> None:
    """The team's folder is now called `team`, and `secret` is a folder for everyone."""
    team = ["telegram:-1", "owners"]
    before = Audiences.from_settings(configured({"secret": team, "taught": "everyone"}))
    closed_labels = before.closed_labels(before.make_asker("telegram", "-1"))
    settings = configured({"secret": "everyone", "team": team, "taught": "everyone"})
    other = settings.sources["secret"].model_copy(update={"path": Path("elsewhere")})
    renamed = Audiences.from_settings(settings.model_copy(update={"sources": {**settings.sources, "secret": other}}))
    assert not renamed.accepts_lesson("taught", "telegram", "-1", closed_labels)
    assert not renamed.visible_labels(renamed.make_asker("telegram", "-9")) & closed_labels
    opened = Audiences.from_settings(settings)
    assert opened.accepts_lesson("taught", "telegram", "-1", closed_labels), "the same folder was opened"


def test_how_a_source_is_read_does_not_change_which_one_it_is() -> None:
    settings = configured({"secret": ["telegram:-1"]})
    changed = settings.sources["secret"].model_copy(update={"audience": ("owners",), "link": "https://example.org/"})
    other_settings = settings.model_copy(update={"sources": {"secret": changed}})
    assert Audiences.from_settings(settings).labels == Audiences.from_settings(other_settings).labels


@pytest.mark.parametrize(
    ("name", "edit", "others"),
    [
        ("repo", {"branch": "public"}, {"repo"}),
        ("repo", {"branches": ("v1", "v2")}, {"repo"}),
        ("web", {"url": "https://example.com"}, {"web", "daily"}),
    ],
)
def test_another_branch_or_another_live_source_is_another_source(
    name: str, edit: dict[str, Any], others: set[str]
) -> None:
    sources = {
        "repo": {"kind": "git", "url": "https://example.org/a.git"},
        "web": {"kind": "mcp", "url": "https://example.org", "tool": "search"},
        "daily": {"kind": "standing", "of": "web", "queries": ["news"]},
    }
    settings = Settings.model_validate({"sources": sources})
    edited = settings.sources[name].model_copy(update=edit)
    other_settings = settings.model_copy(update={"sources": {**settings.sources, name: edited}})
    labels, other_labels = (Audiences.from_settings(each).labels for each in (settings, other_settings))
    assert {each for each in labels if labels[each] != other_labels[each]} == others


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ({}, True),
        ({"link": "https://example.org/{path}"}, True),
        ({"exclude": ["private/"]}, False),
        ({"include": ["open/"]}, False),
        ({"exclude": ["private/"], "audience": ["telegram:-1"]}, False),
    ],
)
def test_a_source_that_is_opened_and_reads_less_opens_nothing_of_before(change: dict[str, Any], is_told: bool) -> None:
    """What was left out when it was opened is still closed: no lesson and no answer of before may tell of it."""
    team = {"audience": ["telegram:-1"]}
    before = get_audiences(secret=team)
    insider = before.make_asker("telegram", "-1")
    closed_labels = before.closed_labels(insider)
    after = replace(get_audiences(secret=change), once_closed=before.closed_now)
    outsider = after.make_asker("telegram", "-9")
    assert after.accepts_lesson("taught", "telegram", "-1", closed_labels) == is_told
    assert (to_narrowest(before.visible_labels(insider)) <= after.visible_labels(outsider)) == is_told
    assert (ALL_OPEN in after.visible_labels(outsider)) == is_told
    # Its own readers go on to be told what they were taught.
    assert all(map(after.knows, closed_labels)) == (is_told or "audience" in change)


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ({"audience": ["telegram:-1", "telegram:-2"]}, True),
        ({"audience": ["telegram:-1", "telegram:-2"], "exclude": ["private/"]}, False),
        ({"audience": ["telegram"], "include": ["open/"]}, False),
        ({"audience": ["telegram:-1"], "exclude": ["private/"]}, True),
    ],
)
def test_a_source_that_is_opened_to_some_and_reads_less_opens_nothing_of_before(
    change: dict[str, Any], is_told: bool
) -> None:
    before = get_audiences(secret={"audience": ["telegram:-1"]})
    closed_labels = before.closed_labels(before.make_asker("telegram", "-1"))
    for_same = {"kind": "learned", "path": None, "audience": change["audience"]}
    after = get_audiences(secret=change, lessons=for_same)
    assert after.accepts_lesson("lessons", "telegram", "-1", closed_labels) == is_told
    assert all(map(after.knows, closed_labels)) == is_told


API = {"kind": "http_api", "url": "https://example.org/?q={query}", "headers": {"X-Space": "team"}}
ISSUES = {"kind": "github", "repository": "example/launcher"}
PAGES = {"kind": "website", "url": "https://example.org/"}
WIKI = {"kind": "own", "plugin": "wiki", "token": {"env": "OF_TEAM"}}
REPO = {"kind": "git", "url": "https://example.org/a.git", "token": {"env": "OF_TEAM"}}
TOOL = {"kind": "mcp", "url": "https://example.org", "tool": "search_all"}
PROGRAM = {
    "kind": "mcp",
    "command": ["wiki", "--all"],
    "tool": "search",
    "environment": {"KEY": {"env": "OF_TEAM"}},
}
OF_OTHERS = {"env": "OF_OTHERS"}


@pytest.mark.parametrize(
    ("source", "change"),
    [
        (TOOL, {"tool": "search_public"}),
        (TOOL, {"results": "public"}),
        (PROGRAM, {"command": ["wiki", "--public"]}),
        (PROGRAM, {"environment": {"KEY": OF_OTHERS}}),
        (API, {"headers": {"X-Space": "public"}}),
        (API, {"api_key": OF_OTHERS}),
        (API, {"text": "summary"}),
        (ISSUES, {"skip_authors": ["boss"]}),
        (ISSUES, {"max_comments": 0}),
        (PAGES, {"depth": 0}),
        (PAGES, {"max_page_kb": 4}),
        (WIKI, {"token": OF_OTHERS}),
        (REPO, {"token": OF_OTHERS}),
    ],
)
def test_a_source_that_reads_less_or_for_somebody_else_since_it_was_opened(
    source: dict[str, Any], change: dict[str, Any]
) -> None:
    """Whatever of its settings did it: what was taught and answered from it is not for everyone."""
    before = get_audiences(secret={**source, "path": None, "audience": ["telegram:-1"]})
    insider = before.make_asker("telegram", "-1")
    for edit, is_told in ((change, False), ({"audience": "everyone"}, True)):
        opened = get_audiences(secret={**source, "path": None, **edit})
        after = replace(opened, once_closed=before.closed_now)
        assert after.accepts_lesson("taught", "telegram", "-1", before.closed_labels(insider)) == is_told
        visible_labels = after.visible_labels(after.make_asker("telegram", "-9"))
        assert (to_narrowest(before.visible_labels(insider)) <= visible_labels) == is_told


def test_results_of_a_live_source_that_finds_less_now() -> None:
    team = {"audience": ["telegram:-1"]}
    web = {"kind": "search_api", "provider": "tavily", "api_key": {"env": "KEY"}, "path": None}
    daily = {"kind": "standing", "of": "web", "queries": ["news"], "path": None}
    before = get_audiences(web={**web, **team}, daily={**daily, **team})
    after = get_audiences(web={**web, "sites": ["example.org"]}, daily=daily)
    assert not after.knows(before.get_scoped_label("daily"))


@pytest.mark.parametrize("lessons", ["everyone", "telegram:-1"])
def test_what_was_taught_of_a_source_is_closed_with_it(lessons: str) -> None:
    """Until it is decided anew which taught answers its readers may have."""
    group = Asker("telegram", "telegram:-1")
    before = Audiences.from_settings(configured({"secret": lessons, "taught": lessons, "docs": "everyone"}))
    assert before.visible_sources(group) == {"secret", "taught", "docs"}
    newer = Audiences.from_settings(configured({"secret": "owners", "taught": lessons, "docs": "everyone"}))
    closed = before.closed_further(newer)
    assert closed.with_lessons_chosen_for(before).visible_sources(group) == {"docs"}
    assert closed.with_lessons_chosen_for(closed).visible_sources(group) == {"taught", "docs"}
    # Of what its readers did not see, it holds nothing.
    apart = Audiences.from_settings(configured({"secret": "telegram:-2", "taught": "telegram:-1"}))
    assert apart.closed_further(newer).with_lessons_chosen_for(apart).visible_sources(group) == {"taught"}


@pytest.mark.parametrize("roadmap", ["slack", "slack:C1"])
def test_guests_are_told_no_lesson_of_what_the_workspace_alone_sees(roadmap: str) -> None:
    """The channel is named for taught answers, and shared with another organization."""
    slack = {"slack": {"bot_token": {"env": "E"}, "app_token": {"env": "F"}}}
    readers = ["slack:C1", "slack:C2"]
    audiences = Audiences.from_settings(configured({"roadmap": [roadmap], "taught": readers}, **slack))
    team, shared = (audiences.make_asker("slack", chat) for chat in ("C1", "C2"))
    is_taken = audiences.accepts_lesson("taught", "slack", "C1", audiences.closed_labels(team))
    assert is_taken == (roadmap == "slack")
    assert "taught" in audiences.visible_sources(shared)
    # It has lessons of the roadmap, if it takes them.
    assert ("taught" in audiences.visible_sources(replace(shared, network=""))) == (not is_taken)


def test_where_nothing_is_closed_every_taught_answer_is_taken() -> None:
    audiences = Audiences.from_settings(configured({"taught": "everyone"}))
    assert audiences.accepts_lesson("taught", "telegram", "-1", ())
    assert not audiences.accepts_lesson("taught", "telegram", "-1", None)
    assert (audiences.has_closed_sources, audiences.fingerprint) == (False, "")
