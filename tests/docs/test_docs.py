"""The documentation is true: its configurations load, its commands exist, its links lead somewhere.

Conventions for fenced blocks: a `yaml` block is a whole configuration or some of its top-level sections, unless its
first line is a comment that names another file than kimas.yaml (`# faq.yaml`). In `console` blocks a command follows
`$ `; in `sh` blocks every line is one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from bots.cli.init_template import PAGE_PORT
from core.errors import ConfigurationError
from core.settings.loader import SECRET_ENV_NAME, load_settings
from core.settings.yaml_file import read_yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]
    if page.exists()
)
FENCE = re.compile(r"^( *)```([a-z]*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^()\s]+)\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
TOP_FOLDERS = ("kimas", "bots", "core", "knowledge", "config", "tests", "systemd", "docs")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it starts, its language, and its text without the indentation of a list."""

    location: str
    language: str
    text: str


def blocks(*languages: str) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            body = re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE)
            if match[2] in languages:
                yield Block(f"{page.relative_to(ROOT)}:{line}", match[2], body)


def test_secrets_have_names_that_may_stay_in_the_environment() -> None:
    """Who removes the section again would otherwise be refused: such a variable looks like a mistyped setting."""
    texts = [*(page.read_text("utf-8") for page in PAGES), (ROOT / "config/default.yaml").read_text("utf-8")]
    names = {name for text in texts for name in re.findall(r"\benv: (KIMAS_\w+)", text)}
    assert "KIMAS_WEBUI_TOKEN" in names
    assert [name for name in names if not SECRET_ENV_NAME.fullmatch(name)] == []


def configurations() -> list[Block]:
    return [block for block in blocks("yaml") if _file_name(block.text) in ("", "kimas.yaml")]


def commands() -> list[Block]:
    """Return every command line that starts kimas, with continued lines joined."""
    results = []
    for block in blocks("console", "sh", "bash", "shell"):
        lines = re.sub(r"\\\n\s*", "", block.text).split("\n")
        if block.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        for line in lines:
            match = re.match(r"(?:sudo (?:-u \S+ )?)?(?:[A-Z_]+=\S+ )*(?:\S*/)?kimas(?: ([^|<>&;]*)|$)", line)
            if match:
                results.append(Block(block.location, block.language, match[1] or ""))
    return results


def _file_name(text: str) -> str:
    match = re.match(r"# *([\w./-]+\.\w+)", text)
    return Path(match[1]).name if match else ""


def _location(block: Block) -> str:
    return block.location


def find_problems(files: list[Path]) -> tuple[str, ...]:
    try:
        load_settings(files, (), {}, require_secrets=False)
    except ConfigurationError as error:
        return error.errors
    return ()


