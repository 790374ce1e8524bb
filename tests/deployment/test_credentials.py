"""The daemon with its secrets as systemd hands them over: in a folder that only the service may read, and nobody write.

systemd itself is not started: the folder is made as it makes it (0500, files 0400), outside of the data directory, and
named by CREDENTIALS_DIRECTORY; the process has no capabilities, as in the unit.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.deployment import README, Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.waiting import until

GROUP = -100


def without_capabilities() -> list[str]:
    """Return what a command line begins with, so that modes of files hold for root as well."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("NOT VERIFIED: modes do not hold for root, and setpriv is not installed")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def load_credentials(folder: Path, **secrets: str) -> Path:
    """Make a folder as `LoadCredential=` does."""
    folder.mkdir(0o700)
    for name, secret in secrets.items():
        (folder / name).write_text(f"{secret}\n", "utf-8")
        (folder / name).chmod(0o400)
    folder.chmod(0o500)
    return folder


def make_deployment(folder: Path, credentials: Path, telegram: TelegramPeer, model_url: str) -> Deployment:
    (folder / "docs").mkdir()
    (folder / "docs" / "rocket.md").write_text(README, "utf-8")
    settings: dict[str, Any] = {
        "sources": {"docs": {"kind": "files", "path": "docs"}},
        "telegram": {"token": {"file": str(credentials / "telegram-token")}, "api_url": telegram.api_url},
        "models": {
            "main": {"base_url": model_url, "model": "m", "api_key": {"file": str(credentials / "model-key")}},
        },
        "log": {"level": "debug", "format": "json"},
    }
    return Deployment(folder, settings, {"CREDENTIALS_DIRECTORY": str(credentials)})


@pytest.mark.timeout(300)
async def test_a_daemon_answers_with_the_credentials_of_its_unit(tmp_path: Path) -> None:
    prefix = without_capabilities()
    async with TelegramPeer() as telegram, LanguageModelPeer() as model:
        credentials = load_credentials(
            tmp_path / "kimas.service", **{"telegram-token": telegram.token, "model-key": "a-key-of-the-model"}
        )
        for attempt in (["touch", str(credentials / "new")], ["sh", "-c", f"echo x >> {credentials}/model-key"]):
            assert subprocess.run([*prefix, *attempt], capture_output=True, check=False).returncode != 0
        deployment = make_deployment(tmp_path, credentials, telegram, model.base_url)
        with (tmp_path / "daemon.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *prefix,
                *deployment.command("run"),
                cwd=tmp_path,
                env=deployment.variables(),
                umask=0o077,
                stdout=log,
                stderr=log,
            )
        try:
            await until(lambda: '"source.refreshed"' in deployment.log(), 120)
            telegram.say(GROUP, "@kimas_bot How do I install Rocket?")
            answer = await telegram.wait_for_reply(GROUP, 240, containing="reply of the peer")
            process.terminate()
            assert await process.wait() == 0, deployment.log()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        credentials.chmod(0o700)
        assert sorted(file.name for file in credentials.iterdir()) == ["model-key", "telegram-token"]
    assert model.requests[0]["authorization"] == "Bearer a-key-of-the-model"
    for text in (deployment.log(), answer.text):
        assert telegram.token not in text
        assert "a-key-of-the-model" not in text


async def test_a_credential_that_belongs_to_somebody_else_is_named(tmp_path: Path) -> None:
    prefix = without_capabilities()
    async with TelegramPeer() as telegram, LanguageModelPeer() as model:
        credentials = load_credentials(tmp_path / "kimas.service", **{"telegram-token": "x", "model-key": "y"})
        for name in ("telegram-token", "model-key"):
            (credentials / name).chmod(0o000)
        deployment = make_deployment(tmp_path, credentials, telegram, model.base_url)
        result = await asyncio.to_thread(
            subprocess.run,
            [*prefix, *deployment.command("run")],
            cwd=tmp_path,
            env=deployment.variables(),
            capture_output=True,
            text=True,
            check=False,
        )
        credentials.chmod(0o700)
    assert result.returncode == 2
    assert f"file {credentials}/telegram-token cannot be read: Permission denied" in result.stdout + result.stderr
