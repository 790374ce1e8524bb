"""What templates leave in Markdown, which are filled in before it is read: values, and marks that keep others out."""

from __future__ import annotations

import re
from collections.abc import Mapping

from core.markup.front_matter import read_front_matter, read_scalars
from core.markup.generators import LIQUID, NUNJUCKS, ZOLA

# A value that is set before markup is read, and what Jekyll does not look for one in. Hugo and Quarto name a place.
_VALUE = re.compile(
    r"\{%-?[ \t]*raw[ \t]*-?%\}(?>(?:[^{]|\{(?!%-?[ \t]*endraw\b))*)|\{\{-?[ ]*(?P<name>[\w.-]{1,80}?)[ ]*-?\}\}"
    # Code that Quarto leaves as it is.
    r"|^(?P<fence>[ \t]*`{3,10})[^`\n]*\bshortcodes=[^\n]*\n(?>(?:(?!(?P=fence))[^\n]*\n)*)"
    r"|(?<!\{)\{\{[<%]-?[ ]*(?P<place>(?:param|meta|var)[ ])[ ]*[\"']?(?P<key>[\w.-]{1,80})[\"']?[ ]*-?[>%]\}\}",
    re.MULTILINE,
)
_PLACE = re.compile(r"\{\{[<%]-?[ ]*(?:param|meta)[ ]")
# What is escaped in code: a tag of Hugo or Quarto, one of a preprocessor of mdBook, and a cell of Quarto in other code.
_ESCAPED = re.compile(
    r"(\{\{[<%])/\*|\*/([>%]\}\})|\\(\{\{#(?:include|rustdoc_include|playground|playpen|title|template)\b)"
    r"|(?<!\{)\{(\{\{<[^{}\n]{1,300}>\}\})\}|(?<=\n)([ \t>]*(?:`{3,}|~{3,}))\{(\{[^{}\n]{1,200}\})\}"
)
_RAW = re.compile(r"\{%-?[ \t]*(?:end)?raw[ \t]*-?%\}")
_AS_IT_IS = re.compile(r"[ \t>]*`{3,}[^`\n]*\bshortcodes=")
_ESCAPED_BY = {
    LIQUID: _RAW,
    NUNJUCKS: _RAW,
    ZOLA: re.compile(r"(\{[{%])/\*|\*/([}%]\})"),
}


def show_escaped(code: str, generator: str) -> str:
    """Return code, with what is around it, as its site shows it: of what is escaped, the escape is gone.

    >>> show_escaped("`{{</* ref a */>}}`", ""), show_escaped("`{% raw %}{{ a }}{% endraw %}`", LIQUID)
    ('`{{< ref a >}}`', '`{{ a }}`')
    """
    if "{" not in code or _AS_IT_IS.match(code):
        return code
    code = _ESCAPED.sub(_join_groups, code)
    # Hexo takes code of several lines out before it looks for tags.
    is_kept = generator not in _ESCAPED_BY or (generator == NUNJUCKS and "\n" in code)
    return code if is_kept else _ESCAPED_BY[generator].sub(_join_groups, code)


def _join_groups(match: re.Match[str]) -> str:
    return "".join(filter(None, match.groups()))


def fill_values(text: str, names: Mapping[str, str]) -> str:
    """Return a document with the values that are set before its markup is read, also in code; what is raw has none.

    The names of such values end with their braces, as those of a site of Jekyll do. Hugo and Quarto also take those
    that the front matter of the page has.

    >>> fill_values("`{{ a }}` {{b}} {{c}}d", {"{{a}}": "1", "{{b": "2", "{{c}}": "c"})
    '`1` {{b}} {{c}}d'
    >>> fill_values("---\\na: 2\\n---\\n`{{< param a >}}` {{< param b >}}", {"{{param b}}": "3"}).split("\\n")[-1]
    '`2` 3'
    """
    if _PLACE.search(text):
        lines = text.split("\n")
        own = read_scalars(lines[: read_front_matter(lines)[0] - 1])
        places = {
            f"{{{{{place} {name.removeprefix('params.')}}}}}": value
            for place in ("param", "meta")
            for name, value in own.items()
        }
        names = {**names, **places}
    is_filled = any(name.endswith("}}") for name in names)
    return _VALUE.sub(lambda match: _find_value(match, names), text) if is_filled else text


def _find_value(match: re.Match[str], names: Mapping[str, str]) -> str:
    name = f"{match['place']}{match['key']}" if match["place"] else match["name"] or ""
    value = names.get(f"{{{{{name}}}}}", match[0])
    # Where nobody knows it, its name would be one with a word beside it.
    before, after = match.string[match.start() - 1 : match.start()], match.string[match.end() : match.end() + 1]
    return match[0] if value == name and (before.isalnum() or after.isalnum()) else value
