"""What the bot says about feedback: in English, and in Chinese to who asked in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.types import AGAIN


@dataclass(frozen=True, slots=True)
class Words:
    """The sentences by their occasion. `buttons` are the labels by choice, `unsatisfied` what the asker says by one.

    `up`, `down` and `back` have places for how many think so, `up` and `down`; `call` for the `author` of a question,
    `learned` for the `number` of an answer.
    """

    up: str
    down: str
    back: str
    why: str
    noted: str
    unknown: str
    trying: str
    once: str
    asker: str
    forgotten: str
    unfinished: str
    off: str
    calling: str
    call: str
    nobody: str
    alone: str
    called: str
    cooling: str
    no_question: str
    learned: str
    known: str
    untrusted: str
    teach: str
    buttons: Mapping[str, str]
    unsatisfied: Mapping[str, str]


ENGLISH = Words(
    up="Thank you, noted: 👍 {up} · 👎 {down}. The same again takes it back.",
    down="Noted, thank you: 👍 {up} · 👎 {down}. The same again takes it back.",
    back="Taken back: 👍 {up} · 👎 {down}.",
    why="What was wrong?",
    noted="Noted, thank you.",
    unknown="I know of no answer of mine here that this could be about; nothing was changed.",
    trying="I try once more, and take more time for it.",
    once="I have tried this question again already; once is all.",
    asker="Only who asked can have it answered again.",
    forgotten="I no longer have this question. Please ask it again.",
    unfinished="This answer is still being written.",
    off="Trying again is switched off here.",
    calling="I am calling somebody who can help.",
    call="{author} could use your help here.",
    nobody="Nobody is named here who could be called.",
    alone="Nobody else reads this chat. Please ask in a group.",
    called="Somebody was called for this question already.",
    cooling="Somebody was called here a moment ago. Please give them some minutes.",
    no_question="I do not know which question you mean. Reply to it, or write it behind the command.",
    learned="Thank you. This is answer {number} to be reviewed.",
    known="I have this answer already.",
    untrusted="Only those who are trusted with it may teach me.",
    teach="Reply to the answer with `/learn` or give its link, and add the question where the answer replies to none.",
    buttons={
        "wrong": "Wrong",
        "outdated": "Outdated",
        "other": "Not what I asked",
        "unclear": "Unclear",
        AGAIN: "🔁 Try harder",
    },
    unsatisfied={
        "": "That answer did not help me.",
        "wrong": "That answer is wrong.",
        "outdated": "That answer is outdated.",
        "other": "That is not what I asked.",
        "unclear": "I do not understand that answer.",
    },
)
CHINESE = Words(
    up="谢谢，已记录：👍 {up} · 👎 {down}。再次选择同一项可撤回。",
    down="已记录，谢谢：👍 {up} · 👎 {down}。再次选择同一项可撤回。",
    back="已撤回：👍 {up} · 👎 {down}。",
    why="问题出在哪里？",
    noted="已记录，谢谢。",
    unknown="我在这里没有与此对应的回答，未作任何更改。",
    trying="我会多花些时间，再试一次。",
    once="这个问题我已经重答过一次，不能再重答了。",
    asker="只有提问者可以要求重答。",
    forgotten="我已不再保存这个问题，请重新提问。",
    unfinished="这个回答还没有写完。",
    off="这里没有开启重答。",
    calling="我正在请人来帮忙。",
    call="{author} 需要各位的帮助。",
    nobody="这里没有可以联系的人。",
    alone="这个聊天里没有其他人，请到群里提问。",
    called="已经为这个问题请过人了。",
    cooling="刚刚已在这里请过人，请稍等几分钟。",
    no_question="我不清楚你指的是哪个问题。请回复那条消息，或把问题写在命令后面。",
    learned="谢谢。这是第 {number} 条待审核的回答。",
    known="这个回答我已经有了。",
    untrusted="只有受信任的成员可以教我。",
    teach="请用 `/learn` 回复那条回答，或在命令后附上它的链接；如果它没有回复任何问题，请再写上问题。",
    buttons={"wrong": "有误", "outdated": "已过时", "other": "答非所问", "unclear": "不清楚", AGAIN: "🔁 再试一次"},
    unsatisfied={
        "": "这个回答没有帮到我。",
        "wrong": "这个回答有误。",
        "outdated": "这个回答已经过时。",
        "other": "我问的不是这个。",
        "unclear": "这个回答我看不明白。",
    },
)


def words_in(language: str) -> Words:
    """Return the sentences in a language (a code of `language_of`), or in English where there are none."""
    return CHINESE if language == "zh" else ENGLISH
