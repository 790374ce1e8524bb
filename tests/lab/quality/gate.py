"""When to speak unasked: two sets of messages that others wrote and labelled, each with the documents they are about.

`groups`: one half of the messages of developers' groups, mostly Chinese, that were labelled for HuixiangDou, with the
documentation of the projects. The other half, by a hash of the text, is kept for judging.

`travel`: what travellers say to a booking desk (DSTC11 track 5, validation), labelled whether the knowledge, reviews
and questions with answers of hotels and restaurants, is needed for a reply. The others are booking business and
courtesies. A dialogue is one person's: who is addressed is not in the data.

`small`: 120 messages of ours in five groups (`gate_groups.jsonl`), written before the gate was changed for them: users
of Click and of Borg over the documentation of the project, and a boat club, a company and, in Chinese, users of a
gateway over a dozen texts of ours each (`gate_groups_documents.jsonl`). A third of the messages are questions to
everybody about other things, or about other products. One half of each group is fitted to, the other is held out.

`python -m tests.lab.quality.gate` fits the model that is shipped on all and on our own smoke test.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bots.daemon.bootstrap import open_app
from bots.evaluation.datasets import CorpusDocument, corpus_store, with_corpus
from bots.evaluation.gate_fitting import LabelledSet, evaluate_gate, fit_model, to_labelled_set
from core.messaging.gate.calibration import (
    GateCase,
    ScoredCase,
    auc,
    classification_scores,
    score_cases,
    split_folds,
)
from core.messaging.gate.model import SHIPPED, load_model
from core.messaging.gate.relevance import measure_relevance
from core.messaging.gate.second_opinion import is_in_doubt
from core.settings import Settings
from knowledge.ports import TextKind, Vectors
from tests.lab.quality.figures import Figure

MESSAGES = "tpoisonooo/huixiangdou-evaluation-results"
TRAVEL = "alexa/dstc11-track5"
PROJECTS = (
    "open-compass/opencompass",
    "open-mmlab/mmpose",
    "open-mmlab/mmdeploy",
    "InternLM/lmdeploy",
    "InternLM/xtuner",
    "open-mmlab/mmyolo",
    "open-mmlab/mmcv",
    "InternLM/HuixiangDou",
)
# The documentation of the small groups that have a project: its folder and its files.
SMALL_PROJECTS = {
    "click": ("pallets/click", "docs/", (".md", ".rst")),
    "borg": ("borgbackup/borg", "docs/", (".rst", ".inc")),
}
REPOSITORIES = (MESSAGES, TRAVEL, *PROJECTS, *(repository for repository, *_ in SMALL_PROJECTS.values()))
# Enough for a fit, and not so many more than the groups have.
TRAVEL_MESSAGES = 1000
OWN = Path(__file__).resolve().parents[2] / "core/data"
NAMES = {
    "groups": "developers' groups",
    "travel": "a booking desk",
    "own": "a smoke test of our own",
    "small": "five small groups",
}
SMALL_MESSAGES = Path(__file__).with_name("gate_groups.jsonl")
SMALL_DOCUMENTS = Path(__file__).with_name("gate_groups_documents.jsonl")

Row = Mapping[str, object]
Rows = Iterable[Row]


def build(mirror: Path, data: Path) -> None:
    """Write the messages and the documents of both sets in the formats of `kimas eval gate`."""
    sets: dict[str, tuple[Rows, Rows]] = {
        "groups": (_group_messages(mirror), _project_documents(mirror)),
        "travel": (_travel_messages(mirror), _travel_documents(mirror)),
    }
    for name, (messages, documents) in sets.items():
        for kind, rows in (("messages", messages), ("documents", documents)):
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            (data / f"{name}-{kind}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    for group, (repository, folder, suffixes) in SMALL_PROJECTS.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in _small_documents(mirror, repository, folder, suffixes)]
        (data / f"small-{group}-documents.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def _git(mirror: Path, repository: str, *command: str) -> str:
    folder = mirror / repository.replace("/", "+") / "repo"
    return subprocess.run(
        ["git", f"--git-dir={folder}", *command], check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout


def _hash(text: str) -> bytes:
    return hashlib.sha1("".join(text.split()).lower().encode(), usedforsecurity=False).digest()


def _group_messages(mirror: Path) -> Iterator[Mapping[str, object]]:
    for should_answer, name in ((True, "gt_good"), (False, "gt_bad")):
        lines = _git(mirror, MESSAGES, "show", f"HEAD:rejection/{name}.txt").splitlines()
        for number, line in enumerate(line for line in lines if line.strip()):
            if _hash(line)[0] % 2 == 0:
                yield {"id": f"{name}-{number}", "text": line.strip(), "should_answer": should_answer}


def _project_documents(mirror: Path) -> Iterator[Mapping[str, object]]:
    for repository in PROJECTS:
        for path in _git(mirror, repository, "ls-tree", "-r", "--name-only", "HEAD").splitlines():
            if not path.endswith((".md", ".txt")):
                continue
            try:
                text = _git(mirror, repository, "show", f"HEAD:{path}")
            except (UnicodeDecodeError, subprocess.CalledProcessError):
                continue
            if len(text) >= 50:
                source = repository.split("/")[1].lower()
                yield {"id": f"{repository}/{path}", "title": path, "text": text, "source": source}


def _small_documents(mirror: Path, repository: str, folder: str, suffixes: tuple[str, ...]) -> Iterator[Row]:
    for path in _git(mirror, repository, "ls-tree", "-r", "--name-only", "HEAD").splitlines():
        if path.startswith(folder) and path.endswith(suffixes):
            yield {"id": path, "title": path, "text": _git(mirror, repository, "show", f"HEAD:{path}")}


def _travel_messages(mirror: Path) -> Iterator[Mapping[str, object]]:
    logs, labels = (
        json.loads(_git(mirror, TRAVEL, "show", f"HEAD:data/val/{name}.json")) for name in ("logs", "labels")
    )
    messages = {log[-1]["text"]: bool(label["target"]) for log, label in zip(logs, labels, strict=True)}
    for text in sorted(messages, key=_hash)[:TRAVEL_MESSAGES]:
        yield {"id": _hash(text).hex()[:12], "text": text, "should_answer": messages[text]}


def _travel_documents(mirror: Path) -> Iterator[Mapping[str, object]]:
    knowledge = json.loads(_git(mirror, TRAVEL, "show", "HEAD:data/knowledge.json"))
    for domain, entities in knowledge.items():
        for entity_id, entity in entities.items():
            reviews = [" ".join(review["sentences"].values()) for review in entity.get("reviews", {}).values()]
            answers = [f"{faq['question']}\n{faq['answer']}" for faq in entity.get("faqs", {}).values()]
            for number, text in enumerate([*reviews, *answers]):
                identifier = f"{domain}/{entity_id}/{number}"
                yield {"id": identifier, "title": entity.get("name") or domain, "text": text, "source": domain}


class NoEmbedder:
    """An `Embedder` that knows no word: the gate's searches go by words alone."""

    name = "none"
    dimension = 2

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        return np.tile(np.array([1, 0], np.float32), (len(texts), 1))

    async def warm_up(self) -> None:
        """Nothing to load."""

    def vocabulary_coverage(self, text: str) -> float:
        return 0.0

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """The cases of a set as the gate sees them, and the score of the best passage of each by BM25."""

    name: str
    cases: Sequence[ScoredCase]
    bm25: Sequence[float]

    @property
    def labels(self) -> list[bool]:
        return [scored_case.case.should_answer for scored_case in self.cases]

    @property
    def labelled(self) -> LabelledSet:
        return to_labelled_set(self.cases, NAMES[self.name])


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


