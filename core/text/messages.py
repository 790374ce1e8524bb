"""What the bot says by itself, without a model: in English, and in Chinese to who asks in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Messages:
    """The sentences by their occasion.

    `no_evidence` has a place for the names of the sources. `used_up` and `underway` have one for whose limit it is
    (`everybody`, `this_chat` or `you`) and for the `allowed` amount, `used_up` also for the time until it is lifted.
    """

    extractive: str
    fallback: str
    answer_interrupted: str
    search_timed_out: str
    no_evidence: str
    no_sources: str
    llm_failed: str
    answer_failed: str
    service_unavailable: str
    internal_error: str
    images_unsupported: str
    image_failed_text_only: str
    image_failed: str
    attachment_unsupported: str
    picture: str
    voice: str
    video: str
    file: str
    other: str
    quota_exceeded: str
    quota_reserved: str
    everybody: str
    this_chat: str
    you: str
    tokens: str
    hours: str
    minutes: str


ENGLISH = Messages(
    extractive="*Quoted from the sources; no language model is configured.*",
    fallback="*The language model could not answer. This is quoted from the sources.*",
    answer_interrupted="*The answer was cut short: the language model stopped.*",
    search_timed_out="The sources did not answer in time. Please ask again in a moment.",
    no_evidence="I found nothing about this in the sources I know ({sources}).",
    no_sources="none are configured",
    llm_failed="The language model could not answer. Please try again in a moment.",
    answer_failed="Sorry, I could not answer this. {reason}",
    service_unavailable="Something that I depend on is not available right now; please ask again in a few minutes.",
    internal_error="Something went wrong on my side; whoever runs me finds it in the log.",
    images_unsupported="*I cannot see pictures: this answers your words alone.*",
    image_failed_text_only="*I could not look at the picture: this answers your words alone.*",
    image_failed="I could not look at the picture. Please write what it shows, or try again in a moment.",
    attachment_unsupported="*I cannot read what is attached: this answers your words alone.*",
    picture="I cannot see pictures. Please write what it shows, for example the text of the error.",
    voice="I cannot listen to voice messages. Please write your question.",
    video="I cannot watch videos. Please write your question.",
    file="I cannot read attached files. Please write your question, with the lines that matter.",
    other="I can only read text. Please write your question.",
    quota_exceeded=(
        "Today's limit{whose} is used up ({allowed}). Please ask again after midnight ({midnight}), in {wait}."
    ),
    quota_reserved="What is left of today's limit{whose} ({allowed}) is taken by answers in the making. "
    "Please ask again in a moment.",
    everybody="",
    this_chat=" for this chat",
    you=" for you",
    tokens="{amount} tokens",
    hours="{hours} h {minutes} min",
    minutes="{minutes} min",
)
CHINESE = Messages(
    extractive="*以上内容摘自资料原文；当前没有配置语言模型。*",
    fallback="*语言模型暂时无法回答，以上内容摘自资料原文。*",
    answer_interrupted="*回答未能完整：语言模型中途停止了。*",
    search_timed_out="资料检索超时，请稍后再问一次。",
    no_evidence="在我所知的资料（{sources}）中没有找到相关内容。",
    no_sources="尚未配置",
    llm_failed="语言模型暂时无法回答，请稍后再试。",
    answer_failed="抱歉，这个问题我没能回答。{reason}",
    service_unavailable="我依赖的某项服务暂时不可用，请过几分钟再问。",
    internal_error="我这边出了问题，详情已记录在运行者的日志中。",
    images_unsupported="*我看不到图片，以上仅根据您的文字回答。*",
    image_failed_text_only="*图片没能看成，以上仅根据您的文字回答。*",
    image_failed="图片没能看成。请把图中的内容写出来，或稍后再试。",
    attachment_unsupported="*我读不了附件，以上仅根据您的文字回答。*",
    picture="我看不到图片。请把图中的内容写出来，例如报错信息的文字。",
    voice="我听不了语音消息。请把问题写成文字。",
    video="我看不了视频。请把问题写成文字。",
    file="我读不了附件。请把问题写成文字，并贴上相关的几行内容。",
    other="我只能读文字。请把问题写出来。",
    quota_exceeded="今天{whose}的用量已达上限（{allowed}）。请在午夜（{midnight}）之后再问，还有 {wait}。",
    quota_reserved="今天{whose}剩余的用量（上限 {allowed}）已被正在生成的回答占用，请稍后再问。",
    everybody="",
    this_chat="本聊天",
    you="您",
    tokens="{amount} 个 token",
    hours="{hours} 小时 {minutes} 分钟",
    minutes="{minutes} 分钟",
)
MESSAGES_BY_LANGUAGE = {"zh": CHINESE}


def messages_for(language: str) -> Messages:
    """Return the sentences in a language (a code of `language_of`), or in English where there are none."""
    return MESSAGES_BY_LANGUAGE.get(language, ENGLISH)
