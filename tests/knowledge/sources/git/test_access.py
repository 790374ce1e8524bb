"""Private repositories: a token over HTTP, a key over SSH, and how little anybody else learns of either."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings import GitSource, Secret
from knowledge.ports import Source
from knowledge.sources.factory import open_source
from knowledge.sources.git.access import build_access
from knowledge.sources.git.command import Git, GitError
from knowledge.sources.git.source import GitRepository
from tests.support.free_ports import free_port
from tests.support.git_repositories import commit, get_clone, git, processes
from tests.support.peers.git_server import GitServer
from tests.support.waiting import until

TOKEN = "t0ken-that-nobody-else-learns"
SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "served/r.git"
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {"README.md": "# Title\n"})
    return folder


@pytest.fixture
def server(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    monkeypatch.setenv("GIT_TOKEN", TOKEN)
    with GitServer(repository.parent, TOKEN, "deploy").running() as git_server:
        yield git_server


def source(url: str, tmp_path: Path, **settings: object) -> Source:
    return open_source("docs", GitSource.model_validate({"kind": "git", "url": url, **settings}), tmp_path / "data")


def with_token(url: str, tmp_path: Path, **settings: object) -> Source:
    return source(url, tmp_path, **{"token": {"env": "GIT_TOKEN"}, "username": "deploy", **settings})


def everything_said(error: BaseException) -> str:
    text = ""
    chain: BaseException | None = error
    while chain is not None:
        text += f"{chain!r} {chain}\n"
        chain = chain.__cause__ or chain.__context__
    return text


def read_all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


async def test_a_token_opens_the_repository_and_is_written_nowhere(
    server: GitServer, repository: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    helper = tmp_path / "kept"
    config = tmp_path / "gitconfig"
    config.write_text(f"[credential]\n\thelper = store --file={helper}\n")
    with pytest.MonkeyPatch.context() as surroundings:
        surroundings.setenv("GIT_CONFIG_GLOBAL", str(config))
        token = with_token(server.url("r.git"), tmp_path)
        assert (await token.listing()).revision == git(repository, "rev-parse", "HEAD")
        revision = commit(repository, {"README.md": "# New\n"})
        assert (await token.listing()).revision == revision
        assert isinstance(token, GitRepository)
        assert await token.latest_commit() == revision
    assert server.tokens
    assert TOKEN.encode() not in read_all_bytes(tmp_path / "data")
    assert not helper.exists()
    assert TOKEN not in (get_clone(tmp_path) / "config").read_text()
    assert TOKEN not in caplog.text
    settings = GitSource(kind="git", url=server.url("r"), token=Secret(env="GIT_TOKEN"))
    assert TOKEN not in repr(build_access("docs", settings))


async def test_a_token_stands_in_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TOKEN", TOKEN)
    with socket.socket() as silent_socket:
        silent_socket.bind(("127.0.0.1", 0))
        silent_socket.listen()
        url = f"http://127.0.0.1:{silent_socket.getsockname()[1]}/r.git"
        task = asyncio.create_task(with_token(url, tmp_path).listing())
        await until(lambda: "git-remote-http" in processes() and url in processes())
        assert TOKEN not in processes()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"username": "somebody"}, "check token, and that it may read this repository"),
        ({"token": None}, "asks for a login: give a token"),
    ],
)
async def test_a_wrong_login_says_what_to_do(
    settings: dict[str, object], words: str, server: GitServer, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=words) as error_info:
        await with_token(server.url("r.git"), tmp_path, **settings).listing()
    assert TOKEN not in everything_said(error_info.value)


async def test_a_token_that_ran_out_keeps_what_was_known(server: GitServer, tmp_path: Path) -> None:
    token = with_token(server.url("r.git"), tmp_path)
    listing_before = await token.listing()
    server.token = "another"
    listing = await token.listing()
    assert listing.fingerprints == listing_before.fingerprints
    assert "check token" in listing.stale
    assert TOKEN not in listing.stale


async def test_a_redirect_to_another_host_is_not_followed(server: GitServer, tmp_path: Path) -> None:
    # The same machine under another name: to git it is another host, as it is with another port.
    with GitServer(tmp_path / "served", "anything").running() as other:
        server.redirect_to = f"http://localhost:{other.port}"
        with pytest.raises(SourceError, match="redirects to another host") as error_info:
            await with_token(server.url("r.git"), tmp_path).listing()
        assert f"localhost:{other.port}" in str(error_info.value)
        assert other.requests == []
    assert TOKEN not in everything_said(error_info.value)


async def test_a_redirect_inward_keeps_what_was_known(server: GitServer, tmp_path: Path) -> None:
    """A server that everybody may read from, and that leads to another port of the machine one day."""
    server.token = ""
    item = source(server.url("r.git"), tmp_path)
    listing_before = await item.listing()
    with GitServer(tmp_path / "served").running() as inner_server:
        server.redirect_to = f"http://127.0.0.1:{inner_server.port}"
        listing = await item.listing()
        assert inner_server.requests == []
    assert listing.fingerprints == listing_before.fingerprints
    assert "redirects to another host" in listing.stale


async def test_a_redirect_within_the_host_keeps_the_token(server: GitServer, repository: Path, tmp_path: Path) -> None:
    repository.rename(repository.with_name("renamed.git"))
    server.moved = {"/r.git/": "/renamed.git/"}
    assert set((await with_token(server.url("r.git"), tmp_path).listing()).fingerprints) == {"README.md"}
    server.moved = {"/r.git/": "/nowhere.git/"}
    with pytest.raises(SourceError, match="a private repository may need a token"):
        await with_token(server.url("r.git"), tmp_path / "other").listing()


async def test_a_redirect_that_never_ends_is_said(server: GitServer, tmp_path: Path) -> None:
    server.moved = {"/r.git/": "/r.git/"}
    with pytest.raises(SourceError, match="redirects more than"):
        await with_token(server.url("r.git"), tmp_path).listing()


async def test_a_moved_repository_is_found_without_a_token(server: GitServer, repository: Path, tmp_path: Path) -> None:
    server.token = ""
    repository.rename(repository.with_name("renamed.git"))
    server.moved = {"/old/": "/renamed.git/"}
    item = source(server.url("old/"), tmp_path)
    assert set((await item.listing()).fingerprints) == {"README.md"}
    commit(repository.with_name("renamed.git"), {"b.md": "# B\n"})
    assert set((await item.listing()).fingerprints) == {"README.md", "b.md"}


@pytest.mark.parametrize("value", ["", "a b", "a\nb: c", "a\x00b"])
def test_a_token_that_is_none_is_refused(value: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(value)
    settings = {"token": {"file": str(tmp_path / "token")}}
    with pytest.raises(SourceError, match="token is empty, or holds blanks"):
        source("https://x.example/r", tmp_path, **settings)


def test_a_token_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="environment variable NO_SUCH_TOKEN is not set"):
        source("https://x.example/r", tmp_path, token={"env": "NO_SUCH_TOKEN"})


# SSH, spoken by a stand-in: it is called as ssh is, keeps its arguments, and runs what git asks for on this machine.

FAKE_SSH = """#!/bin/sh
for argument; do printf '%s\\n' "$argument"; done >> "{log}"
{refusal}
while [ "$#" -gt 1 ]; do shift; done
exec sh -c "$1"
"""


@pytest.fixture
def fake_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that puts a stand-in for ssh first on the path; it returns where the arguments are kept."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def put(error_text: str = "") -> Path:
        program = tmp_path / "bin/ssh"
        program.parent.mkdir(exist_ok=True)
        program.write_text(FAKE_SSH.format(log=tmp_path / "arguments", refusal=error_text))
        program.chmod(0o755)
        return tmp_path / "arguments"

    return put


@pytest.fixture
def key(tmp_path: Path) -> Path:
    folder = tmp_path / "my keys"
    folder.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id")], check=True)
    return folder / "id"


async def test_ssh_uses_the_key_alone_and_knows_its_hosts(
    fake_ssh: Callable[[str], Path], key: Path, repository: Path, tmp_path: Path
) -> None:
    log = fake_ssh("")
    known_hosts = tmp_path / "my hosts"
    known_hosts.touch()
    url = f"ssh://git@host.example{repository}"
    listing = await source(url, tmp_path, ssh_key=key, known_hosts=known_hosts, timeout_s=30).listing()
    assert listing.revision == git(repository, "rev-parse", "HEAD")
    lines = log.read_text().splitlines()
    assert lines[:2] == ["-i", str(key)]
    expected_options = (
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "IdentitiesOnly=yes",
        f'UserKnownHostsFile="{known_hosts}"',
    )
    assert all(option in lines for option in expected_options)
    assert "git@host.example" in lines
    log.unlink()
    await source(url, tmp_path, ssh_key=key, host_keys="accept_new").listing()
    assert "StrictHostKeyChecking=accept-new" in log.read_text().splitlines()


@pytest.mark.parametrize(
    ("error_output", "reason"),
    [
        ("No ED25519 host key is known for h and you have requested strict checking.\nHost key verification failed.",
         "No ED25519 host key is known for h.*add its key to known_hosts"),
        ("git@h: Permission denied (publickey).", "Permission denied.*check ssh_key"),
        ("@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@\nIT IS POSSIBLE",
         "host key has changed.*the same server"),
        ('Load key "/k": error in libcrypto\ngit@h: Permission denied (publickey).', "Load key.*no private key"),
    ],
)  # fmt: skip
async def test_what_ssh_refuses_says_what_to_do(
    error_output: str, reason: str, fake_ssh: Callable[[str], Path], key: Path, tmp_path: Path
) -> None:
    fake_ssh("cat >&2 <<'END'\n" + error_output + "\nEND\nexit 255")
    with pytest.raises(SourceError, match=reason):
        await source("git@h:o/r.git", tmp_path, ssh_key=key).listing()


def test_a_key_that_ssh_would_refuse_is_named(key: Path, tmp_path: Path) -> None:
    key.chmod(0o644)
    with pytest.raises(SourceError, match=r"open to others \(mode 644\): chmod 600"):
        source("git@h:o/r.git", tmp_path, ssh_key=key)
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        source("git@h:o/r.git", tmp_path, ssh_key=tmp_path / "none")
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        source("git@h:o/r.git", tmp_path, ssh_key=tmp_path)
    odd_folder = tmp_path / 'a"b'
    shutil.copy(key, odd_folder)
    odd_folder.chmod(0o600)
    with pytest.raises(SourceError, match="cannot be told to ssh"):
        source("git@h:o/r.git", tmp_path, ssh_key=odd_folder)


def test_the_real_ssh_understands_the_options(key: Path, tmp_path: Path) -> None:
    known_hosts = tmp_path / "100% known"
    known_hosts.touch()
    settings = GitSource.model_validate(
        {"kind": "git", "url": "git@h.example:r", "ssh_key": key, "known_hosts": known_hosts, "timeout_s": 7}
    )
    command = build_access("docs", settings).environment["GIT_SSH_COMMAND"]
    result = subprocess.run(["sh", "-c", f"{command} -G h.example"], check=True, capture_output=True, text=True)
    options = dict(line.split(" ", 1) for line in result.stdout.splitlines() if " " in line)
    assert (options["batchmode"], options["identitiesonly"], options["connecttimeout"]) == ("yes", "yes", "7")
    assert options["stricthostkeychecking"] in ("yes", "true")
    assert options["identityfile"] == str(key)
    assert options["userknownhostsfile"].replace("%%", "%").strip('"') == str(known_hosts)


# SSH, spoken by a real server where there is one.


class Sshd:
    """A real SSH server on this machine, for one user and one key."""

    def __init__(self, folder: Path, key: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host")], check=True)
        (folder / "allowed").write_text(key.with_suffix(".pub").read_text())
        self.port = free_port()
        lines = (
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder / 'host'}",
            f"AuthorizedKeysFile {folder / 'allowed'}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "PermitRootLogin yes",
            "PidFile none",
        )
        (folder / "config").write_text("\n".join(lines) + "\n")

    def url(self, repository: Path) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repository}"

    def known_hosts(self) -> Path:
        file = self.folder / "known"
        file.write_text(f"[127.0.0.1]:{self.port} " + (self.folder / "host.pub").read_text())
        return file


@pytest.fixture
async def sshd(key: Path, tmp_path: Path) -> AsyncIterator[Sshd]:
    if SSHD is None:
        pytest.skip("no sshd on this machine: SSH is tested with a stand-in only")
    server = Sshd(tmp_path / "sshd", key)
    with (tmp_path / "sshd.log").open("w") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(server.folder / "config")], stderr=log)
        try:
            ends = time.monotonic() + 60
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", server.port)) == 0:
                        break
                if process.poll() is not None or time.monotonic() > ends:
                    pytest.skip(f"sshd does not start here: {(tmp_path / 'sshd.log').read_text()[-300:]}")
                time.sleep(0.05)
            yield server
        finally:
            process.terminate()
            process.wait()


async def test_a_real_server_lets_the_key_in(sshd: Sshd, key: Path, repository: Path, tmp_path: Path) -> None:
    url = sshd.url(repository)
    listing = await source(url, tmp_path, ssh_key=key, known_hosts=sshd.known_hosts()).listing()
    assert listing.revision == git(repository, "rev-parse", "HEAD")
    learned_hosts = tmp_path / "learned"
    learned_hosts.touch()
    await source(url, tmp_path / "b", ssh_key=key, known_hosts=learned_hosts, host_keys="accept_new").listing()
    assert (sshd.folder / "host.pub").read_text().split()[1] in learned_hosts.read_text()


async def test_a_real_server_that_is_unknown_or_refuses(
    sshd: Sshd, key: Path, repository: Path, tmp_path: Path
) -> None:
    url = sshd.url(repository)
    nobody = tmp_path / "nobody"
    nobody.touch()
    with pytest.raises(SourceError, match=r"host key is known.*add its key to known_hosts"):
        await source(url, tmp_path, ssh_key=key, known_hosts=nobody).listing()
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    with pytest.raises(SourceError, match=r"Permission denied.*check ssh_key"):
        await source(url, tmp_path, ssh_key=other, known_hosts=sshd.known_hosts()).listing()
    nobody.write_text(f"[127.0.0.1]:{sshd.port} " + other.with_suffix(".pub").read_text())
    with pytest.raises(SourceError, match="host key has changed"):
        await source(url, tmp_path, ssh_key=key, known_hosts=nobody).listing()


async def test_a_connection_that_ssh_keeps_open_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ControlPersist: a process stays behind that still has the errors' end of git's output."""
    path = tmp_path / "kept"
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nsleep 60 </dev/null >/dev/null &\necho $! > {path}\necho refused >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(ssh))
    started_at = time.monotonic()
    with pytest.raises(GitError, match="refused"):
        await Git(tmp_path, 30).run("ls-remote", "--", "git@example.org:team/handbook")
    assert time.monotonic() - started_at < 25
    os.kill(int(path.read_text()), signal.SIGKILL)
