"""Tells an answer that says that nothing was found from one that answers."""

from __future__ import annotations

import re

from core.language.prose import SENTENCE_END, first_sentence
from core.language.tokens import simplify

# Sentences that may follow: an offer, a hint where to look.
MAX_CHARS = 400
_SOURCES = r"(?:documentation|docs|documents?|sources?|passages?|evidence|information|materials?|knowledge)"
_VERBS = r"(?:contain|mention|cover|say|describe|include|answer|address|provide|specify|state|explain)"
# What a program lacks is no source: 文档服务器, 资料目录, 错误信息, 字段的内容.
_CHINESE_SOURCES = (
    "(?:(?:这份|官方|现有)文件|文档(?!服务|目录|对象|节点|类型|数据库|站|树|名|编号|路径|地址)|资料(?!目录|夹|库)|材料|段落"
    "|来源|知识库|上下文|检索结果"
    "|(?:提供|现有|已有|目前|当前|给定|检索到|以上|上述|这些|参考)的?(?:可用的?|参考|背景)?(?:信息|内容))"
)
# What is looked for in a source. A program looks for files, commands and modules.
_CHINESE_OBJECT = (
    "(?:信息|内容|资料|说明|文档|介绍|答案|描述|记载|依据|章节|段落|线索|文章|规定|细节"
    "|(?:的|相关|具体)(?:方法|办法|步骤|做法|配置项))"
)
_CHINESE_ADVICE = (
    "(?:请(?!求)|会(?!话|议|员)|可|将|应|需|要|无法|不|返回|填|设|按|取|走|改|使用|用|抛|报|显示|自动|默认|建议|先|必须|就(?!绪)|才|从|去"
    "|重新|跳过|忽略|失败|继续|创建|下载|访问|执行|运行|查)"
)
# No part of 运行时, 实时, 临时, 超时, 同时, 定时; but of 无法确定时.
_CHINESE_WHEN = "(?<!运行)(?<![实临超同])(?<!(?<!确)定)时"
# The clause is about what is missing somewhere, and what to do then: 没有找到该包时会自动下载, 没有找到的类型.
_CHINESE_CASE = (
    rf"(?:[^。，,\n]{{0,20}}?(?:(?:{_CHINESE_WHEN}|[则就再便才]){_CHINESE_ADVICE}|会(?!话|议|员|计)|是因为|是由于|通常|往往"
    r"|(?:说明|表示|意味着)(?=[^。，,\n])))"
)
_CHINESE_SEQUEL = (
    rf"[^。，,\n]{{0,20}}[，,](?:则|便|那么|[就会]{_CHINESE_ADVICE}|再(?:从|去|使用|用|下载|访问|执行|请求|查))"
)
# It ends in what was looked for: 没有找到启动时会加载哪些插件, 没有找到该包何时会下载的说明.
_CHINESE_ENDING = rf"[^。，,\n]{{0,40}}?(?:哪|什么|如何|怎|是否|多少|{_CHINESE_OBJECT}(?:[，,]|$))"
_IN_GENERAL = rf"(?!的(?!{_CHINESE_OBJECT}))(?!{_CHINESE_SEQUEL})(?:(?={_CHINESE_ENDING})|(?!{_CHINESE_CASE}))"
_CHINESE_FIND = "(?:找|查|检索|搜索?|查询)到"
_CHINESE_TELL = "(?:直接|准确|确切|完整){0,2}(?:回答|解答|确定|判断|得知|确认|给出)"
_CHINESE_FAIL = r"(?:没有?|没能|未能?|无法|不能)(?:[在从][^。，\n]{1,20}[中里内])?"
_CHINESE_APOLOGY = "^(?:很?抱歉|对不起|不好意思|很?遗憾)"
# What was found or said; an error that says so is quoted or reported: 提示未找到文件.
_CHINESE_NOTHING_FOUND = (
    rf"(?:{_CHINESE_SOURCES}[^。\n]{{0,20}}(?:(?:没有?|未(?![来必知])|暂无|缺[少乏])[^。，,\n]{{0,12}}?"
    r"(?:提[到及过]|说|写(?!权|入|锁)|讲|查(?!询)|找|涉及|涵盖|覆盖|收录|回答|解释|指出|列出|给出|提供|包[含括]|检索到"
    rf"|关于|任何|这[个一些种项条方]|(?:明确|相关|有关|足够|具体|详细|对应)的?|{_CHINESE_OBJECT})|不包[含括]|不涉及|不足以)"
    rf"|{_CHINESE_SOURCES}[^。\n]{{0,20}}(?<!时)(?:无法|不能|没法){_CHINESE_TELL}"
    rf"|(?:^|[，,]|结果[：:])(?:也|均|都|尚|暂|仍|确实)?{_CHINESE_FAIL}{_CHINESE_FIND}(?={_CHINESE_ENDING}|[，,]|$)"
    rf"|(?:^|{_CHINESE_APOLOGY}[，,]){_CHINESE_FAIL}{_CHINESE_FIND}(?=[^。，,\n]*$)"
    rf"|(?:我|并|暂时|目前){_CHINESE_FAIL}{_CHINESE_FIND}"
    rf"|(?:(?:找|查|搜|检索)不到|没有发现)[^。，,\n]{{0,20}}?{_CHINESE_OBJECT}"
    rf"|{_CHINESE_SOURCES}[^。，,\n]{{0,20}}没有[^。，,\n]{{1,40}}?的{_CHINESE_OBJECT}"
    rf"|(?:没有|暂无|缺[少乏])(?:(?:相关|足够|这方面)的?|关于[^。，,\n]{{1,20}}的|与[^。，,\n]{{1,20}}相关的){_CHINESE_OBJECT}"
    rf"|(?:^我|{_CHINESE_APOLOGY}[^。\n]{{0,20}})(?<!时)(?:不知道|不清楚|(?:无法|不能|没法){_CHINESE_TELL})"
    rf"|无法(?:根据|从|基于|通过)[^。，,\n]{{0,12}}{_CHINESE_SOURCES}[^。，,\n]{{0,10}}(?:{_CHINESE_TELL}|{_CHINESE_FIND})"
    rf"|(?:超出了?|不在)[^。，,\n]{{0,12}}{_CHINESE_SOURCES}的?(?:覆盖)?(?:范围|内容)|^暂未收录){_IN_GENERAL}"
)
# The sentence is about a case (如果资料目录没有写权限), or tells after all what to do (但可以用 `x`).
_CHINESE_CONDITION = re.compile(r"^(?:如果|若|假如|一旦|当(?!前))|(?:时候?|的话)[，,]|(?:但是?|不过)[^。\n]{0,80}`")
_NOTHING_FOUND = re.compile(
    rf"\b{_SOURCES}\b[^.\n]{{0,60}}?(?: do| does| did)?(?: not|n['’]t) (?:\w+ )?{_VERBS}"
    rf"|\b{_SOURCES} (?:\w+ ){{0,3}}?(?:contains?|has|have|says?|mentions?) (?:nothing|no )"
    rf"|\bI (?:found nothing|(?:could not|couldn['’]t|did not|didn['’]t|cannot|can['’]t) find)\b"
    rf"|\b(?:there is|found) (?:nothing|no (?:\w+ ){{0,2}}?{_SOURCES})\b"
    rf"|{_CHINESE_NOTHING_FOUND}",
    re.IGNORECASE,
)


def says_nothing_was_found(text: str) -> bool:
    """Return whether a short text says of the whole question that the sources do not answer it.

    A longer text that says so of a part is an answer.

    >>> says_nothing_was_found("The documentation does not mention it."), says_nothing_was_found("文档中没有提到它。")
    (True, True)
    """
    if len(text) > MAX_CHARS:
        return False
    sentence = simplify(first_sentence(text))
    return bool(_NOTHING_FOUND.search(sentence)) and not _CHINESE_CONDITION.search(sentence)


def may_say_nothing_was_found(beginning: str) -> bool:
    """Return whether a text may still become one that says that nothing was found, when only its beginning is known.

    >>> may_say_nothing_was_found("The documentation"), may_say_nothing_was_found("Run `pip install`. Then")
    (True, False)
    """
    has_sentence = bool(SENTENCE_END.search(beginning.strip()))
    return len(beginning) <= MAX_CHARS and (not has_sentence or says_nothing_was_found(beginning))
