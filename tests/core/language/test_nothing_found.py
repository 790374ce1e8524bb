from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from core.errors import UsageError
from core.formatting import shorten
from core.install_hints import format_install_hint
from core.language.nothing_found import says_nothing_was_found
from core.llm.prompts import Prompts
from core.runtime.tasks import CpuTurnstile, task_group
from core.runtime.timers import run_periodically


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
    turns = CpuTurnstile()
    rounds = 0
    start_order = []

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


async def test_longer_steps_run_one_at_a_time_even_if_nobody_waits() -> None:
    turns = CpuTurnstile()
    at_work = 0
    max_at_work = 0
    result = []
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
        "根据提供的资料，没有找到关于 Redis 集群的说明。",
        "您提供的文档中未涉及该功能。",
        "抱歉，我无法从现有资料中找到答案。",
        "知识库中暂时没有相关内容，建议咨询管理员。",
        "提供的上下文中没有足够的信息来回答这个问题。",
        "很抱歉，参考资料中并未提及如何配置代理。",
        "目前的资料里没有这方面的介绍。",
        "检索结果中没有与您的问题直接相关的信息。",
        "这个问题超出了现有文档的范围。",
        "现有文档只介绍了安装，没有说明如何卸载。",
        "文档未明确说明是否支持 ARM。",
        "对不起，目前没有关于这个参数的资料。",
        "以上内容均未提到超时时间。",
        "我在资料中没有查到这一条错误。",
        "从给定的资料中无法得知发布日期。",
        "无法根据现有信息回答这个问题。",
        "未在文档中找到相关配置项。",
        "该信息在文档中没有给出。",
        "由于资料有限，我无法给出确切的答案。",
        "資料中沒有提到如何設定。",
        "文档没有提到启动时会加载哪些插件。",
        "没有找到启动时会加载哪些插件的说明，请咨询开发者。",
        "您提供的信息无法判断原因，请补充日志。",
        "抱歉，当前知识库中没有关于 v2.1 的内容。",
        "暂未收录该问题的答案。",
        "抱歉，我没有找到 frobnicate 参数，建议查看官方文档。",
        "没有找到会话管理的相关资料。",
        "抱歉，文档里没有 frobnicate 这个参数的说明。",
        "很抱歉，现有资料里找不到关于超时的内容。",
        "仅凭现有信息无法确定错误原因。",
        "文档没有提到运行时使用的内存。",
        "文档中没有详细的例子。",
        "文档里没有相关的教程。",
        "参考资料并没有给出具体的数值。",
        "文档片段中未找到与“灰度”有关的信息。",
        "我查阅了资料，但没有发现相关说明。",
        "您的问题不在现有文档的覆盖范围内。",
        "我不知道答案。",
        "没有足够的信息来回答您的问题。",
        "文档中并没有 `foo` 这个选项。",
        "提供的文档主要介绍了安装，并不包含升级说明。",
        "对此，资料未作说明。",
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
        "错误信息不完整，无法判断原因，请打开调试日志。",
        "日志内容被截断时无法判断错误原因，请设置 `full: true`。",
        "该字段的内容无法确定时填 `auto`。",
        "搜索时我没找到的类型会显示为灰色。",
        "目前没有找到该包时会自动下载。",
        "抱歉给您带来不便，不清楚版本时请运行 `rocket --version`。",
        "可以在信息面板里查看。",
        "资料中未必有最新版本，但可以用 `rocket up` 升级。",
        "文档未来会补充。使用 a 即可。",
        "文档没有直接给出命令，但可以用 `x`。",
        "内容过长时无法确定换行位置，请设置 wrap。",
        "如果没有找到文件，请检查。",
        "来源地址未加入白名单会报错，请添加。",
        "资料库未启动时请先执行 start。",
        "知识库没有建立索引时，搜索为空；请先建立索引。",
        "来源没有权限的请求会被拒绝。",
        "请求来源未授权时返回 403。",
        "段落之间没有空行时会合并。",
        "文档服务器没有启动。",
        "文档目录没有权限时请 chmod。",
        "先查本地缓存，没有找到再访问远程仓库。",
        "先查本地缓存，没有找到，再从远程仓库下载。",
        "未找到命令时请把 `bin` 加入 PATH。",
        "没有找到 `config.yaml`，请先运行 `rocket init`。",
        "没有找到 `config.yaml` 会使用默认值。",
        "错误：未找到模块，请先安装依赖。",
        "查不到相关日志时，请把级别设为 debug。",
        "没有相关文档的模块会被跳过。",
        "未知来源的插件没有签名，默认不会加载。",
        "知识库没有更新时用 `kimas ingest` 重新读取。",
        "文档未提供 `title` 时使用文件名。",
        "文档没提到的参数都不支持修改。",
        "未找到 rocket 命令，请把它加入 PATH。",
        "启动失败，没有找到配置文件。",
        "请求体的内容无法解析时返回 400。",
        "没有找到匹配的路由则返回 404。",
        "在配置中没有找到该键时使用默认值。",
        "当前内容无法确定时填 `auto`。",
        "知识库没有相关权限时会报错。",
        "材料中缺少具体尺寸时按默认值处理。",
        "上下文未包含 trace id 会导致日志无法关联。",
        "上下文没有提供用户信息时，`ctx.user` 为空。",
        "段落没有找到对应标题时使用文件名。",
        "文档中的示例没有设置超时，生产环境请加上 `timeout`。",
        "缺少相关说明的字段会显示警告。",
        "目录中没有找到 `index.md` 就显示文件列表。",
        "未找到文件说明路径不对。",
    ],
)
def test_a_chinese_answer_about_something_missing_is_an_answer(text: str) -> None:
    assert not says_nothing_was_found(text)


@pytest.mark.parametrize(
    ("text", "max_chars", "expected"),
    [
        ("Install it with pip", 19, "Install it with pip"),
        ("Install it with pip", 12, "Install it …"),
        ("Install it with pip", 10, "Install it …"),
        ("Installation", 7, "Install …"),
        (f"See https://example.org/{'a' * 200} now", 150, f"See https://example.org/{'a' * 126} …"),
        (f"See {'a' * 80} now", 83, "See …"),
        (f"See {'a' * 90} now", 85, f"See {'a' * 81} …"),
        ("用 pip 安装之后重启服务", 10, "用 pip 安装之后 …"),
        ("用 pip 安装", 4, "用 …"),
    ],
)
def test_a_text_is_shortened_between_words_where_they_are_not_too_long(
    text: str, max_chars: int, expected: str
) -> None:
    assert shorten(text, max_chars) == expected


def test_a_dot_within_a_name_ends_no_sentence() -> None:
    assert says_nothing_was_found("抱歉，关于 v2.1 的升级，文档没有提到。")
    assert says_nothing_was_found("Release 2.1 is new. The documentation does not mention it.") is False
    assert says_nothing_was_found("For version 2.1 the documentation does not mention it.")
