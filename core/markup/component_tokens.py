"""What, in Markdown, is the work of a generator: components, templates, comments and statements, as one pattern."""

from __future__ import annotations

import re

# What begins a line stands in one branch: each branch is tried at each sign of a text.
TOKEN = re.compile(
    r"^(?:(?P<lead>[ \t>]*+(?>(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*))(?P<fence>`{3,}+(?=[^`\n]*$)|~{3,}+)[^\n]*$"
    r"|(?P<definition>[ ]{0,3}\[[^\[\]\n]{1,300}\]:[ \t]+)[^\n{]{0,500}\{[{%][^\n]*$"
    r"|(?P<line_note>%%[ \t]*\n(?>(?:(?!%%)[^\n]*+\n)*)%%[ \t]*$"
    # What mkdocstrings puts there, with its options.
    r"|:::[ \t]+(?:[\w.]{1,200}[ \t]*\n(?>[ \t]*\n)*[ ]{4}(?:handler|options|rendering|selection):[^\n]*\n"
    r"(?>(?:[ ]{4}[^\n]*|[ \t]*)\n)*|\w{1,100}(?:\.\w{1,100}){1,20}[ \t]*$)"
    # What Fumadocs could not include.
    r"|<include(?:[ \t][^<>\n]{0,300})?>[^<>]{1,300}</include>[ \t]*$"
    r"|---type-table---[ \t]*\n[^\n]{0,300}\n---end---[ \t]*$)"
    # Above its statements, a comment may say what they are.
    r"|(?P<module>(?>(?:(?:/\*[^*\n]{0,200}\*/|//[^\n]{0,200})[ \t]*\n){0,3})"
    r"(?:import\s(?:[^'\"<>`.()]{0,500}\sfrom\s*)?['\"][^'\"\n]{1,200}['\"]"
    r"|export\s+(?:(?:const|let|var)\s+[\w{\[]|(?:async\s+)?function\b|class\b"
    r"|default\s+(?:function|class|[({\w.]+[({;])|[{*]))))"
    r"|(?P<ticks>`+)"
    r"|(?P<formula>(?<![\\$\w])(?:\$\$[^$`]{1,2000}\$\$|\$(?![\s$])[^$`\n]{1,300}(?<![\s\\])\$)(?![\w$({]))"
    r"|(?P<comment><!--|\{/\*)"
    # What ERB runs stands where a note does: what it shows is not known.
    r"|(?P<note>(?<!\S)%%(?=\S)[^%\n]{1,1000}%%(?!\S)|<%(?!%)(?>(?:[^%]|%(?!>)){0,1000})%>"
    r"|\{(?:>>[^{}\n]{0,1000}<<|--[^{}\n]{0,1000}--|#-?\s[^{}]{0,1000}#)\}"
    # The name of an icon, which GitBook keeps in its tag.
    r"|<i[ ]class=\"fa[\w -]{0,60}\">:[\w-]{1,60}:</i>"
    # What kramdown leaves out, and where it reads no Markdown.
    r"|\{::comment\}(?>(?:[^{]|\{(?!:/)){0,2000})\{:/(?:comment)?\}"
    r"|\{:(?::(?:nomarkdown|options)\b|/(?:nomarkdown|comment)?(?=\}))[^{}\n]{0,200}\})"
    r"|(?P<template>\{(?:%|\{[%<])-?[ \t]*+(?P<end>/|end)?[ \t]*+(?P<block>[A-Za-z][\w-]*+)"
    r"(?P<arguments>(?:[^{}]|\{[\w:.-]{1,60}\}){0,500}?)-?[%>]\}\}?)"
    # A name alone is a value, which is filled in later.
    r"|(?P<helper>\{\{(?!\{|-?[ ]*[.$\"']?[\w.-]{1,80}[\"']?[ ]*-?(?:\||\}))"
    r"(?P<call>-?[ ]*[A-Za-z_][\w.]{0,80}\()?(?P<words>(?(call)[^{}]{1,500}|[^{}\n]{1,500}))\}\})"
    r"|(?P<fragment></?>)"
    r"|(?<!\\)<(?P<close>/?)(?P<tag>[A-Za-z][\w.:-]*+)(?=[\s/>])"
    r"|(?P<expression>\\?\{)",
    re.MULTILINE,
)
