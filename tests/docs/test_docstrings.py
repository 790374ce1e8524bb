"""Docstrings are true: their examples are run, and the names that they mention exist."""

from __future__ import annotations

import ast
import doctest
import importlib
import keyword
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PACKAGES = ("bots", "core", "knowledge")
FILES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
MODULES = [module_name(file) for file in FILES if ">>> " in file.read_text("utf-8")]

# A name in backticks, in small letters, without a dot.
NAME = re.compile(r"(?<!`)`([a-z_][a-z0-9_]*)`(?!`)")
EXAMPLE = re.compile(r"^ *>>> .*?(?:\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
# What is no name of the code: words of YAML, HTML, and Python.
WORDS = {*PACKAGES, *keyword.kwlist, "null", "em", "s", "strong", "onclick"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def test_the_functions_that_contributors_meet_first_have_examples() -> None:
    assert len(MODULES) >= 18


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def unknown_names(tree: ast.Module) -> set[str]:
    """Return the names in backticks that the docstrings of a module have and its code has not."""
    documented = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED) and ast.get_docstring(node)]
    docstrings = {node.body[0].value for node in documented if isinstance(node.body[0], ast.Expr)}
    names = {name for node in ast.walk(tree) if node not in docstrings for name in names_in(node)}
    texts = [EXAMPLE.sub("", ast.get_docstring(node) or "") for node in documented]
    return {name for text in texts for name in NAME.findall(text)} - names


def names_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node has itself: of variables, attributes, parameters, modules, and in strings."""
    for field in ("id", "attr", "arg", "name", "module", "asname", "value"):
        if isinstance(value := getattr(node, field, None), str):
            yield from re.findall(r"\w+", value)


def test_names_in_docstrings_exist() -> None:
    assert FILES
    functions = set()
    unknown = {}
    for file in FILES:
        # Nothing of a tree is kept: the garbage collector would look through all of them again and again.
        tree = ast.parse(file.read_text("utf-8"), str(file))
        functions |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        unknown[module_name(file)] = unknown_names(tree) - {path.stem for path in file.parent.iterdir()} - WORDS
    assert {module: names - functions for module, names in unknown.items() if names - functions} == {}


def test_a_name_that_is_gone_is_noticed() -> None:
    source = 'def send(text: str) -> None:\n    """Send `text` to `chat`; ``said`` and `a.b` are no names."""\n'
    assert unknown_names(ast.parse(source)) == {"chat"}


def test_sections_of_the_report_are_named_where_the_table_says() -> None:
    table = (ROOT / "docs/decisions.md").read_text("utf-8").partition("Where docstrings name a section")[2]
    listed = {}
    for section, paths in re.findall(r"^\| KIMAs ([\d.]+) \| [^|]+ \| ([^|]+) \|$", table, re.MULTILINE):
        listed[section] = set(re.findall(r"`([^`]+)`", paths))
    named: dict[str, set[str]] = {}
    for folder in ("bots", "core", "knowledge"):
        for file in (ROOT / folder).rglob("*.py"):
            for section in re.findall(r"KIMAs ([1-9](?:\.\d)+)", file.read_text("utf-8")):
                named.setdefault(section, set()).add(file.relative_to(ROOT).as_posix())
    assert named == listed
