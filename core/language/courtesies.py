"""Recognizes messages that are only polite, or ask only about the bot itself. English and Chinese."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from core.language.tokens import simplify

Courtesy = Literal["help", "identity", "thanks", "greeting", "farewell"]

MAX_CHARS = 80
_GREETING = (
    r"hi+|hello+|hey+|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|how are you(?: doing)?"
    r"|how'?s it going|is this (?:thing )?on|(?:is )?(?:anyone|anybody|somebody) (?:there|here)|(?:are )?you there"
    r"|有人[吗么]|(?:你们?|您|大家|各位)好吗?|嗨|哈[喽啰罗]|早|早上好|早安|上午好|中午好|下午好|晚上好|在[吗么]|在不在"
)
_KINDS: dict[Courtesy, str] = {
    "help": r"(?:please |pls )?help(?: me)?(?: out)?|(?:can|could) you help(?: me)?|(?:i )?need (?:some )?help"
    r"|what (?:can|do) you do(?: for (?:me|us))?|what (?:all )?can (?:i|we) ask(?: you)?(?: about)?"
    r"|how (?:can|do) you help(?: me| us)?|how (?:can|do|should) (?:i|we) use you|how do you work"
    r"|what do you know(?: about)?|what are your (?:sources|capabilities|features|skills)"
    r"|(?:你|您)(?:能|会|可以)(?:做|干|帮我做|帮我干)?(?:些)?(?:什么|啥)吗?|(?:你|您)(?:都)?(?:会|能做)(?:些)?什么吗?"
    r"|(?:你|您)有(?:什么|哪些)(?:功能|能力|本领)吗?|(?:怎么|如何)(?:使)?用(?:你|您)"
    r"|(?:我|我们)(?:能|可以)问(?:你|您)?(?:些)?什么吗?|(?:你|您)(?:都)?知道(?:些)?什么吗?|(?:你|您)?(?:能|可以)?帮(?:帮|我|一下)+(?:忙)?吗?|帮助|求助|使用说明",
    "identity": r"(?:who|what)(?: exactly)? (?:are|r) (?:you|u)|(?:what'?s|what is) your name"
    r"|(?:are|r) (?:you|u) (?:a |an )?(?:ro)?(?:bot|human|person|ai|machine)|(?:please )?introduce yourself"
    r"|tell (?:me|us) about yourself"
    r"|who (?:made|built|created|wrote|developed|programmed|trained|runs?) (?:you|u)"
    r"|(?:你|您)是谁(?:开发|做|创造|写|训练|制作)的|是?谁(?:开发|做|创造|写|训练|制作)了?(?:的)?(?:你|您)(?:的)?"
    r"|(?:你|您)(?:到底)?(?:是谁|是什么(?:东西)?|叫什么(?:名字)?|是(?:机器人|真人|人|AI)吗?)"
    r"|(?:请)?(?:自我介绍|介绍)(?:一下)?(?:你|您)?(?:自己)?",
    "thanks": r"(?:many |ok |okay )?(?:thanks?|thank (?:you|u)|thx|tysm|ty|cheers)|much appreciated|appreciate it"
    r"|(?:that|it) (?:helped|works?|worked)"
    r"|(?:l+o+l+|(?:ha){2,}h?|(?:he){2,}|lmao|rofl)(?: ok(?:ay)?)?|哈{2,}|呵{2,}|嘿{2,}|嗯+"
    r"|ok(?:ay)?|great|cool|nice|perfect|awesome|got it|makes sense"
    r"|(?:非常|十分|太|万分)?(?:谢谢|多谢|感谢)+|谢啦|谢了|辛苦了?|好[的滴嘞哒]*|(?:我)?(?:明白|懂|了解)了?|知道了|收到|太好了"
    r"|(?:太|真)?(?:牛|厉害|棒|赞|给力)|6{2,}|(?:问题)?(?:解决|搞定)了|可以了|帮大忙了",
    "greeting": _GREETING,
    "farewell": r"(?:good)?bye(?: bye)?|see (?:you|ya)(?: later)?|good night|再见|拜拜|晚安|回头[见聊]|回见|回聊"
    r"|(?:有空|下次|改天)再?[聊见]",
}
# 吗 makes a question of what stands before it: 解决了 is thanks, 解决了吗 asks.
_FILLER = (
    r"(?: (?:there|all|everyone|everybody|folks|guys|team|bot|you|so much|very much|a lot|again|today|please|man|mate"
    r"|now|for (?:the|your|all the) (?:help|answer|reply)|for that|for helping)"
    r"|你们?|您|了|啦|呀|啊|呢|哦|哈|嘛|的|帮助|大家|各位|大佬|大神|老师|机器人)*"
)
# Signs alone that thank or agree, with the modifiers of emoji.
_APPLAUSE = re.compile("[\\s\\u200d\\ufe0f\U0001f3fb-\U0001f3ff👍🙏👌👏❤💯🎉🫡]+")
_PATTERNS = {
    kind: re.compile(rf"(?:(?:{_GREETING}){_FILLER} ?)?(?:{pattern}){_FILLER}", re.IGNORECASE)
    for kind, pattern in _KINDS.items()
}


def find_courtesy(text: str) -> Courtesy | None:
    """Return what a message is that only asks about the bot or is polite; None as soon as it says anything else.

    >>> find_courtesy("Hi there, what can you do?"), find_courtesy("谢谢！"), find_courtesy("Hi, how do I install it?")
    ('help', 'thanks', None)
    """
    if len(text) > MAX_CHARS:
        return None
    if _APPLAUSE.fullmatch(text.strip()):
        return "thanks"
    plain_text = simplify(unicodedata.normalize("NFKC", text)).replace("’", "'")
    clauses = [" ".join(clause.split()) for clause in re.split(r"[^\w\s']+", plain_text)]
    kinds = [_classify(clause) for clause in clauses if clause]
    # The clause that asks for most decides: "Hi! Thanks. Who are you?"
    return None if None in kinds else next((kind for kind in _KINDS if kind in kinds), None)


def _classify(clause: str) -> Courtesy | None:
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.fullmatch(clause)), None)
