"""`kimas eval` on 5,000 documents and 1,000 questions: docstrings of what is installed, and their first sentences."""

from __future__ import annotations

import ast
import json
import random
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.lab.benchmarks.figures import Figure
from tests.support.deployment import Deployment

DOCUMENTS = 5_000
QUESTIONS = 1_000
SOURCES = 20
SHORTEST = 120
LONGEST = 1_500
# Questions that belong to none of the packages.
FOREIGN = ("weather", "football", "bread", "taxes", "roses", "trains", "opera", "cats", "rent", "sleep")
QUESTION_TEMPLATES = (
    "How is the {} today?",
    "What should I know about {}?",
    "Who is best at {}?",
    "Where do I find {}?",
)


async def measure(folder: Path) -> list[Figure]:
    folder = folder / "evaluation"
    corpus, retrieval, routing = write_set(folder)
    deployment = Deployment(folder, {})
    figures = []
    for kind, data, limit in (("retrieval", retrieval, 180.0), ("routing", routing, None)):
        started_at = time.perf_counter()
        result = deployment.kimas("eval", kind, str(data), "--corpus", str(corpus), "--json")
        seconds = time.perf_counter() - started_at
        figures.append(
            Figure(f"evaluation: {kind}, {DOCUMENTS:,} passages, {QUESTIONS:,} questions", seconds, "s", limit)
        )
        measures = json.loads(result.stdout)["ways"]["rule"]["measures"]
        name = "nDCG@10" if kind == "retrieval" else "accuracy"
        figures.append(Figure(f"evaluation: {name} of it", measures[name]["value"], ""))
    return figures


def write_set(folder: Path) -> tuple[Path, Path, Path]:
    """Write a corpus, retrieval questions and routing questions; the same on every machine with the same packages."""
    folder.mkdir(parents=True, exist_ok=True)
    by_source: dict[str, list[tuple[str, str, str]]] = {}
    for source, name, first, rest in docstrings():
        by_source.setdefault(source, []).append((name, first, rest))
    source_names = sorted(by_source, key=lambda source: -len(by_source[source]))[:SOURCES]
    dice = random.Random(1)
    pairs = [(source, *group) for source in source_names for group in by_source[source]]
    # Every source keeps some, the large ones more.
    pairs = sorted(dice.sample(pairs, min(DOCUMENTS, len(pairs))))
    corpus = [{"id": name, "text": rest, "title": name, "source": source} for source, name, _, rest in pairs]
    questions = dice.sample(pairs, QUESTIONS)
    retrieval = [
        {"id": str(n), "question": question[2], "relevant": [question[1]]} for n, question in enumerate(questions)
    ]
    routing: list[dict[str, object]] = [
        {"id": str(n), "question": question[2], "agents": [question[0]]}
        for n, question in enumerate(questions[: QUESTIONS - 40])
    ]
    foreign = [question.format(subject) for question in QUESTION_TEMPLATES for subject in FOREIGN]
    routing += [{"id": f"foreign-{n}", "question": question, "agents": []} for n, question in enumerate(foreign)]
    files = (folder / "corpus.jsonl", folder / "retrieval.jsonl", folder / "routing.jsonl")
    line_sets: tuple[list[dict[str, Any]], ...] = (corpus, retrieval, routing)
    for file, lines in zip(files, line_sets, strict=True):
        file.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")
    return files


def docstrings() -> Iterator[tuple[str, str, str, str]]:
    """Yield source, name, first sentence and the rest of every longer docstring of the packages and the library."""
    roots = (Path(sysconfig.get_paths()["purelib"]), Path(sysconfig.get_paths()["stdlib"]))
    seen_names: set[str] = set()
    for root in roots:
        for file in sorted(root.glob("*/**/*.py")):
            source = file.relative_to(root).parts[0].replace(".", "-").strip("_").lower()
            if source in ("site-packages", "test", "idlelib", "lib2to3") or not source.replace("_", "").isalnum():
                continue
            for name, text in _of(file):
                first, _, rest = text.partition("\n\n")
                key = f"{file.relative_to(root).as_posix()}:{name}"
                if 20 < len(first) < 200 and SHORTEST < len(rest) < LONGEST and first not in seen_names:
                    seen_names.add(first)
                    yield source, key, " ".join(first.split()), rest


def _of(file: Path) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text:
                yield f"{node.name}:{node.lineno}", text


if __name__ == "__main__":
    print(*write_set(Path(sys.argv[1])))
