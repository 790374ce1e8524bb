"""Inline Markdown without the markup that a chat would not render; links to pages, bold and code stay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from html import unescape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from core.language.tokens import HAN, KANA
from core.markup.document import to_plain
from core.markup.generators import CROSS_KINDS, GENERATOR, PANDOC
from core.markup.named_links import CODE as _CODE, write_named_links, write_notes

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Brackets that nothing closes are looked for again and again: a longer text is left as it stands.
MAX_INLINE_CHARS = 20_000
# What is longer holds what a page on the web makes of it, such as the code of an example, and is as long as a passage.
MAX_ADDRESS_CHARS = 250
# Only these begin markup that is changed: most paragraphs have none of them.
_CHANGED_MARKUP = re.compile(
    r"[\[<\\&{$\u00a0]|``|`(?:#!|:::)|@[a-z]{2,3}-|\^\S|\w[\^~][\dn]|---|==|\+\+|[ ]{2}\n|:[a-z0-9_+-]{1,80}:"
)
_ONE_LINK = r"\[[^\[\]\n]{1,300}\]\([^()\s]{0,500}\)"
# A link, or the way to a page: links with signs between them, and its own name at the end.
ONLY_LINK = re.compile(
    rf"[\s*_]*{_ONE_LINK}(?:[\s*_]*[/|>»›·•][\s*_]*{_ONE_LINK})*"
    r"(?:[\s*_]*[/|>»›·•][\s*_]*[^\s\[\]]{1,60}(?:[ ][^\s\[\]]{1,60}){0,2})?[\s*_.,;]*"
)
# What stands before a text that was only a link to another page.
WAY = "→ "
_LOCAL_ADDRESS = re.compile(r"\]\((?!https?://)")
# An address that is neither that of another page here nor of one on the web.
_OTHER_ADDRESS = re.compile(r"\]\((?!https?://)[^)]*[^)\w./#?=%-]")
# What is in code, which a dot before its name says to look for everywhere.
_OBJECT_ROLES = re.compile(r"func|class|meth|mod|attr|exc|data|obj|const|function|method|attribute|module|exception")
_CODE_ROLES = re.compile(
    rf"{_OBJECT_ROLES.pattern}|any|option|envvar|file|command|setting|signal|reqmeta|program|code|samp|kbd|guilabel"
)
# What Sphinx shows with brackets.
CALLABLE_ROLES = ("func", "meth")
# Of which only the last part is shown; others begin the path of a file.
SHORT_NAME = re.compile(r"~[\w@.]")
# Right behind a name they are a call.
_EMPTY_BRACKETS = re.compile(r"(?:[ ]|(?<![A-Za-z0-9_]))\([ ]?\)")
# Those of icons; in what they hold is no text.
ICON_ROLES = re.compile(r"octicon|fa|fa[bsr]|fa-\w+|material-\w+|bi|iconify")
WEB = ("http://", "https://")
# What Sphinx, and sphinx-issues, set before a number.
NUMBER_ROLES = {"pep": "PEP ", "rfc": "RFC ", "issue": "#", "pr": "#"}
_NUMBER_FIELD = re.compile(r"[ ]?(?:%s|\{number\})")
_REFERENCE_ROLES = ("ref", "numref", "doc")
# Text that a plug-in of MDX shows in its own way: `:tooltip[text]`.
_TEXT_DIRECTIVE = re.compile(
    rf"({_CODE})" r"|(?<![\w:]):[a-z][a-z-]{0,40}\[([^\[\]\n]{1,300})\](?!\()(?:\{[^{}\n]{0,200}\})?"
)
# Links and pictures of a wiki, marked text, keys, and what Python-Markdown sets above the line, or underlines.
_WIKI = re.compile(
    rf"(?P<code>{_CODE})"
    r"|!\[\[[^\[\]\n]{1,200}\]\]|\[\[(?=\S)(?:[^\[\]|\n]{1,200}\|)?(?P<page>[^\[\]|\n]{1,200})\]\]"
    r"|(?<![\w=])\{?==(?=[^\s=])(?P<mark>[^=\n]{1,300})(?<=\S)==\}?(?![\w=])"
    r"|\{\+\+(?P<new>[^{}\n]{1,300})\+\+\}|(?<![\w+])\+\+(?P<keys>[a-z0-9]{1,20}(?:[+-][a-z0-9]{1,20}){0,4})\+\+(?![\w+])"
    r"|(?<![^\s(*_])\^(?=\^?[^\W_])(?:\^(?P<inserted>[^^\n]{1,300})\^|(?P<raised>[^\s^\[\]]{1,30}))\^(?![\w^])"
)
# A formula, and what only one has.
_FORMULA = re.compile(
    rf"({_CODE})"
    r"|(?<!\\)\\\((?P<bracketed>(?:[^\\]|\\(?![()])){1,300})\\\)"
    r"|(?<![\\$])\$\$(?P<display>[^$`]{1,300})\$\$(?!\$)"
    r"|(?<![\\$\w])\$(?![\s$])(?P<formula>[^$`]{1,300})(?<![\s\\])\$(?![$\w({])"
)
# An index or a power is one of a letter, of what is in brackets, or in braces: others are names of variables.
_FORMULA_SIGN = re.compile(r"\\[A-Za-z]|(?:\b[^\W_]|[})|])[\^_](?=[^\s_])|\w\^(?=\S)|(?<!\\)[\^_]\{|^\s*[A-Za-z]\s*$")
# Or it has nothing but letters that stand alone, numbers and signs, among them one of a relation.
_SHORT_FORMULA = re.compile(
    r"(?=[^=<>]*[=<>])(?=[^A-Za-z]*[A-Za-z])(?:(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[\d\s=<>+*/()|.,':-])+"
)
# What stands for a blank in a name; between numbers it is a sign of a range, or of a date.
_NAME_BLANK = re.compile(r"(?<!\d)[-_]|[-_](?!\d)")
# Where a role leads to, behind what it shows.
_TARGET = re.compile(r"(?<=\S)[ ]?<[^<>]{1,300}>$")
# What begins an address of MyST: of the project, or of the inventory of another one.
_MYST = re.compile(r"(?:project|inv):")
_PROJECT = re.compile(r"^[\w.-]{1,60}:(?=[^\s:])")
_CROSS_REFERENCE = re.compile(rf"({_CODE})" r"|\[?(?<![\w@/.\\])-?@((fig|tbl|lst|eq|sec)-([\w-]{0,99}\w))\]?")
# A role of MyST, which the first mark ends; what stands between two parts in code is none.
_ROLE = re.compile(r"(?<![`\\])\{([\w:+-]{1,60})\}`([^`]{1,300})`|" + _CODE)
# Between two marks, one is a part of what it shows.
_LONG_ROLE = re.compile(r"(?<![`\\])\{([\w:+-]{1,60})\}``((?:[^`]|(?<!`)`(?!`)){1,300})``(?!`)")
# An emoji, or an icon of MkDocs, by its name.
_SHORT_CODE = re.compile(
    rf"(?P<code>{_CODE})"
    r"|(?<![\w:/\\]):(?:(?P<icon>(?:material|fontawesome|octicons|simple)-[a-z0-9-]{1,80})"
    r"|(?P<emoji>[a-z0-9_+-]{1,60})):(?![\w:])(?:\{[^{}\n]{0,200}\})?(?(icon)[ ]?)"
)
# The mark of a footnote; titles show none, and the note itself begins with one.
_NOTE_MARK = re.compile(r"^[ \t>]*+(?:#[^\n]*|\[\^[^\]\s]{1,100}\]:)|(\[\^[^\]\s]{1,100}\])")
_ANY_MARK = re.compile(r"\[\^[^\]\s]{1,100}\]")
_NOTE = "footnote_reference"
_SHORT_NOTE = [f"{_NOTE}_open", "paragraph_open", "inline", "paragraph_close", f"{_NOTE}_close"]
MAX_NOTE_CHARS = 300
MAX_NOTE_MARKS = 5
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:\s[^<>]*+)?/?>")
_TAG_START = re.compile(rf"({_CODE})|<(?=[A-Za-z/!])")
_TAG_NAME = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_HREF = re.compile(r"\shref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
# A browser shows none of their text: in some it is for one that is too old.
HIDDEN_TAGS = frozenset(
    ("script", "style", "svg", "iframe", "object", "template", "textarea", "head", "video", "audio", "select")
)
HTML_TAGS = frozenset(
    """
    a abbr acronym address applet area article aside audio b base bdi bdo big blockquote body br button canvas caption
    center cite code col colgroup data datalist dd del details dfn dialog div dl dt em embed fieldset figcaption figure
    font footer form frame frameset h1 h2 h3 h4 h5 h6 header hr html i img input ins kbd label legend li link main map
    mark math menu meta meter nav noscript ol optgroup option output p param picture pre progress q rp rt ruby s samp
    search section select slot small source span strike strong sub summary sup table tbody td tfoot th thead time title
    tr track tt u ul var video wbr
    """.split()  # noqa: SIM905 (one word a line would hide the code)
)
_CODE_TAGS = frozenset(("code", "kbd", "samp", "tt"))
# What stands before and after them is not on one line.
_BLOCK_TAGS = frozenset(("br", "dd", "div", "dt", "hr", "li", "ol", "p", "table", "tr", "ul"))
# A name that a value takes the place of; code that has such names is left as it is.
_SUBSTITUTION = re.compile(
    rf"({_CODE})" r"|\{\{\{?-?[ ]*[.$\"']?([\w.-]{1,80}?)[\"']?[ ]*(?:\|[^{}\n]{0,200})?-?\}?\}\}"
)
# Attributes of HTML whose value needs no quotes.
_ATTRIBUTE = r"(?:align|class|draggable|height|loading|rel|style|target|width)="
# Attributes behind a heading or a paragraph, among them the name of its link.
_ATTRIBUTES = re.compile(
    rf"(?<![ \t])[ \t]*\{{(?::[ ]?|[ ]?(?:[#.]|data-|[a-z-]{{1,30}}=[\"'])|[ ](?:id=|{_ATTRIBUTE}))"
    r"[^{}\n]{0,200}\}[ \t]*$"
)
# The name of a heading and its marks, as Fumadocs has them; a number is that of an issue.
_HEADING_NAME = re.compile(r"(?:(?<=[^ \t])[ \t]+\[(?:#(?!\d+\])[^\[\]\s]{1,200}|!?toc|step)\]){1,3}[ \t]*$")
_CLOSING_SIGNS = re.compile(r"(?<=[^ \t])[ \t]+#{1,6}$")
# Attributes of a part of a text, which is in brackets where it is nothing else.
_PART_ATTRIBUTES = re.compile(
    rf"({_CODE})"
    r"(?:\{(?:[#.]|[a-z-]{1,20}=[\"'\w])[^{}\n]{0,200}\})?"
    r"|(?<![\w\]\\!])\[([^\[\]\n]{0,300})\]\{(?:[#.]|[a-z-]{1,20}=)[^{}\n]{0,200}\}"
    rf"|(?<=[)\]*_>])\{{(?:[ ]?[#.][a-z]|:[ ]?|[ ]?{_ATTRIBUTE}|[ ]?[a-z-]{{1,20}}=[\"'])[^{{}}\n]{{0,200}}\}}"
    # Of a picture they may say what it shows, in many words and lines.
    r"|(?<=\))\{(?=[.#]|[\w-]{1,20}=[\"'])(?>(?:[^{}\"']|\"[^\"]{0,2000}\"|'[^']{0,2000}')*)\}"
)
# What says to MkDocs, or at the end to rehype-pretty-code, how code in a line is coloured.
_LANGUAGE = re.compile(r"^(?:#!|:::)[\w+#-]{1,30}[ ](?=\S)|(?<=\S)\{:\.?[A-Za-z][\w.+#-]{0,40}\}\Z")
# An escaped sign that would be markup without the escape; a smaller-than sign only before a name.
_ESCAPED = frozenset("*_`[]<\\~&")
_NAME_START = re.compile(r"[A-Za-z/!?]")
# What mdBook, Hugo and Sphinx set as a dash.
_DASH = re.compile(r"(?<!-)---(?!-)")
_WORDS = frozenset(("text", "code_inline", "strong_close", "em_close", "link_close"))
_WORD = re.compile(r"[^\W\d_]+")
_BEFORE_PICTURE = re.compile(r"(?<![\s.:!?,;|])[ \t]*\Z")
_AFTER_PICTURE = re.compile(r"[ \t]*[^\s\[|]")
# A picture with what it is said to show, and the words for such a picture.
_PICTURE = re.compile(
    r"!\[([^\[\]\n]{1,300})\][\[(]|<img\s(?>(?:[^<>a]|a(?!lt=)){0,1000})alt=(?:\"([^\"]{1,300})\"|'([^']{1,300})')"
)
_LOGO = re.compile(r"(?:^|[ ])(?:(?:project |site )?logo|banner|header|icon|image|picture|title)$", re.IGNORECASE)
# How much of a line beside a picture is looked at.
_MAX_MARGIN = 40
_CODE_TEXTS = frozenset(("text", "text_special", "code_inline"))
# A version, or the numbers of several notes.
_NUMBERS = re.compile(r"\d{1,9}(?:[.,][ ]?\d{1,9}){1,9}")
# Of signs that stand above or below the line: of a power, a formula, or a remark.
_MOVED = re.compile(
    rf"({_CODE})|<(sup|sub)(?:[ ][^<>\n]{{0,100}})?>"
    rf"(?:\[([\d+=()n-]{{1,9}})\]\(#[^()\s]{{1,100}}\)|([\d+=()n-]{{1,9}}|{_NUMBERS.pattern}))</\2>"
    r"|(?<=\w)\^([\d+n-]{1,5})\^(?!\^)|(?<![\w/])([A-Za-z]{1,5})~(\d{1,3})~(?!~)"
)
_RAISED = str.maketrans("0123456789+-−=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
_LOWERED = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
_SIGNS = frozenset(("strong_open", "strong_close", "em_open", "em_close", "s_open", "s_close", "footnote_ref"))
_LINE_BREAKS = {"softbreak": " ", "hardbreak": "\n"}
# Lines of Chinese and Japanese are joined without a blank.
_WIDE = rf"[{HAN}{KANA}，。！？；：、（）「」『』《》【】”“]"
_WIDE_LINE_BREAK = re.compile(rf"(?<={_WIDE})[ \t]*\n[ \t]*(?={_WIDE})")


def join_lines(text: str) -> str:
    """Return lines of prose as one line; those of Chinese and Japanese are joined without a blank."""
    return " ".join(_join_wide_lines(text).split())


def _join_wide_lines(text: str) -> str:
    return text if text.isascii() or "\n" not in text else _WIDE_LINE_BREAK.sub("", text)


def move_signs(text: str, tag: str) -> str:
    """Return numbers with the signs of them that stand above the line (of a tag `sup`) or below it (`sub`).

    Words stay as they are, as does what other tags hold; a blank parts a version above the line from the word before.

    >>> f"2{move_signs('63', 'sup')} and H{move_signs('2', 'sub')}O, 4{move_signs('th', 'sup')}"
    '2⁶³ and H₂O, 4th'
    """
    if tag == "sup" and _NUMBERS.fullmatch(text):
        return f" {text}"
    signs = {"sup": _RAISED, "sub": _LOWERED}.get(tag, {})
    return text.translate(signs) if text.isascii() and all(ord(sign) in signs for sign in text) else text


def strip_tags(text: str, replacement: str = "") -> str:
    """Return a text with something else, or nothing, in place of its tags of HTML."""
    return _TAG.sub(replacement, text)


def escape_tags(text: str) -> str:
    """Return a text of which nothing is a tag, as inline Markdown.

    >>> escape_tags("Use <Box />, not `<b>`")
    'Use \\\\<Box />, not `<b>`'
    """
    return _TAG_START.sub(lambda match: match[1] or "\\<", text) if "<" in text else text


def clean_inline(
    parser: MarkdownIt, text: str, environment: MutableMapping[str, Any], *, marks_ways: bool = True
) -> str:
    """Return inline Markdown with only what a chat renders; with `marks_ways`, what only leads elsewhere has an arrow.

    `environment` holds the links that names refer to, and as `labels` the titles of parts of the document, and what
    stands for the marks of footnotes.
    """
    text = text.strip()
    if len(text) > MAX_INLINE_CHARS or not _CHANGED_MARKUP.search(text):
        return join_lines(text)
    source = text
    text = write_short_codes(_join_wide_lines(text))
    labels = environment.get("labels", {})
    if "{" in text:
        text = _PART_ATTRIBUTES.sub(r"\1\2", text)
        text = _ATTRIBUTES.sub("", text)
        text = _LONG_ROLE.sub(lambda match: write_role(match, labels), text)
        text = _ROLE.sub(lambda match: labels.get(f"{match[1]}`{match[2]}`") or write_role(match, labels), text)
        text = _SUBSTITUTION.sub(lambda match: match[1] or labels.get("{{" + match[2]) or match[2], text)
    leads_elsewhere = marks_ways and _LOCAL_ADDRESS.search(text) and not _OTHER_ADDRESS.search(text)
    is_way = leads_elsewhere and ONLY_LINK.fullmatch(text)
    if "[" in text:
        text = write_named_links(write_notes(text), environment.get("references", {}))
    if "\\(" in text or "$" in text:
        text = _FORMULA.sub(_write_formula, text)
    if "<su" in text or "^" in text or "~" in text:
        text = _MOVED.sub(_write_moved, text)
    if ":" in text and "[" in text:
        text = _TEXT_DIRECTIVE.sub(r"\1\2", text)
    text = _write_signs(text, labels)
    tokens: list[Token] = []
    parser.inline.parse(text, parser, environment, tokens)
    for token in tokens if "[^" in text else ():
        if token.type == "footnote_ref" and (note := labels.get(f"[^{token.meta['label']}]")):
            token.markup = f" ({note})"
    written = "\n".join(" ".join(line.split()) for line in _write(tokens, labels).split("\n") if line.strip())
    written = drop_empty_brackets(written, source)
    return WAY + written if is_way and written else written


def _write_cross_reference(match: re.Match[str], labels: Mapping[str, str]) -> str:
    """Return what a reference of Quarto shows; where its number is not known, its own name."""
    if match[1] or not labels.get(GENERATOR, "").startswith(PANDOC):
        return match[0]
    return labels.get(match[2]) or f"{CROSS_KINDS[match[3]]} {name_label(match[4])}"


def _write_signs(text: str, labels: Mapping[str, str]) -> str:
    """Return a text with what the signs of Pandoc and of wikis stand for."""
    if "@" in text:
        text = _CROSS_REFERENCE.sub(lambda match: _write_cross_reference(match, labels), text)
    return _WIKI.sub(_write_wiki, text) if any(sign in text for sign in ("[[", "==", "++", "^")) else text


def drop_empty_brackets(written: str, source: str) -> str:
    """Return a text without brackets that have come to be empty, as those around a picture.

    >>> drop_empty_brackets("The button () runs it.", "The button (<i></i>) runs it.")
    'The button runs it.'
    """
    return written if "()" in source else _EMPTY_BRACKETS.sub("", written)


def clean_title(parser: MarkdownIt, text: str, environment: MutableMapping[str, Any]) -> str:
    """Return a heading as inline Markdown, without the marks of footnotes that stand elsewhere instead."""
    labels = environment.get("labels", {})
    # Between a heading and its attributes, the signs of its level may be again.
    bare = _CLOSING_SIGNS.sub("", _ATTRIBUTES.sub("", _HEADING_NAME.sub("", text)))
    bare = _ANY_MARK.sub(lambda mark: "" if mark[0] in labels else mark[0], bare)
    return strip_permalink(clean_inline(parser, bare, environment, marks_ways=False))


def take_notes(tokens: Sequence[Token], lines: Sequence[str]) -> tuple[Sequence[Token], dict[str, str]]:
    """Return the tokens of lines without their short footnotes that are marked in few places, and these by their marks.

    They can stand where their marks are.
    """
    marks = Counter(mark for line in lines if "[^" in line for mark in _NOTE_MARK.findall(line))
    if not marks:
        return tokens, {}
    others: list[Token] = []
    notes: dict[str, str] = {}
    for number, token in enumerate(tokens):
        others.append(token)
        types = [each.type for each in tokens[max(0, number - 4) : number + 1]]
        if types == _SHORT_NOTE and len(tokens[number - 2].content) <= MAX_NOTE_CHARS:
            mark = f"[^{tokens[number - 4].meta['label']}]"
            if 0 < marks[mark] <= MAX_NOTE_MARKS:
                notes[mark] = tokens[number - 2].content
                del others[-len(types) :]
    return others, notes


def write_short_codes(text: str) -> str:
    """Return a text with the emoji that are named in it; icons are left out, and what is no name of one stays.

    >>> write_short_codes(":warning: It runs :material-run: at 10:30:45")
    '⚠️ It runs at 10:30:45'
    """
    return _SHORT_CODE.sub(_write_short_code, text) if text.count(":") > 1 else text


def _write_short_code(match: re.Match[str]) -> str:
    from emoji import emojize  # most documents name none

    if match["code"] or match["icon"]:
        return match["code"] or ""
    name = f":{match['emoji']}:"
    sign = emojize(name, language="alias")
    return sign if sign != name else match[0]


def is_formula(text: str) -> bool:
    """Return whether what stands between the marks of a formula is one."""
    return _FORMULA_SIGN.search(text) is not None or _SHORT_FORMULA.fullmatch(text.strip()) is not None


def _write_formula(match: re.Match[str]) -> str:
    formula = next(filter(None, match.group("bracketed", "display", "formula")), "")
    return write_code(" ".join(formula.split())) if is_formula(formula) else match[0]


def _write_moved(match: re.Match[str]) -> str:
    number = match[3] or match[4]
    above = match[5] or (number if match[2] == "sup" else "")
    return match[1] or (match[6] or "") + move_signs(above or number or match[7], "sup" if above else "sub")


def _write_wiki(match: re.Match[str]) -> str:
    keys = match["keys"]
    names = ("code", "page", "mark", "new", "inserted", "raised")
    return f"`{keys}`" if keys else next(filter(None, match.group(*names)), "")


def _write(tokens: Sequence[Token], labels: Mapping[str, str]) -> str:
    pieces: list[str] = []
    # Where each link that is open begins, and where it leads.
    links: list[tuple[int, str]] = []
    tags = [_TAG_NAME.match(token.content) if token.type == "html_inline" else None for token in tokens]
    last_closing = {tag[2].lower(): number for number, tag in enumerate(tags) if tag and tag[1]}
    hidden_tag = ""
    # Where code in tags begins, and how many of its tags are open.
    code_start = open_code_tags = 0
    for number, (token, tag) in enumerate(zip(tokens, tags, strict=True)):
        name = tag[2].lower() if tag else ""
        is_closed = last_closing.get(name, -1) > number
        if hidden_tag:
            hidden_tag = "" if tag and tag[1] and name == hidden_tag else hidden_tag
        elif tag and not tag[1] and is_closed and name in HIDDEN_TAGS:
            hidden_tag = name
        elif tag and not is_closed and _is_placeholder(token.content, name):
            pieces.append(f"\\{token.content}")
        elif token.type == "image":
            pieces.append(_write_picture(tokens, number))
        elif token.type == "link_open" or (name == "a" and tag and not tag[1] and is_closed):
            links.append((len(pieces), _read_address(token)))
        elif links and (token.type == "link_close" or (name == "a" and tag and tag[1])):
            start, address = links.pop()
            # The sign of an address of MyST stands for the title that it leads to.
            is_named = (len(pieces) > start and not (token.info == "auto" and _MYST.match(address))) or bool(name)
            text = "".join(pieces[start:]) if is_named else _name_target(address, labels)
            pieces[start:] = [text if open_code_tags else write_link(text, address)]
        elif tag and name in _CODE_TAGS:
            code_start = code_start if open_code_tags else len(pieces)
            open_code_tags = max(0, open_code_tags + (-1 if tag[1] else is_closed))
            if tag[1] and not open_code_tags:
                code = "".join(pieces[code_start:])
                pieces[code_start:] = [write_code(code, "".join(pieces[:code_start][-1:]))] if code.strip() else []
        else:
            before = tokens[number - 1].markup if number else ""
            after = tokens[number + 1].content if number + 1 < len(tokens) else ""
            pieces.append(_write_in_code(token) if open_code_tags else _write_token(token, before, after))
    return "".join(pieces)


def _read_address(token: Token) -> str:
    """Return where a link leads, also one that is written as a tag."""
    href = _HREF.search(token.content) if token.type == "html_inline" else None
    return unescape(next(filter(None, href.groups()), "")) if href else str(token.attrGet("href") or "")


def _write_picture(tokens: Sequence[Token], number: int) -> str:
    first, last = number - 1, number + 1
    is_link = first > 0 and last < len(tokens) - 1 and tokens[first].type == "link_open"
    if is_link and tokens[last].type == "link_close" and tokens[first - 1].content.strip():
        # It is all that is to be clicked.
        first, last = first - 1, last + 1
    if first < 0 or last == len(tokens) or tokens[first].type not in _WORDS:
        return ""
    return name_picture(to_plain(tokens[number].content), tokens[first].content, tokens[last].content)


def name_picture(text: str, before: str, after: str) -> str:
    """Return what a picture is said to show, where it stands between words as one of them; others are no text.

    Words beside it may say the same already. `before` and `after` are what stands on its line.

    >>> name_picture("gear", "Click ", " to go on."), name_picture("Gear icon", "Click the icon ", " to go on.")
    ('gear', '')
    """
    before = before[-_MAX_MARGIN:]
    after = after[:_MAX_MARGIN]
    if not (_BEFORE_PICTURE.search(before) and _AFTER_PICTURE.match(after)):
        return ""
    beside = {word.lower() for word in (*_WORD.findall(before)[-2:], *_WORD.findall(after)[:2])}
    return "" if beside.intersection(map(str.lower, _WORD.findall(text))) else text


def name_logo(text: str) -> str:
    """Return the name of what has a logo, from what a picture is said to show; nothing where that names nothing.

    >>> name_logo("Helix logo"), name_logo("banner")
    ('Helix', '')
    """
    return _LOGO.sub("", " ".join(text.split()))


def find_picture(text: str) -> str:
    """Return what the first picture in a text is said to show, in Markdown or HTML."""
    match = _PICTURE.search(text)
    return unescape(next(filter(None, match.groups()), "")) if match else ""


def _is_placeholder(tag: str, name: str) -> bool:
    """Return whether what looks like a tag is text: `<name>`, or the type of a value."""
    return name not in HTML_TAGS and not tag.startswith("</") and not tag.endswith("/>") and "=" not in tag


def _write_in_code(token: Token) -> str:
    """Return what a token shows in code of HTML: what is bold there, and single marks as they stand."""
    if token.type in ("strong_open", "strong_close"):
        return ""
    return token.content if token.type in _CODE_TEXTS else _write_token(token)


def _write_token(token: Token, before: str = "", after: str = "") -> str:
    """Return a token as Markdown; pictures, and marks of notes that stay apart, are no text.

    `before` is the mark before it, `after` the text behind it.
    """
    if before == "\\-" and token.content.startswith("--"):
        # Dashes below each other's escape are a line of AsciiDoc, and no long one.
        return token.content
    if token.type == "code_inline":
        return write_code(_LANGUAGE.sub("", token.content))
    if token.type == "html_inline":
        return _write_tag(token.content)
    if token.type in ("text", "text_special"):
        # Of the names of characters, only this one would begin markup.
        signs = _ESCAPED if token.info == "escape" else "<"
        is_mark = token.content in signs and (token.content != "<" or _NAME_START.match(after))
        is_escaped = token.type == "text_special" and is_mark
        return f"\\{token.content}" if is_escaped else _DASH.sub("—", token.content.replace("\u00a0", " "))
    if token.type in _SIGNS:
        return token.markup
    return _LINE_BREAKS.get(token.type, "")


def strip_permalink(heading: str) -> str:
    """Return a heading without the sign at its end that links to it."""
    return heading.removesuffix("¶").rstrip()


def write_code(code: str, before: str = "") -> str:
    """Return code as inline Markdown, whatever ticks it holds, and apart from code that ends the text `before` it.

    >>> write_code("Ctrl"), write_code("X", "`Ctrl`")
    ('`Ctrl`', ' `X`')
    """
    longest_run = max(map(len, re.findall("`+", code)), default=0)
    ticks = "`" * (longest_run + 1)
    space = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{' ' * before.endswith('`')}{ticks}{space}{code}{space}{ticks}"


def _write_tag(tag: str) -> str:
    match = _TAG_NAME.match(tag)
    name = match[2].lower() if match else ""
    return "\n" if name in _BLOCK_TAGS else ""


def to_title(text: str) -> str:
    """Return a heading of MyST as the plain title that references show.

    >>> to_title("Speed up {func}`~a.solve` and `x`")
    'Speed up solve() and x'
    """
    return to_plain(_ROLE.sub(write_role, _ATTRIBUTES.sub("", _HEADING_NAME.sub("", text))))


def name_label(label: str) -> str:
    """Return what can be read of the name of a page, or of a part of another one.

    >>> name_label("/guide/getting-started"), name_label("The guide"), name_label("other:The guide")
    ('getting started', 'The guide', 'The guide')
    """
    # Another project may be named before it.
    label = _PROJECT.sub("", label)
    is_code = "." in label and all(map(str.isidentifier, label.split(".")))
    return label if " " in label or is_code else _NAME_BLANK.sub(" ", label.rpartition("/")[2])


def normalize_label(label: str) -> str:
    """Return a label as it is compared: without regard to case and blanks."""
    return " ".join(label.lower().split())


def _name_target(address: str, labels: Mapping[str, str]) -> str:
    """Return the text of a link that has none, for which MyST shows the title of a page or of a part of it."""
    if address.startswith(WEB):
        return ""
    address = _MYST.sub("", address)
    page, _, part = address.partition("#")
    return labels.get(address) or labels.get(part) or name_label(part or page.removesuffix(".md"))


def write_link(text: str, address: str) -> str:
    """Return a link to the web; what else leads somewhere, or to data in its address, is its text alone."""
    name = text.strip()
    if not address.startswith(WEB) or not name or len(address) > MAX_ADDRESS_CHARS or address.split() != [address]:
        return text
    return address if name == address else f"[{name}]({address})"


def write_role(match: re.Match[str], labels: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what a role shows, whose name and content are the groups of a match; `labels` are titles by names.

    A match without a name stays.
    """
    if not match[1]:
        return match[0]
    role = match[1].rpartition(":")[2]
    content = " ".join(match[2].split())
    name = _TARGET.sub("", content)
    if ICON_ROLES.fullmatch(role):
        return ""
    is_title = name != content
    if role in _REFERENCE_ROLES or (role == "any" and name in labels):
        # The number is not known.
        title = _NUMBER_FIELD.sub("", name)
        return title if is_title else labels.get(name) or name_label(title)
    if _OBJECT_ROLES.fullmatch(role) and not is_title:
        name = name.removeprefix(".")
    if role == "math" and is_formula(name):
        return write_code(name)
    if role in CALLABLE_ROLES and not is_title and not name.endswith(")"):
        name += "()"
    if _CODE_ROLES.fullmatch(role):
        return f"`{name[1:].rpartition('.')[2] if SHORT_NAME.match(name) else name.lstrip('!')}`"
    name = move_signs(name, role)
    return NUMBER_ROLES.get(role, "") + name if name[:1].isdecimal() else name.strip("~!")
