"""The shape of the code: imports point inward, a vendor's library stays in one place, nothing grows too long."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("bots", "core", "knowledge")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))

MAY_IMPORT = {
    "core": {"core"},
    "knowledge": {"core", "knowledge"},
    "bots": {"bots", "core", "knowledge"},
}

# Where a library may be imported: modules, or a folder that ends in `/`.
VENDORS = {
    "PIL": ["bots/evaluation/charts.py"],
    "aiogram": ["bots/telegram/"],
    # openai sends through aiohttp, whose exceptions come through.
    "aiohttp": [
        *("bots/discord/", "bots/http/server.py", "bots/metrics_server.py", "bots/slack/", "core/endpoint.py"),
        *("bots/posting/download.py", "knowledge/web/client.py"),
    ],
    "apscheduler": ["core/scheduler.py"],
    "click": [
        f"bots/{name}.py" for name in ("cli", "cli_audit", "cli_feedback", "cli_sources", "command", "evaluation/cli")
    ],
    "ctranslate2": ["knowledge/embedding.py"],
    "discord": ["bots/discord/"],
    "docx": ["knowledge/sources/formats/office.py"],
    "feedparser": ["knowledge/sources/feed.py", "knowledge/sources/feed_news.py"],
    "filelock": ["knowledge/locks.py"],
    "grpc": ["knowledge/stores/weaviate/"],  # what weaviate-client searches through; it takes our certificates
    "httpx": ["knowledge/stores/weaviate/"],  # what weaviate-client is built on; its exceptions come through
    "httpx2": ["core/endpoint.py"],  # what openai is built on; its exceptions come through
    "ir_measures": ["knowledge/evaluation/measures.py"],
    "jmespath": ["knowledge/live/http_api.py"],
    # One store, in modules for its table, its process and what it holds in memory.
    "lancedb": ["knowledge/stores/lance.py", "knowledge/stores/lance_table.py", "knowledge/stores/lance_process.py"],
    "lxml": [f"knowledge/sources/{part}.py" for part in ("feed_news", "website_map", "website_pages")],
    "markdown_it": [
        "bots/telegram/markup.py",
        "bots/discord/markup.py",
        "bots/slack/markup.py",
        "bots/posting/tables.py",
        "bots/rendered.py",
    ],
    "numpy": ["knowledge/"],  # vectors are arrays in every part of the package
    "openai": ["core/endpoint.py"],
    "onnxruntime": ["knowledge/rerank_cross_encoder.py"],
    "openpyxl": ["knowledge/sources/formats/office.py"],
    "pathspec": ["knowledge/sources/"],
    "prometheus_client": ["core/metrics.py"],
    "pptx": ["knowledge/sources/formats/office.py"],
    "pyarrow": [f"knowledge/stores/lance_{part}.py" for part in ("table", "process", "block", "shelf", "words")],
    # The settings are pydantic models: one module defines them, and those that load them, read their fields and explain
    # their faults know it too. aiogram's types are pydantic models as well, whose refusals are pydantic's.
    "pydantic": ["core/settings/", "core/configuration.py", "core/keys.py", "bots/telegram/"],
    "pydantic_core": ["core/faults.py"],
    "pypdf": ["knowledge/sources/formats/pdf.py"],
    "rich": [
        *("bots/console.py", "bots/rendered.py", "bots/sources.py", "bots/usage.py"),
        *("bots/feedback.py", "bots/chat.py", "bots/group.py", "bots/played/"),
    ],
    "safetensors": ["knowledge/embedding.py"],
    "sdnotify": ["bots/runner.py"],
    "semantic_text_splitter": ["knowledge/chunking/"],
    "slack_bolt": ["bots/slack/"],
    "slack_sdk": ["bots/slack/"],
    # One database, its tables apart from what reads and writes them.
    "sqlalchemy": [
        *("core/journal.py", "core/tables.py", "core/database.py", "core/usage.py", "core/answer_cache.py"),
        "core/administration/",
        *("core/commenting/followed.py", "core/commenting/record.py"),
        "core/feedback/",
        "core/gating/room.py",
        "core/upkeep_record.py",
    ],
    "structlog": ["core/logs.py"],
    "tokenizers": ["knowledge/embedding.py", "knowledge/rerank_cross_encoder.py"],
    "trafilatura": ["knowledge/sources/website_pages.py"],
    "weaviate": ["knowledge/stores/weaviate/"],
    "yaml": ["core/yaml_file.py"],
}

LONGEST_FILE = 300
LONGEST_FUNCTION = 40


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), str(file))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the dotted name of every import, in functions and below TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            first = node.args[0] if node.args else None
            if called in ("import_module", "__import__") and isinstance(first, ast.Constant):
                yield node.lineno, str(first.value)


def is_allowed(vendor: str, name: str) -> bool:
    return any(name.startswith(place) if place.endswith("/") else name == place for place in VENDORS.get(vendor, []))


def misplaced(name: str, tree: ast.AST) -> list[str]:
    """Return what a file imports against the rules."""
    layer = name.split("/", maxsplit=1)[0]
    found = []
    for line, module in imports(tree):
        top = module.split(".")[0]
        if top in PACKAGES and top not in MAY_IMPORT[layer]:
            found.append(f"{name}:{line}: {layer} may not import {module}")
        elif top not in PACKAGES and top not in sys.stdlib_module_names and not is_allowed(top, name):
            allowed = ", ".join(VENDORS.get(top, [])) or "nowhere: add it to the table in this test first"
            found.append(f"{name}:{line}: {module} may be imported in: {allowed}")
    return found


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_point_inward_and_vendors_stay_in_their_place(file: Path) -> None:
    assert misplaced(name_of(file), tree_of(file)) == []


def test_every_vendor_of_the_table_is_used() -> None:
    used = {module.split(".")[0] for file in FILES for _, module in imports(tree_of(file))}
    assert sorted(set(VENDORS) - used) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("core/x.py", "from bots import cli"),
        ("core/x.py", "import knowledge.ports"),
        ("knowledge/x.py", "import bots"),
        ("knowledge/x.py", "def f():\n    from lancedb import connect"),
        ("core/x.py", "import numpy as np"),
        ("bots/x.py", "if TYPE_CHECKING:\n    from aiogram import Bot"),
        ("bots/x.py", "import requests"),
        ("core/x.py", "importlib.import_module('knowledge.sync')"),
    ],
)
def test_the_rules_can_be_broken(name: str, line: str) -> None:
    assert len(misplaced(name, ast.parse(line))) == 1


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_nothing_grows_too_long(file: Path) -> None:
    lines = len(file.read_text("utf-8").splitlines())
    assert lines < LONGEST_FILE, f"{lines} lines"
    long = {
        node.name: length
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) >= LONGEST_FUNCTION
    }
    assert long == {}
