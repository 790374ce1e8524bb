"""What the bot says about feedback: in English, and in Chinese to who asked in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.types import RETRY


@dataclass(frozen=True, slots=True)
class Messages:
    """The sentences by their occasion. `buttons` are the labels by choice, `unsatisfied` what the asker says by one.

    `up`, `down` and `back` have places for how many think so, `up` and `down`; `call` for the `author` of a question,
    `learned` for the `number` of an answer.
    """

    rated_up: str
    rated_down: str
    rating_removed: str
    ask_reason: str
    reason_noted: str
    unknown_answer: str
    retrying: str
    already_retried: str
    only_asker: str
    question_erased: str
    answer_unfinished: str
    retry_disabled: str
    escalating: str
    escalation: str
    nobody_configured: str
    private_chat: str
    already_escalated: str
    escalation_cooldown: str
    question_unclear: str
    answer_submitted: str
    answer_known: str
    not_trusted: str
    learn_usage: str
    buttons: Mapping[str, str]
    complaints: Mapping[str, str]


ENGLISH = Messages(
    rated_up="Thank you, noted: 👍 {up} · 👎 {down}. The same again takes it back.",
    rated_down="Noted, thank you: 👍 {up} · 👎 {down}. The same again takes it back.",
    rating_removed="Taken back: 👍 {up} · 👎 {down}.",
    ask_reason="What was wrong?",
    reason_noted="Noted, thank you.",
    unknown_answer="I know of no answer of mine here that this could be about; nothing was changed.",
    retrying="I try once more, and take more time for it.",
    already_retried="I have tried this question again already; once is all.",
    only_asker="Only who asked can have it answered again.",
    question_erased="I no longer have this question. Please ask it again.",
    answer_unfinished="This answer is still being written.",
    retry_disabled="Trying again is switched off here.",
    escalating="I am calling somebody who can help.",
    escalation="{author} could use your help here.",
    nobody_configured="Nobody is named here who could be called.",
    private_chat="Nobody else reads this chat. Please ask in a group.",
    already_escalated="Somebody was called for this question already.",
    escalation_cooldown="Somebody was called here a moment ago. Please give them some minutes.",
    question_unclear="I do not know which question you mean. Reply to it, or write it behind the command.",
    answer_submitted="Thank you. This is answer {number} to be reviewed.",
    answer_known="I have this answer already.",
    not_trusted="Only those who are trusted with it may teach me.",
    learn_usage=(
        "Reply to the answer with `/learn` or give its link, and add the question where the answer replies to none."
    ),
    buttons={
        "wrong": "Wrong",
        "outdated": "Outdated",
        "other": "Not what I asked",
        "unclear": "Unclear",
        RETRY: "🔁 Try harder",
    },
    complaints={
        "": "That answer did not help me.",
        "wrong": "That answer is wrong.",
        "outdated": "That answer is outdated.",
        "other": "That is not what I asked.",
        "unclear": "I do not understand that answer.",
    },
)
CHINESE = Messages(
    rated_up="谢谢，已记录：👍 {up} · 👎 {down}。再次选择同一项可撤回。",
    rated_down="已记录，谢谢：👍 {up} · 👎 {down}。再次选择同一项可撤回。",
    rating_removed="已撤回：👍 {up} · 👎 {down}。",
    ask_reason="问题出在哪里？",
    reason_noted="已记录，谢谢。",
    unknown_answer="我在这里没有与此对应的回答，未作任何更改。",
    retrying="我会多花些时间，再试一次。",
    already_retried="这个问题我已经重答过一次，不能再重答了。",
    only_asker="只有提问者可以要求重答。",
    question_erased="我已不再保存这个问题，请重新提问。",
    answer_unfinished="这个回答还没有写完。",
    retry_disabled="这里没有开启重答。",
    escalating="我正在请人来帮忙。",
    escalation="{author} 需要各位的帮助。",
    nobody_configured="这里没有可以联系的人。",
    private_chat="这个聊天里没有其他人，请到群里提问。",
    already_escalated="已经为这个问题请过人了。",
    escalation_cooldown="刚刚已在这里请过人，请稍等几分钟。",
    question_unclear="我不清楚你指的是哪个问题。请回复那条消息，或把问题写在命令后面。",
    answer_submitted="谢谢。这是第 {number} 条待审核的回答。",
    answer_known="这个回答我已经有了。",
    not_trusted="只有受信任的成员可以教我。",
    learn_usage="请用 `/learn` 回复那条回答，或在命令后附上它的链接；如果它没有回复任何问题，请再写上问题。",
    buttons={"wrong": "有误", "outdated": "已过时", "other": "答非所问", "unclear": "不清楚", RETRY: "🔁 再试一次"},
    complaints={
        "": "这个回答没有帮到我。",
        "wrong": "这个回答有误。",
        "outdated": "这个回答已经过时。",
        "other": "我问的不是这个。",
        "unclear": "这个回答我看不明白。",
    },
)


def messages_for(language: str) -> Messages:
    """Return the sentences in a language (a code of `language_of`), or in English where there are none."""
    return CHINESE if language == "zh" else ENGLISH
