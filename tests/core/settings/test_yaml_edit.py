"""Additions to files that people wrote: comments stay, and what cannot be added safely is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.settings.yaml_edit import add_value
from core.settings.yaml_file import YamlFileError, parse_yaml

FILE = Path("kimas.yaml")
WRITTEN = """\
# Ours.
name: KIMAs  # the bot

sources:  # what it knows
  # The handbook, which Ann keeps.
  handbook:
    kind: files
    path: docs   # relative

gate:
  chats: ["telegram:-1"]  # one group
administration:
    owners:
        - "telegram:5"
# The end.
"""
SOURCE = {"kind": "website", "url": "https://docs.example.org/start"}


def add(text: str, keys: str, value: Any) -> str:
    return add_value(text.encode(), FILE, keys.split("."), value).decode()


@pytest.mark.parametrize(
    ("keys", "value", "new_lines"),
    [
        ("sources.site", SOURCE, ["  site:", "    kind: website", "    url: https://docs.example.org/start"]),
        ("telegram", {"token": {"env": "TOKEN"}}, ["", "telegram:", "  token: {env: TOKEN}"]),
        ("models.main", {"model": "a: b"}, ["", "models:", "  main:", "    model: 'a: b'"]),
        ("administration.owners", ["telegram:6"], ["        - telegram:6"]),
        ("administration.platform_admins", True, ["    platform_admins: true"]),
    ],
)
def test_only_lines_are_added(keys: str, value: Any, new_lines: list[str]) -> None:
    lines = add(WRITTEN, keys, value).splitlines()
    start = lines.index(new_lines[-1]) - len(new_lines) + 1
    assert lines[start : start + len(new_lines)] == new_lines
    assert lines[:start] + lines[start + len(new_lines) :] == WRITTEN.splitlines()


def test_what_is_on_one_line_stays_there() -> None:
    line = '  chats: ["telegram:-1"]  # one group'
    assert add(WRITTEN, "gate.chats", ["discord:2"]) == WRITTEN.replace(
        line, '  chats: [discord:2, "telegram:-1"]  # one group'
    )
    assert add("gate: {mode: auto}\n", "gate.chats", ["discord:2"]) == "gate: {chats: ['discord:2'], mode: auto}\n"


@pytest.mark.parametrize("text", ["", "sources:\n", "sources: {}\n", "# nothing yet", "\ufeffname: a\n"])
def test_a_file_with_nothing_takes_a_first_source(text: str) -> None:
    new_text = add(text, "sources.site", SOURCE)
    assert parse_yaml(new_text.encode(), FILE).data["sources"] == {"site": SOURCE}


def test_an_empty_section_gets_lines_of_its_own() -> None:
    text = "sources: {}  # none yet\n\n  # An example.\nname: KIMAs\n"
    new_lines = "  site:\n    kind: website\n    url: https://docs.example.org/start\n"
    new_text = add(text, "sources.site", SOURCE)
    assert new_text == text.replace("{}  # none yet\n", f"  # none yet\n{new_lines}")
    assert add(new_text, "sources.two", SOURCE).count("site:") == 1


def test_lines_of_windows_stay_so() -> None:
    text = add(WRITTEN.replace("\n", "\r\n"), "sources.site", SOURCE)
    assert text.count("\r\n") == text.count("\n") == WRITTEN.count("\n") + 3


@pytest.mark.parametrize(
    ("text", "keys", "problem"),
    [
        (WRITTEN, "sources.handbook", "is there already"),
        (WRITTEN, "name", "is there already"),
        (WRITTEN, "name.more", "is there already"),
        (WRITTEN, "name.more.still", "by hand"),
        (WRITTEN.replace("gate:\n  chats", "gate: {chats").replace("]  #", "]}  #"), "gate.chats", "by hand"),
        ("{name: a}\n", "telegram", "by hand"),
        ("sources: null\n", "sources.site", "by hand"),
        ("a: &same\n  b: 1\nc: *same\n", "a.x", "by hand"),
        ("name: a\n...\n", "telegram", "by hand"),
        ("name: |\n  sources:\n", "sources.site.x", ""),
        ("name: [\n", "telegram", "not valid YAML"),
        ("name: a\rgate: {mode: auto}\r", "gate.chats", "by hand"),
    ],
)
def test_what_cannot_be_added_safely_is_refused(text: str, keys: str, problem: str) -> None:
    if not problem:
        assert parse_yaml(add(text, keys, {"a": "b"}).encode(), FILE).data["name"] == "sources:\n"
        return
    with pytest.raises(YamlFileError, match=problem):
        add(text, keys, ["a"] if keys == "gate.chats" else {"a": "b"})


@pytest.mark.parametrize(
    "evil",
    ["a\nowner: me", "- x\n- y", "!!python/object:os", "*alias", "a: b # c", "]}, {", "\u2028x", "'\"", "no", "12:30"],
)
def test_a_value_is_never_more_than_a_text(evil: str) -> None:
    for keys in ("sources.site", "gate.site"):
        section, name = keys.split(".")
        data = parse_yaml(add(WRITTEN, keys, {"kind": "files", "path": evil}).encode(), FILE).data
        assert data[section].pop(name) == {"kind": "files", "path": evil}
        assert data == parse_yaml(WRITTEN.encode(), FILE).data
