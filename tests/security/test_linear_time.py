"""Every regular expression takes linear time, whatever text it meets: it grows with the text, not with its square.

All patterns of the source are found by importing its modules and by reading its calls of `re`. Each meets texts that
are made from its own parts to be hard for it: what it repeats, repeated, after what it begins with, and without what it
ends with. The way in which it is used counts: `match` tries one place, `search` all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from core.language import courtesies
from core.language.question_matching import MAX_QUESTION_CHARS
from tests.support.foreign import get_modules
from tests.support.garbage import left_lying
from tests.support.growth import ATTEMPTS, PATTERN_LIMITS, Growth
from tests.support.patterns import METHOD_ALIASES, METHODS, find_superlinear

pytestmark = pytest.mark.timeout(600)
SHARDS = 12
# Only text that is short by its nature comes here: names of settings and of environment variables, versions, dates.
SHORT_INPUTS = frozenset({"core.settings", "core.settings.loader", "core.settings.yaml_file", "core.settings.cron"})
# What meets texts of so many characters at most may take longer than linear time, as long as it takes little time.
CAPPED_MIN_S = 0.008
CAPPED = {"core.language.courtesies.": courtesies.MAX_CHARS, "core.language.question_matching.": MAX_QUESTION_CHARS}
Usage = Mapping[str, Collection[str]]
Patterns = Mapping[str, tuple[re.Pattern[str], Collection[str]]]


def collect_patterns() -> Patterns:
    """Return every pattern of the source with the methods by which it is used, under a name for its test."""
    modules = list(get_modules())
    nodes_by_module = {
        module: list(ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8")))) for module in modules
    }
    usage_by_module = {module: find_usage(nodes) for module, nodes in nodes_by_module.items()}
    public_usage: dict[str, set[str]] = {}
    for usage in usage_by_module.values():
        for name, methods in usage.items():
            public_usage.setdefault(name, set()).update(methods)
    results: dict[str, tuple[re.Pattern[str], frozenset[str]]] = {}
    known_patterns: set[re.Pattern[str]] = set()
    for module, nodes in nodes_by_module.items():
        if module.__name__ in SHORT_INPUTS:
            continue
        private_usage = {name: methods for name, methods in usage_by_module[module].items() if name.startswith("_")}
        usage = {**public_usage, **private_usage}
        for name, pattern, methods in (*find_values(module, usage), *find_calls(module, nodes)):
            if isinstance(pattern.pattern, str) and (pattern not in known_patterns or ":" in name):
                known_patterns.add(pattern)
                results.setdefault(f"{module.__name__}.{name}", (pattern, frozenset(methods or METHODS)))
    return results


def find_usage(nodes: Collection[ast.AST]) -> Usage:
    """Return by which methods a module uses a name; all, where it is used in another way."""
    usage: dict[str, set[str]] = {}
    owners: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            method = METHOD_ALIASES.get(node.attr, node.attr)
            if method in METHODS:
                usage.setdefault(owner, set()).add(method)
                owners.add(node.value)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in owners and node.id.isupper():
            usage.setdefault(node.id, set()).update(METHODS)
    return usage


def find_values(module: ModuleType, usage: Usage) -> Iterator[tuple[str, re.Pattern[str], Collection[str]]]:
    def visit(name: str, value: Any, depth: int) -> Iterator[tuple[str, re.Pattern[str], Collection[str]]]:
        if isinstance(value, re.Pattern):
            yield name, value, usage.get(name, METHODS) if depth == 0 else METHODS
        elif depth < 4 and isinstance(value, tuple | list | dict):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                yield from visit(f"{name}[{key}]", item, depth + 1)
        elif depth == 0 and isinstance(value, type) and value.__module__ == module.__name__:
            for key, item in vars(value).items():
                yield from visit(f"{name}.{key}", item, depth + 1)

    for name, value in list(vars(module).items()):
        yield from visit(name, value, 0)


def find_calls(
    module: ModuleType, nodes: Collection[ast.AST]
) -> Iterator[tuple[str, re.Pattern[str], Collection[str]]]:
    """Yield the patterns that are written where they are used, as far as they are constants of the module."""
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        method = METHOD_ALIASES.get(node.func.attr, node.func.attr)
        is_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        if is_re and method in (*METHODS, "compile"):
            names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)} - {"re"}
            flags = [each for each in (*node.args[1:], *(key.value for key in node.keywords)) if is_flag(each)]
            if not isinstance(node.args[0], ast.Constant) and not names <= set(vars(module)):
                continue
            try:
                text = evaluate(node.args[0], module)
                pattern = re.compile(text, sum((evaluate(flag, module) for flag in flags), re.RegexFlag(0)))
            except (NameError, TypeError):
                continue
            if method != "compile":
                yield f"line:{node.lineno}", pattern, (method,)


def is_flag(node: ast.AST) -> bool:
    return all(
        part in ("re", "|") or part.isupper() for part in re.findall(r"\w+|\S", ast.unparse(node)) if part != "."
    )


def evaluate(node: ast.expr, module: ModuleType) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), vars(module))  # noqa: S307 (our own source)


def get_limits(name: str) -> Growth:
    """Return the sizes of the texts that a pattern meets: where its caller takes short texts only, that size alone."""
    size = next((size for start, size in CAPPED.items() if name.startswith(start)), 0)
    return replace(PATTERN_LIMITS, quick_size=size, size=size, min_s=CAPPED_MIN_S) if size else PATTERN_LIMITS


@pytest.fixture(scope="module")
def patterns() -> Patterns:
    # Among the trees of all modules.
    with left_lying():
        return collect_patterns()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_pattern_is_linear(patterns: Patterns, shard: int) -> None:
    names = sorted(patterns)[shard::SHARDS]
    assert names
    reasons = {name: find_superlinear(*patterns[name], get_limits(name)) for name in names}
    assert {name: reason for name, reason in reasons.items() if reason} == {}


def test_no_group_is_repeated_possessively() -> None:
    """Before Python 3.11.5 such a group loses matches (python/cpython#106052). An atomic group means the same."""
    repetition = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    texts = {
        f"{module.__name__}: {node.value}"
        for module in get_modules()
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and repetition.search(node.value)
    }
    assert texts == set()


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\s*x", "finditer"),
        (r"(a+)+b", "match"),
        (r"`(.+?)`+(?!\w)", "finditer"),
        (r"<!--.*?-->", "finditer"),
        (r"a.*b.*c", "match"),
        (r"(?m)^\W*x", "search"),
    ],
)
def test_a_pattern_that_is_not_linear_is_found(pattern: str, method: str) -> None:
    assert any(find_superlinear(re.compile(pattern), [method]) for _ in range(ATTEMPTS))
