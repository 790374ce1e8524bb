"""Git repositories, local and remote, with real git: what is listed, what is skipped, and every way to fail."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from core.errors import SourceError
from core.observability.logs import configure_logs
from core.settings import GitSource, LogSettings
from knowledge.ports import Source
from knowledge.sources.common.documents import derive_template, redact_credentials
from knowledge.sources.factory import open_source
from knowledge.sources.git.clone import clone_name
from knowledge.sources.git.source import is_local
from tests.support.deployment import logging_as_it_was
from tests.support.git_repositories import commit, get_clone, git, processes, read
from tests.support.pdf_documents import write_pdf
from tests.support.waiting import until


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {"README.md": "# Title\n", "src/a.py": "x = 1\n"})
    return folder


def source(url: Path | str, data: Path, **settings: object) -> Source:
    return open_source("docs", GitSource.model_validate({"kind": "git", "url": str(url), **settings}), data)


def remote(repository: Path, tmp_path: Path, **settings: object) -> Source:
    return source(f"file://{repository}", tmp_path / "data", **settings)


@pytest.mark.parametrize("form", ["work tree", "bare", "worktree", "git directory"])
async def test_a_local_repository_is_read_as_committed(form: str, repository: Path, tmp_path: Path) -> None:
    revision = git(repository, "rev-parse", "HEAD")
    location = repository
    if form == "bare":
        location = tmp_path / "bare.git"
        git(tmp_path, "clone", "-q", "--bare", str(repository), str(location))
    elif form == "worktree":
        location = tmp_path / "tree"
        git(repository, "worktree", "add", "-q", str(location))
    elif form == "git directory":
        location = repository / ".git"
    (repository / "README.md").write_text("not committed")
    (repository / "new.md").write_text("not committed")
    item = source(location, tmp_path)
    listing = await item.listing()
    assert listing.revision == revision
    assert set(listing.fingerprints) == {"README.md", "src/a.py"}
    assert listing.fingerprints["README.md"] == git(repository, "rev-parse", "HEAD:README.md")
    documents = await read(item, listing)
    assert (documents["README.md"].text, documents["README.md"].kind) == ("# Title\n", "markdown")
    assert documents["src/a.py"].kind == "python"


async def test_what_is_skipped_is_counted(repository: Path, tmp_path: Path) -> None:
    big = {"big.md": "x" * 5000, "data.json": "1" * 70_000}
    commit(repository, {"a.bin": b"\0", "b.md": b"a\0b", "c.md": b" \n", "d.lock": "x", ".github/x.md": "x", **big})
    (repository / "link.md").symlink_to("README.md")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{git(repository, 'rev-parse', 'HEAD')},module")
    git(repository, "add", "link.md")
    git(repository, "commit", "-qm", "special")
    listing = await source(repository, tmp_path, max_file_kb=4, exclude=["src/"]).listing()
    assert set(listing.fingerprints) == {"README.md"}
    assert listing.skipped == {
        "unknown kind": 1,
        "binary": 1,
        "empty": 1,
        "generated": 1,
        "hidden": 1,
        "larger than max_file_kb": 2,
        "symbolic link": 1,
        "submodule": 1,
    }
    listing = await source(repository, tmp_path, include=["*.md", ".github/"], max_file_kb=4).listing()
    assert set(listing.fingerprints) == {"README.md", ".github/x.md"}


async def test_pointers_of_large_files_and_unreadable_names_are_skipped(repository: Path, tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
    text = f"# About pointers\n\n{pointer}" + "more words " * 200
    commit(repository, {"a.md": pointer, "a.pdf": pointer, "about.md": text})
    (repository / os.fsdecode(b"caf\xe9.md")).write_text("x")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "odd")
    for item in (source(repository, tmp_path), remote(repository, tmp_path)):
        listing = await item.listing()
        assert set(listing.fingerprints) == {"README.md", "src/a.py", "about.md"}
        assert listing.skipped == {"LFS pointer": 2, "unreadable name": 1}


async def test_submodules_are_left_alone_and_the_log_says_so(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{git(repository, 'rev-parse', 'HEAD')},module")
    git(repository, "commit", "-qm", "special")
    with logging_as_it_was():
        configure_logs(LogSettings(level="info", format="json"), sys.stdout)
        await source(repository, tmp_path).listing()
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "submodules" in line]
    assert (line["source"], line["count"], line["paths"]) == ("docs", 1, ["module"])


async def test_content_is_looked_at_once(repository: Path, tmp_path: Path) -> None:
    commit(repository, {"a.md": b"a\0b", "b.md": " \n"})
    skipped_counts = (await source(repository, tmp_path).listing()).skipped
    memory = tmp_path / "git/docs.json"
    data = json.loads(memory.read_text())
    assert {key: len(blobs) for key, blobs in data["faults"].items()} == {"": 2, "binary": 1, "empty": 1}
    modified_at = memory.stat().st_mtime_ns
    assert (await source(repository, tmp_path).listing()).skipped == skipped_counts
    assert memory.stat().st_mtime_ns == modified_at
    for damage in ("{", "[]", '{"format": 0}', '{"format": 1, "faults": 3}'):
        memory.write_text(damage)
        assert (await source(repository, tmp_path).listing()).skipped == skipped_counts
        assert json.loads(memory.read_text()) == data


async def test_what_cannot_be_remembered_is_looked_at_again(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "git").write_text("a file where the folder should be")
    assert len((await source(repository, tmp_path).listing()).fingerprints) == 2


async def test_content_that_is_lost_later_is_noticed_and_fetched_again(repository: Path, tmp_path: Path) -> None:
    item = remote(repository, tmp_path)
    listing = await item.listing()
    unpack(get_clone(tmp_path))
    blob = (
        get_clone(tmp_path) / "objects" / listing.fingerprints["README.md"][:2] / listing.fingerprints["README.md"][2:]
    )
    blob.chmod(0o600)
    blob.write_bytes(b"spoiled")
    with pytest.raises(SourceError, match="cannot be read"):
        await read(item, listing)
    assert (await read(item, await item.listing()))["README.md"].text == "# Title\n"


async def test_the_same_content_twice_and_odd_names(repository: Path, tmp_path: Path) -> None:
    commit(repository, {"copy.md": "# Title\n", "a b/中文 #1.md": "x\n", "new\nline.md": "y\n", "-dash.md": "z\n"})
    item = source(repository, tmp_path, link="https://x.example/{commit}/{path}#L{start}")
    listing = await item.listing()
    documents = await read(item, listing)
    assert documents["README.md"].text == documents["copy.md"].text
    assert documents["new\nline.md"].text == "y\n"
    url = documents["a b/中文 #1.md"].url
    assert url == f"https://x.example/{listing.revision}/a%20b/%E4%B8%AD%E6%96%87%20%231.md#L{{start}}"


async def test_a_printed_document_has_the_pages_of_its_lines(repository: Path, tmp_path: Path) -> None:
    commit(repository, {"a.pdf": write_pdf("It runs.", "It stops.")})
    item = source(repository, tmp_path)
    document = (await read(item, await item.listing()))["a.pdf"]
    assert [document.get_page(number) for number in (1, 3, 5, 7)] == [1, 1, 2, 2]


async def test_branches_and_tags(repository: Path, tmp_path: Path) -> None:
    git(repository, "tag", "-a", "v1", "-m", "first")
    git(repository, "checkout", "-q", "-b", "feature/x")
    newest = commit(repository, {"feature.md": "x"})
    git(repository, "checkout", "-q", "main")
    for make in (
        lambda **changes: source(repository, tmp_path, **changes),
        lambda **changes: remote(repository, tmp_path, **changes),
    ):
        assert (await make(branch="feature/x").listing()).revision == newest
        assert "feature.md" not in (await make(branch="v1").listing()).fingerprints
        assert "feature.md" not in (await make().listing()).fingerprints
        with pytest.raises(SourceError, match=r"has no branch or tag 'nope'\. It has: feature/x, main, v1\."):
            await make(branch="nope").listing()
        with pytest.raises(SourceError, match=r"has no branch or tag 'nope'\. It has: feature/x, main, v1\."):
            await make(branch="nope").latest_commit()


@pytest.mark.parametrize("branch", ["-x", "--upload-pack=touch x", "a b", "a:b", "a..b", "x~1", "/a", "a\n", "@{-1}"])
def test_branch_names_that_git_could_misread_are_refused(branch: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be the name of a branch or tag"):
        source(tmp_path, tmp_path, branch=branch)


@pytest.mark.parametrize("url", ["ext::sh -c 'touch pwned'", "--upload-pack=x", "fd::17"])
def test_addresses_that_run_commands_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not an address that is allowed"):
        source(url, tmp_path)


async def test_what_is_no_repository_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere does not exist\. Check url"):
        await source(tmp_path / "nowhere", tmp_path).listing()
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceError, match=r"plain is not a git repository\. Check url, or use kind: files"):
        await source(tmp_path / "plain", tmp_path).listing()
    git(tmp_path, "init", "-q", "new")
    for item in (source(tmp_path / "new", tmp_path), source(f"file://{tmp_path}/new", tmp_path)):
        with pytest.raises(SourceError, match="new has no commits yet"):
            await item.listing()


async def test_where_nothing_is_included_that_is_said(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"has no file that include and exclude let through\. Check branch, include"):
        await source(repository, tmp_path, include=("/nowhere/**",)).listing()


async def test_a_folder_inside_a_repository_is_not_that_repository(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a git repository"):
        await source(repository / "src", tmp_path).listing()


async def test_hooks_do_not_run_and_the_surroundings_do_not_mislead(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    template = tmp_path / "template"
    for name in ("post-checkout", "reference-transaction", "post-merge"):
        hook = template / "hooks" / name
        hook.parent.mkdir(parents=True, exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[init]\n\ttemplateDir = {template}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert len((await remote(repository, tmp_path).listing()).fingerprints) == 2
    assert len((await source(repository, tmp_path).listing()).fingerprints) == 2
    assert (get_clone(tmp_path) / "hooks/reference-transaction").exists()
    assert not (tmp_path / "ran").exists()


async def test_git_sees_no_secret_of_the_environment(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for git writes down its environment, then runs the real one."""
    real = shutil.which("git")
    fake_git = tmp_path / "bin/git"
    fake_git.parent.mkdir()
    fake_git.write_text(f'#!/bin/sh\nenv >> {tmp_path}/environment\nexec {real} "$@"\n')
    fake_git.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake_git.parent), prepend=os.pathsep)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    monkeypatch.setenv("TELEGRAM_TOKEN", "123:planted")
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    await remote(repository, tmp_path).listing()
    environment = (tmp_path / "environment").read_text()
    assert "planted" not in environment
    assert "https_proxy=http://proxy.example:3128" in environment


