"""The shape of the code: a vendor's library stays in one place, and nothing grows too long.

The layers themselves are import-linter contracts in `pyproject.toml`; `make lint` checks them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

from tests.support.garbage import left_lying

ROOT = Path(__file__).parents[1]
# Modules, each of which imports the next one. `core.ports` and `core.types` re-export their files: two steps of it.
MAX_CHAIN = 18
PACKAGES = ("kimas", "bots", "core", "knowledge")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))

# Where a library may be imported: modules, or a folder that ends in `/`.
VENDORS = {
    "PIL": ["bots/evaluation/charts.py"],
    "aiogram": ["bots/telegram/"],
    # openai sends through aiohttp, whose exceptions come through.
    "aiohttp": [
        "bots/api/mcp/endpoint.py",
        "bots/api/page/server.py",
        "bots/api/server.py",
        "bots/api/streaming.py",
        "bots/discord/",
        "bots/http/server.py",
        "bots/mastodon/client.py",
        "bots/forges/webhooks.py",
        "bots/daemon/monitor.py",
        "bots/operator_page/",
        "bots/slack/",
        "bots/common/bounded_response.py",
        "bots/common/downloads.py",
        "bots/common/json_client.py",
        "bots/common/web_server.py",
        "core/llm/client.py",
        "knowledge/live/mcp/transports.py",
        "knowledge/web/client.py",
    ],
    "alembic": ["core/storage/"],
    "anyio": ["bots/cli/mcp.py", "knowledge/live/mcp/"],  # what the SDK of MCP reads from and writes to
    "apscheduler": ["core/settings/cron.py"],
    "chardet": ["knowledge/formats/encoding.py"],
    "click": ["bots/cli/"],
    "ctranslate2": ["knowledge/embedding/ctranslate2_model.py"],
    "discord": ["bots/discord/"],
    "docutils": ["knowledge/formats/rst_parser.py"],
    "emoji": ["core/markup/inline.py"],
    "feedparser": ["knowledge/sources/feed/"],
    "fastembed": ["knowledge/embedding/fastembed_models.py", "knowledge/reranking/cross_encoder.py"],
    "filelock": ["core/runtime/locks.py"],
    "grpc": ["knowledge/stores/weaviate/"],  # what weaviate-client searches through; it takes our certificates
    "httpx": ["knowledge/stores/weaviate/"],  # what weaviate-client is built on; its exceptions come through
    # What openai and the SDK of MCP are built on; its exceptions come through, and the SDK sends through our client.
    "httpx2": ["core/llm/client.py", "core/llm/responses.py", "knowledge/live/mcp/"],
    "huggingface_hub": ["knowledge/embedding/download.py"],
    "ir_measures": ["bots/evaluation/"],
    "jinja2": ["bots/operator_page/render.py"],
    "jmespath": ["knowledge/live/mapping.py"],
    "json_repair": ["core/llm/reply_parsing.py"],
    "jwt": ["bots/forges/app_client.py", "knowledge/connectors/google_drive.py"],
    "lxml": [
        "knowledge/sources/feed/",
        "knowledge/sources/website/",
        "knowledge/formats/",
        "bots/mastodon/visible_text.py",
    ],
    "markdown_it": [
        "core/markup/block_parser.py",
        "core/markup/emphasis.py",
        "core/markup/escapes.py",
        "core/markup/inline.py",
        "core/markup/markdown.py",
        "core/markup/named_links.py",
        "core/markup/pandoc.py",
        "bots/common/markdown.py",
        "bots/common/markdown_parser.py",
        "bots/console/render.py",
        "bots/telegram/render.py",
        "bots/discord/render.py",
        "bots/slack/render.py",
        "bots/common/plain_text.py",
        "bots/forges/render.py",
        "bots/operator_page/render.py",
    ],
    "mcp": ["bots/api/mcp/", "bots/cli/mcp.py", "knowledge/live/mcp/"],
    "mcp_types": ["bots/api/mcp/server.py", "knowledge/live/mcp/"],
    "mdit_py_plugins": ["core/markup/block_parser.py"],
    "numpy": ["knowledge/", "bots/evaluation/"],  # vectors are arrays in every part of the package
    "openai": ["core/llm/client.py"],
    "onnxruntime": ["knowledge/embedding/multilingual.py", "knowledge/reranking/cross_encoder.py"],
    "onnxruntime_extensions": ["knowledge/embedding/multilingual.py"],
    "opentelemetry": ["core/observability/tracing.py"],
    "openpyxl": ["knowledge/formats/"],
    "pathspec": ["knowledge/sources/common/"],
    "protego": ["knowledge/sources/website/"],
    "prometheus_client": ["core/observability/metrics.py"],
    # The settings are pydantic models. aiogram's types are, too: what it refuses, pydantic refuses.
    # It checks what a worker process replies, and what is kept of files.
    "pydantic": [
        "core/settings/",
        "bots/telegram/",
        "knowledge/parsing/pool.py",
        "knowledge/sources/common/",
        "knowledge/sources/git/includes.py",
    ],
    "playwright": ["knowledge/sources/website/rendering.py"],
    "pydantic_core": ["core/settings/"],
    "pypdfium2": ["knowledge/formats/pdf.py"],
    "regex": ["core/language/word_filter.py"],
    "rich": ["bots/cli/", "bots/console/", "bots/common/terminal.py"],
    "safetensors": ["knowledge/embedding/ctranslate2_model.py", "knowledge/embedding/numpy_model.py"],
    "sdnotify": ["bots/daemon/runner.py"],
    "scipy": ["bots/evaluation/"],
    "tree_sitter": ["knowledge/chunking/code.py"],
    "slack_bolt": ["bots/slack/"],
    "slack_sdk": ["bots/slack/"],
    "sqlalchemy": ["core/storage/"],
    "aiosqlite": ["core/storage/"],
    "structlog": ["core/observability/logs.py"],
    "snowballstemmer": ["core/language/tokens.py"],
    "tokenizers": [
        "knowledge/embedding/local.py",
        "knowledge/reranking/cross_encoder.py",
        "knowledge/embedding/ctranslate2_model.py",
    ],
    "w3lib": ["knowledge/web/charsets.py", "knowledge/sources/website/"],
    "weaviate": ["knowledge/stores/weaviate/"],
    "yaml": ["core/settings/yaml_file.py"],
    "yarl": ["knowledge/web/addresses.py"],
}

LONGEST_FILE = 600
LONGEST_FUNCTION = 60


def get_name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """Trees of all modules are kept for this one, and nowhere else."""
    with left_lying():
        yield
    get_tree.cache_clear()


@cache
def get_tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), str(file))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the dotted name of every import, in functions and below TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # What is relative has dots, as no vendor's name does: it is misplaced everywhere.
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            function_name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            first = node.args[0] if node.args else None
            if function_name in ("import_module", "__import__") and isinstance(first, ast.Constant):
                yield node.lineno, str(first.value)


def is_allowed(vendor: str, name: str) -> bool:
    return any(name.startswith(path) if path.endswith("/") else name == path for path in VENDORS.get(vendor, []))


def misplaced(name: str, tree: ast.AST) -> list[str]:
    """Return what a file imports against the rules."""
    results = []
    for line, module in imports(tree):
        top = module.split(".")[0]
        if top not in PACKAGES and top not in sys.stdlib_module_names and not is_allowed(top, name):
            allowed_paths = ", ".join(VENDORS.get(top, [])) or "nowhere: add it to the table in this test first"
            results.append(f"{name}:{line}: {module} may be imported in: {allowed_paths}")
    return results


def test_vendors_stay_in_their_place() -> None:
    assert FILES
    assert [found for file in FILES for found in misplaced(get_name(file), get_tree(file))] == []


def test_every_vendor_of_the_table_is_used() -> None:
    used_packages = {module.split(".")[0] for file in FILES for _, module in imports(get_tree(file))}
    assert sorted(set(VENDORS) - used_packages) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("knowledge/x.py", "def f():\n    from weaviate import connect"),
        ("core/x.py", "import numpy as np"),
        ("bots/x.py", "if TYPE_CHECKING:\n    from aiogram import Bot"),
        ("bots/x.py", "import requests"),
        ("core/x.py", "importlib.import_module('openai')"),
        ("core/x.py", "from .types import Question"),
        ("core/x.py", "from . import types"),
    ],
)
def test_the_rules_can_be_broken(name: str, line: str) -> None:
    assert len(misplaced(name, ast.parse(line))) == 1


def test_nothing_grows_too_long() -> None:
    lengths = {get_name(file): len(file.read_text("utf-8").splitlines()) for file in FILES}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}
    long_functions = {
        f"{get_name(file)}:{node.lineno}: {node.name}": length
        for file in FILES
        for node in ast.walk(get_tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
    }
    assert long_functions == {}


def test_no_test_module_imports_another() -> None:
    """What several tests use is in `tests/support` or a `conftest.py`."""
    imports = re.compile(r"^\s*(?:from|import) tests\b.*\btest_", re.MULTILINE)
    files = (ROOT / "tests").rglob("*.py")
    assert [file.name for file in files if imports.search(file.read_text("utf-8"))] == []


def longest_chain(graph: grimp.ImportGraph) -> list[str]:
    """Return the longest chain of modules in which each imports the next one."""

    @cache
    def follow(module: str) -> list[str]:
        imported = graph.find_modules_directly_imported_by(module)
        return [module, *max((follow(name) for name in imported), key=len, default=[])]

    return max((follow(module) for module in graph.modules), key=len)


def test_who_reads_an_import_is_soon_at_its_end() -> None:
    graph = grimp.build_graph("bots", "core", "knowledge", exclude_type_checking_imports=True, cache_dir=None)
    modules = longest_chain(graph)
    assert len(modules) <= MAX_CHAIN, " > ".join(modules)
    graph.add_import(importer=modules[-1], imported="core.added")
    assert len(longest_chain(graph)) == len(modules) + 1
