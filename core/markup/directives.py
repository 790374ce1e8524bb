"""What is written as a directive of MyST: the names that are known, its options, and the fields that stand alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What is set apart from the text, with the title that a reader sees where it gives none.
ADMONITIONS = {
    name: name.capitalize()
    for name in """
    note warning tip hint important attention caution danger error info success question failure bug example abstract
    summary todo check notice quote
    """.split()  # noqa: SIM905 (one word a line would hide the code)
} | {"seealso": "See also", "admonition": "", "callout": "", "alert": "", "aside": ""}
VERSIONS = {"versionadded": "Added in", "versionchanged": "Changed in", "deprecated": "Deprecated since"}
# Those that are code.
CODES = frozenset(
    """
    click:example click:run code code-block code-cell command-output console doctest ipython ipython3 jupyter-execute
    parsed-literal plot productionlist program-output prompt sourcecode terminal testcode testoutput try_on_pyodide
    """.split()  # noqa: SIM905
)
# The language of code whose directive has no argument for it.
LANGUAGES = {
    "click:example": "python",
    "click:run": "python",
    "command-output": "console",
    "console": "console",
    "doctest": "python",
    "ipython": "python",
    "ipython3": "python",
    "jupyter-execute": "python",
    "parsed-literal": "",
    "plot": "python",
    "productionlist": "",
    "program-output": "console",
    "prompt": "bash",
    "terminal": "console",
    "testcode": "python",
    "testoutput": "",
}
# Code of which the name says the language: the cells of R Markdown and Quarto, and drawings.
CELLS = frozenset(("r", "python", "julia", "bash", "sql", "js", "ojs", "math", "mermaid", "dot"))
# Nothing that a reader of the page sees, or nothing that is text.
SILENT = frozenset(
    """
    acks author bibliography cmake-module codeauthor contents currentmodule default-domain default-role
    footer graphviz digraph graph header highlightlang include index inheritance-diagram jinja literalinclude mermaid
    meta minigallery moduleauthor module nanogallery plantuml program role sectionauthor sectnum
    tabularcolumns target-notes testcleanup testsetup thumbnail-parent-div title toctree todo todolist uml video
    youtube
    """.split()  # noqa: SIM905 (one word a line would hide the code)
)
# So are these in MyST; of what is raw, only HTML is on the page.
EMPTY_DIRECTIVES = (SILENT - CELLS) | {"iframe", "image", "raw-cell"}
# Of these the argument is no text: a layout, a class, where a button leads to.
LAYOUTS = frozenset("button-link button-ref card-carousel class container div grid tab-set".split())  # noqa: SIM905
# What divides a card from its head and its foot.
CARDS = frozenset(("card", "grid-item-card"))
CARD_RULE = re.compile(r"(?:\^{3,}|\+{3,})[ \t]*$")
# What names proofs and exercises; an argument is the title of one.
_PROOFS = frozenset(("prf", "proof"))
SHOWN_OPTION = re.compile(
    r"^[ \t]*:([\w-]+):[ \t]+(?:\"?([^\Wa-z][^\s\"]*[ ][^\n\"]+)|\"([^\n\"]+)\"[ \t]*$)", re.MULTILINE
)
CAPTION_OPTION = re.compile(r"^[ \t]*:caption:[ \t]+(\S.*)$", re.MULTILINE)
# What a tab begins with: in VitePress, and in VuePress, where a name for several may stand behind the label; and what
# a file of a playground does.
_TAB = re.compile(
    r"==[ ](?P<label>.+)|@(?:tab(?::active)?|file)[ ]+(?P<title>\S.*?)(?:(?<!\\)#[\w-]*)?$"
    r"|@(?P<part>settings?|setup|options|import)$"
)
_HIDDEN_INPUT = re.compile(r"\b(?:remove-(?:input|cell)|hide-code)\b")
_SUMMARY_NAME = re.compile(r"[ \t]*~?[A-Za-z_]")
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t]|$)")


def find_language(name: str, argument: str, default: str) -> str:
    """Return the language of code in a directive."""
    word = argument.partition(" ")[0].lower()
    language = LANGUAGES[name] if name in LANGUAGES and not (name == "prompt" and word) else word or default
    return LANGUAGES.get(language, language)


def is_hidden(name: str, argument: str, options: str) -> bool:
    """Return whether the reader of a page sees nothing of a directive."""
    if name in ("raw", "only"):
        return "html" not in argument
    return name in EMPTY_DIRECTIVES or (name in CODES and _HIDDEN_INPUT.search(options) is not None)


def find_tabs(lines: Sequence[str]) -> dict[int, str]:
    """Return the labels of tabs by the numbers of the lines that they begin with.

    >>> find_tabs(["== A", "b", "@tab C#name"])
    {0: 'A', 2: 'C'}
    """
    matches = ((number, _TAB.match(line.rstrip())) for number, line in enumerate(lines))
    return {number: next(filter(None, match.groups())) for number, match in matches if match}


def list_names(lines: Sequence[str]) -> list[str]:
    """Return the names of which Sphinx makes a table as the lines of a list; others are comments."""
    return [f"- `{line.strip().lstrip('~')}`" if _SUMMARY_NAME.match(line) else "" for line in lines]


def name_directive(name: str, argument: str) -> tuple[str, str, str]:
    """Return what a directive is read as, its title, and the beginning of its text."""
    if name in VERSIONS:
        version, _, text = argument.partition(" ")
        return "note", f"{VERSIONS[name]} {version}", text
    if name in LAYOUTS:
        return name, "", ""
    domain, _, kind = name.rpartition(":")
    if domain in _PROOFS:
        return "tab", f"{kind.capitalize()} ({argument})" if argument else kind.capitalize(), ""
    if domain and argument:
        # What a domain describes, such as a function.
        return "card", f"`{write_signature(name, argument.replace('`', ''))}`", ""
    return (name, "", argument) if ADMONITIONS.get(name) else (name, argument, "")


def write_signature(name: str, argument: str) -> str:
    """Return what a directive of a domain describes as Sphinx shows it: of a resource of HTTP with its method.

    >>> write_signature("http:get", "/users"), write_signature("py:function", "run()")
    ('GET /users', 'run()')
    """
    domain, _, kind = name.rpartition(":")
    return f"{kind.upper()} {argument}" if domain == "http" else argument


def skip_options(lines: Sequence[str], numbers: Sequence[int]) -> tuple[list[str], list[int]]:
    """Return the lines of a directive below its options, which are fields or a block of YAML."""
    start = 0
    if lines[:1] == ["---"] and "---" in lines[1:]:
        start = lines.index("---", 1) + 1
    while start < len(lines) and (_OPTION.match(lines[start]) or not lines[start].strip()):
        start += 1
    return list(lines[start:]), list(numbers[start:])
