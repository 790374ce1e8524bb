"""The table of the comparison: its rows, where KIMAs is behind and why, the committed figures, the picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from tests.lab import svg
from tests.lab.comparison.contract import RATE, SPREAD_S, TOKENS, TTFT_MS
from tests.lab.comparison.systems import OWN, SYSTEMS
from tests.support.deployment import ROOT

FIGURES = ROOT / "docs/benchmarks/comparison.json"
PICTURE = ROOT / "docs/images/comparison.svg"
SUBJECT = "kimas"
WIDEST_LINE = 120
UNKNOWN = "We know no reason for it; another run shows whether it stays so."
Report = Mapping[str, Any]
Reports = Mapping[str, Report]


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what is measured, in which unit, how it is read from a report. A report may lack it."""

    section: str
    name: str
    unit: str
    read: Callable[[Report], float]
    digits: int = 0
    is_high_good: bool = False
    # Why KIMAs may be behind a framework here.
    why: str = UNKNOWN
    is_ranked: bool = True

    @property
    def label(self) -> str:
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def value(self, report: Report) -> float | None:
        """Return the value, None where it was not measured."""
        try:
            return self.read(report)
        except KeyError:
            return None

    def cell(self, report: Report) -> str:
        value = self.value(report)
        return "-" if value is None else f"{value:,.{self.digits}f}"

    def is_better(self, value: float, other_value: float) -> bool:
        """Return whether one value is better than another one, as they are shown."""
        value = round(value, self.digits)
        other_value = round(other_value, self.digits)
        return value > other_value if self.is_high_good else value < other_value


def _at(part: str, name: str, less: float = 0.0) -> Callable[[Report], float]:
    return lambda report: float(report[part][name]) - less


def _top(name: str) -> Callable[[Report], float]:
    return lambda report: float(report[name])


def _share(part: str) -> Callable[[Report], float]:
    """Read the share of the throughput that the model's own times permit: one call after the last question."""

    def read(report: Report) -> float:
        load = report[part]
        last = SPREAD_S * (load["answers"] - 1) / load["answers"]
        return float(100 * (last + TTFT_MS / 1000 + TOKENS / RATE) / load["wall_s"])

    return read


def _throughput(part: str) -> Callable[[Report], float]:
    return lambda report: float(report[part]["answers"] / report[part]["wall_s"])


def _share_of_plain(*parts: str) -> Callable[[Report], float]:
    """Read the tokens of the main model with head starts, in percent of those without, over some loads together."""

    def read(report: Report) -> float:
        plain = report["without_head_starts"]
        loads = [(report[part], plain[part]) for part in parts]
        counts = [load["answers"] * load.get("rounds", 1) for load, _ in loads]
        tokens = [
            sum(count * pair[side]["answer_tokens"] for count, pair in zip(counts, loads, strict=True))
            for side in (0, 1)
        ]
        return float(100 * tokens[0] / tokens[1])

    return read


START_WHY = "KIMAs loads its database, its store and the model's client, and clusters its passages for routing."
CALLS_WHY = (
    "KIMAs asks for the messages that matter and for the complete question side by side, and may begin an answer "
    "before it knows both: more calls, for an earlier first token."
)
TOKENS_WHY = "KIMAs tells the model how to cite, and names the place of each passage."
AS_IT_STANDS = "AgentScope's static mode searches for the question as it stands, so no call precedes the answer."
FIRST_ANSWER_WHY = (
    "With the first answer KIMAs opens its connections to the embedder and the model, and searches, selects passages "
    "and writes a prompt for the first time."
)
STALL_WHY = (
    "KIMAs searches 5,000 passages on the event loop, by words and by vectors: its longest step, of some 5 ms, which "
    "would take longer in a thread. A stall is several such steps in a row."
)
ONE_CALL_LATER = f"{AS_IT_STANDS} An answer whose head start is lost, or was not begun, ends later by such a call."
FIRST = "first token above the model's"
ONE_AT_A_TIME = "One at a time, {} a conversation"
MANY = "{} at once, with a conversation"


