from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from core.errors import UsageError
from core.grounding.extractive import extract_answer
from core.llm.prompts import Prompts
from core.runtime.tasks import CpuTurnstile, task_group
from core.runtime.timers import run_periodically
from core.text.install_hints import format_install_hint
from core.text.nothing_found import says_nothing_was_found
from tests.core.fixtures import INSTALL, InMemoryLibrary, passage


def test_an_extra_is_installed_by_what_works_for_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert format_install_hint("eval") == f"run `{sys.executable} -m pip install 'kimas[eval]'`"
    # As in an environment of `uv tool`.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("UV", "/opt/uv")
    assert format_install_hint("eval") == f"run `/opt/uv pip install --python {sys.executable} 'kimas[eval]'`"
    monkeypatch.delenv("UV")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert format_install_hint("eval") == f"install kimas[eval] into the environment of {sys.executable}"


async def test_the_first_failure_of_a_group_leaves_as_itself() -> None:
    async def fail() -> None:
        raise UsageError("as itself")

    async def nested() -> None:
        async with task_group() as outer, task_group() as inner:
            inner.create_task(fail())
            outer.create_task(asyncio.sleep(30))
            await asyncio.sleep(30)

    with pytest.raises(UsageError, match="as itself"):
        await nested()


async def test_a_failed_group_does_not_confuse_the_time_out_around_it() -> None:
    async def fail() -> None:
        raise UsageError("as itself")

    async def group_then_hang() -> None:
        with pytest.raises(UsageError):
            await failing_group()
        await asyncio.sleep(30)

    async def failing_group() -> None:
        async with task_group() as tasks:
            tasks.create_task(fail())
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await group_then_hang()


async def test_heavy_steps_begin_in_order_with_a_round_of_the_loop_between_them() -> None:
    turns, rounds, start_order = CpuTurnstile(), 0, []

    async def count() -> None:
        nonlocal rounds
        while len(start_order) < 8:
            rounds += 1
            await asyncio.sleep(0)

    async def step(number: int) -> None:
        await turns.yield_turn()
        start_order.append((rounds, number))

    async with asyncio.timeout(60):
        await asyncio.gather(count(), *map(step, range(8)))
    assert [number for _, number in start_order] == list(range(8))
    assert len({at for at, _ in start_order}) == 8, "no two of them began in the same round"


