"""Retrieval in conversations: the 332 answerable questions of MTRAG-UN, over the passages that its tasks name.

MTRAG-UN (Rosenthal et al., ACL Findings 2026) judges which passages of four collections answer the last question of a
conversation. The collections themselves are too large to fetch, so the corpus is every passage that a task of
MTRAG-UN shows, with the passages of MTRAG's judged answers as distractors. Rules complete the question, as for users
without a language model.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from bots.daemon.bootstrap import App, open_app
from bots.evaluation.datasets import CorpusDocument, corpus_store, run_concurrently, with_corpus
from core.answering.agents.context_manager import rule_based_query
from core.answering.agents.search import ranked_search
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Question, Turn
from tests.lab.quality._retrieval import RememberingEmbedder, bm25_alone, ndcg, recall
from tests.lab.quality.figures import Figure

REPOSITORY = "IBM/mt-rag-benchmark"
REPOSITORIES = (REPOSITORY,)
COLLECTIONS = ("clapnq", "cloud", "fiqa", "govt")


def build(mirror: Path, data: Path) -> None:
    """Write `corpus.jsonl` and `questions.jsonl`."""
    relevant: dict[str, list[str]] = {}
    for collection in COLLECTIONS:
        for line in _read(mirror, f"mtragun-human/retrieval_tasks/qrels/{collection}.tsv").splitlines()[1:]:
            question, document, _ = line.split("\t")
            relevant.setdefault(question, []).append(document)
    tasks = [json.loads(line) for line in _read(mirror, "mtragun-human/generation_tasks/reference.jsonl").splitlines()]
    records = json.loads(_read(mirror, "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"))
    passages = [passage for task in tasks for passage in task["contexts"]] + records["documents"]
    texts = {passage["document_id"]: passage["text"] for passage in passages if passage["text"].strip()}
    questions = [_question(task, relevant[task["task_id"]]) for task in tasks if task["task_id"] in relevant]
    _write(data / "corpus.jsonl", [{"id": name, "text": text} for name, text in texts.items()])
    _write(data / "questions.jsonl", questions)


def _question(task: dict[str, Any], relevant: list[str]) -> dict[str, Any]:
    *history, question = task["input"]
    turns = [["user" if turn["speaker"] == "user" else "assistant", turn["text"]] for turn in history]
    return {"question": question["text"], "history": turns, "relevant": relevant}


def _read(mirror: Path, path: str) -> str:
    folder = mirror / REPOSITORY.replace("/", "+") / "repo"
    command = ["git", f"--git-dir={folder}", "show", f"HEAD:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout


def _write(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")


def measure(data: Path) -> list[Figure]:
    return asyncio.run(_measure(data))


async def _measure(data: Path) -> list[Figure]:
    documents = [CorpusDocument(**json.loads(line)) for line in (data / "corpus.jsonl").open(encoding="utf-8")]
    lines = [json.loads(line) for line in (data / "questions.jsonl").open(encoding="utf-8")]
    settings = with_corpus(Settings.model_validate({"data_dir": data / "kimas"}), documents)
    embedder = await RememberingEmbedder.open(data)
    try:
        async with (
            corpus_store(documents, embedder, chunk_tokens=settings.knowledge.chunking.tokens) as store,
            open_app(settings, embedder=embedder, store=store, with_answers=False) as app,
        ):
            rankings = await run_concurrently(lambda line: _search(line, app), lines)
    finally:
        await embedder.close()
    figures = []
    for name, measure_of, cutoff, goal in (
        ("recall", recall, 5, 0.778),
        ("recall", recall, 10, None),
        ("nDCG", ndcg, 5, None),
        ("nDCG", ndcg, 10, 0.774),
    ):
        values = [
            [measure_of(ranking, line["relevant"], cutoff) for ranking in pair]
            for line, pair in zip(lines, rankings, strict=True)
        ]
        ours, baseline = (sum(column) / len(values) for column in zip(*values, strict=True))
        figures.append(Figure(f"{name}@{cutoff}", ours, goal, baseline))
    return figures


async def _search(line: dict[str, Any], app: App) -> tuple[list[str], list[str]]:
    question = Question(line["question"], tuple(Turn(role, text) for role, text in line["history"] if text.strip()))
    ranked_passages = await ranked_search(rule_based_query(question), app.deps, Budget(app.settings.budget))
    baseline = await bm25_alone(question.text, app.settings.sources, app.store)
    ours, theirs = ([passage.path for passage in passages] for passages in (ranked_passages.passages, baseline))
    return list(dict.fromkeys(ours)), list(dict.fromkeys(theirs))