async def test_a_remote_is_cloned_once_and_fetched_after(repository: Path, tmp_path: Path) -> None:
    for number in range(3):
        commit(repository, {"README.md": f"# Title {number}\n"})
    item = remote(repository, tmp_path)
    first = await item.listing()
    clone = get_clone(tmp_path)
    assert git(clone, "rev-list", "--count", "refs/kimas/default") == "1"
    inode = clone.stat().st_ino
    revision = commit(repository, {"README.md": "# New\n", "src/a.py": None, "b.md": "b\n"})
    for repository_source in (item, remote(repository, tmp_path)):
        listing = await repository_source.listing()
        assert (listing.revision, listing.stale, clone.stat().st_ino) == (revision, "", inode)
        assert {path: document.text for path, document in (await read(repository_source, listing)).items()} == {
            "README.md": "# New\n",
            "b.md": "b\n",
        }
    assert first.revision != revision
    files = {"docs.json", "docs.outlines", clone.name, f"{clone.name}.lock"}
    assert {path.name for path in clone.parent.iterdir()} == files


async def test_rewritten_history_is_followed(repository: Path, tmp_path: Path) -> None:
    item = remote(repository, tmp_path)
    await item.listing()
    (repository / "README.md").write_text("# Amended\n")
    git(repository, "commit", "-qa", "--amend", "-m", "other")
    assert (await item.listing()).revision == git(repository, "rev-parse", "HEAD")


