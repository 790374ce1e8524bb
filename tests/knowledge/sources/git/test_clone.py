"""Several git sources over one clone: one transfer, branches side by side, and clones that nobody needs any more."""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings import GitSource
from core.settings.loader import load_settings
from knowledge.ingestion.sync import SyncOptions, refresh
from knowledge.ports import Source
from knowledge.sources.factory import open_source
from knowledge.sources.git.clone import clone_name
from knowledge.sources.git.state import BranchFetch, CloneState, delete_unused_clones, read_state, write_state
from knowledge.stores.sqlite.store import open_sqlite
from tests.support import forked
from tests.support.git_repositories import clones, commit, get_clone, git, read
from tests.support.peers.git_server import GitServer

ROOT = Path(__file__).parents[4]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "served/r.git"
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {"README.md": "# Title\n", "docs/a.md": "# A\n", "src/a.py": "x = 1\n", "examples/e.py": "y = 2\n"})
    return folder


@pytest.fixture
def server(repository: Path) -> Iterator[GitServer]:
    with GitServer(repository.parent).running() as git_server:
        yield git_server


def source(name: str, url: str, tmp_path: Path, **settings: object) -> Source:
    return open_source(name, GitSource.model_validate({"kind": "git", "url": url, **settings}), tmp_path / "data")


def three(server: GitServer, tmp_path: Path, **settings: object) -> list[Source]:
    url = server.url("r.git")
    return [
        source("tutorial", url, tmp_path, include=["docs/", "README.md"], **settings),
        source("code", url, tmp_path, include=["/src/"], **settings),
        source("examples", url + "/", tmp_path, include=["/examples/"], **settings),
    ]


def age(tmp_path: Path, seconds: float) -> None:
    """Let all fetches be older."""
    for clone in clones(tmp_path):
        state = read_state(clone)
        assert state is not None
        state.fetches = {
            branch: BranchFetch(branch_fetch.fetch_round, branch_fetch.at - seconds)
            for branch, branch_fetch in state.fetches.items()
        }
        write_state(clone, state)


async def test_one_clone_one_transfer_and_each_its_paths(server: GitServer, tmp_path: Path) -> None:
    fingerprints = [set((await item.listing()).fingerprints) for item in three(server, tmp_path)]
    assert fingerprints == [{"README.md", "docs/a.md"}, {"src/a.py"}, {"examples/e.py"}]
    assert len(clones(tmp_path)) == 1
    assert len(server.transfers) == 1


async def test_every_round_fetches_once(server: GitServer, repository: Path, tmp_path: Path) -> None:
    for number in range(1, 4):
        revision = commit(repository, {"docs/a.md": f"# A {number}\n", "src/a.py": f"x = {number}\n"})
        for item in three(server, tmp_path):
            assert (await item.listing()).revision == revision
        assert len(server.transfers) == number
        count = len(server.requests)
    # Whoever comes twice in a round is not told what it has seen already.
    assert (await three(server, tmp_path)[1].listing()).revision == revision
    assert len(server.requests) > count


async def test_what_another_source_fetched_long_ago_is_not_enough(
    server: GitServer, repository: Path, tmp_path: Path
) -> None:
    first, second, _ = three(server, tmp_path)
    await first.listing()
    revision = commit(repository, {"src/a.py": "x = 2\n"})
    age(tmp_path, 120)
    assert (await second.listing()).revision == revision
    age(tmp_path, -240)
    newer = commit(repository, {"docs/a.md": "# B\n"})
    assert (await first.listing()).revision == newer


async def test_sources_at_once_share_the_transfer(server: GitServer, tmp_path: Path) -> None:
    listings = await asyncio.gather(*(item.listing() for item in three(server, tmp_path)))
    assert len({listing.revision for listing in listings}) == 1
    assert len(server.transfers) == 1
    assert len(clones(tmp_path)) == 1


PROCESS = """
import asyncio, sys
from pathlib import Path
from core.settings import GitSource
from knowledge.sources.factory import open_source
one = open_source(sys.argv[1], GitSource(kind="git", url=sys.argv[2]), Path(sys.argv[3]))
print(len(asyncio.run(one.listing()).fingerprints))
"""