async def test_who_is_cancelled_holds_up_no_turn() -> None:
    turns = CpuTurnstile()
    waiting_task = [asyncio.create_task(turns.yield_turn()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting_task[0].cancel()
    waiting_task[1].cancel()
    async with asyncio.timeout(60):
        await waiting_task[2]
        await turns.yield_turn()
    assert [task.cancelled() for task in waiting_task] == [True, True, False]


async def test_longer_steps_are_done_one_at_a_time_also_when_nobody_waits_for_them() -> None:
    turns, at_work, max_at_work, result = CpuTurnstile(), 0, 0, []
    may_end = threading.Event()

    def work(number: int) -> int:
        nonlocal at_work, max_at_work
        at_work += 1
        max_at_work = max(max_at_work, at_work)
        assert may_end.wait(60)
        at_work -= 1
        result.append(number)
        return number

    steps = [asyncio.create_task(turns.run_in_thread(work, number)) for number in range(4)]
    while not at_work:
        await asyncio.sleep(0.01)
    steps[0].cancel()
    steps[2].cancel()
    await asyncio.wait({steps[0], steps[2]}, timeout=60)
    await asyncio.sleep(0.1)
    may_end.set()
    async with asyncio.timeout(60):
        assert (await steps[1], await steps[3]) == (1, 3)
    assert (result, max_at_work) == ([0, 1, 3], 1), "the first one worked on, and the next one waited for it"
    assert [step.cancelled() for step in steps] == [True, False, True, False]


async def test_a_step_that_fails_says_so_and_holds_up_no_turn() -> None:
    turns = CpuTurnstile()
    with pytest.raises(ZeroDivisionError):
        await turns.run_in_thread(lambda: 1 // 0)
    async with asyncio.timeout(60):
        assert await turns.run_in_thread(max, 1, 2) == 2


async def test_recurring_work_runs_now_again_and_never_twice_at_once() -> None:
    runs: list[str] = []
    third = asyncio.Event()

    async def work() -> None:
        runs.append("begin")
        await asyncio.sleep(0.05)
        runs.append("end")
        if len(runs) == 6:
            third.set()

    async with run_periodically(0.02 / 60, work):
        await asyncio.wait_for(third.wait(), 60)
    assert runs[:6] == ["begin", "end"] * 3
    count = len(runs)
    await asyncio.sleep(0.1)
    assert len(runs) == count, "nothing runs after the block"


async def test_work_without_an_interval_runs_once() -> None:
    runs: list[int] = []
    first = asyncio.Event()

    async def work() -> None:
        runs.append(1)
        first.set()

    async with run_periodically(0, work):
        await asyncio.wait_for(first.wait(), 60)
        await asyncio.sleep(0.05)
    assert runs == [1]


def test_templates_are_filled_in_one_pass() -> None:
    prompts = Prompts({"greet": "Hello {{name}}, {{unknown}} it is {{now}}."})
    prompt_text = prompts.fill("greet", name="{{now}}")
    assert prompt_text.startswith("Hello {{now}}, {{unknown}} it is ")


def test_every_agent_has_its_prompt() -> None:
    prompts = Prompts.read()
    assert {"rewrite", "summarizer", "look_back"} <= set(prompts.templates)
    assert "data" in prompts.fill("summarizer", name="Bot", persona="")


async def test_prose_is_quoted_by_sentence_and_code_by_block() -> None:
    code = passage(
        "client",
        "def connect(host):\n"
        '    """Connect to the host and return a session that is ready to use.\n\n    Raises.\n    """\n'
        "    session = Session(host)\n    return session",
        kind="python",
    )
    extract = await extract_answer("How do I connect to the host?", [code, INSTALL], InMemoryLibrary())
    assert "> `Client`: Connect to the host and return a session that is ready to use. [p1]" in extract
    assert "```python\ndef connect(host):\n    session = Session(host)\n    return session\n```" in extract
    assert "pip" not in extract, "a sentence that fits far less is left out"


@pytest.mark.parametrize(
    ("text", "question", "quoted"),
    [
        ("# Keys\n\nThe key is rotated every night by the scheduler.", "When is the key rotated?", "every night"),
        ("Intro.\n\n.. note:: x\n\nThe key is rotated every night.", "When is the key rotated?", "every night"),
        ("| code | meaning |\n|---|---|\n| 69 | a service is unavailable |", "What means code 69?", "69: a service is"),
        ("# 备份\n\n请停止服务，复制数据目录，然后重新启动服务。", "怎么备份数据目录？", "复制数据目录"),
        ("# Ключ\n\nКлюч меняется каждую ночь.", "Когда меняется ключ?", "каждую ночь"),
    ],
)
async def test_prose_is_found_behind_headings_in_tables_and_in_other_scripts(
    text: str, question: str, quoted: str
) -> None:
    assert quoted in await extract_answer(question, [passage("page", text)], InMemoryLibrary())


async def test_a_short_answer_of_a_faq_is_quoted_whole() -> None:
    entry = passage("faq", "How to plant?\n\nDig a deep hole.", kind="faq")
    assert await extract_answer("How to plant?", [entry], InMemoryLibrary()) == "> Dig a deep hole. [p1]"


async def test_marks_of_a_source_are_not_taken_for_ours() -> None:
    cited_passage = passage("paper", "The method was proposed by Smith [2] and improved later [p3].")
    assert "by Smith (2) and improved later (p3). [p1]" in await extract_answer(
        "Who proposed the method?", [cited_passage], InMemoryLibrary()
    )


async def test_what_a_picture_shows_is_not_quoted() -> None:
    text = "The pump. ![How the pump connects to the tank of the house.](pump.svg) It needs a valve for the tank."
    extract = await extract_answer("How does the pump connect to the tank?", [passage("page", text)], InMemoryLibrary())
    assert extract == "> The pump. It needs a valve for the tank. [p1]"


async def test_imports_are_no_code_worth_quoting() -> None:
    module = passage("module", "import os\nimport sys\nfrom typing import Any\n\nimport re", kind="python")
    assert await extract_answer("Which imports?", [module], InMemoryLibrary()) == ""


async def test_quoting_by_meaning_has_a_limit_and_words_stand_in() -> None:
    class Hanging(InMemoryLibrary):
        async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
            await asyncio.sleep(30)
            return []

    async with asyncio.timeout(20):
        assert "pip" in await extract_answer("How do I install the package?", [INSTALL], Hanging(), timeout_s=0.05)


async def test_nothing_is_quoted_from_nothing() -> None:
    assert await extract_answer("How?", [], InMemoryLibrary()) == ""
    headings = passage("headings", "# Only\n\n## Headings\n\n|---|---|")
    assert await extract_answer("Which headings?", [headings], InMemoryLibrary()) == ""


@pytest.mark.parametrize(
    "text",
    [
        "文档中没有提到这个问题。",
        "抱歉，根据现有文档，无法回答该问题。",
        "很遗憾，未能在文档中查到相关说明。",
        "资料中暂无相关信息。",
        "抱歉，我不知道。",
        "现有资料不足以回答这个问题。",
        "我没有查到关于这个参数的介绍。",
        "没找到相关文档。",
        "知识库里没写这个。",
        "抱歉，目前提供的信息无法确定具体版本。",
        "這份文件沒有提到。",
        "没有找到相关内容",
        "未找到相关信息。",
        "当前文档没有说明如何配置",
        "关于这个报错，文档没有提到。",
        "抱歉，没有找到。",
        "在文档里没有找到答案",
        "文档并未说明",
        "资料里查不到相关的说明",
    ],
)
def test_a_chinese_reply_that_nothing_was_found_is_recognized(text: str) -> None:
    assert says_nothing_was_found(text)


@pytest.mark.parametrize(
    "text",
    [
        "如果启动时提示未找到配置文件，请检查路径。",
        "报“未找到命名空间”是因为 appId 配错了。",
        "如果资料目录没有写权限，请先授权。",
        "缓存文件没有找到时，客户端会重新拉取。",
        "把 `a` 设为 1 即可。",
        "找不到类时请先执行 mvn compile。",
        "默认没有开启缓存，文档建议设置目录。",
        "提示未找到文件说明路径不对。",
        "`key` 未找到会抛出异常。",
        "该错误表示无法找到命名空间。",
    ],
)
def test_a_chinese_answer_about_something_missing_is_an_answer(text: str) -> None:
    assert not says_nothing_was_found(text)