async def score_set(name: str, messages: Sequence[dict[str, Any]], documents: Sequence[dict[str, Any]]) -> MeasuredSet:
    """Ingest the documents as the daemon does, without vectors, and look at every message as the gate does."""
    corpus = [
        CorpusDocument(row["id"], row["text"], row.get("title", ""), source=row.get("source", "corpus"))
        for row in documents
    ]
    cases = [GateCase(row["id"], row["text"], row["should_answer"]) for row in messages]
    settings = with_corpus(Settings.model_validate({}), corpus)
    embedder = NoEmbedder()
    async with (
        corpus_store(corpus, embedder, chunk_tokens=settings.knowledge.chunking.tokens) as store,
        open_app(settings, embedder=embedder, store=store, with_answers=False) as app,
    ):
        scored_cases = await score_cases(cases, app.library, app.settings)
        matches = [await measure_relevance(case.text, app.library, app.settings) for case in cases]
    bm25 = [max((passage.lexical for passage in match.passages), default=0.0) for match in matches]
    return MeasuredSet(name, scored_cases, bm25)


def score_all(data: Path) -> dict[str, MeasuredSet]:
    files = {name: (data / f"{name}-messages.jsonl", data / f"{name}-documents.jsonl") for name in ("groups", "travel")}
    files["own"] = (OWN / "gate.jsonl", OWN / "gate_corpus.jsonl")
    scored = {name: asyncio.run(score_set(name, *map(_read, paths))) for name, paths in files.items()}
    return scored | {"small": _score_small_groups(data, "development")}