async def test_processes_at_once_share_the_transfer(server: GitServer, tmp_path: Path) -> None:
    arguments = [server.url("r.git"), str(tmp_path / "data")]
    refresh_tasks = [await forked.start_piped(PROCESS, name, *arguments) for name in ("a", "b")]
    outputs = [(await process.communicate())[0] for process in refresh_tasks]
    assert [int(output) for output in outputs] == [4, 4]
    assert len(server.transfers) == 1


async def test_branches_of_all_sources_come_together(server: GitServer, repository: Path, tmp_path: Path) -> None:
    git(repository, "branch", "v1")
    git(repository, "tag", "v0/old")
    url = server.url("r.git")

    def make() -> list[Source]:
        return [
            source(f"s{number}", url, tmp_path, branch=name) for number, name in enumerate(("main", "v1", "v0/old"))
        ]

    for item in make():
        await item.listing()
    git(repository, "checkout", "-q", "v1")
    revision = commit(repository, {"v1.md": "# One\n"})
    request_count = len(server.requests)
    listings = [await entry.listing() for entry in make()]
    assert listings[1].revision == revision
    assert "v1.md" not in listings[0].fingerprints
    state = read_state(get_clone(tmp_path))
    assert state is not None
    assert len({branch_fetch.fetch_round for branch_fetch in state.fetches.values()}) == 1
    assert len([command for command in server.requests[request_count:] if b"command=ls-refs" in command.body]) == 1


async def test_a_branch_that_is_gone_hurts_its_own_source_only(
    server: GitServer, repository: Path, tmp_path: Path
) -> None:
    git(repository, "branch", "v1")
    url = server.url("r.git")
    await source("old", url, tmp_path, branch="v1").listing()
    await source("new", url, tmp_path).listing()
    git(repository, "branch", "-D", "v1")
    revision = commit(repository, {"docs/b.md": "# B\n"})
    assert (await source("new", url, tmp_path).listing()).revision == revision
    with pytest.raises(SourceError, match=r"source old: .* has no branch or tag 'v1'\. It has: main\."):
        await source("old", url, tmp_path, branch="v1").listing()
    assert (await source("new", url, tmp_path).listing()).stale == ""


@pytest.mark.parametrize("form", ["served", "local"])
async def test_several_branches_in_one_source(form: str, server: GitServer, repository: Path, tmp_path: Path) -> None:
    old_commit = commit(
        repository, {"docs/b.md": "# B, version one\n", "pkg/__init__.py": "x = 1\n", "plain.txt": "one\n"}
    )
    git(repository, "branch", "v1")
    new = commit(repository, {"docs/b.md": "# B, version two\n", "docs/a.md": None, "plain.txt": "two\n"})
    url = server.url("r.git") if form == "served" else str(repository)
    link = "https://x.example/{commit}/{path}#L{start}"
    item = source("docs", url, tmp_path, branches=["main", "v1"], link=link)
    listing = await item.listing()
    assert set(listing.fingerprints) == {
        "main:README.md",
        "main:docs/b.md",
        "main:src/a.py",
        "main:examples/e.py",
        "main:pkg/__init__.py",
        "main:plain.txt",
        "v1:docs/b.md",
        "v1:docs/a.md",
        "v1:plain.txt",
    }
    assert listing.skipped == {"same in an earlier branch": 4}
    documents = await read(item, listing)
    assert documents["main:docs/b.md"].text == "# B, version two\n"
    assert documents["v1:docs/b.md"].text == "# B, version one\n"
    assert documents["v1:docs/b.md"].url == f"https://x.example/{old_commit}/docs/b.md#L{{start}}"
    assert documents["main:docs/b.md"].url == f"https://x.example/{new}/docs/b.md#L{{start}}"
    assert (documents["v1:plain.txt"].title, documents["v1:plain.txt"].edition) == ("plain.txt", "v1")
    inner = documents["main:pkg/__init__.py"]
    assert (inner.title, inner.edition) == ("pkg/__init__.py", "main")
    assert documents["v1:docs/a.md"].kind == "markdown"
    store = await open_sqlite(tmp_path / "passages", "words", 32)
    try:
        await refresh(item, store, SyncOptions(200))
        passages = await store.search("version", None, ["docs"], 9)
    finally:
        await store.close()
    assert {passage.path for passage in passages} >= {"main:docs/b.md", "v1:docs/b.md"}
    assert {passage.url for passage in passages if passage.path == "v1:docs/b.md"} == {
        f"https://x.example/{old_commit}/docs/b.md#L1"
    }


