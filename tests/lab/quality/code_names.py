"""Names in code blocks: how often true code is marked, and how often a made-up name is noticed.

True are the Python blocks in the documentation of eight projects, and those of the answers of `whole_prompts`. In a
second run each name that the check looks up has another ending. A project's words, modules and definitions are those of
its package alone, as an index of its code has them.
"""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.answering.agents.code_check import is_known
from core.citations.code_names import ANY_ARGUMENT, find_named_arguments, find_package_names, find_parameters
from core.language.tokens import lexical_tokens
from knowledge.retrieval.agent_index import find_modules
from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import TAG, Project, clone

PROJECTS = {
    name: Project(repository, commit, {})
    for name, repository, commit in (
        ("flask", "pallets/flask", "2ac89889f4cc330eabd50f295dcef02828522c69"),
        ("click", "pallets/click", "2c8cd3ac958a7eb316d67f2d316c27086c4c0369"),
        ("starlette", "encode/starlette", "cb8f84f5284dc301ca7a31eb732b9e140769dd48"),
        ("httpx", "encode/httpx", "ae1b9f66238f75ced3ced5e4485408435de10768"),
        ("scrapy", "scrapy/scrapy", "11079cb1c85b9e75a39a7269943c69d1a975d485"),
        ("mmengine", "open-mmlab/mmengine", "254342938d9bde1775c39ea7d5181c5d294026c4"),
        ("huey", "coleifer/huey", "358bdc58b1ce671daa65d92a5194d3d153939d6d"),
        ("skorch", "skorch-dev/skorch", "5db0ddc962117a2c3a646910ecd2e70253ff8e87"),
    )
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())
ANSWERS = Path(__file__).with_name("whole_prompts")
ENDING = "Xyz"
_CITATION = re.compile(r"[ \t]*\[p\d+(?:, p\d+)*\][ \t]*$", re.MULTILINE)
_MARKDOWN = re.compile(r"^```(?:python|py)\b[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_RST = re.compile(r"code-block:: *python[^\n]*\n(?:[ ]+:[^\n]*\n)*\n((?:(?:[ \t]+[^\n]*)?\n)+)")
# Proposals and changes of long ago name what is no more.
_PAST = re.compile(r"sep-|news|change|history", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Package:
    """What an index of a package's code knows."""

    name: str
    modules: Mapping[str, Collection[str]]
    weights: Mapping[str, float]
    files: Mapping[str, str]

    def count_arguments(self, code: str) -> tuple[int, int, int]:
        """Return how many arguments of a block can be looked up, and how many are known as they are, and renamed."""
        counts = [0, 0, 0]
        for called, argument in find_named_arguments(f"```python\n{code}\n```", {self.name}):
            name = called.rpartition(".")[2]
            parameters = {item for text in self.files.values() if name in text for item in find_parameters(text, name)}
            if parameters and ANY_ARGUMENT not in parameters:
                counts[0] += 1
                counts[1] += argument in parameters
                counts[2] += f"{argument}{ENDING}" in parameters
        return counts[0], counts[1], counts[2]

    def find_unknown(self, code: str) -> tuple[list[str], list[str]]:
        """Return the names that the check looks up in a block, and those that it would mark."""
        names = find_package_names(f"```python\n{code}\n```", {self.name})
        return names, [name for name in names if not is_known(name, self.modules, self.weights)]


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def measure(data: Path) -> list[Figure]:
    counts = {"documentation": [0, 0], "answers": [0, 0]}
    noticed: list[bool] = []
    arguments = np.zeros(3, np.int64)
    for name, project in PROJECTS.items():
        files = dict(_read(data / f"{name}.git"))
        own_files = {path: text for path, text in files.items() if re.match(rf"(?:src/)?{name}/.*\.py$", path)}
        tokens = {token for text in own_files.values() for token in lexical_tokens(text).split()}
        package = Package(name, find_modules(list(own_files)), dict.fromkeys(tokens, 1.0), own_files)
        blocks = {"documentation": list(_iter_blocks(files)), "answers": list(_iter_answers(project))}
        for kind, kind_blocks in blocks.items():
            for code in kind_blocks:
                names, unknown_names = package.find_unknown(code)
                arguments += package.count_arguments(code)
                counts[kind][0] += bool(names)
                counts[kind][1] += bool(unknown_names)
                renamed = [f"{full}{ENDING}" for full in names if "." in full]
                noticed += [not is_known(full, package.modules, package.weights) for full in renamed]
    return [
        Figure("blocks of documentation with names to look up", counts["documentation"][0], is_count=True),
        Figure("documentation: blocks marked", counts["documentation"][1] / counts["documentation"][0]),
        Figure("blocks of answers with names to look up", counts["answers"][0], is_count=True),
        Figure("answers: blocks marked", counts["answers"][1] / max(1, counts["answers"][0])),
        Figure("made-up names that are noticed", sum(noticed) / len(noticed), 0.9),
        Figure("arguments to look up", int(arguments[0]), is_count=True),
        Figure("arguments that are marked", 1 - arguments[1] / arguments[0]),
        Figure("made-up arguments that are noticed", 1 - arguments[2] / arguments[0], 0.9),
    ]


def _read(repository: Path) -> Iterator[tuple[str, str]]:
    git = ("git", f"--git-dir={repository}")
    listing = subprocess.run([*git, "ls-tree", "-r", "--name-only", TAG], check=True, capture_output=True, text=True)
    for path in listing.stdout.splitlines():
        if path.endswith((".py", ".md", ".rst")):
            content = subprocess.run([*git, "show", f"{TAG}:{path}"], check=True, capture_output=True).stdout
            yield path, content.decode("utf-8", "replace")


def _iter_blocks(files: Mapping[str, str]) -> Iterator[str]:
    for path, text in files.items():
        if not _PAST.search(path) and not path.endswith(".py"):
            pattern = _MARKDOWN if path.endswith(".md") else _RST
            yield from (textwrap.dedent(block) for block in pattern.findall(text))


def _iter_answers(project: Project) -> Iterator[str]:
    file = ANSWERS / f"{project.repository.replace('/', '+')}.jsonl"
    if file.exists():
        for line in file.read_text("utf-8").splitlines():
            yield from _MARKDOWN.findall(_CITATION.sub("", json.loads(line)["answer"]))
