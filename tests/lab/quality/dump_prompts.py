"""Makes what an answer of `whole_prompts` is written from, and puts the answers into the set.

    python -m tests.lab.quality.dump_prompts prompts MIRROR OWNER/NAME FOLDER
    python -m tests.lab.quality.dump_prompts answers OWNER/NAME FOLDER

`prompts` reads the repository as a bot with an agent per source does (`whole_prompts/OWNER+NAME.json` names the commit
and the sources) and asks it FOLDER/questions.jsonl: `id`, `language`, `kind`, `question`, and if need be `conversation`
(turns with `role` and `text`), and `query` and `translation`, which a light model would have written. It writes
FOLDER/prompts.md to read, where every passage stands once, and FOLDER/prompts.jsonl with the places of the passages.

FOLDER/answers.md is written by hand: `## ID`, then the answer. `[p2]` after a statement names the passage that it rests
on, `[p2~4,5]` says that each of 4 and 5 supports the statement as well. `answers` writes from it
`whole_prompts/OWNER+NAME.jsonl`, and FOLDER/marks.md, which shows for each mark its passage, and those that it would be
moved to: check that these do not support the sentence.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bots.daemon.bootstrap import App, open_app
from core.answering.agents.reranker import select_evidence
from core.answering.strategies import single
from core.citations.markers import find_markers
from core.evidence.rendering import passage_ref
from core.evidence.selection import lost_in_the_middle_order
from core.runtime.budget import Budget
from core.types import Passage, Question, Turn
from tests.lab.quality._retrieval import RememberingEmbedder
from tests.lab.quality.repository_questions import clone, make_settings
from tests.lab.quality.whole_prompts import FOLDER, Answer, hash_text, read_projects

# More than fit into a prompt: its room is the limit, as it is with a model.
MAX_PASSAGES = 100
# What is committed of a passage.
PLACE = ("source", "path", "lines", "title", "hash")
_MARK = re.compile(r"\[p(\d+)(?:~([\d,\s]+))?\]")
_ANSWER = re.compile(r"^## (\S+)\n(.*?)(?=^## \S+$|\Z)", re.MULTILINE | re.DOTALL)


async def write_prompts(mirror: Path, repository: str, folder: Path) -> None:
    """Read a repository and write the passages that each question finds, in the order of its prompt."""
    name = repository.replace("/", "+")
    project = read_projects()[name].project
    clone(mirror, folder, {name: project})
    settings = make_settings(folder, name, project)
    settings = settings.model_copy(update={"answer": settings.answer.model_copy(update={"passages": MAX_PASSAGES})})
    records = _read_lines(folder / "questions.jsonl")
    embedder = await RememberingEmbedder.open(folder)
    try:
        async with open_app(settings, embedder=embedder, with_answers=False) as app:
            result = await app.refresh()
            assert not result.failures, result.failures
            print({report.name: report.passages for report in result.reports})
            passages_by_id = {record["id"]: await _find_passages(record, app) for record in records}
    finally:
        await embedder.close()
    with (folder / "prompts.jsonl").open("w", encoding="utf-8") as output_file:
        for record in records:
            places = [_to_place(passage) for passage in passages_by_id[record["id"]]]
            output_file.write(json.dumps({**record, "passages": places}, ensure_ascii=False) + "\n")
    _write_for_reading(records, passages_by_id, folder / "prompts.md")


async def _find_passages(record: Mapping[str, Any], app: App) -> list[Passage]:
    history = tuple(Turn(turn["role"], turn["text"]) for turn in record.get("conversation", ()))
    query = record.get("query", "")
    budget = Budget(app.settings.budget)
    question = Question(query) if query else Question(record["question"], history)
    retrieval = await single.gather(question, app.deps, budget)
    passages = {passage.id: passage for passage in retrieval.passages}
    if translation := record.get("translation"):
        found = (await single.gather(Question(translation), app.deps, budget)).passages
        passages |= {passage.id: passage for passage in found}
        budget.translations[retrieval.query] = translation
    retrieval = type(retrieval)(retrieval.query, tuple(app.settings.agents), tuple(passages.values()))
    return lost_in_the_middle_order((await select_evidence(retrieval, app.deps, budget)).passages)


def _to_place(passage: Passage) -> dict[str, Any]:
    return {
        "source": passage.source,
        "path": passage.path,
        "lines": [passage.start_line, passage.end_line],
        "title": passage.title,
        "hash": hash_text(passage.text),
        "kind": passage.kind,
        "text": passage.text,
    }


def _write_for_reading(records: list[dict[str, Any]], passages_by_id: Mapping[str, list[Passage]], file: Path) -> None:
    labels: dict[str, str] = {}
    lines: list[str] = []
    for record in records:
        lines.append(f"\n# {record['id']} ({record['kind']}, {record['language']})")
        lines += [f"{turn['role']}: {turn['text']}" for turn in record.get("conversation", ())]
        lines.append(f"QUESTION: {record['question']}")
        for position, passage in enumerate(passages_by_id[record["id"]]):
            place = f"{passage.path}:{passage.start_line}-{passage.end_line} {passage.title}"
            if passage.text in labels:
                lines.append(f"--- {passage_ref(position)} = {labels[passage.text]} {place}")
            else:
                labels[passage.text] = f"T{len(labels) + 1}"
                lines += [f"--- {passage_ref(position)} {labels[passage.text]} {place}", passage.text]
    file.write_text("\n".join(lines) + "\n", "utf-8")


def write_answers(repository: str, folder: Path) -> None:
    """Write the lines of the set, and a list of marks to check. Raises `ValueError` for what is missing or wrong."""
    name = repository.replace("/", "+")
    texts = dict(_ANSWER.findall((folder / "answers.md").read_text("utf-8")))
    records = _read_lines(folder / "prompts.jsonl")
    if unknown_ids := texts.keys() - {record["id"] for record in records}:
        raise ValueError(f"no question has these ids: {', '.join(unknown_ids)}")
    lines = []
    marks: list[str] = []
    for record in records:
        if record["id"] not in texts:
            print(f"{record['id']}: no answer yet")
            continue
        line = make_line(record, texts[record["id"]].strip())
        marks += _list_marks(Answer.from_record(line | {"is_held_out": False}))
        # What others wrote is read when the data is built.
        places = [{key: place[key] for key in PLACE} for place in line["passages"]]
        lines.append(line | {"passages": places})
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (FOLDER / f"{name}.jsonl").write_text(text, "utf-8")
    (folder / "marks.md").write_text("\n".join(marks) + "\n", "utf-8")
    print(f"{len(lines)} answers")


def make_line(record: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a line of the set. Raises `ValueError` for marks that are none, or name no passage of the prompt."""
    count = len(record["passages"])
    marks = [(int(number), _parse_numbers(also)) for number, also in _MARK.findall(text)]
    answer = _MARK.sub(lambda match: f"[p{match[1]}]", text)
    if not marks or not all(1 <= number <= count for mark, also in marks for number in (mark, *also)):
        raise ValueError(f"{record['id']}: it needs marks, and all of them must be from p1 to p{count}")
    if [marker.positions for marker in find_markers(answer)] != [(number - 1,) for number, _ in marks]:
        raise ValueError(f"{record['id']}: a mark is in code, or names several passages: write [p1][p3]")
    keys = ("id", "language", "kind", "question")
    return {
        **{key: record[key] for key in keys},
        "conversation": record.get("conversation", []),
        "passages": record["passages"],
        "answer": answer,
        "also": [also for _, also in marks],
    }


def _parse_numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _list_marks(answer: Answer) -> list[str]:
    lines = [f"\n# {answer.id}: {answer.question.text}"]
    _, random_positions = answer.move_marks("random")
    _, next_positions = answer.move_marks("next best")
    for mark in answer.marks:
        moved = [positions.get(mark.index) for positions in (next_positions, random_positions)]
        names = ["-" if p is None else f"{passage_ref(p)} {answer.passages[p].title}" for p in (mark.position, *moved)]
        lines.append(f"{mark.sentence.strip()}\n    {' | '.join(names)}")
    return lines


def _read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    prompts_parser = commands.add_parser("prompts")
    prompts_parser.add_argument("mirror", type=Path)
    answers_parser = commands.add_parser("answers")
    for command in (prompts_parser, answers_parser):
        command.add_argument("repository")
        command.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "prompts":
        asyncio.run(write_prompts(options.mirror, options.repository, options.folder))
    else:
        write_answers(options.repository, options.folder)


if __name__ == "__main__":
    main()
