"""Names in the code of an answer, checked against a real repository that a real pipeline has read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import App, open_app
from core.answering.agents.code_check import MAX_DEFINITIONS, mark_unknown_names
from core.catalogue import ENGLISH
from core.runtime.budget import Budget
from core.settings import BudgetSettings, Settings
from core.types import Question
from tests.support.deployment import README, SERVER, make_repository
from tests.support.fixtures import parts
from tests.support.scripted import ScriptedPeer

QUESTION = Question("How do I listen on a port with Rocket?")
TRUE_CODE = "from rocket.server import Server, rotate_keys\nimport rocket\n\nServer().listen(port=1)\nrocket.server"
NOTE = "*Not in the code that I know, so please check: {}*"


@asynccontextmanager
async def opened_app(peer: ScriptedPeer, folder: Path, files: Mapping[str, str]) -> AsyncIterator[App]:
    source = {"kind": "git", "url": str(make_repository(folder / "rocket", files))}
    values = {"sources": {"code": source}, "models": {"main": {"base_url": peer.base_url, "model": "m"}}}
    settings = Settings.model_validate({"data_dir": folder / "data", **values})
    async with open_app(settings) as app:
        assert not (await app.refresh()).failures
        yield app


@pytest.fixture
async def app(peer: ScriptedPeer, tmp_path: Path) -> AsyncIterator[App]:
    files = {"README.md": README, "src/rocket/server.py": SERVER, "src/rocket/__init__.py": '"""Rocket."""\n'}
    async with opened_app(peer, tmp_path, files) as app:
        yield app


async def _answer(app: App, peer: ScriptedPeer, code: str) -> str:
    peer.replies["write"] = f"It listens until it is told to stop [p1]:\n\n```python\n{code}\n```"
    return (await app.answer(QUESTION, SilentSink())).text


async def test_true_code_stays_as_it_is(app: App, peer: ScriptedPeer) -> None:
    assert (await _answer(app, peer, TRUE_CODE)).endswith("rocket.server\n```")
    foreign = "import os\nfrom flask import Blueprint\n\nos.sprint()"
    assert (await _answer(app, peer, foreign)).endswith("os.sprint()\n```"), "nothing is known of other packages"


async def test_names_that_no_passage_has_are_named(app: App, peer: ScriptedPeer) -> None:
    text = await _answer(app, peer, f"{TRUE_CODE}\nfrom rocket.server import AsyncServer\nrocket.boost()")
    assert text.endswith(NOTE.format("`rocket.server.AsyncServer`, `rocket.boost`"))
    peer.replies["write"] = "它会一直监听 [p1]：\n\n```python\nfrom rocket import launch_all\n```"
    reply = await app.answer(Question("Rocket 怎么监听端口？"), SilentSink())
    assert reply.text.endswith("*在我所知的代码中没有找到，请核对：`rocket.launch_all`*")


async def test_arguments_that_no_definition_has_are_named(app: App, peer: ScriptedPeer) -> None:
    code = "from rocket.server import Server, rotate_keys as rotate\n\nServer(prot=1)\nrotate(keys=[], speed=2)"
    text = await _answer(app, peer, code)
    assert text.endswith(NOTE.format("`rocket.server.rotate_keys(speed=)`")), "a class without initializer says nothing"
    assert (await _answer(app, peer, code.replace(", speed=2", ""))).endswith("```")


async def test_a_look_up_that_is_late_names_nothing(app: App) -> None:
    text = "```python\nfrom rocket.server import rotate_keys\nfrom rocket import no\nrotate_keys(speed=2)\n```"
    deps = replace(parts(), library=app.library)
    assert "speed=" in await mark_unknown_names(text, deps, Budget(BudgetSettings()))
    budget = Budget(BudgetSettings(deadline_s=1e-6))
    assert await mark_unknown_names(text, deps, budget) == text
    assert budget.degrade_reasons == {"names": "late"}


async def test_a_name_that_is_everywhere_may_be_defined_elsewhere(peer: ScriptedPeer, tmp_path: Path) -> None:
    files = {f"src/rocket/part{n}.py": f"def use{n}():\n    return start({n})\n" for n in range(MAX_DEFINITIONS + 5)}
    files |= {
        "src/rocket/__init__.py": "import os\n",
        "src/rocket/start.py": "def start(port):\n    return start(start(start(port)))\n",
    }
    async with opened_app(peer, tmp_path, {"README.md": README, **files}) as app:
        text = await _answer(app, peer, "from rocket.start import start\nstart(speed=1)")
        assert text.endswith(f"```\n\n{ENGLISH.uncited}")


async def test_who_may_not_see_the_code_learns_nothing_of_it(app: App) -> None:
    assert set(app.library.modules()) == {"rocket"}
    assert app.library.restricted_to(()).modules() == {}