async def test_a_missing_one_of_several_branches_is_named(server: GitServer, tmp_path: Path) -> None:
    listing = await source("docs", server.url("r.git"), tmp_path, branches=["main", "v9"]).listing()
    assert "has no branch or tag v9 any more" in listing.stale
    assert {path.partition(":")[0] for path in listing.fingerprints} == {"main"}
    with pytest.raises(SourceError, match=r"has no branch or tag 'v8'"):
        await source("other", server.url("r.git"), tmp_path, branches=["v8", "v9"]).listing()


async def test_a_renamed_default_branch_is_followed(server: GitServer, repository: Path, tmp_path: Path) -> None:
    item = three(server, tmp_path)[0]
    await item.listing()
    git(repository, "branch", "-m", "main", "trunk")
    revision = commit(repository, {"docs/a.md": "# On trunk\n"})
    assert ((await item.listing()).revision, (await read(item, await item.listing()))["docs/a.md"].text) == (
        revision,
        "# On trunk\n",
    )


async def test_another_address_leaves_no_clone_behind(server: GitServer, repository: Path, tmp_path: Path) -> None:
    other = repository.with_name("other.git")
    git(repository.parent, "clone", "-q", "--bare", str(repository), str(other))
    first, second, _ = three(server, tmp_path)
    await first.listing()
    await second.listing()
    url = server.url("other.git")
    await source("tutorial", url, tmp_path).listing()
    assert len(clones(tmp_path)) == 2
    await source("code", url, tmp_path).listing()
    assert get_clone(tmp_path).name == clone_name(url)
    assert [file.name for file in (tmp_path / "data/git").glob("*.lock")] == [f"{clone_name(url)}.lock"]


async def test_clones_of_earlier_versions_and_of_removed_sources_go(server: GitServer, tmp_path: Path) -> None:
    former = tmp_path / "data/git/tutorial"
    git(tmp_path, "init", "-q", "--bare", str(former))
    (former / "kimas.json").write_text(json.dumps({"remote": server.url("r.git"), "branch": "", "fetched_at": "2025"}))
    for item in three(server, tmp_path):
        await item.listing()
    assert len(clones(tmp_path)) == 1
    delete_unused_clones(tmp_path / "data", {"code", "examples"})
    state = read_state(get_clone(tmp_path))
    assert state is not None
    assert set(state.followers) == {"code", "examples"}
    delete_unused_clones(tmp_path / "data", ())
    assert not list((tmp_path / "data/git").iterdir())


async def test_a_clone_that_another_is_writing_to_is_waited_for(server: GitServer, tmp_path: Path) -> None:
    from core.runtime.locks import file_lock

    item = source("docs", server.url("r.git"), tmp_path, timeout_s=0.1)
    lock = tmp_path / "data/git" / f"{clone_name(server.url('r.git'))}.lock"
    async with file_lock(lock, 1):
        with pytest.raises(SourceError, match="another refresh has been fetching"):
            await item.listing()
    patient = source("docs", server.url("r.git"), tmp_path)
    async with file_lock(lock, 1):
        waiting_task = asyncio.create_task(patient.listing())
        await asyncio.sleep(0.2)
        assert not waiting_task.done()
    assert len((await waiting_task).fingerprints) == 4


async def test_the_preset_clones_once(server: GitServer, tmp_path: Path) -> None:
    settings = load_settings([ROOT / "config/presets/agentscope-qa.yaml"], (), {}, require_secrets=False)
    addresses = {
        name: item.model_copy(update={"url": server.url("r.git"), "include": (), "exclude": ()})
        for name, item in settings.sources.items()
        if isinstance(item, GitSource)
    }
    assert len({clone_name(item.url) for item in settings.sources.values() if isinstance(item, GitSource)}) == 1
    listings = [
        await open_source(name, git_source, tmp_path / "data").listing() for name, git_source in addresses.items()
    ]
    assert {len(listing.fingerprints) for listing in listings} == {4}
    assert (len(server.transfers), len(clones(tmp_path))) == (1, 1)


