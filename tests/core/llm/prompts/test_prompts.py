"""Templates: overridden by the configuration, for one retrieval agent, and in the asker's language."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from core.answering.pipeline import answer
from core.catalogue import ENGLISH, messages_for
from core.catalogue.zh import MESSAGES as CHINESE
from core.errors import ConfigurationError
from core.language.languages import detect_language
from core.llm.prompts import Prompts
from core.types import Question
from tests.support.fixtures import MemorySink, parts, settings
from tests.support.scripted import ScriptedPeer, models


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How do I install it?", ""),
        ("Wie installiere ich das?", ""),
        ("怎么安装 AgentScope？", "zh"),
        ("AgentScope 的 ReActAgent 怎么用 MemoryBase？", "zh"),
        ("AgentScopeのインストール方法は？", "ja"),
        ("에이전트를 어떻게 설치하나요?", "ko"),
        ("Как установить агента?", "ru"),
        ("كيف أقوم بتثبيته؟", "ar"),
        ("What does the error 模型 mean in `model.py` when I load the second checkpoint?", ""),
        ("```\n模型加载失败\n```\nWhy does this happen?", ""),
        ("https://example.org/模型/安装 what is this", ""),
        ("", ""),
        ("42", ""),
    ],
)
def test_a_script_tells_a_language(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_the_asker_is_spoken_to_in_their_language() -> None:
    prompts = Prompts.read()
    assert "根据给定的资料" in prompts.for_language("zh").fill("summarizer", name="N", persona="")
    assert prompts.for_language("zh").language == "zh"
    for language in ("", "ja", "fr"):
        assert "from the evidence" in prompts.for_language(language).fill("summarizer", name="N", persona="")
    assert messages_for("zh") is CHINESE
    assert messages_for("ja") is messages_for("") is ENGLISH


def test_a_translation_has_the_same_places() -> None:
    templates = Prompts.read().templates
    translated = [name for name in templates if name[-3:] == "-zh"]
    assert translated
    for name in translated:
        placeholders = [set(re.findall(r"\{\{\w+\}\}", templates[text])) for text in (name, name[:-3])]
        assert placeholders[0] == placeholders[1], name


def test_templates_of_ones_own(tmp_path: Path) -> None:
    own_file = tmp_path / "mine.md"
    own_file.write_text("Answer as {{name}} would.", "utf-8")
    french = tmp_path / "french.md"
    french.write_text("Réponds.", "utf-8")
    prompts = Prompts.read({"summarizer": own_file, "talk-fr": french}, {"code": {"compress": own_file}})
    assert prompts.fill("summarizer", name="Ann") == "Answer as Ann would."
    # A template of one's own is not replaced by the translation of another.
    assert prompts.for_language("zh").fill("summarizer", name="Ann") == "Answer as Ann would."
    assert prompts.for_language("fr").fill("talk") == "Réponds."
    assert prompts.for_agent("code").fill("compress", name="Ann") == "Answer as Ann would."
    assert (
        prompts.for_agent("docs").fill("compress")
        == prompts.fill("compress")
        != prompts.for_agent("code").fill("compress")
    )


def test_what_cannot_be_a_template_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"prompts\.sumarizer: there is no such template; they are: compress"):
        Prompts.read({"sumarizer": tmp_path})
    with pytest.raises(ConfigurationError, match=r"agents\.code\.prompts\.talk: .* cannot be read"):
        Prompts.read({}, {"code": {"talk": tmp_path / "missing.md"}})
    binary = tmp_path / "binary.md"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        Prompts.read({"talk": binary})


async def test_any_template_may_have_versions_in_languages(tmp_path: Path) -> None:
    """As docs/answering.md has it: by the script of the question, and Latin letters get those without an ending."""
    own_prompts = {}
    for name in ("summarizer-ja", "rewrite_keyword-ja", "summarizer-fr"):
        own_prompts[name] = tmp_path / f"{name}.md"
        own_prompts[name].write_text(f"This is {name}.", "utf-8")
    configuration = settings(agents={"docs": {"sources": ["docs"], "rewrites": ["keyword"]}})
    message = {}
    async with ScriptedPeer() as peer:
        model = models(peer)
        line = replace(parts(model=model, configuration=configuration), prompts=Prompts.read(own_prompts))
        for text in (
            "pip でどうやってインストールしますか？",
            "Comment installer le package avec pip ?",
            "如何用 pip 安装？",
        ):
            peer.requests.clear()
            await answer(Question(text), MemorySink(), line)
            message[detect_language(text)] = [body["messages"][0]["content"] for body in peer.requests]
        await model.close()
    assert {"This is summarizer-ja.", "This is rewrite_keyword-ja."} <= set(message["ja"])
    assert not any(item.startswith("This is") for item in (*message[""], *message["zh"]))
    assert any("from the evidence" in item for item in message[""])
    assert any("根据给定的资料" in item for item in message["zh"])


def test_a_prompt_gives_the_date_in_its_language() -> None:
    prompts = Prompts.read()
    english = prompts.fill("summarizer", name="N", persona="")
    chinese = prompts.for_language("zh").fill("summarizer", name="N", persona="")
    assert re.search(r"Today is [A-Z][a-z]+day, \d{4}-\d\d-\d\d \d\d:\d\d", english)
    assert re.search(r"今天是 \d{4}-\d\d-\d\d，星期[一二三四五六日]，\d\d:\d\d", chinese)
    assert not re.search(r"[A-Z][a-z]+day\b", chinese)
    assert "星期" not in prompts.for_language("zh").fill("plan"), "this one is English for everybody"


async def test_a_persona_in_the_askers_language() -> None:
    configuration = settings(answer={"persona": "Be brief.", "personas": {"zh": "请简短。"}})
    async with ScriptedPeer() as peer:
        model = models(peer)
        deps = parts(model=model, configuration=configuration)
        for text, persona, other in (
            ("怎么用 pip 安装？", "请简短。", "Be brief."),
            ("How do I use pip?", "Be brief.", "请简短。"),
        ):
            peer.requests.clear()
            await answer(Question(text), MemorySink(), deps)
            system = peer.sent("write")[0]["messages"][0]["content"]
            assert persona in system
            assert other not in system
        await model.close()


def test_templates_are_filled_in_one_pass() -> None:
    prompts = Prompts({"greet": "Hello {{name}}, {{unknown}} it is {{now}}."})
    prompt_text = prompts.fill("greet", name="{{now}}")
    assert prompt_text.startswith("Hello {{now}}, {{unknown}} it is ")


def test_every_agent_has_its_prompt() -> None:
    prompts = Prompts.read()
    assert {"rewrite", "summarizer", "look_back"} <= set(prompts.templates)
    assert "data" in prompts.fill("summarizer", name="Bot", persona="")
