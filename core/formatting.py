"""Formats numbers, times and quotations for people."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from core.catalogue import ENGLISH, Messages
from core.language.tokens import CJK_CHARACTERS

MAX_CODE_CHARS = 200
# Control characters steer terminals; overrides of the direction make a text read differently from what it says. Tabs
# and line breaks stay, and so do the marks that languages written from right to left need.
_DECEPTIVE_CHARACTERS = dict.fromkeys(
    {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {ord("\t"), ord("\n")}
)

# What belongs to a word: neither white space nor text that is written without spaces.
_IN_WORD = rf"[^\s{CJK_CHARACTERS}，。、！？；：（）「」『』《》“”…]"
MAX_WORD_CHARS = 80
_LAST_WORD = re.compile(rf"(?<!{_IN_WORD}){_IN_WORD}{{1,{MAX_WORD_CHARS}}}\Z")
_WORD_END = re.compile(rf"(?!{_IN_WORD}{_IN_WORD})(?s:..)")

_WORD_JOINER = "\u2060"
_MARKUP = re.compile(r"([\\`*_\[\]<~|]|&(?=#?[A-Za-z0-9]+;))")

# In running text a number in brackets is a citation, and what follows an @ may be somebody.
_CITATION_OR_MENTION = re.compile(r"\[(?=\d)|@(?=\S)")
_UNSAFE_URL_CHARS = re.compile(r"[\x00-\x20\x7f<>\\`]")
DESCRIPTION_HEADER = "What is attached says:"
INDEFINITELY = "until /resume"

# The value of a limit that a command switched off.
NO_LIMIT = "none"


def strip_control_characters(text: str) -> str:
    """Return a text without control characters and overrides of the writing direction, for people and terminals.

    >>> strip_control_characters("invoice\u202efdp.exe")
    'invoicefdp.exe'
    """
    return text.translate(_DECEPTIVE_CHARACTERS)


def replace_lone_surrogates(text: str) -> str:
    """Return a text in which halves of a surrogate pair, which JSON may hold and no file can, are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def strip_source_prefix(source: str, reason: str) -> str:
    """Return why a source failed, without the source's name in front: for who has named it already.

    >>> strip_source_prefix("docs", "source docs: nothing is there")
    'nothing is there'
    """
    return reason.removeprefix(f"source {source}: ")


def shorten(text: str, max_chars: int) -> str:
    """Return the beginning of a text, at most `max_chars` characters, and an ellipsis where something is missing.

    It ends with a whole word, or where it would end in Chinese, which has no spaces. But a word of which more than
    `MAX_WORD_CHARS` characters fit is cut, as a long address is, and so is the first word.

    >>> shorten("Install it with pip", 14), shorten("用 pip 安装之后重启服务", 10)
    ('Install it …', '用 pip 安装之后 …')
    """
    if len(text) <= max_chars:
        return text
    start = text[:max_chars]
    if _WORD_END.search(text[max_chars - 1 : max_chars + 1]) is None:
        start = _LAST_WORD.sub("", start) or start
    return f"{start.rstrip()} …"


def format_code(text: str, max_chars: int = MAX_CODE_CHARS, texts: Messages = ENGLISH) -> str:
    """Return a text as inline code on one line, cut to a length: it can contain no markup and no mention.

    >>> format_code("a `tick` in it")
    "`a 'tick' in it`"
    """
    line = " ".join(text.replace("`", "'").split())
    return f"`{line[:max_chars]}{' …' if len(line) > max_chars else ''}`" if line else texts.no_text


def format_link(title: str, url: str) -> str:
    r"""Return Markdown with a link, or with the title alone where there is no address.

    The title is shown as plain text on one line: no markup, no mention, no citation.

    >>> format_link("[1] *Setup*", "https://example.org/a b")
    '[\\[\u20601\\] \\*Setup\\*](<https://example.org/a%20b>)'
    >>> format_link("Search & replace &amp;", "")
    'Search & replace \\&amp;'
    """
    line = _CITATION_OR_MENTION.sub(lambda match: match[0] + _WORD_JOINER, " ".join(title.split()))
    text = _MARKUP.sub(r"\\\1", line)
    # An ampersand would begin an entity.
    link = _UNSAFE_URL_CHARS.sub(lambda match: f"%{ord(match[0]):02X}", url).replace("&", "\\&")
    return f"[{text}](<{link}>)" if link else text


def format_age(moment: datetime, texts: Messages = ENGLISH) -> str:
    """Return the time since a moment: "3 h ago". A time without a zone is UTC; one of a clock that was ahead is now."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = (datetime.now(UTC) - zoned).total_seconds()
    return texts.ago.format(duration=format_duration(seconds, texts)) if seconds >= 1 else texts.just_now


def format_wait(moment: datetime, texts: Messages = ENGLISH) -> str:
    """Return the time until a moment: "in 5 min"."""
    seconds = (moment - datetime.now(UTC)).total_seconds()
    return texts.ahead.format(duration=format_duration(max(0.0, seconds), texts))


def format_duration(seconds: float, texts: Messages = ENGLISH) -> str:
    """Return a duration in its largest fitting unit.

    >>> format_duration(7200)
    '2 h'
    """
    for unit, length in ((texts.days_short, 86400), (texts.hours_short, 3600), (texts.minutes_short, 60)):
        if seconds >= 2 * length or seconds >= length == 60:
            return unit.format(amount=f"{seconds / length:.0f}")
    return texts.seconds_short.format(amount=f"{seconds:.0f}")


def format_until(until: str, texts: Messages = ENGLISH) -> str:
    """Return the end of a pause (ISO time or `INDEFINITELY`) as text."""
    if until == INDEFINITELY:
        return texts.until_resumed
    return texts.until.format(moment=f"{datetime.fromisoformat(until):%Y-%m-%d %H:%M}")


def format_cost(amount: float, texts: Messages = ENGLISH) -> str:
    """Return a cost in the currency of the configured prices."""
    return f"{amount:,.4f}" if amount else texts.no_cost


def today() -> date:
    """Return the local date, by which quotas and usage are counted."""
    return datetime.now().astimezone().date()


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, singular or plural: "1 passage", "2,000 passages".

    >>> pluralize(1, "passage"), pluralize(2, "passage")
    ('1 passage', '2 passages')
    """
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"


def with_description(text: str, description: str) -> str:
    """Return a message's text with what its attachments say, quoted line by line."""
    if not description:
        return text
    quoted_lines = "\n".join(f"> {line}" for line in description.splitlines())
    return f"{text.strip()}\n\n{DESCRIPTION_HEADER}\n{quoted_lines}".strip()
