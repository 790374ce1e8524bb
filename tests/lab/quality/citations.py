"""The citation check on statements about public projects: do false ones lose their citation, and no true one?

The statements are ours (`citations.jsonl`): half are true of the passage that they cite, half are not. Each names the
repository, the commit, the path and the lines; the passage itself is read when the data is built. Statements of the
language `cross` are not in the passage's language: the check has to leave them to the look-back. Passages are divided
by a hash; only the development half was looked at while the rules were made.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.citations.check import check_citations
from core.types import Passage
from tests.lab.quality.figures import Figure

STATEMENTS = Path(__file__).with_suffix(".jsonl")
REPOSITORIES = (
    "scrapy/scrapy",
    "pallets/click",
    "optuna/optuna",
    "InternLM/lmdeploy",
    "open-compass/opencompass",
    "open-mmlab/mmpose",
    "InternLM/xtuner",
    "InternLM/HuixiangDou",
)
NEIGHBOURS = 2


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement about a passage, whether it is true, and whether its citation was removed."""

    id: str
    text: str
    language: str
    is_true: bool
    is_held_out: bool
    is_removed: bool = False


def build(mirror: Path, data: Path) -> None:
    write_statements(STATEMENTS, mirror, data)


def write_statements(file: Path, mirror: Path, data: Path) -> None:
    """Write the statements of a file with the texts of their passages."""
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    files: dict[tuple[str, str, str], list[str]] = {}
    with (data / "statements.jsonl").open("w", encoding="utf-8") as output_file:
        for record in records:
            record_key = record["repository"], record["commit"], record["path"]
            if record_key not in files:
                folder = mirror / record["repository"].replace("/", "+") / "repo"
                command = ["git", "-C", str(folder), "show", f"{record['commit']}:{record['path']}"]
                text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                files[record_key] = text.split("\n")
            first, last = record["lines"]
            record["text"] = "\n".join(files[record_key][first - 1 : last])
            output_file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_statements(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (data / "statements.jsonl").read_text("utf-8").splitlines()]


def measure(data: Path) -> list[Figure]:
    """Check every statement as the answer of a model would be."""
    statements = check_all(read_statements(data))
    wrong_statements = [
        f"{item.id} {item.text}" for item in statements if item.is_removed is item.is_true and not item.is_held_out
    ]
    (data / "mistakes.txt").write_text("\n".join(wrong_statements), "utf-8")
    figures = []
    for name, selects in HALVES.items():
        selected_statements = [item for item in statements if item.language != "cross" and selects(item)]
        true = [item.is_removed for item in selected_statements if item.is_true]
        false = [item.is_removed for item in selected_statements if not item.is_true]
        is_whole = name == "all"
        figures += [
            Figure(f"true citations lost, {name}", _share(true), 0.02 if is_whole else None, lower_is_better=True),
            Figure(f"false citations removed, {name}", _share(false), 0.8 if is_whole else None),
        ]
    cross = [item.is_removed for item in statements if item.language == "cross"]
    return [*figures, Figure("citations across languages lost", _share(cross), 0.0, lower_is_better=True)]


HALVES: Mapping[str, Callable[[Statement], bool]] = {
    "all": lambda item: True,
    "development": lambda item: not item.is_held_out,
    "held out": lambda item: item.is_held_out,
    "English": lambda item: item.language == "en",
    "Chinese": lambda item: item.language == "zh",
}


def check_all(records: Sequence[Mapping[str, Any]]) -> list[Statement]:
    """Return the statements with what the check did to their citations, beside other passages of the same project."""
    passages = {_record_key(record): _to_passage(record) for record in records}
    statements = []
    for record in records:
        record_key = _record_key(record)
        neighbours = [other for key, other in passages.items() if key[0] == record_key[0] and key != record_key][
            :NEIGHBOURS
        ]
        check = check_citations(f"{record['statement']} [p1]", [passages[record_key], *neighbours])
        statements.append(_to_statement(record, is_removed=bool(check.changes)))
    return statements


def _to_statement(record: Mapping[str, Any], *, is_removed: bool) -> Statement:
    is_held_out = hashlib.sha256(repr(_record_key(record)).encode()).digest()[0] % 2 == 1
    label = record["label"] == "true"
    language = record["language"]
    return Statement(record["id"], record["statement"], language, label, is_held_out, is_removed)


def _record_key(record: Mapping[str, Any]) -> tuple[str, str, int]:
    return record["repository"], record["path"], record["lines"][0]


def _to_passage(record: Mapping[str, Any]) -> Passage:
    first, last = record["lines"]
    kind = "rst" if record["path"].endswith(".rst") else "markdown"
    identifier = f"{record['path']}:{first}"
    return Passage(identifier, record["repository"], record["path"], "", record["text"], "", kind, first, last)


def _share(values: Sequence[bool]) -> float:
    return sum(values) / max(1, len(values))