async def test_an_unreachable_remote_leaves_the_old_state_and_says_so(repository: Path, tmp_path: Path) -> None:
    item = remote(repository, tmp_path)
    listing_before = await item.listing()
    repository.rename(tmp_path / "away")
    listing = await item.listing()
    assert listing.fingerprints == listing_before.fingerprints
    assert "cannot be reached" in listing.stale
    assert f"its state of {time.strftime('%Y-%m-%d', time.gmtime())}" in listing.stale
    assert (await read(item, listing))["README.md"].text == "# Title\n"
    other = remote(repository, tmp_path, branch="main")
    with pytest.raises(SourceError, match="cannot be fetched"):
        await other.listing()


async def test_an_unreachable_clone_names_its_address_without_credentials(tmp_path: Path) -> None:
    with socket.socket() as closed_socket:
        closed_socket.bind(("127.0.0.1", 0))
        url = f"http://user:s3cret@127.0.0.1:{closed_socket.getsockname()[1]}/o/r.git?private_token=s3cret"
        with pytest.raises(SourceError) as error_info:
            await source(url, tmp_path, timeout_s=20).listing()
    message = str(error_info.value)
    assert "127.0.0.1" in message
    assert "Check url, the network and the access rights" in message
    chain: BaseException | None = error_info.value
    while chain is not None:
        assert "s3cret" not in str(chain)
        chain = chain.__cause__ or chain.__context__
    assert [path.suffix for path in (tmp_path / "git").iterdir()] == [".lock"]