def _score_small_groups(data: Path, half: str) -> MeasuredSet:
    """Look at the messages of one half of each small group, over its own documents."""
    messages = [
        {**row, "id": f"{row['group']}-{number}"}
        for number, row in enumerate(_read(SMALL_MESSAGES))
        if row["half"] == half
    ]
    own_documents = [{**row, "id": row["title"]} for row in _read(SMALL_DOCUMENTS)]
    scored_sets = []
    for group in dict.fromkeys(row["group"] for row in messages):
        documents = (
            _read(data / f"small-{group}-documents.jsonl")
            if group in SMALL_PROJECTS
            else [row for row in own_documents if row["group"] == group]
        )
        group_messages = [row for row in messages if row["group"] == group]
        scored_sets.append(asyncio.run(score_set("small", group_messages, documents)))
    return MeasuredSet(
        "small",
        [case for scored_set in scored_sets for case in scored_set.cases],
        [score for scored_set in scored_sets for score in scored_set.bm25],
    )


def measure(data: Path) -> list[Figure]:
    """Measure each set fitted to its other folds, as shipped, and as shipped without its labels."""
    measured = score_all(data)
    goals: dict[str, dict[str, float | None]] = {
        "groups": {"F1": 0.79, "AUC": 0.94, "unseen": 0.85},
        "travel": {"F1": 0.88, "AUC": None, "unseen": None},
    }
    figures = []
    for name, set_goals in goals.items():
        current = measured[name]
        other_sets = [other.labelled for other in measured.values() if other is not current]
        unseen = fit_model(other_sets).model
        fitted_scores = evaluate_gate(current.cases, name, unseen, 0.5, unseen).cross_validated
        (shipped_f1, precision, recall), doubtful, doubtful_chatter = shipped_figures(current, other_sets)
        bm25_f1, bm25_auc = baseline(current)
        unseen_auc = auc([scored_set.confidence(unseen) for scored_set in current.cases], current.labels)
        figures += [
            Figure(
                f"{name}: F1, fitted to other folds", fitted_scores.scores.f1.value or 0.0, set_goals["F1"], bm25_f1
            ),
            Figure(f"{name}: AUC, fitted to other folds", fitted_scores.auc or 0.0, set_goals["AUC"], bm25_auc),
            Figure(f"{name}: AUC as shipped, without its labels", unseen_auc or 0.0, set_goals["unseen"], bm25_auc),
            Figure(f"{name}: precision as shipped, at 0.5, without its fold", precision, 0.8),
            Figure(f"{name}: recall as shipped, at 0.5, without its fold", recall),
            Figure(f"{name}: F1 as shipped, at 0.5, without its fold", shipped_f1),
            Figure(f"{name}: share of messages in doubt, for a model to judge", doubtful),
            Figure(f"{name}: share in doubt of what is to be left alone", doubtful_chatter),
        ]
    return [*figures, *_small_figures(data, [scored_set.labelled for scored_set in measured.values()])]