def _rows() -> Iterator[Row]:
    section = "Start and memory"
    yield Row(section, "start to ready", "s", _top("ready_s"), 2, why=START_WHY)
    yield Row(
        section,
        "first token of the first answer, above the model's",
        "ms",
        lambda report: report["cold_first_ms"] - TTFT_MS,
        why=FIRST_ANSWER_WHY,
    )
    memory = "KIMAs has its vectors, its database and the words of each passage in memory."
    yield Row(section, "memory after the answers one at a time", "MiB", _top("memory_mib"), why=memory)
    yield Row(section, "memory at its peak", "MiB", _top("peak_mib"), why=memory)
    for word, part in (("without", "alone"), ("with", "following")):
        section = ONE_AT_A_TIME.format(word)
        yield Row(
            section,
            f"{FIRST}, p50",
            "ms",
            _at(part, "first_p50_ms", TTFT_MS),
            why=AS_IT_STANDS if part == "following" else UNKNOWN,
        )
        yield Row(section, "model calls for an answer", "", _at(part, "calls"), 2, why=CALLS_WHY)
        yield Row(section, "prompt tokens for an answer", "", _at(part, "prompt_tokens"), why=TOKENS_WHY)
        yield Row(section, "processor time for an answer", "ms", _at(part, "cpu_ms"))
    for size in (16, 64):
        part = f"crowd_{size}"
        section = MANY.format(size)
        yield Row(section, "answers a second", "", _throughput(part), 2, is_high_good=True, why=ONE_CALL_LATER)
        yield Row(section, "of what one model call permits", "%", _share(part), is_high_good=True, is_ranked=False)
        yield Row(section, f"{FIRST}, p50", "ms", _at(part, "first_p50_ms", TTFT_MS), why=AS_IT_STANDS)
        yield Row(section, f"{FIRST}, p95", "ms", _at(part, "first_p95_ms", TTFT_MS), why=AS_IT_STANDS)
        yield Row(section, "longest stall of the event loop", "ms", _at(part, "stall_ms"), why=STALL_WHY)
        yield Row(section, "processor time for an answer", "ms", _at(part, "cpu_ms"))
    yield from _head_start_rows()
    section = "Retrieval at the end of conversations"
    yield Row(section, "recall@5", "", _top("recall"), 3, is_high_good=True)
    yield Row(section, "nDCG@5", "", _top("ndcg"), 3, is_high_good=True)


def _head_start_rows() -> Iterator[Row]:
    section = "What head starts cost and bring, with a conversation"
    name = "main model's tokens, of those without"
    parts = {"one at a time": "following", "16 at once": "crowd_16", "64 at once": "crowd_64"}
    for label, part in parts.items():
        yield Row(section, f"{name}, {label}", "%", _share_of_plain(part), 1, is_ranked=False)
    yield Row(section, f"{name}, all together", "%", _share_of_plain(*parts.values()), 1, is_ranked=False)

    def plain_first_token(report: Report) -> float:
        return float(report["without_head_starts"]["following"]["first_p50_ms"]) - TTFT_MS

    yield Row(section, f"{FIRST} without them, p50, one at a time", "ms", plain_first_token, is_ranked=False)


ROWS = tuple(_rows())


def frameworks(reports: Reports) -> dict[str, Report]:
    """Return the reports of those that are compared with KIMAs: neither itself nor the bare loop."""
    return {name: report for name, report in reports.items() if SYSTEMS[name].environment != OWN}


def behind(reports: Reports) -> list[tuple[Row, list[str]]]:
    """Return the rows where a framework is ahead of KIMAs, with the titles of those."""
    subject = reports.get(SUBJECT)
    lost = []
    for row in ROWS if subject else ():
        ours = row.value(subject or {})
        ahead = [
            SYSTEMS[name].title
            for name, report in frameworks(reports).items()
            if ours is not None and (theirs := row.value(report)) is not None and row.is_better(theirs, ours)
        ]
        if ahead and row.is_ranked:
            lost.append((row, ahead))
    return lost


def read_committed() -> dict[str, dict[str, Any]]:
    """Return what was committed: name -> {machine, report}."""
    values: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    return {name: values[name] for name in SYSTEMS if name in values}


def committed_reports() -> dict[str, Report]:
    return {name: entry["report"] for name, entry in read_committed().items()}


def save(measured: Reports, machine: Mapping[str, str]) -> None:
    """Keep the figures of the systems that ran, those of the others stay; and draw the picture."""
    values: dict[str, Any] = read_committed()
    values |= {name: {"machine": dict(machine), "report": _rounded(report)} for name, report in measured.items()}
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    ordered = {name: values[name] for name in SYSTEMS if name in values}
    FIGURES.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PICTURE.write_text(draw(committed_reports()), "utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def page_lines() -> Iterator[str]:
    """Yield the section of the page of results."""
    entries = read_committed()
    reports = committed_reports()
    if not entries:
        yield "No figures are committed yet: `python -m tests.lab.comparison --save` keeps them, on a quiet machine."
        return
    machines = {json.dumps(entry["machine"]): list[str]() for entry in entries.values()}
    for name, entry in entries.items():
        machines[json.dumps(entry["machine"])].append(SYSTEMS[name].title)
    for text, titles in machines.items():
        machine = json.loads(text)
        where = f"{machine['processor']}, {machine['memory']}, {machine['system']}, Python {machine['python']}"
        yield _wrapped(f"{', '.join(titles)}: {machine['date']}, commit {machine['commit']}, {where}.")
        yield ""
    passages = sorted({report["passages"] for report in reports.values()})
    judged = sorted({report["judged"] for report in reports.values() if "judged" in report})
    yield f"Passages: {', '.join(map(str, passages))}. Judged questions: {', '.join(map(str, judged)) or 'none'}."
    for section in dict.fromkeys(row.section for row in ROWS):
        measured = {name: report for name, report in reports.items() if _has_values(section, report)}
        if measured:
            yield from ("", f"### {section}", "", *_table(section, measured))
    yield from ("", "### Where KIMAs is behind a framework", "")
    lost = [_wrapped(f"- {row.section}, {row.label}: {', '.join(ahead)}. {row.why}") for row, ahead in behind(reports)]
    yield from lost or ["Nowhere in this table."]


def _has_values(section: str, report: Report) -> bool:
    return any(row.value(report) is not None for row in ROWS if row.section == section)


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return fill(text, WIDEST_LINE, subsequent_indent=indent, break_on_hyphens=False)


def _table(section: str, reports: Reports) -> Iterator[str]:
    yield "| | " + " | ".join(SYSTEMS[name].title for name in reports) + " |"
    yield "|---" * (len(reports) + 1) + "|"
    for row in (row for row in ROWS if row.section == section):
        yield f"| {row.label} | " + " | ".join(row.cell(report) for report in reports.values()) + " |"


# What the picture shows: the section and the name of a row, and what stands above its panel.
PANELS = (
    ("Start and memory", "start to ready", "Start to ready, s"),
    (ONE_AT_A_TIME.format("with"), f"{FIRST}, p50", "One follow-up: first token, ms above the model's"),
    (MANY.format(64), "answers a second", "64 follow-ups at once: answers a second"),
    (MANY.format(64), f"{FIRST}, p95", "64 at once: first token p95, ms above the model's"),
    (MANY.format(64), "processor time for an answer", "64 at once: processor time for an answer, ms"),
    ("Retrieval at the end of conversations", "recall@5", "Retrieval in conversations: recall@5"),
)
WIDTH = 400
LABELS = 160
VALUES = 60
BAR = 18
GAP = 14
HEAD = 26
STYLE = ".subject{fill:#2f81f7}.other{fill:#8c959f}"


def draw(reports: Reports) -> str:
    """Return a picture of some rows: a panel each, a bar for each system."""
    height = HEAD + BAR * len(reports) + GAP
    panels = []
    for number, (section, name, title) in enumerate(PANELS):
        row = next(row for row in ROWS if (row.section, row.name) == (section, name))
        panels.append(_panel(title, row, reports, WIDTH * (number % 2), height * (number // 2)))
    total = height * ((len(PANELS) + 1) // 2)
    about = "KIMAs (blue) beside a bare loop and other frameworks"
    return svg.document(about, 2 * WIDTH, total, "\n".join(panels), STYLE)


def _panel(title: str, row: Row, reports: Reports, left: int, top: int) -> str:
    values = {name: row.value(report) for name, report in reports.items()}
    largest = max((value for value in values.values() if value is not None), default=0.0) or 1.0
    marks = [svg.text(left + 4, top + 16, title, "title")]
    for number, (name, value) in enumerate(values.items()):
        y = top + HEAD + BAR * number
        length = max(0.0, (value or 0.0) / largest * (WIDTH - LABELS - VALUES))
        kind = "subject" if SYSTEMS[name].title.startswith("KIMAs") else "other"
        marks += [
            svg.text(left + LABELS - 6, y + 11, SYSTEMS[name].title, anchor="end"),
            svg.rect(kind, left + LABELS, y + 1, length, 12),
            svg.text(left + LABELS + length + 5, y + 11, row.cell(reports[name])),
        ]
    return "\n".join(marks)