@pytest.fixture
def silent_url() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/o/r.git"


async def test_a_silent_server_is_given_up_and_git_is_killed(silent_url: str, tmp_path: Path) -> None:
    started_at = time.monotonic()
    with pytest.raises(SourceError, match=r"no answer within 0\.5 s"):
        await source(silent_url, tmp_path, timeout_s=0.5).listing()
    assert time.monotonic() - started_at < 60
    await gone(silent_url)


async def test_a_cancelled_listing_kills_git(silent_url: str, tmp_path: Path) -> None:
    task = asyncio.create_task(source(silent_url, tmp_path).listing())
    await until(lambda: "git-remote-http" in processes() and silent_url in processes())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(silent_url)


async def gone(url: str) -> None:
    """Wait until no process is left that was started with this address: a killed one takes a moment to end."""
    await until(lambda: url not in processes())


async def test_another_address_makes_another_clone(repository: Path, tmp_path: Path) -> None:
    await remote(repository, tmp_path).listing()
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", "-b", "main", str(other))
    commit(other, {"other.md": "x"})
    assert set((await remote(other, tmp_path).listing()).fingerprints) == {"other.md"}
    assert get_clone(tmp_path) == tmp_path / "data/git" / clone_name(f"file://{other}")


def spoil(clone: Path) -> None:
    files = [file for file in (clone / "objects").rglob("*") if file.is_file() and file.suffix != ".idx"]
    for file in files:
        file.chmod(0o600)
        file.write_bytes(file.read_bytes()[:10] + b"spoiled")


