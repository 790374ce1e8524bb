"""The texts that people read: complete in every language, with the same gaps, and a language more is a file more."""

from __future__ import annotations

import importlib
import re
import string
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import core.catalogue as catalogue
from core.catalogue import ENGLISH, Messages, languages, messages_for
from core.catalogue.command_spelling import spell_texts
from core.formatting import INDEFINITELY, format_until
from core.language.languages import detect_language
from core.messaging.commands.answer_commands import format_explanation
from core.messaging.gate.model import MEANINGS
from core.messaging.gate.replies import KIND_NAMES
from core.messaging.policy.command_table import COMMANDS
from core.storage.message_lookup import MessageOutcome
from core.types import SkipReason, skip

COMMAND_NAMES = [command.name for command in COMMANDS]
TRANSLATIONS = [language for language in languages() if language != "en"]
# What is the same in both, as nothing in it is a word.
SAME_IN_CHINESE = {"everybody", "form_value"}


def texts_by_key(messages: Messages) -> dict[str, str]:
    """Return all texts of a language, those within a mapping by `name.key`."""
    texts: dict[str, str] = {}
    for name in (name for name in dir(messages) if not name.startswith("_") and name != "language"):
        value = getattr(messages, name)
        items: Mapping[str, str] = (
            {f"{name}.{key}": text for key, text in value.items()} if isinstance(value, Mapping) else {name: value}
        )
        texts.update(items)
    return texts


