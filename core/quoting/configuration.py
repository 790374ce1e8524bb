"""Finds the pieces of a configuration file: single settings, with the keys or the section above them, and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_SETTING_LINES = 12
MAX_NAME_CHARS = 60
# Nobody nests deeper; of what does, the outermost keys are left out.
MAX_PARENTS = 12
# Less of the lines would be settings by chance.
MIN_SETTINGS_SHARE = 0.3

# A template or an example of a file has its name and a further suffix.
_FILE = re.compile(r"\.(ya?ml|toml|ini|cfg|conf|properties|env)(?:\.[A-Za-z0-9-]{1,12})?$", re.IGNORECASE)
_LANGUAGES = {"yml": "yaml", "yaml": "yaml", "toml": "toml", "properties": "properties"}
_COMMENT = re.compile(r"[ \t]*(?:[#;!]|//)+[ \t]?(.*)$")
_YAML_KEY = re.compile(
    r"([ ]*)((?:-[ ]+)?)(?:\"([^\"\n]{1,80})\"|'([^'\n]{1,80})'|([^\s\"'#:{}\[\]&*!|>-][^:#\n]{0,80})):(?=\s|$)"
)
# An item that is no key: a value, or what the lines below it say.
_YAML_ITEM = re.compile(r"([ ]*)-(?:[ ]+(?![^\s#]+:(?:\s|$))|$)")
_SECTION = re.compile(r"[ \t]*\[{1,2}([^\[\],\n]{1,80})\]{1,2}[ \t]*(?:[#;].*)?$")
_ASSIGNMENT = re.compile(r"[ \t]*(?:export[ ]+)?[\"']?([\w./-]{1,80})[\"']?[ \t]*(?:=|:(?!/))")
# A setting that is commented out, which an example of a configuration shows.
_SETTING_IN_COMMENT = re.compile(r"[ \t]*(?:-[ ]+)?[\"']?[\w./-]{1,80}[\"']?[ \t]*[:=](?:[ \t]|$)")


@dataclass(frozen=True, slots=True)
class ConfigurationPiece:
    """A setting as `code` with what it is below, or the prose of a `comment` that stands alone.

    `path` are the keys that lead to it, `lines` the numbers of its own lines.
    """

    path: str
    lines: frozenset[int]
    code: str = ""
    comment: str = ""


def get_configuration_language(path: str) -> str:
    """Return the language of a configuration file by its name, "" for any other file."""
    suffix = _FILE.search(path)
    return _LANGUAGES.get(suffix[1].lower(), "ini") if suffix else ""


def get_pieces(text: str, language: str) -> list[ConfigurationPiece]:
    """Return the settings and the comments of a file; empty where most of its lines are something else.

    >>> [setting.path for setting in get_pieces("server:\\n  # Of the API.\\n  port: 80\\n", "yaml")]
    ['server.port', 'server']
    """
    lines = [line.rstrip() for line in text.expandtabs(4).split("\n")]
    reader = _SettingsReader(lines, language)
    reader.read()
    return reader.pieces if reader.has_settings else []


@dataclass(slots=True)
class _Setting:
    """A key, or a section: the number of its line, that of the first comment above it, and how deep it is."""

    name: str
    number: int
    start: int
    depth: int
    has_children: bool = False


class _SettingsReader:
    """Reads lines from top to bottom; `_parents` are the settings that the line is below."""

    def __init__(self, lines: Sequence[str], language: str) -> None:
        self.pieces: list[ConfigurationPiece] = []
        self._lines = lines
        self._language = language
        self._parents: list[_Setting] = []
        self._comment_start: int | None = None
        # The line after the last that is no comment.
        self._end = 0
        # Where the comment begins that is beside the last setting.
        self._comment_column = 0
        self._setting_count = 0
        self._line_count = 0

    @property
    def has_settings(self) -> bool:
        """Return whether enough of the lines are settings."""
        min_share = 0.0 if self._language == "yaml" else MIN_SETTINGS_SHARE
        return self._setting_count > 0 and self._setting_count >= min_share * self._line_count

    def read(self) -> None:
        for number, line in enumerate(self._lines):
            if not line.strip():
                self._end_comment(number)
            elif _COMMENT.match(line):
                self._read_comment(number, line)
            else:
                self._read_line(number, line)
        self._end_comment(len(self._lines))
        self._close(-1)

    def _read_comment(self, number: int, line: str) -> None:
        if number == self._end and self._comment_column and line.find("#") == self._comment_column:
            # The comment of the line above goes on.
            self._end = number + 1
        elif self._comment_start is None:
            self._comment_start = number

    def _read_line(self, number: int, line: str) -> None:
        self._line_count += 1
        found = self._find_setting(line)
        if found is None:
            self._end_comment(number)
            # A line that ends a value over several lines is no deeper than its key.
            if self._language == "yaml" and line.lstrip()[0] not in "]}":
                self._close(2 * _get_indent(line))
        else:
            name, depth = found
            self._setting_count += 1
            start = self._find_start(number)
            self._end_comment(start)
            self._close(depth)
            if self._parents:
                self._parents[-1].has_children = True
            self._parents.append(_Setting(name, number, start, depth))
        self._comment_start = None
        self._end = number + 1
        self._comment_column = line.find(" #") + 1

    def _find_start(self, number: int) -> int:
        """Return the first line of the comment above a setting; what is deeper in it belongs to the setting before."""
        first = number if self._comment_start is None else max(self._comment_start, number - MAX_SETTING_LINES + 1)
        start = number
        width = _get_indent(self._lines[number])
        while start > first and _get_indent(self._lines[start - 1]) <= width:
            start -= 1
        return start

    def _find_setting(self, line: str) -> tuple[str, int] | None:
        """Return the name and the depth of the setting or section of a line."""
        if self._language != "yaml":
            if section := _SECTION.match(line):
                return section[1].strip(), 0
            assignment = _ASSIGNMENT.match(line)
            return (assignment[1], 1) if assignment else None
        if item := _YAML_ITEM.match(line):
            return "", 2 * len(item[1]) + 1
        if key := _YAML_KEY.match(line):
            return next(filter(None, key.groups()[2:]), "").strip(), 2 * len(key[1]) + bool(key[2])
        return None

    def _close(self, depth: int) -> None:
        """End the settings that a line of this depth is not below."""
        while self._parents and self._parents[-1].depth >= depth:
            setting = self._parents.pop()
            end = self._end
            if setting.has_children and end - setting.start > MAX_SETTING_LINES:
                continue
            end = min(end, setting.start + MAX_SETTING_LINES)
            if end > setting.number:
                self._add(setting.start, end, _get_path([*self._parents, setting]), self._parents)

    def _end_comment(self, end: int) -> None:
        """End a comment that stands alone: it shows settings, or it is prose."""
        start = self._comment_start
        self._comment_start = None
        if start is None or start >= end:
            return
        texts = [match[1] for line in self._lines[start:end] if (match := _COMMENT.match(line))]
        parents = self._parents
        if self._language == "yaml":
            depth = 2 * _get_indent(self._lines[start])
            parents = [parent for parent in parents if parent.depth < depth]
        if any(map(_SETTING_IN_COMMENT.match, texts)):
            for first in range(start, end, MAX_SETTING_LINES):
                self._add(first, min(end, first + MAX_SETTING_LINES), _get_path(parents), parents)
            return
        # A line of signs is a border.
        comment = "\n".join(text.strip("*=#~ ") for text in texts)
        self.pieces.append(ConfigurationPiece(_get_path(parents), frozenset(range(start, end)), comment=comment))

    def _add(self, start: int, end: int, path: str, parents: Sequence[_Setting]) -> None:
        lines = [*(self._lines[parent.number] for parent in parents[-MAX_PARENTS:]), *self._lines[start:end]]
        code = "\n".join(_dedent(lines))
        self.pieces.append(ConfigurationPiece(path, frozenset(range(start, end)), code))


def _get_path(settings: Sequence[_Setting]) -> str:
    names = (setting.name for setting in settings[-MAX_PARENTS:])
    return ".".join(name[:MAX_NAME_CHARS].replace("`", "") for name in names if name)


def _get_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedent(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines without the margin that they share; what they are below may be in another passage."""
    margin = min((_get_indent(line) for line in lines if line.strip()), default=0)
    if margin:
        yield "# …"
    for line in lines:
        yield line[margin:]