@pytest.mark.parametrize(
    "state_text", ["{", "[]", "{}", '{"remote": 1, "round": "x", "fetched": {}, "followers": {}}', '{"fetched": []}']
)
def test_a_state_that_makes_no_sense_is_none(state_text: str, tmp_path: Path) -> None:
    (tmp_path / "kimas.json").write_text(state_text)
    assert read_state(tmp_path) is None


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    state = CloneState("https://x.example/r")
    state.record_fetch("docs", ["", "v1"], 17.5)
    state.follow("docs", ["", "v1"])
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state


def test_addresses_of_one_repository_share_a_clone_name() -> None:
    equal_urls = ["https://x.example/o/r.git", "https://x.example/o/r", "https://x.example/o/r.git/"]
    assert len(set(map(clone_name, equal_urls))) == 1
    other = ["https://x.example/o/s", "https://y.example/o/r", "ssh://a@x.example/~/r", "ssh://b@x.example/~/r"]
    logins = ["https://u:p@x.example/o/r", "https://u:q@x.example/o/r"]
    assert (
        len({*map(clone_name, [*other, *logins]), clone_name(equal_urls[0], "git T"), clone_name(equal_urls[0])}) == 8
    )
    assert all("p@" not in clone_name(url) for url in logins)


@pytest.mark.parametrize(
    "settings",
    [
        {"branch": "a", "branches": ["b"]},
        {"branches": ["a", "a"]},
        {"url": "http://x.example/r", "token": {"env": "T"}},
        {"url": "git@x.example:r", "token": {"env": "T"}},
        {"url": "https://u:p@x.example/r", "token": {"env": "T"}},
        {"url": "https://x.example/r", "ssh_key": "/k"},
    ],
)
def test_settings_that_contradict_themselves_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        GitSource.model_validate({"kind": "git", "url": "https://x.example/r", **settings})


@pytest.fixture
def file_server(tmp_path: Path) -> Iterator[str]:
    """Serve the files below a folder, as a plain web server does; yield its address."""
    folder = tmp_path / "plain"
    folder.mkdir()
    handler = functools.partial(QuietFileHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class QuietFileHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tests print nothing."""


def publish(repository: Path, tmp_path: Path) -> None:
    bare = tmp_path / "plain/r.git"
    if bare.exists():
        git(bare, "fetch", "-q", "--force", str(repository), "+refs/*:refs/*")
    else:
        git(tmp_path, "clone", "-q", "--mirror", str(repository), str(bare))
    git(bare, "update-server-info")


async def test_a_plain_file_server_is_fetched_from(repository: Path, file_server: str, tmp_path: Path) -> None:
    git(repository, "tag", "v1")
    commit(repository, {"docs/a.md": "# A 1\n"})
    publish(repository, tmp_path)
    item = source("docs", f"{file_server}/r.git", tmp_path, include=["docs/"], branches=["main", "v1"])
    assert set((await item.listing()).fingerprints) == {"main:docs/a.md", "v1:docs/a.md"}
    commit(repository, {"docs/a.md": "# A 2\n", "docs/b.md": "# B\n"})
    publish(repository, tmp_path)
    age(tmp_path, 3600)
    listing = await item.listing()
    assert set(listing.fingerprints) == {"main:docs/a.md", "main:docs/b.md", "v1:docs/a.md"}
    assert (await read(item, listing))["main:docs/a.md"].text == "# A 2\n"


async def test_what_fails_without_a_depth_too_names_its_cause(
    repository: Path, file_server: str, tmp_path: Path
) -> None:
    publish(repository, tmp_path)
    for file in (tmp_path / "plain/r.git/objects").rglob("*"):
        if file.is_file() and file.parent.name != "info":
            file.unlink()
    with pytest.raises(SourceError, match=r"r\.git cannot be fetched: Unable to find [0-9a-f]{40}"):
        await source("docs", f"{file_server}/r.git", tmp_path).listing()
