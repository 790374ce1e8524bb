"""Every public function that meets text from outside, as a function of that text alone.

Those that take one text are found by importing the source; the others are listed here with what else they take.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from bots.common.attachments import check_file_url
from bots.slack.convert import Identity, is_for_other_user
from bots.slack.visible_text import to_plain_text
from core.answering.agents.decision_maker import DECISION_SCHEMA
from core.answering.agents.history_selection import parse_selection
from core.answering.rewriting.base import find_synonyms, has_same_script, replace_synonyms
from core.answering.rewriting.query_reply import is_refusal
from core.answering.rewriting.rewrites import get_expansion_terms
from core.answering.strategies.parallel import keep_names
from core.citations.check import find_support_by_overlap
from core.citations.code_names import find_package_names
from core.citations.markers import insert_markers, resolve_markers
from core.errors import KimasError
from core.language.facts import has_code_name
from core.language.follow_ups import expand_with_history
from core.language.prose import split_sentences
from core.llm.decision_schema import iter_parsed_replies
from core.messaging.auto_comment.commenter import find_word
from core.messaging.gate.human_activity import addresses_by_name
from core.messaging.gate.replies import clarifying_question, offer_text
from core.messaging.policy.command_table import COMMANDS, looks_like_arguments
from core.observability.logs import make_redactor
from core.settings.yaml_file import YamlFileError, parse_yaml
from core.types import Passage, Turn
from knowledge.chunking import chunk
from knowledge.formats.html import read_page
from knowledge.formats.includes import expand_includes
from knowledge.formats.references import Names, find_references, read_outline
from knowledge.parsing.limits import FormatError
from knowledge.ports import Document
from knowledge.sources.feed.parsing import parse_entries
from knowledge.sources.website.robots import parse_robots
from knowledge.sources.website.sitemaps import parse_sitemap
from knowledge.web.addresses import check_url
from knowledge.web.charsets import decode_page
from knowledge.web.page_rules import parse_page_rules

ROOT = Path(__file__).parents[2]
Function = Callable[[str], object]
# What says that a text is not what it should be.
OUR_ERRORS = (KimasError, FormatError, YamlFileError)
# One text, but not of strangers: it comes from the configuration, from the code, or is an id that the platform made.
NOT_FOREIGN = frozenset(
    {
        # The owner writes it in the configuration.
        "core.language.word_filter.compile_pattern",
        "core.language.word_filter.fold_word",
        "bots.cli.options.import_by_path",
        "bots.common.terminal.confirm",
        "bots.discord.convert.snowflake_time",
        "core.observability.logs.get_logger",
        "core.storage.statements.select_newest",
        "core.formatting.format_until",
        "core.messaging.feedback.rating_buttons.make_rating_buttons",
        "knowledge.sources.git.clone.clone_name",
        "knowledge.sources.plugin.find_plugin",
        "knowledge.embedding.fastembed_models.get_model_languages",
    }
)
PASSAGES = tuple(
    Passage(f"p{number}", "docs", f"a{number}.md", "Title", f"Install it with pip {number}.0.") for number in (1, 2)
)
SLACK_BOT = Identity("U1", "kimas")


def get_modules() -> Iterator[ModuleType]:
    for package in ("core", "knowledge", "bots"):
        for file in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            if ".migrations" not in name and not name.endswith(".worker"):
                with warnings.catch_warnings():
                    # A dependency imports a module that will go.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    module = importlib.import_module(name)
                yield module


def find_functions() -> Mapping[str, Function]:
    """Return all functions by their names."""
    functions: dict[str, Function] = {}
    for module in get_modules():
        for name, function in inspect.getmembers(module, inspect.isfunction):
            full_name = f"{module.__name__}.{name}"
            if function.__module__ != module.__name__ or name.startswith("_") or full_name in NOT_FOREIGN:
                continue
            # What the operator types, and names in the configuration, is not foreign.
            if full_name.startswith(("bots.cli.", "bots.daemon.", "bots.evaluation.", "knowledge.embedding.")):
                continue
            if (kind := takes_one_text(function)) and not inspect.iscoroutinefunction(function):
                functions[full_name] = function if kind == "str" else with_bytes(function)
    return {**functions, **OTHER_FUNCTIONS}


def takes_one_text(function: Callable[..., object]) -> str:
    """Return "str" or "bytes" where a function can be called with one of these alone."""
    first, *other_parameters = [*inspect.signature(function).parameters.values(), None]
    is_enough = first is not None and all(each is None or each.default is not each.empty for each in other_parameters)
    return str(first.annotation) if first and is_enough and first.annotation in ("str", "bytes") else ""


def with_bytes(function: Callable[[bytes], object]) -> Function:
    return lambda text: function(text.encode("utf-8", "surrogatepass"))


def chunking(name: str, kind: str) -> Function:
    return lambda text: chunk(Document(name, text, kind))


def consume(function: Callable[..., Any], *arguments: object) -> Function:
    return lambda text: list(function(text, *arguments))


INCLUDED = {"a": "b", "a.md": '`a`\n--8<-- "a"', "a.rst": ".. include:: a"}


def including(kind: str) -> Function:
    return lambda text: expand_includes("docs/modules/a/pages/b", kind, text, INCLUDED.get)


def outlining(path: str, kind: str) -> Function:
    """Return a function that finds what a text refers to in itself."""

    def outline(text: str) -> object:
        names = Names({path: read_outline(kind, text)})
        return names.find(path, kind, find_references(kind, text))

    return outline


OTHER_FUNCTIONS: Mapping[str, Function] = {
    "read_outline rst": outlining("a/b.rst", "rst"),
    "read_outline markdown": outlining("a/b.md", "markdown"),
    "read_outline asciidoc": outlining("modules/a/pages/b.adoc", "asciidoc"),
    "read_outline notebook": outlining("a/b.ipynb", "notebook"),
    "read_outline sphinx": outlining("a/conf.py", "sphinx"),
    "read_outline antora": outlining("a/antora.yml", "antora"),
    "expand_includes rst": including("rst"),
    "expand_includes markdown": including("markdown"),
    "expand_includes asciidoc": including("asciidoc"),
    "check_file_url": lambda text: check_file_url(text, "https://a.example", "https://a.example", str.isascii),
    "to_plain_text": lambda text: to_plain_text(text, SLACK_BOT.user_id),
    "is_for_other_user": lambda text: is_for_other_user(text, SLACK_BOT),
    "parse_selection": lambda text: parse_selection(text, 5, is_complete=True),
    "find_synonyms": lambda text: find_synonyms(text, {"install": ["set up"], text[:40]: ["x"]}),
    "replace_synonyms": lambda text: replace_synonyms(text, {"install": ["set up"]}),
    "has_same_script": lambda text: has_same_script(text, "How do I install it?"),
    "is_refusal": lambda text: is_refusal(text, "How do I install it?"),
    "get_expansion_terms": lambda text: get_expansion_terms(text, PASSAGES),
    "keep_names": lambda text: keep_names(text, ["How do I install it?", text[:200]]),
    "insert_markers": lambda text: insert_markers(
        text, {number: [1, 2] for number in range(len(split_sentences(text)))}
    ),
    "resolve_markers": lambda text: resolve_markers(text, PASSAGES),
    "find_package_names": lambda text: find_package_names(f"```python\n{text}\n```", {"rocket"}),
    "has_code_name": lambda text: has_code_name("install", text),
    "find_support_by_overlap": lambda text: find_support_by_overlap(text, PASSAGES, "How do I install it?"),
    "iter_parsed_replies": consume(iter_parsed_replies, DECISION_SCHEMA),
    "find_word": lambda text: find_word(text, ["install", "set up"]),
    "addresses_by_name": lambda text: addresses_by_name(text, ["Ann", "ops team"]),
    "clarifying_question": lambda text: clarifying_question("", text),
    "offer_text": lambda text: offer_text("", text),
    "looks_like_arguments": lambda text: [looks_like_arguments(command, text) for command in COMMANDS],
    "redact": make_redactor(["a secret of ours"]),
    "parse_yaml": lambda text: parse_yaml(text.encode("utf-8", "surrogatepass"), Path("kimas.yaml")),
    "expand_with_history": lambda text: expand_with_history("And then?", [Turn("user", text)]),
    "parse_entries": lambda text: parse_entries(text.encode("utf-8", "surrogatepass"), 50),
    "read_page": lambda text: read_page(text.encode("utf-8", "surrogatepass"), "https://example.org/a"),
    "parse_page_rules": lambda text: parse_page_rules([text], "kimas"),
    "decode_page": lambda text: decode_page(text.encode("utf-8", "surrogatepass")),
    "parse_robots": lambda text: parse_robots(text, "kimas"),
    "parse_sitemap": lambda text: parse_sitemap(text.encode("utf-8", "surrogatepass"), "https://example.org/", 100),
    "check_url": lambda text: check_url(f"https://{text}", ()),
    **{
        f"chunk {name}": chunking(name, kind)
        for name, kind in (
            ("a.md", "markdown"),
            ("a.py", "python"),
            ("a.rst", "rst"),
            ("a.txt", "text"),
            ("a.js", "javascript"),
        )
    },
}
