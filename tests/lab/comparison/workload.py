"""What all systems are given: documents, questions with and without a conversation, and judged questions.

The documents are this repository's guide and as much source of Python's standard library as makes 5,000 passages, cut
so small that no system cuts them further. The judged questions are those of MTRAG (Katsis et al., 2025) whose passages
are known: the conversations, relevant passages and completed questions are MTRAG's, the corpus is that of
`tests/lab/quality/multi_turn.py`.
"""

from __future__ import annotations

import json
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tests.lab.comparison.contract import Document, Query
from tests.lab.quality.multi_turn import COLLECTIONS, REPOSITORY
from tests.support.deployment import ROOT

PASSAGE_CHARS = 500
FORMS = ("How do I set {}?", "What does the guide say about {}?", "Where is {} explained, and how does it work?")
SUBJECTS = (
    "the daily limit of tokens",
    "quiet hours of comments",
    "the cooldown of the gate",
    "a standing query",
    "the signing secret of the HTTP network",
    "the scopes of a Slack app",
    "the token of a Telegram bot",
    "the message content intent on Discord",
    "Socket Mode",
    "the privacy mode of a bot in groups",
    "a git source",
    "a website source",
    "a FAQ file",
    "the rerank model",
    "fallback endpoints",
    "the vision model",
    "a persona",
    "the deadline of an answer",
    "shares of the budget",
    "search strategies",
    "routing between agents",
    "the weights of the gate",
    "thresholds of a chat",
    "feedback with thumbs",
    "the hand-off to people",
    "learning answers for the FAQ",
    "delegated admins",
    "the audit of changes",
    "the store on Weaviate",
    "evaluation of retrieval",
    "metrics and health",
    "the systemd service",
    "retention in the journal",
    "earlier answers given again",
    "rewriting of questions",
    "a remote RAG service",
    "pictures that are attached",
)
# A question that depends on the conversation, and what a model makes of it.
FOLLOW_UPS = {
    "What is the default?": "What is the default of {}?",
    "How do I change it?": "How do I change {}?",
    "Does it work in a private chat?": "Does {} work in a private chat?",
    "And who may do that?": "Who may change {}?",
    "How can I check it?": "How can I check {}?",
    "What happens when it fails?": "What happens when {} fails?",
    "Can I turn it off?": "Can I turn off {}?",
    "Why is it there?": "Why is there {}?",
    "Is it the same on Slack?": "Is {} the same on Slack?",
    "What does it cost?": "What does {} cost?",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A question, what a model that is asked to complete it says, and the ids of the documents that answer it."""

    query: Query
    completed: str
    relevant: tuple[str, ...] = ()

    def for_model(self) -> tuple[str, str, str]:
        """Return what the model needs to know of it: how it finds the case again, and its reply."""
        user_texts = [text for role, text in self.query.history if role == "user"] or [self.query.question]
        return self.query.question, user_texts[-1], self.completed

    def for_worker(self) -> dict[str, Any]:
        return asdict(self.query)


def make_documents(count: int) -> list[Document]:
    """Return the guide's passages, and passages of the standard library up to `count`."""
    return [Document(f"d{number:05}", text) for number, text in enumerate(islice(_passages(), count))]


def _passages() -> Iterator[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    sources = (path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts)
    for path in (*sorted((ROOT / "docs").glob("*.md")), *sources):
        yield from _split_passages(path.read_text("utf-8", "ignore"))


def _split_passages(text: str) -> Iterator[str]:
    """Yield whole paragraphs, as many as fit; longer ones are cut at lines where there are any."""
    passage = ""
    for paragraph in text.split("\n\n"):
        for line in paragraph.splitlines(keepends=True):
            if passage and len(passage) + len(line) > PASSAGE_CHARS:
                yield passage.strip()
                passage = ""
            passage = (passage + line)[:PASSAGE_CHARS]
        passage += "\n"
        if len(passage) > PASSAGE_CHARS / 2:
            yield passage.strip()
            passage = ""


def make_standalone(count: int) -> list[Case]:
    """Return questions without a conversation."""
    texts = [form.format(subject) for form in FORMS for subject in SUBJECTS]
    return [Case(Query(text), text) for text in texts[:count]]


def make_follow_ups(count: int) -> list[Case]:
    """Return questions that depend on their conversation, no two alike: with another one, or after another one."""
    cases = [
        Case(Query(follow_up, _conversation(form, subject)), completed.format(subject))
        for form in FORMS
        for follow_up, completed in FOLLOW_UPS.items()
        for subject in SUBJECTS
    ]
    return cases[:count]


def _conversation(form: str, subject: str) -> tuple[tuple[str, str], ...]:
    return (
        ("user", "Which license does it have?"),
        ("assistant", "The license is in the file LICENSE."),
        ("user", form.format(subject)),
        ("assistant", f"The guide has a section about {subject}, with its settings and an example."),
    )


def read_judged(folder: Path) -> tuple[list[Document], list[Case]] | None:
    """Return the corpus and the judged questions; None where they are not built."""
    corpus = folder / "corpus.jsonl"
    questions = folder / "judged.jsonl"
    if not (corpus.exists() and questions.exists()):
        return None
    names: dict[str, str] = {}
    documents = []
    for number, line in enumerate(map(json.loads, corpus.read_text("utf-8").splitlines())):
        # Their names have characters that those of files may not have.
        names[line["id"]] = f"m{number:05}"
        documents.append(Document(names[line["id"]], line["text"]))
    cases = [
        Case(
            Query(line["question"], tuple((role, text) for role, text in line["history"])),
            line["completed"],
            tuple(names[name] for name in line["relevant"]),
        )
        for line in map(json.loads, questions.read_text("utf-8").splitlines())
    ]
    return documents, cases


def build_judged(mirror: Path, folder: Path) -> int:
    """Write `judged.jsonl` beside the corpus of `tests.lab.quality.multi_turn`; return how many questions it has."""
    document_ids = {json.loads(line)["id"] for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()}
    completed: dict[str, str] = {}
    relevant: dict[str, list[str]] = {}
    for collection in COLLECTIONS:
        base = f"mtrag-human/retrieval_tasks/{collection}"
        for line in map(json.loads, _read(mirror, f"{base}/{collection}_rewrite.jsonl").splitlines()):
            completed[line["_id"]] = line["text"].removeprefix("|user|:").strip()
        for row in _read(mirror, f"{base}/qrels/dev.tsv").splitlines()[1:]:
            task, document, _ = row.split("\t")
            relevant.setdefault(task, []).append(document)
    tasks = json.loads(_read(mirror, "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"))["tasks"]
    judged = [
        _judged_line(task, completed[name], relevant[name])
        for task in tasks
        if (name := task["task_id"]) in relevant and name in completed and document_ids.issuperset(relevant[name])
    ]
    lines = list(dict.fromkeys(json.dumps(line, ensure_ascii=False) for line in judged))
    (folder / "judged.jsonl").write_text("".join(line + "\n" for line in lines), "utf-8")
    return len(lines)


def _judged_line(task: dict[str, Any], completed: str, relevant: Sequence[str]) -> dict[str, Any]:
    *history, question = task["input"]
    turns = [["user" if turn["speaker"] == "user" else "assistant", turn["text"]] for turn in history]
    return {"question": question["text"], "history": turns, "completed": completed, "relevant": list(relevant)}


def _read(mirror: Path, path: str) -> str:
    git_folder = mirror / REPOSITORY.replace("/", "+") / "repo"
    command = ["git", f"--git-dir={git_folder}", "show", f"HEAD:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout
