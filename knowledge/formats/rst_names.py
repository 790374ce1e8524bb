"""What the directives and roles of Sphinx and its common extensions are for."""

from __future__ import annotations

from core.markup.directives import LAYOUTS

# Those of docutils that read more than text. The others are read by their names below, with any options.
DOCUTILS_DIRECTIVES = frozenset(
    "date epigraph figure highlights image line-block math pull-quote replace unicode".split()  # noqa: SIM905
)
# Titles of what stands beside the text; an empty one is the directive's argument.
ADMONITIONS = {
    "admonition": "",
    "attention": "Attention",
    "caution": "Caution",
    "collapse": "",
    "danger": "Danger",
    "details": "",
    "dropdown": "",
    "error": "Error",
    "hint": "Hint",
    "important": "Important",
    "note": "Note",
    "seealso": "See also",
    "sidebar": "",
    "tip": "Tip",
    "topic": "",
    "warning": "Warning",
}
VERSIONS = {
    "deprecated": "Deprecated since",
    "deprecated-removed": "Deprecated since",
    "versionadded": "Added in",
    "versionchanged": "Changed in",
    "versionremoved": "Removed in",
}
# Of these the argument is no text: a layout, a condition, a class.
CONTAINERS = LAYOUTS | frozenset(
    """
    compound cssclass doctest-remote-data doctest-requires doctest-skip flat-table hlist ifconfig only rst-class
    tab-set-code table tabs toggle unordered
    """.split()  # noqa: SIM905
)
TABS = frozenset(("code-tab", "group-tab", "tab", "tab-item"))
# What Sphinx's domains describe, without the name of the domain.
OBJECTS = frozenset(
    """
    attribute class classmethod cmdoption cmdvar command confval data decorator decoratormethod describe envvar event
    exception function genex macro member method object opcode option property setting signal signature staticmethod
    struct type var variable
    """.split()  # noqa: SIM905
)
# What is in code, which a dot before its name says to look for everywhere.
OBJECT_ROLES = frozenset("attr class cls const data exc func meth mod obj".split())  # noqa: SIM905
CODE_ROLES = OBJECT_ROLES | frozenset(
    """
    any cmdoption code command confval envvar file kbd literal macro member option program samp setting signal type var
    """.split()  # noqa: SIM905
)
# What shows the title of what it leads to, where it has none of its own.
REFERENCE_ROLES = frozenset(("any", "doc", "download", "eq", "numref", "ref", "term"))