@pytest.mark.parametrize("block", configurations(), ids=_location)
def test_configurations_load(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "kimas.yaml"
    file.write_text(block.text, "utf-8")
    # Sections may be shown without the sources that their agents name, and files need not exist here.
    data = read_yaml(file).data
    agents = (data.get("agents") or {}).values() if isinstance(data, dict) and "sources" not in data else ()
    placeholders = "".join(f"  {name}: {{kind: files, path: .}}\n" for agent in agents for name in agent["sources"])
    files = [file]
    if placeholders:
        files.append(tmp_path / "sources.yaml")
        files[-1].write_text("sources:\n" + placeholders, "utf-8")
    assert [error for error in find_problems(files) if "does not exist" not in error] == []


def test_what_the_guide_starts_listens_on_a_port_of_its_own() -> None:
    """Whoever follows several pages gets them all: `kimas init` writes the port of the operator's page."""
    ports: dict[str, set[int]] = {"operator_page": {PAGE_PORT}, "a bridge": set()}
    for section, values in sections():
        if "port" in values:
            ports.setdefault(section, set()).add(values["port"])
        callback = str(values.get("callback_url"))
        ports["a bridge"] |= {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", callback)}
    for example in (ROOT / "config" / "examples").glob("*.py"):
        ports["a bridge"] |= {int(port) for port in re.findall(r'"BRIDGE_PORT", "(\d+)"', example.read_text("utf-8"))}
    assert ports["a bridge"]
    assert ports["api"]
    numbers = [port for section_ports in ports.values() for port in section_ports]
    assert len({*numbers}) == len(numbers), ports


def sections() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the top-level sections of the configurations in the guide."""
    for block in configurations():
        data = yaml.safe_load(block.text)
        for name, values in data.items() if isinstance(data, dict) else ():
            if isinstance(values, dict):
                yield name, values


@pytest.mark.parametrize("command", commands(), ids=lambda command: f"{command.location} {command.text}")
def test_commands_exist(command: Block) -> None:
    words = shlex.split(command.text, comments=True)
    name = parse(words)
    assert name in words if name else {"--help", "--version"} & {*words}


@pytest.mark.parametrize("line", ["aks x", "ask", "ask --jsn x", "--confg x run", "search --top-k many x", "run x"])
def test_wrong_commands_are_noticed(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(line.split())


def parse(arguments: list[str]) -> str:
    """Let the command line parse its arguments without running anything, and return the name of the command.

    There is none where `--help` or `--version` leave before it. Raises `click.UsageError`.
    """
    from bots.cli.main import main

    name: str | None = ""
    # --help and --version leave while they are parsed.
    with suppress(click.exceptions.Exit), main.make_context("kimas", list(arguments)) as context:
        name, command, rest = main.resolve_command(context, [*context._protected_args, *context.args])
        assert name is not None
        assert command is not None
        command.make_context(name, rest, parent=context).close()
    return name or ""


def _anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    broken_links = []
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text("utf-8")))
        for link in LINK.findall(text):
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            file = page.parent / target if target else page
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
                broken_links.append((page.name, link))
    assert broken_links == []


def test_the_guide_lists_every_page() -> None:
    index = ROOT / "docs/README.md"
    linked_files = {link.partition("#")[0] for link in LINK.findall(index.read_text("utf-8"))}
    pages = {page.name for page in index.parent.glob("*.md")} - {index.name}
    assert pages - linked_files == set()


def test_there_is_something_to_check() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "configure.md", "operate.md"} <= names
    assert len(configurations()) >= 3
    assert len(commands()) >= 3


def tree_paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield every path of the tree that a page names, as (as it is written, from the root).

    In a row of a table a bare name is in the folder that the row begins with; elsewhere it may be anywhere.
    """
    for line in FENCE.sub("", text).split("\n"):
        spans = CODE_SPAN.findall(line)
        folder = spans[0] if line.startswith("| `") and spans[0].endswith("/") else ""
        for span in spans:
            if re.fullmatch(rf"(?:{'|'.join(TOP_FOLDERS)})/[\w./-]*", span):
                yield span, span
            elif re.fullmatch(r"\w+(?:\.py|/)", span):
                yield span, f"{folder}{span}"


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/decisions.md", "docs/protocols.md", "CONTRIBUTING.md"])
def test_paths_exist_in_the_tree(name: str) -> None:
    text = (ROOT / name).read_text("utf-8").partition("Good models to read:")[0]
    missing_names = []
    for written, path in tree_paths(text):
        anywhere = "/" not in path.removesuffix("/") and any(
            (ROOT / top).rglob(path.rstrip("/")) for top in TOP_FOLDERS
        )
        if not (ROOT / path).exists() and not anywhere:
            missing_names.append(written)
    assert missing_names == []


def where_rows() -> list[str]:
    table = (ROOT / "docs/architecture.md").read_text("utf-8").partition("## Where things are, and where they go")[2]
    return [line for line in table.partition("\n## ")[0].split("\n") if line.startswith("| ") and "`" in line]


@pytest.mark.parametrize("row", where_rows(), ids=lambda row: row.split("|")[1].strip())
def test_names_in_the_table_of_places_are_in_the_files_beside_them(row: str) -> None:
    spans = CODE_SPAN.findall(row)
    files = [ROOT / path for written, path in tree_paths(row) if "/" in written]
    texts = [file.read_text("utf-8") for file in files if file.is_file()]
    for folder in files:
        texts += [file.read_text("utf-8") for file in folder.rglob("*.py")] if folder.is_dir() else []
    names = [span for span in spans if re.fullmatch(r"[A-Za-z_]+(?:\.[a-z_]+)?", span)]
    assert [name for name in names if not any(re.search(rf"\b{name.split('.')[-1]}\b", text) for text in texts)] == []


def test_there_are_places_to_check() -> None:
    paths = [path for _, path in tree_paths((ROOT / "docs/architecture.md").read_text("utf-8"))]
    assert len(paths) > 100
    assert len(where_rows()) > 20


def test_lines_are_short_enough_to_read() -> None:
    """Lines of prose have at most 120 characters; rows of tables and blocks of code cannot be wrapped."""
    lines = [(page.name, line) for page in PAGES for line in FENCE.sub("", page.read_text("utf-8")).split("\n")]
    long_lines = [(name, line) for name, line in lines if len(line) > 120 and not line.startswith(("|", "![", "- ["))]
    assert [(name, line) for name, line in long_lines if " " in line.strip() and not re.match(r" +\|", line)] == []