def _small_figures(data: Path, sets: Sequence[LabelledSet]) -> list[Figure]:
    """Return the figures of the shipped fit on the half of the small groups that it has not seen."""
    model = fit_model(sets).model
    held_out = _score_small_groups(data, "held out")
    probabilities = [scored_case.confidence(model) for scored_case in held_out.cases]
    threshold = Settings.model_validate({}).gate.threshold
    scores = classification_scores([probability >= threshold for probability in probabilities], held_out.labels)
    bm25_auc = auc(held_out.bm25, held_out.labels)
    return [
        Figure("small groups, held out: precision as shipped, at 0.5", scores.precision.value or 0.0),
        Figure("small groups, held out: recall as shipped, at 0.5", scores.recall.value or 0.0),
        Figure("small groups, held out: AUC as shipped", auc(probabilities, held_out.labels) or 0.0, None, bm25_auc),
    ]


def shipped_figures(
    current: MeasuredSet, other_sets: Sequence[LabelledSet]
) -> tuple[tuple[float, float, float], float, float]:
    """Return F1, precision and recall of the shipped fit at the default threshold on each fold that it has not seen.

    And the share of the messages that are in doubt, of all and of those to leave alone.
    """
    settings = Settings.model_validate({})
    probabilities = [0.0] * len(current.cases)
    for fold in split_folds(current.labels):
        held_out = set(fold)
        training_cases = [scored_case for index, scored_case in enumerate(current.cases) if index not in held_out]
        model = fit_model([*other_sets, to_labelled_set(training_cases, current.name)]).model
        for index in fold:
            probabilities[index] = current.cases[index].confidence(model)
    threshold = settings.gate.threshold
    scores = classification_scores([probability >= threshold for probability in probabilities], current.labels)
    doubts = [is_in_doubt(probability, threshold) for probability in probabilities]
    chatter = [is_doubtful for is_doubtful, label in zip(doubts, current.labels, strict=True) if not label]
    f1, precision, recall = (figure.value or 0.0 for figure in (scores.f1, scores.precision, scores.recall))
    return (f1, precision, recall), sum(doubts) / len(doubts), sum(chatter) / len(chatter)


def baseline(current: MeasuredSet) -> tuple[float, float]:
    """Return F1 and AUC of the best passage's BM25 score alone, its threshold fitted to the other folds."""
    labels = current.labels
    bm25 = np.array(current.bm25)
    is_speaking = [False] * len(labels)
    for fold in split_folds(labels):
        rest = np.setdiff1d(np.arange(len(labels)), fold)
        thresholds = np.unique(bm25[rest])
        f1 = [
            classification_scores((bm25[rest] >= threshold).tolist(), [labels[index] for index in rest]).f1.value or 0.0
            for threshold in thresholds[:: max(1, len(thresholds) // 50)]
        ]
        threshold = thresholds[:: max(1, len(thresholds) // 50)][int(np.argmax(f1))]
        for index in fold:
            is_speaking[index] = bool(bm25[index] >= threshold)
    return classification_scores(is_speaking, labels).f1.value or 0.0, auc(bm25.tolist(), labels) or 0.0


def ship(data: Path) -> None:
    """Fit the shipped model on all sets, and write it into the package."""
    fitted_model = fit_model([scored_set.labelled for scored_set in score_all(data).values()])
    SHIPPED.write_text(fitted_model.model.to_json(), "utf-8")
    print(f"{SHIPPED}: fitted {load_model().describe()}")


if __name__ == "__main__":
    ship(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(".cache/quality/gate"))
