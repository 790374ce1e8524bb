"""Pages show nothing of the files that another source reads for fewer people, however they name them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import SourceError
from core.settings import Settings
from core.settings.audience import Audiences
from core.storage.engine import Database
from knowledge.ports import Store
from knowledge.sources.common.closed_parts import describe_closed_parts, find_closed_parts, make_closed_check
from knowledge.sources.factory import open_source
from tests.support.deployment import commit, make_repository
from tests.support.knowledge import WordEmbedder
from tests.support.machines import Machine
from tests.support.peers.forge import REPOSITORY, ForgePeer, Ticket

SECRET = "The quokka moves to the new house in May."
VALUE = "Quokkadorf"
CLOSED = {"audience": ["owners"]}
PAGES = {
    "public/a.md": '# Quokka\n\nThe quokka:\n\n--8<-- "team/plan.md"\n\n```{include} ../team/plan.md\n```\n',
    "public/b.adoc": "= Quokka\n\nThe quokka lives in {town}.\n\ninclude::../team/plan.md[]\n",
    "public/c.rst": "Quokka\n======\n\nThe quokka.\n\n.. include:: ../team/plan.md\n",
    "public/d.md": "# Alone\n\nThe quokka is alone.\n",
    "team/plan.md": f"# Plan\n\n{SECRET}\n",
    "team/attributes.yml": f"town: {VALUE}\n",
}


@pytest.fixture
async def machine(store: Store, embedder: WordEmbedder, tmp_path: Path) -> AsyncIterator[Machine]:
    database = await Database.open(tmp_path / "journal.db")
    yield Machine(tmp_path / "data", store, database, embedder)
    await database.close()


def make_place(kind: str, folder: Path) -> dict[str, Any]:
    """Return a source of a kind over all the pages."""
    make_repository(folder, PAGES)
    return {"kind": "git", "url": str(folder)} if kind == "git" else {"kind": "files", "path": str(folder)}


@pytest.mark.parametrize("kind", ["git", "files"])
async def test_a_page_shows_no_file_of_a_closed_source(machine: Machine, tmp_path: Path, kind: str) -> None:
    place = make_place(kind, tmp_path / "kb")
    public = {**place, "include": ["public/**"]}
    told = await machine.read(public)
    assert SECRET in told, "as long as it is nobody's alone"
    assert VALUE in told
    team = {**place, "include": ["team/**"], **CLOSED}
    told = await machine.start(public, team=team)
    assert SECRET not in told, "what was read before shows it"
    assert VALUE not in told
    assert "Alone" in told, "what shows no other file stays"
    told = await machine.read(public, team=team)
    assert "The quokka" in told
    assert SECRET not in told
    assert VALUE not in told
    assert SECRET in await machine.read({**public, **CLOSED}, team=team), "for those who see both"
    assert SECRET not in await machine.start(public, team=team)


@pytest.mark.parametrize("kind", ["git", "files"])
@pytest.mark.parametrize("include", [["public/**"], ["**"]], ids=["elsewhere", "beside"])
async def test_no_source_tells_of_our_configuration(tmp_path: Path, kind: str, include: list[str]) -> None:
    folder = tmp_path / "kb"
    names = [
        "kimas.env",
        "kimas.yaml",
        "kimas.yaml.bak",
        "bot.yaml",
        "bot.yaml~",
        "asked.md",
        "own.md",
        "keys/forum[1].txt",
    ]
    inclusions = "".join(f'--8<-- "{name}"\n\n' for name in [*names, "snippet.yaml"])
    secrets = dict.fromkeys(names, f"{SECRET}\n")
    make_repository(folder, {"public/a.md": f"# Quokka\n\n{inclusions}", "snippet.yaml": "town: Rottnest\n", **secrets})
    place = {"kind": "git", "url": str(folder)} if kind == "git" else {"kind": "files", "path": str(folder)}
    forum = {"kind": "own", "plugin": "discourse", "token": {"file": str(folder / names[-1])}}
    asked = {"kind": "standing", "of": "web", "queries_file": str(folder / "asked.md")}
    web = {"kind": "search_api", "provider": "searxng", "base_url": "http://127.0.0.1:9"}
    sources = {"docs": {**place, "include": include}, "forum": forum, "web": web, "asked": asked}
    agents = {"forum": {"sources": ["forum"], "prompts": {"rewrite": str(folder / "own.md")}}}
    settings = Settings.model_validate({"data_dir": str(tmp_path / "data"), "sources": sources, "agents": agents})
    # As after a link that leads there.
    (tmp_path / "linked").symlink_to(folder)
    audiences = Audiences.from_settings(settings.with_files([tmp_path / "linked" / "bot.yaml"]))
    source = open_source("docs", settings.sources["docs"], settings.data_dir, settings.sources, audiences=audiences)
    listing = await source.listing()
    documents = {each.path: each.text async for each in source.documents(listing, listing.fingerprints)}
    assert "Rottnest" in documents["public/a.md"]
    assert documents.keys() <= {"public/a.md", "snippet.yaml"}
    assert SECRET not in " ".join(documents.values())


@pytest.mark.parametrize("kind", ["files", "faq"])
def test_no_source_is_our_configuration(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "bot.yaml"
    file.write_text("[]", "utf-8")
    settings = Settings.model_validate({"sources": {"docs": {"kind": kind, "path": str(file)}}}).with_files([file])
    audiences = Audiences.from_settings(settings)
    with pytest.raises(SourceError, match="own configuration"):
        open_source("docs", settings.sources["docs"], tmp_path, settings.sources, audiences=audiences)


async def test_a_page_shows_no_file_that_the_globs_keep_out_by_now(machine: Machine, tmp_path: Path) -> None:
    place = make_place("files", tmp_path / "kb")
    team = {"kind": "files", "path": str(tmp_path / "kb" / "team"), **CLOSED}
    assert SECRET in await machine.read(place, team=team), "check says that it reads the folder too"
    assert SECRET not in await machine.start({**place, "exclude": ["team/"]}, team=team)


async def test_issues_that_a_label_moves_to_a_closed_source_go_at_once(machine: Machine) -> None:
    forge = ForgePeer()
    async with forge:
        forge.tickets[1] = Ticket(1, "Move", SECRET, labels=["internal"])
        fields = {"kind": "github", "repository": REPOSITORY, "api_url": forge.url("/api/v3"), "take": ["issues"]}
        fields["allow_private"] = ["127.0.0.1"]
        assert SECRET in await machine.read(fields)
        forge.status = 503
        open_fields = {**fields, "exclude_labels": ["internal"]}
        same = {"repository": REPOSITORY.upper(), "api_url": f"{fields['api_url']}/"}
        team = {**fields, **same, "labels": ["internal"], **CLOSED}
        assert SECRET in await machine.start(open_fields), "all are for everyone"
        assert SECRET not in await machine.start(open_fields, team=team)
        assert SECRET not in await machine.read(open_fields, team=team)


@pytest.mark.parametrize(
    ("docs", "team", "closed_paths"),
    [
        ({"path": "/kb", "include": ["a/"]}, {"path": "/kb/team"}, {"team/plan.md"}),
        ({"path": "/kb/a"}, {"path": "/kb", "include": ["*.txt"], "exclude": ["b.txt"]}, {"a.txt"}),
        ({"path": "/kb"}, {"path": "/kb/team/plan.md"}, {"team/plan.md"}),
        ({"path": "/kb"}, {"path": "/elsewhere"}, set()),
        ({"path": "/kb"}, {"url": "/kb/.git", "include": ["team/"]}, {"team/plan.md"}),
        ({"path": "/kb"}, {"path": "/kb", "include": ["\\"]}, {"team/plan.md", "teams.md", "a.txt", "b.txt"}),
        (
            {"url": "https://git.example.org/a/b.git"},
            {"url": "git@git.example.org:a/b", "include": ["team/"]},
            {"team/plan.md"},
        ),
        (
            {"url": "https://git.example.org/a/b"},
            {"url": "https://git.example.org/A/B/", "include": ["team/"]},
            {"team/plan.md"},
        ),
        ({"url": "https://git.example.org/a/b"}, {"url": "https://git.example.org/a/c"}, set()),
    ],
)
def test_what_another_source_reads_of_the_same_place_is_closed(
    docs: dict[str, Any], team: dict[str, Any], closed_paths: set[str]
) -> None:
    kinds = [{"kind": "git" if "url" in each else "files", **each} for each in (docs, team)]
    settings = Settings.model_validate({"sources": {"docs": kinds[0], "team": {**kinds[1], **CLOSED}}})
    audiences = Audiences.from_settings(settings)
    parts = find_closed_parts("docs", settings.sources, audiences)
    is_closed = make_closed_check("docs", parts)
    assert {path for path in ("team/plan.md", "teams.md", "a.txt", "b.txt") if is_closed(path)} == closed_paths
    assert bool(describe_closed_parts("docs", settings.sources, audiences)) == bool(parts)
    assert not find_closed_parts("team", settings.sources, audiences), "owners see all"


def test_the_folder_of_a_repository_is_its_working_tree(tmp_path: Path) -> None:
    make_repository(tmp_path / "kb", PAGES)
    commit(tmp_path / "kb", {"team/more.md": SECRET})
    sources = {
        "docs": {"kind": "git", "url": str(tmp_path / "kb"), "include": ["public/"]},
        "team": {"kind": "files", "path": str(tmp_path / "kb" / "team"), **CLOSED},
    }
    settings = Settings.model_validate({"sources": sources})
    parts = find_closed_parts("docs", settings.sources, Audiences.from_settings(settings))
    assert make_closed_check("docs", parts)("team/more.md")
