"""The marks inside a text of AsciiDoc as those of Markdown. All patterns are linear: what they span is bounded."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping

from core.markup.inline import drop_empty_brackets, move_signs, name_label, name_picture, strip_tags
from knowledge.formats.inline import escape, make_code, make_link

# What an attribute may hold: those that name each other would double it with every line.
MAX_VALUE_CHARS = 1000
_MAX_DEPTH = 4
# How much of a line beside a picture is looked at.
_MAX_MARGIN = 40
# What stands for a plus that is text until the marks are read; no text has it.
_PLUS = "\ue000"
_WITHIN_PLUSES = re.compile(r"\A(\+{1,2})([^+](?:.*[^+])?)\1\Z|\A\+\+([^+\n]{1,300})\+\+(?=[^\w+])", re.DOTALL)
_PLUSES = re.compile(r"(?<=\w)\+\+(?!\w)")
_NEXT_NAME = re.compile(r"[ \t]++[\w-]++=")
_REFERENCE = re.compile(r"(?<!\\)\{([\w-]{1,100})\}")
_ESCAPED_END = re.compile(r"\\?(\{[\w-]{1,100})\\\}")
_COUNTER = re.compile(r"(?<!\\)\{(?P<kind>counter2?|set):[ ]?(?P<name>[\w-]{1,100})(?::(?P<value>[^{}\n]{0,100}))?\}")
_MAX_DIGITS = 9
_CHARACTERS = {
    "amp": "&", "apos": "'", "asterisk": "&#42;", "backslash": "\\", "backtick": "&#96;", "blank": "", "brvbar": "¦",
    "caret": "^", "cpp": f"C{_PLUS}{_PLUS}", "deg": "°", "empty": "",
    "endsb": "]", "gt": ">", "ldquo": "“", "lsquo": "‘",
    "lt": "<", "nbsp": " ", "plus": _PLUS, "pp": _PLUS * 2, "quot": '"', "rdquo": "”", "rsquo": "’", "sp": " ",
    "startsb": "[", "tilde": "~", "two-colons": "::", "two-semicolons": ";;", "vbar": "|", "wj": "", "zwsp": "",
}  # fmt: skip
_MARKS = re.compile(
    r"""
      \\(?P<escaped>\*\*|__|[*_`\#+^~{<\[]|(?:https?|[a-z]+):|&\#?\w{2,8};|[\w.%+-]{1,60}@(?=\w))
    | `(?P<pluses>\+{1,2})(?P<literal>(?!\s)[^\n]{1,300}?)(?P=pluses)`
    | "`(?P<quotation>(?:[^`\n]|`(?!")){1,500})`" | '`(?P<single>(?:[^`\n]|`(?!')){1,300})`'
    | `(?:link|xref|https?):[^\s\[\]`]{1,300}\[`?(?P<code_title>[^\]\n`]{1,300})`?\]`
    | (?:link|xref|https?):[^\s\[\]`]{1,300}\[`(?P<split_title>[^\]\n`]{1,300})\]`(?![\w`])
    | (?<![\w`])`(?P<tick>`{1,2})`(?![\w`]) | ``(?P<code>[^\n]{1,300}?)`` | (?<![\w`])`(?P<constrained_code>(?!\s)
        (?:[^`]|(?<=\s)`(?=[\s,;.)])|(?<=\w)`(?=`(?![\w`]))|(?<=\w)`(?=\w)|(?<=\\)`(?=`)){1,1000}?(?<!\s))`(?![\w`])
    | \[x-\]\+(?P<old_code>[^+\n]{1,300})\+
    | \$\$(?P<dollars>[^\n]{1,300}?)\$\$ | \+\+\+(?P<raw>[^\n]{0,300}?)\+\+\+ | \+\+(?P<plain>[^\n]{1,300}?)\+\+
    | (?<![\w+])\+(?P<constrained_plain>(?!\s)(?:[^+\n]|\+(?=\w)|(?<=\s)\+(?=\s)){1,300}(?<!\s))\+(?![\w+])
    | <<(?P<page>[^<>,\n]{1,200})(?:,(?P<page_title>(?:[^<>]|<(?!<)|>(?!>)){0,300}))?>>
    | (?:link:(?P<link>[^\s\[\]]{1,500})|(?P<address>(?:https?|mailto):[^\s\[\]<>]{1,500}))
      \[(?P<link_title>(?:\\\]|[^\[\]]|\[[^\[\]]{0,100}\]){0,300})\]
    | (?P<bare_address>https?://[^\s\[\]<>]{1,500})
    | \{[\w-]{1,100}\}[^\s\[\]]{0,300}\[(?P<unknown_title>[^\]\n]{1,300})\]
    | (?<!\w)menu:(?P<menu>[^\s\[\]:][^\[\]\n]{0,200})\[(?P<menu_items>[^\[\]\n]{0,300})\]
    | (?P<macro>(?<!\w)[a-z][a-z0-9_-]{1,30}(?<!\wfootnote)|footnote):
      (?:(?<=xref:):)?(?P<target>(?![\s:])[^\s\[\]]{0,300})
      \[(?P<attributes>(?:\\\]|[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]{0,100}\]){0,200}\]){0,1000})\]
    | \(\(\((?P<hidden>(?:[^()\n]|\([^()\n]{0,100}\)){1,300})\)\)\) | \(\((?P<term>[^()\n]{1,200})\)\)
    | (?<=\#\#)\[(?P<apart>\.[\w.-]{1,60})\](?=\#\#)
    | \[\[[^\[\]\n]{1,100}\]\] | \[\#[\w-]{1,100}\] | (?<!\w)\[[.\w%=" -]{1,60}\](?=[#*_`])
    | \*\*(?!\*)(?P<bold>(?:[^*]|\*(?!\*)){1,300})\*\*
    | (?<![\w*])\*(?P<constrained_bold>(?!\s)(?:[^*]|(?<=\w)\*(?=\w)){1,300}(?<!\s))\*(?![\w*])
    | __(?P<italic>(?:[^_]|_(?!_)){1,300})__
    | (?<![\w_])_(?P<constrained_italic>(?!\s)(?:[^_]|(?<=\w)_(?=\w)){1,300}(?<!\s))_(?![\w_])
    | \#\#(?P<marked>[^#\n]{1,300})\#\# | (?<![\w&#])\#(?P<constrained_marked>(?!\s)[^#\n]{1,300}(?<!\s))\#(?![\w#])
    | \^(?P<upper>[^\s^]{1,60})\^ | (?<!~)~(?P<lower>[^\s~]{1,60})~(?!~)
    """,
    re.VERBOSE,
)
# Those of the first AsciiDoc: code whose text is shown as it stands, or with the marks in it read.
_OLD_MARKS = re.compile(
    r"(?<![\w`])(?:``(?P<double>[^`'\n]{1,300})''|`(?P<single>(?!\s)[^`'\n]{1,300})'(?![\w'])"
    r"|`(?P<literal>[^`\n]{1,300})`)"
    r"|(?<![\w+])\+(?P<code>(?!\s)[^+\n]{1,300}(?<!\s))\+(?![\w+])"
    r"|\[[\w.# -]{1,60}\](?P<empty>'')|(?<![\w;:}'])'(?P<italic>(?![\s'])(?:[^'\n]|'(?=\w)){1,300}(?<!\s))'(?![\w'])"
)
_SYMBOLS = {
    "`'": "’", "(C)": "©", "(R)": "®", "(TM)": "™", "...": "…", "->": "→", "=>": "⇒", "<-": "←", "<=": "⇐",
}  # fmt: skip
_SYMBOL = re.compile(
    r"(?<=\w)`'|(?<=\w)\\'(?=[a-zA-Z])|\\?(?:\((?:C|R|TM)\)|(?<!\.)\.\.\.(?!\.)|(?<![-=<])(?:[-=]>|<[-=])(?![-=>]))"
)
_ALT = re.compile(r"(?:^|,)[ ]{0,5}alt=\"?([^\",]{1,200})")
# What a macro of an extension shows, by the name of an attribute.
_SHOWN = re.compile(r"(?:^|,)[ ]{0,5}(?:alt|caption|display|label|text|title)=\"?([^\",]{1,200})")
_DASHES = re.compile(r"(?<=\w)--(?=\w)|(?<!\S)--(?!\S)")
# What is left of a picture.
_HOLE = re.compile(r"(?<=\S)[ ]{2,}(?=\S)")
_CLOSING_SIGNS = tuple(".,;:!?)")
_NAMED = re.compile(r",\s*[\w-]{1,30}=[^\[\]]{0,300}$")
# The name of a value that is set elsewhere, for which its name stands; within an address, it is a part of that.
_UNKNOWN_VALUE = re.compile(r"(?<![\w/=.:{$-])\{([a-z]+(?:-[a-z]+){0,9})\}(?![\w/={-])")
_ESCAPED_REFERENCE = re.compile(r"\\(?=\{[\w-]{1,100}\})")
_QUOTES = re.compile(r"(\\{0,2})(?:__(?=\S)((?:[^_\n]|_(?!_)){1,200})__|\*\*(?=\S)([^*\n]{1,200})\*\*)")
_CODE_QUOTES = re.compile(
    r"(?<![\w;:}])(\\{0,2})(?:\[\.[\w.-]{1,40}\])?([_*]|(?<=\])\#)(?=[\w<{:-])((?:[^_*#\n]|[_*](?=[\w_*])){1,200})(?<=\S)\2(?!\w)"
)
_COMMENT = re.compile(r"<!--(?:[^-]|-(?!->)){0,500}-->")
_PASSED = re.compile(
    r"(?:pass:([a-z,]{0,50})|(?<![\w\\])(?:xref|link):[^\s\[\]]{1,300}(?=\[[^\]]))\[([^\[\]]{0,300})\]"
)
_ESCAPED_SIGN = re.compile(r"\\(?=[^\w\s])")
# Of what is passed on, the marks are read nevertheless.
_READ_ON = re.compile(r"\b(?:[mnq]|macros|normal|quotes)\b")
_READ_ON_IN_CODE = re.compile(r"\b(?:[nq]|normal|quotes)\b")
_ESCAPING = re.compile(r"\b(?:[cn]|specialchar(?:acter)?s|normal)\b")
_ESCAPED_IN_CODE = re.compile(
    r"\\(?=\{|<<|https?:|[\w.%+-]{1,60}@\w|[a-z]{1,30}::?[^\s\[\]]{0,300}\[|\(\([^\n]{1,300}?\)\)"
    r"|[-=]>|<[-=]|\.\.\.|\((?:C|R|TM)\))"
)
# Marks that would begin in code and end behind it.
_ESCAPED_PAIR = re.compile(
    r"\\(?:\*(?=\S)[^*\n]{1,300}(?<=\S)\*(?!\w)|__[^_\n]{1,300}__|_(?=[^\s_])[^_\n]{1,300}(?<=\S)_(?!\w))"
)
_MOVED = re.compile(r"(?<=\w)([~^])(\w{1,10})\1")
_CHARACTER = re.compile(r"\\?&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[a-zA-Z]{2,10});")
_SIGN_OF_CODE = re.compile(r"[^a-zA-Z0-9-]")
_ELEMENT = re.compile(r"<([a-z]{1,20})(?:\s[^<>]*)?>.*</\1>", re.DOTALL)
_CODE = ("literal", "code", "code_title", "constrained_code", "old_code", "split_title", "tick")
_BOLD = ("bold", "constrained_bold")
_ITALIC = ("italic", "constrained_italic")
_HIDDEN_MACROS = frozenset(("anchor", "indexterm", "toc"))


def resolve_attributes(text: str, attributes: Mapping[str, str]) -> str:
    """Return a text with the values of the attributes that it names; what is not known stays."""
    return _REFERENCE.sub(lambda match: _get_value(match, attributes), text)


def _get_value(reference: re.Match[str], attributes: Mapping[str, str]) -> str:
    name = reference[1].lower()
    value = attributes.get(name, _CHARACTERS.get(name, reference[0]))
    if _ELEMENT.fullmatch(value):
        # A picture, for one; what else is between brackets may be a placeholder.
        value = strip_tags(value)
    # Behind a name, as that of a language, they are no marks.
    return _PLUSES.sub(_PLUS * 2, value)


def resolve_counters(text: str, attributes: dict[str, str]) -> str:
    """Return a text with the next number or letter of each counter that it names, and set what it sets."""
    return _COUNTER.sub(lambda match: _count(match, attributes), text) if "{" in text else text


def _count(match: re.Match[str], attributes: dict[str, str]) -> str:
    name = match["name"].lower()
    value = attributes.get(name)
    if match["kind"] == "set":
        attributes[name] = match["value"] or ""
        return ""
    if value is None:
        value = match["value"] or "1"
    elif value.isdecimal() and len(value) <= _MAX_DIGITS:
        value = str(int(value) + 1)
    elif len(value) == 1:
        value = chr(ord(value) + 1)
    attributes[name] = value
    return value if match["kind"] == "counter" else ""


def resolve_code(text: str, attributes: Mapping[str, str]) -> str:
    """Return code with the values of the attributes that it names, in which signs have names as in HTML."""
    resolved = _REFERENCE.sub(lambda match: html.unescape(_get_value(match, attributes)), text)
    return _ESCAPED_REFERENCE.sub("", resolved).replace(_PLUS, "+")


def resolve_macros(code: str) -> str:
    """Return code with what macros pass on, or the texts of links, in place of them."""
    return _PASSED.sub(_write_passed_code, code)


def _write_passed_code(match: re.Match[str]) -> str:
    text = _NAMED.sub("", match[2])
    return resolve_quotes(text) if _READ_ON_IN_CODE.search(match[1] or "") else text


def resolve_quotes(code: str) -> str:
    """Return code without the marks around what is set in bold or italics."""
    return _CODE_QUOTES.sub(_drop_quotes, _QUOTES.sub(_drop_quotes, code))


def _drop_quotes(match: re.Match[str]) -> str:
    """Return what is between marks; those behind a backslash are text."""
    return match[0].lstrip("\\") if match[1] else resolve_quotes(match[match.lastindex or 0])


def split_attributes(text: str) -> list[str]:
    """Divide at the commas that are not in quotes, and where a name follows a value in quotes."""
    parts = [""]
    quote = ""
    for number, character in enumerate(text):
        if not quote and (character == "," or (parts[-1].endswith(("'", '"')) and _NEXT_NAME.match(text, number))):
            parts.append("")
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and (not parts[-1].strip() or parts[-1].endswith("=")):
            quote = character
        parts[-1] += character
    return parts


def renew_marks(text: str) -> str:
    """Return a text of the compatible mode, whose quotes and code have marks of their own, with those of today."""
    return _OLD_MARKS.sub(_renew_mark, text)


def _renew_mark(match: re.Match[str]) -> str:
    if match["double"]:
        return f"“{match['double']}”"
    if match["single"]:
        return f"‘{match['single']}’"
    if match["italic"] or match["empty"]:
        return f"_{match['italic']}_" if match["italic"] else ""
    literal = match["literal"] or (match["code"].replace("\\`", "`") if "`" in match["code"] else "")
    return f"`+{literal}+`" if literal else f"`{match['code']}`"


def write_inline(text: str, depth: int = 0) -> str:
    """Return a text, whose attributes are resolved, as inline Markdown."""
    pieces = list[str]()
    end = 0
    for match in _MARKS.finditer(text):
        before = _write_plain(text[end : match.start()])
        mark = _write_mark(match, depth)
        end = match.end()
        # What is left out leaves no space before the end of a sentence.
        pieces += [before if mark or text[end : end + 1] not in _CLOSING_SIGNS else before.rstrip(), mark]
    written = "".join([*pieces, _write_plain(text[end:])]).replace(_PLUS, "+")
    return written if depth else drop_empty_brackets(_HOLE.sub(" ", written), text)


def _write_plain(text: str) -> str:
    text = _COMMENT.sub("", text) if "<!--" in text else text
    text = _SYMBOL.sub(lambda match: _SYMBOLS.get(match[0], match[0][1:]), text)
    text = _UNKNOWN_VALUE.sub(r"\1", text)
    return escape(_DASHES.sub("—", _CHARACTER.sub(_write_character, text)))


def _write_character(match: re.Match[str]) -> str:
    """Return the character that a name or number stands for; one behind a backslash stays."""
    return match[0][1:] if match[0].startswith("\\") else html.unescape(match[0])


def _write_mark(match: re.Match[str], depth: int) -> str:
    name = match.lastgroup or ""
    content = match[name] if name else ""
    if name in _CODE:
        if name in ("code", "constrained_code"):
            content = _ESCAPED_END.sub(r"\1}", _drop_escapes(match, name))
            content = resolve_quotes(resolve_macros(_ESCAPED_IN_CODE.sub("", content)))
            content = _MOVED.sub(lambda moved: move_signs(moved[2], "sup" if moved[1] == "^" else "sub"), content)
            content = _WITHIN_PLUSES.sub(r"\2\3", content)
        return make_code(_CHARACTER.sub(_write_character, content))
    if name in ("attributes", "link_title", "page", "page_title", "bare_address", "unknown_title", "menu_items"):
        return _write_link(match, depth)
    if name in ("escaped", "dollars", "plain", "constrained_plain"):
        return f"\\{content}" if name == "escaped" and content in "*_`" else escape(content)
    if name in ("raw", "hidden", "apart", ""):
        # What has a style of its own is a box of its own.
        return _write_html(content) if name == "raw" else " " if name == "apart" else ""
    if name in ("upper", "lower"):
        content = move_signs(content, "sup" if name == "upper" else "sub")
    inner = write_inline(content, depth + 1) if depth < _MAX_DEPTH else escape(content)
    if quotes := {"quotation": "“”", "single": "‘’"}.get(name):
        return f"{quotes[0]}{inner}{quotes[1]}"
    return _emphasize(inner, "**" if name in _BOLD else "*" if name in _ITALIC else "")


def _drop_escapes(match: re.Match[str], name: str) -> str:
    """Return code without the backslashes that keep it from beginning what ends behind it."""
    start = match.start(name)

    def drop(backslash: re.Match[str]) -> str:
        pair = _ESCAPED_PAIR.match(match.string, start + backslash.start())
        return "" if pair and pair.end() > match.end(name) else "\\"

    return re.sub(r"\\(?=[*_])", drop, match[name])


def _emphasize(text: str, mark: str) -> str:
    """Return a text between marks of emphasis, which have no blanks inside; signs alone would be mixed up with them."""
    core = text.strip()
    if not any(map(str.isalnum, core)):
        return text
    start, _, end = text.partition(core)
    return f"{start}{mark}{core}{mark}{end}"


def _write_link(match: re.Match[str], depth: int) -> str:
    if match["bare_address"]:
        return match["bare_address"]
    if match["unknown_title"]:
        return _write_title(match["unknown_title"], depth)
    if match["page"]:
        return _write_title(match["page_title"] or _name_page(match["page"]), depth)
    if match["menu"]:
        items = html.unescape(match["menu_items"]).split(">")
        return escape(" → ".join(filter(None, [html.unescape(match["menu"]), *map(str.strip, items)])))
    if match["macro"]:
        return (
            _write_picture(match)
            if match["macro"] in ("icon", "image")
            else _write_macro(match["macro"], match["target"], match["attributes"], depth)
        )
    address = (match["link"] or match["address"]).replace("++", "")
    title = _write_title(match["link_title"], depth) or _write_title(address.removeprefix("mailto:"), depth)
    # One that holds an attribute which is set elsewhere leads nowhere.
    return title if _REFERENCE.search(address) else make_link(title, address)


def _write_title(title: str, depth: int) -> str:
    """Return the text of a link, without what says how it opens."""
    text = title.strip()
    if text.startswith('"') and (end := text.find('"', 1)) > 0:
        text = text[1:end]
    text = _NAMED.sub("", text)
    # One that closes nothing opens another window.
    text = (text.removesuffix("^") if text.count("^") % 2 else text).replace("\\]", "]")
    return write_inline(text, depth + 1) if depth < _MAX_DEPTH else escape(text)


def _name_page(target: str) -> str:
    """Return what can be read of the name of a page or of a part of it."""
    page, _, part = target.partition("#")
    # The first page of a folder, a module or a component has the name of that.
    name = (part or page.removesuffix("index.adoc").rstrip("/:") or page).rpartition("/")[2].rpartition(":")[2]
    return name_label(name.removesuffix(".adoc").lstrip("_"))


def _write_html(text: str) -> str:
    return escape(html.unescape(strip_tags(_COMMENT.sub("", text))))


def _write_passed(substitutions: str, text: str, depth: int) -> str:
    """Return what the pass macro hands on: as HTML, unless its signs are to be escaped; in it, marks may be read."""
    text = text.replace("\\]", "]")
    if not _READ_ON.search(substitutions):
        return _write_html(text)
    return _write_title(text if _ESCAPING.search(substitutions) else strip_tags(text), depth)


def _write_picture(match: re.Match[str]) -> str:
    """Return what a picture is said to show, where it stands between words as one of them.

    An icon shows what its name says, also where it is all that there is, as in a cell.
    """
    before = match.string[max(0, match.start() - _MAX_MARGIN) : match.start()].rpartition("\n")[2]
    after = match.string[match.end() : match.end() + _MAX_MARGIN].partition("\n")[0]
    named = _ALT.search(match["attributes"])
    first = split_attributes(match["attributes"])[0].strip().strip('"')
    is_icon = match["macro"] == "icon"
    text = named[1] if named else name_label(match["target"]) if is_icon else first if "=" not in first else ""
    is_shown = is_icon and (named or match[0] == match.string.strip())
    return escape(text if is_shown else name_picture(text, before, after) if before else "")


def _write_macro(name: str, target: str, attributes: str, depth: int) -> str:
    writers: dict[str, Callable[[], str]] = {
        "xref": lambda: _write_title(attributes or _name_page(target), depth),
        "kbd": lambda: make_code(_ESCAPED_SIGN.sub("", attributes)),
        "btn": lambda: f"**{escape(_ESCAPED_SIGN.sub('', attributes))}**",
        "pass": lambda: _write_passed(target, attributes, depth),
        "footnote": lambda: f" ({_write_title(attributes, depth)})" if attributes else "",
        "indexterm2": lambda: escape(attributes),
        "stem": lambda: make_code(attributes),
        "latexmath": lambda: make_code(attributes),
        "asciimath": lambda: make_code(attributes),
    }
    if name in _HIDDEN_MACROS:
        return ""
    if name in writers:
        return writers[name]()
    # One of an extension, as for the documentation of a class: its text, or what it names, before what else it says.
    named = target.partition(",")[0]
    shown = _SHOWN.search(attributes)
    text = shown[1] if shown else attributes.strip() or ("" if _SIGN_OF_CODE.search(named) else named)
    return _write_title(text, depth) if text else make_code(named)