DAMAGE = {
    "objects": lambda clone: shutil.rmtree(clone / "objects"),
    "head": lambda clone: (clone / "HEAD").unlink(),
    "reference": lambda clone: (clone / "refs/kimas/default").write_text("0" * 40 + "\n"),
    "state": lambda clone: (clone / "kimas.json").write_text("{"),
    "lock": lambda clone: (clone / "refs/kimas/default.lock").touch(),
    "shallow": lambda clone: (clone / "shallow").write_text("rubbish\n"),
    "pack": spoil,
    "file": lambda clone: (shutil.rmtree(clone), clone.write_text("a file")),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_clone_is_made_anew(damage: str, repository: Path, tmp_path: Path) -> None:
    await remote(repository, tmp_path).listing()
    revision = commit(repository, {"README.md": "# New\n"})
    DAMAGE[damage](get_clone(tmp_path))
    item = remote(repository, tmp_path)
    listing = await item.listing()
    assert (listing.revision, listing.stale) == (revision, "")
    assert (await read(item, listing))["README.md"].text == "# New\n"


async def test_a_lost_blob_makes_the_clone_anew(repository: Path, tmp_path: Path) -> None:
    await remote(repository, tmp_path).listing()
    clone = get_clone(tmp_path)
    blob = git(repository, "rev-parse", "HEAD:README.md")
    unpack(clone)
    (clone / "objects" / blob[:2] / blob[2:]).unlink()
    assert set((await remote(repository, tmp_path).listing()).fingerprints) == {"README.md", "src/a.py"}


def unpack(clone: Path) -> None:
    """Turn packs into loose objects."""
    for pack in (clone / "objects/pack").glob("*.pack"):
        data = pack.read_bytes()
        for file in pack.parent.glob(pack.stem + ".*"):
            file.unlink()
        subprocess.run(["git", "unpack-objects", "-q"], cwd=clone, input=data, check=True)


async def test_a_local_repository_may_lack_files(repository: Path, tmp_path: Path) -> None:
    blob = git(repository, "rev-parse", "HEAD:README.md")
    object_file = repository / ".git/objects" / blob[:2] / blob[2:]
    object_file.rename(tmp_path / "blob")
    item = source(repository, tmp_path)
    listing = await item.listing()
    assert (set(listing.fingerprints), listing.skipped) == ({"src/a.py"}, {"not in the repository": 1})
    object_file.parent.mkdir(exist_ok=True)
    (tmp_path / "blob").rename(object_file)
    assert set((await item.listing()).fingerprints) == {"README.md", "src/a.py"}


async def test_documents_come_from_the_listed_commit(repository: Path, tmp_path: Path) -> None:
    item = source(repository, tmp_path)
    listing = await item.listing()
    commit(repository, {"README.md": "# Newer\n"})
    assert (await read(item, listing))["README.md"].text == "# Title\n"


async def test_leaving_early_stops_git(repository: Path, tmp_path: Path) -> None:
    commit(repository, {f"{number}.md": f"{number} " * 5000 for number in range(200)})
    item = source(repository, tmp_path)
    listing = await item.listing()
    async with aclosing(item.documents(listing, listing.fingerprints)) as documents:  # type: ignore[type-var]
        async for _ in documents:
            break
        assert f"--git-dir={repository}" in processes()
    assert f"--git-dir={repository}" not in processes()
    assert len(await read(item, listing)) == 202


async def test_an_unwritable_data_directory_is_named(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(SourceError, match=r"data/git/\S+ cannot be written"):
        await remote(repository, tmp_path).listing()


async def test_a_link_is_derived_from_origin(repository: Path, tmp_path: Path) -> None:
    item = source(repository, tmp_path)
    listing = await item.listing()
    assert (await read(item, listing))["src/a.py"].url == ""
    git(repository, "remote", "add", "origin", "git@github.com:o/r.git")
    url = (await read(item, listing))["src/a.py"].url
    assert url == f"https://github.com/o/r/blob/{listing.revision}/src/a.py#L{{start}}-L{{end}}"


@pytest.mark.parametrize(
    ("remote_url", "template"),
    [
        ("https://github.com/o/r.git", "https://github.com/o/r/blob/{commit}/{path}#L{start}-L{end}"),
        ("https://user:token@github.com/o/r/", "https://github.com/o/r/blob/{commit}/{path}#L{start}-L{end}"),
        ("ssh://git@gitlab.example.com:2222/g/s/r.git", "https://gitlab.example.com/g/s/r/-/blob/{commit}/{path}#L{start}-{end}"),
        ("git@gitee.com:o/r.git", "https://gitee.com/o/r/blob/{commit}/{path}#L{start}-L{end}"),
        ("git@bitbucket.org:o/r.git", "https://bitbucket.org/o/r/src/{commit}/{path}#lines-{start}:{end}"),
        ("https://codeberg.org/o/r", "https://codeberg.org/o/r/src/commit/{commit}/{path}#L{start}-L{end}"),
        ("https://gitea.example.com:8443/o/r", "https://gitea.example.com:8443/o/r/src/commit/{commit}/{path}#L{start}-L{end}"),
        ("https://unknown.example.com/o/r.git", ""),
        ("https://github.com/", ""),
        ("file:///srv/github/o/r.git", ""),
        ("/srv/github.com/o/r", ""),
        ("https://[broken/o/r", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_links_are_derived_for_known_hosts(remote_url: str, template: str) -> None:
    assert derive_template(remote_url) == template


def test_paths_and_addresses_are_told_apart() -> None:
    assert all(map(is_local, ["/srv/r", "./r:x", "~/r", "r"]))
    assert not any(map(is_local, ["https://x/r", "git@x:r", "x:r", "file:///r"]))


def test_credentials_are_blanked() -> None:
    text = "fetch https://u:p@x.example/r?token=1 and ssh://git@y/r, 'http://a:b@c@z/r' but git@host:r stays"
    assert redact_credentials(text) == "fetch https://x.example/r and ssh://y/r, 'http://z/r' but git@host:r stays"


@pytest.mark.parametrize("password", ["s3cr'et", 's3cr"et', "s3cr/et", "s3cr:et"])
def test_a_password_that_is_not_encoded_is_blanked(password: str) -> None:
    url = f"https://user:{password}@git.example/r.git"
    assert redact_credentials(url) == "https://git.example/r.git"
    assert redact_credentials(f"unable to access '{url}/': x") == "unable to access 'https://git.example/r.git/': x"
    for address in ("http://localhost:8080/@scope/r", "https://a.example:443/", "'http://a.example' and 'me@b.org'"):
        assert redact_credentials(address) == address
