"""What people read in the Markdown of an issue or a comment, and whether its author means the bot."""

from __future__ import annotations

import re
from functools import lru_cache

from core.types import Attachment
from core.types.messages import MAX_QUESTION_CHARS

# One that is not closed goes on to the end.
_COMMENT = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_SPAN = re.compile(r"`[^`\n]+`")
_PICTURE = re.compile(r"!\[([^\[\]\n]{0,500})\]\([^()\s]{1,2000}\)|<img\s[^<>]{0,2000}>", re.IGNORECASE)
_QUOTE = re.compile(r" {0,3}>[ \t]?")
# Of a long text its beginning, and its end: what a log says last is why it was posted.
MAX_CHARS = MAX_QUESTION_CHARS - 100
END_CHARS = 1000
GAP = "\n\n[…]\n\n"
BLANK = " "


def remove_comments(markdown: str) -> str:
    """Return Markdown without what is hidden in it: what forms for issues say to their authors.

    >>> remove_comments("a<!-- Search first! -->b<!-- and")
    'ab'
    """
    return _COMMENT.sub("", markdown)


def split_quotes(markdown: str) -> tuple[str, str]:
    r"""Return the words of an author, and what they quote.

    >>> split_quotes("> How?\n> And why?\n\nLike this.")
    ('Like this.', 'How?\nAnd why?')
    """
    words, quoted = list[str](), list[str]()
    fence = ""
    for line in markdown.replace("\r\n", "\n").split("\n"):
        fence = _follow_fence(line, fence)
        quote = None if fence else _QUOTE.match(line)
        if quote:
            quoted.append(line[quote.end() :])
        else:
            words.append(line)
    return "\n".join(words).strip(), "\n".join(quoted).strip()


def split_pictures(markdown: str) -> tuple[str, tuple[Attachment, ...]]:
    """Return a text without its pictures, and these.

    >>> split_pictures("Look: ![screen](https://e.org/a.png)")[0]
    'Look:'
    """
    pictures = tuple(Attachment("picture", (match[1] or "")[:200]) for match in _PICTURE.finditer(markdown))
    return _PICTURE.sub("", markdown).strip(), pictures


def mentions(markdown: str, login: str) -> bool:
    """Return whether a text names an account, outside of quotes, code and addresses.

    >>> mentions("and @Bot, how?", "bot"), mentions("@bot-x, me@bot.dev, `@bot`", "bot")
    (True, False)
    """
    return _make_mention(login).search(_remove_code(split_quotes(remove_comments(markdown))[0])) is not None


def remove_mentions(text: str, login: str) -> str:
    """Return a text without the names of an account.

    >>> remove_mentions("@bot, how do I? Thanks, @bot!", "bot")
    'how do I? Thanks!'
    """
    pattern = _make_mention(login)
    leading = re.compile(rf"\A(?:{pattern.pattern}[\s,:;]{{0,9}})+", re.IGNORECASE)
    return re.sub(rf",? ?{pattern.pattern}", "", leading.sub("", text.strip(), count=1), flags=re.IGNORECASE).strip()


def shorten_text(text: str) -> str:
    """Return a text that is no longer than a question may be: the beginning and the end of a longer one."""
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - END_CHARS] + GAP + text[-END_CHARS:]


def _remove_code(markdown: str) -> str:
    lines = list[str]()
    fence = ""
    for line in markdown.split("\n"):
        was_code = bool(fence)
        fence = _follow_fence(line, fence)
        if not (fence or was_code):
            lines.append(_CODE_SPAN.sub(BLANK, line))
    return "\n".join(lines)


def _follow_fence(line: str, fence: str) -> str:
    """Return the fence of the code block that is open behind a line, "" if none is."""
    match = _FENCE.match(line)
    if not match:
        return fence
    if not fence:
        return match[1]
    return "" if match[1].startswith(fence) and not line[match.end() :].strip() else fence


@lru_cache(maxsize=16)
def _make_mention(login: str) -> re.Pattern[str]:
    name = re.escape(login)
    return re.compile(rf"(?<![\w@/.+-])@{name}(?![\w/@-]|\.\w)", re.IGNORECASE)