def gaps(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def problems(messages: Messages) -> list[str]:
    """Return what a language lacks: texts that it does not translate, and gaps that differ from the English ones."""
    own_names = {
        name for kind in type(messages).__mro__[: type(messages).__mro__.index(Messages)] for name in vars(kind)
    }
    english = texts_by_key(ENGLISH)
    texts = texts_by_key(messages)
    missing_keys = [key for key in english if key.partition(".")[0] not in own_names or key not in texts]
    unknown = [key for key in texts if key not in english]
    return [
        *missing_keys,
        *unknown,
        *(key for key in english.keys() & texts.keys() if gaps(english[key]) != gaps(texts[key])),
    ]


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_a_language_has_every_text_with_the_gaps_of_the_english_one(language: str) -> None:
    assert problems(messages_for(language)) == []


def test_every_chinese_text_is_chinese() -> None:
    english = texts_by_key(ENGLISH)
    chinese = texts_by_key(messages_for("zh"))
    latin = {key for key, text in chinese.items() if not detect_language(text) and text == english[key]}
    without_words = {
        key
        for key in latin
        if not any(
            len(word) > 1
            for word in "".join(c if c.isalpha() else " " for c in string_without_gaps(english[key])).split()
        )
    }
    assert latin - without_words == SAME_IN_CHINESE - {"everybody"}


def string_without_gaps(text: str) -> str:
    return "".join(literal for literal, *_ in string.Formatter().parse(text))


def test_every_command_and_argument_is_described() -> None:
    assert set(ENGLISH.command_summaries) == {command.name for command in COMMANDS}
    assert set(ENGLISH.argument_summaries) == {
        f"{command.name} {argument.name}" for command in COMMANDS for argument in command.arguments
    }


def test_every_silence_is_explained_in_the_language_of_whoever_asks() -> None:
    pause_skip = skip(SkipReason.PAUSED, chat="slack:C1", until=format_until(INDEFINITELY), moment=INDEFINITELY)
    trace = {"skip": "PAUSED", "values": dict(pause_skip.values)}
    outcome = MessageOutcome("silent", str(pause_skip), "", (), trace)
    assert format_explanation(outcome) == f"Why I was silent: {pause_skip}."
    assert format_explanation(outcome, messages_for("zh")) == (
        "我没有说话，原因是：slack:C1 已由命令暂停，直到恢复为止。"
    )
    # The journal of an earlier version has only the text.
    earlier_outcome = replace(outcome, trace={})
    assert format_explanation(earlier_outcome, messages_for("zh")) == f"我没有说话，原因是：{pause_skip}。"


def test_why_the_gate_was_not_sure_is_told_in_the_language_of_who_asks() -> None:
    explanation = "- it shares few words with the documents, + its words are rare, something of an older version"
    values = {"probability": 0.02, "threshold": 0.5, "explanation": explanation}
    outcome = MessageOutcome("silent", "unused", "", (), {"skip": "UNSURE", "values": values})
    assert format_explanation(outcome, messages_for("zh")) == (
        "我没有说话，原因是：没有足够的把握：0.02，阈值 0.50"
        "（- 与资料很少有相同的词, + 用词少见, something of an older version）。"
    )
    assert f"({explanation})" in format_explanation(outcome)
    attachment = MessageOutcome("silent", "", "", (), {"skip": "STICKER", "values": {"attachment": "a sticker"}})
    assert format_explanation(attachment, messages_for("zh")) == "我没有说话，原因是：一个表情贴纸。"


def test_every_phrase_that_the_gate_records_is_in_the_catalogue() -> None:
    phrases = {phrase for meanings in MEANINGS.values() for phrase in meanings} | set(KIND_NAMES.values())
    assert phrases == set(ENGLISH.skip_phrases)


@pytest.fixture
def third_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose files are languages of the catalogue, too."""
    monkeypatch.setattr(catalogue, "__path__", [*catalogue.__path__, str(tmp_path)])
    languages.cache_clear()
    messages_for.cache_clear()
    yield tmp_path
    languages.cache_clear()
    messages_for.cache_clear()
    sys.modules.pop("core.catalogue.ja", None)


def test_a_third_language_is_one_file(third_language: Path) -> None:
    assert messages_for("ja") is ENGLISH
    source = (Path(catalogue.__file__).parent / "zh.py").read_text("utf-8")
    (third_language / "ja.py").write_text(
        source.replace("我已在本聊天里恢复发言。", "このチャットで再び話します。"), "utf-8"
    )
    languages.cache_clear()
    messages_for.cache_clear()
    importlib.invalidate_caches()
    japanese = messages_for("ja")
    assert japanese.resumed == "このチャットで再び話します。"
    assert problems(japanese) == []


def test_what_a_language_lacks_is_named(third_language: Path) -> None:
    (third_language / "ja.py").write_text(
        "from core.catalogue.en import English\n"
        "class Japanese(English):\n    resumed = '{who} 再開'\n"
        "MESSAGES = Japanese()\n",
        "utf-8",
    )
    languages.cache_clear()
    importlib.invalidate_caches()
    found_problems = problems(messages_for("ja"))
    assert {"resumed", "paused", "buttons.wrong"} <= set(found_problems)
    # Until it is translated, the English text is shown.
    assert messages_for("ja").paused == ENGLISH.paused


@pytest.mark.parametrize("language", languages())
def test_no_command_is_spelled_by_hand(language: str) -> None:
    """Behind `/kimas` on Slack, behind a mention on networks: what people copy has to work there."""
    texts = spell_texts(messages_for(language), "<{}>".format)
    spelled_by_hand = re.compile(rf"/({'|'.join(COMMAND_NAMES)})\b")
    assert {key: text for key, text in texts_by_key(texts).items() if spelled_by_hand.search(text)} == {}
    assert messages_for(language).show_whole_answer != texts.show_whole_answer, "the catalogue itself stays"


@pytest.mark.parametrize("language", languages())
def test_menus_name_no_command(language: str) -> None:
    """Nobody spells them there: a platform shows them beside the command, as plain text."""
    texts = messages_for(language)
    for text in (*texts.command_summaries.values(), *texts.argument_summaries.values(), *texts.skip_reasons.values()):
        assert not re.search(rf"/({'|'.join(COMMAND_NAMES)})\b", text)
