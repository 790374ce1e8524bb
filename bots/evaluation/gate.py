"""`kimas eval gate`: how well the bot knows when to speak unprompted, and what would suit this data better."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bots.common.open_storage import has_database, open_database, open_existing_database
from bots.common.terminal import make_console, print_json
from bots.daemon.bootstrap import make_live_settings, open_app, require_knowledge
from bots.evaluation.charts import INTERVALS_NOTE, Chart, Point, Series, check_plot, save_charts
from bots.evaluation.datasets import RecordReader, Split, read_cases
from bots.evaluation.gate_fitting import GateEvaluation, evaluate_gate
from bots.evaluation.measured_knowledge import open_knowledge, read_corpus_entries
from bots.evaluation.output import print_lines, score_table, scores_as_json, to_yaml_lines
from core.errors import UsageError
from core.formatting import pluralize, strip_control_characters
from core.messaging.gate.calibration import (
    CalibrationResult,
    GateCase,
    ScoredCase,
    require_enough_cases,
    score_cases,
)
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL
from core.messaging.gate.model import SHIPPED, GateModel, load_model
from core.messaging.gate.second_opinion import is_in_doubt
from core.settings import Settings
from core.settings.chats import parse_argument
from core.types import ConversationKey, Message
from knowledge.stores import require_ingested

GATE_CASE_FORMAT = '{"id", "text", "should_answer": true or false} (docs/groups.md)'
# Where `--fit` writes its model, in the data directory.
MODEL_FILE = "gate-model.json"
# The name of a model that was fitted to ratings.
RATINGS = "ratings"
_SHOWN_CHARS = 60
# The author of the change in the audit.
OPERATOR = "command line"
_APPLY_HINT = "Nothing was changed; --apply sets it."


async def gate(
    settings: Settings,
    data: Path | None,
    corpus: Path | None,
    *,
    fit: bool,
    as_json: bool,
    plot: Path | None = None,
    explain: bool = False,
) -> int:
    """Measure the gate on labelled messages, without `data` on those that people rated.

    The data is checked before anything is opened. Raises `UsageError` where there is none, or too little to fit.
    """
    check_plot(plot)
    cases = await _read_gate_cases(settings, data, "fit" if fit else "test")
    if fit:
        require_enough_cases(cases, "--fit", "Label more of them.")
    async with open_knowledge(settings, await read_corpus_entries(corpus)) as app:
        scored_cases = await score_cases(cases, app.library, app.settings)
    model = await asyncio.to_thread(load_model, settings.gate.model or SHIPPED)
    shipped_model = await asyncio.to_thread(load_model)
    measurement = await asyncio.to_thread(
        evaluate_gate, scored_cases, data.name if data else RATINGS, model, settings.gate.threshold, shipped_model
    )
    model_file = settings.data_dir / MODEL_FILE
    if fit:
        await asyncio.to_thread(_write_model, measurement.model, model_file)
    if plot:
        await save_charts(gate_charts(scored_cases, measurement, model, settings.gate.threshold), plot)
    explanations = explain_cases(scored_cases, model, settings) if explain else ()
    if as_json:
        messages = {"messages": [asdict(item) for item in explanations]} if explain else {}
        print_json({**gate_as_json(measurement, model_file if fit else None), **messages})
        return 0
    print_lines([*map(str, explanations), *_format_measurement(measurement, model_file if fit else None)])
    return 0


def _format_measurement(measurement: GateEvaluation, model_file: Path | None) -> list[str]:
    rows = {
        "as configured": measurement.configured.scores,
        "fitted, cross-validated": measurement.cross_validated.scores,
    }
    auc_line = (
        f"AUC {_format_auc(measurement.configured.auc)} as configured, "
        f"{_format_auc(measurement.cross_validated.auc)} cross-validated; "
        f"intervals hold {CONFIDENCE_LEVEL:.0%} of the resamples"
    )
    heading = f"{pluralize(measurement.cases, 'case')}, {measurement.rule_based_count} judged by their words alone"
    lines = [heading, *score_table(rows), auc_line]
    if measurement.shortage:
        lines.append(f"Nothing was cross-validated: that needs {measurement.shortage}.")
    if model_file:
        section = {"gate": {"threshold": measurement.threshold, "model": json.dumps(str(model_file.absolute()))}}
        lines += [f"# fitted {measurement.model.describe()}", *to_yaml_lines(section)]
    return lines


async def _read_gate_cases(settings: Settings, data: Path | None, split: Split) -> Sequence[GateCase]:
    if data:
        return await asyncio.to_thread(read_cases, data, parse_gate_case, GATE_CASE_FORMAT, split=split)
    from core.storage.feedback import FeedbackRepository

    async with open_existing_database(settings) as database:
        questions = await FeedbackRepository(database).get_labelled_questions(None) if database else ()
    if not questions:
        raise UsageError("nobody has rated anything yet: give a file of labelled messages")
    return [GateCase(f"{item.platform}:{item.chat}:{item.id}", item.text, item.is_good) for item in questions]


@dataclass(frozen=True, slots=True)
class CaseExplanation:
    """How sure the gate is of one message, and the features that weigh most; None and "" where words alone decide.

    `in_doubt`: a model judges it, where one is configured: the bot would speak, or nearly so.
    """

    id: str
    should_answer: bool
    probability: float | None
    in_doubt: bool
    why: str
    text: str

    def __str__(self) -> str:
        """One line."""
        sure = "    " if self.probability is None else f"{self.probability:.2f}"
        label = "answer" if self.should_answer else "leave "
        doubt = "in doubt" if self.in_doubt else "        "
        line = " ".join(self.text.split())
        short_text = line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]} …"
        return f"{sure}  {doubt}  {label}  {short_text}  ({self.why or 'by its words alone'})"


def explain_cases(
    scored_cases: Sequence[ScoredCase], model: GateModel, settings: Settings
) -> Sequence[CaseExplanation]:
    """Return for every case how the gate sees it."""
    explanations = []
    for scored_case in scored_cases:
        case = scored_case.case
        features = scored_case.features
        probability = None if features is None else round(model.probability(features), 4)
        explanations.append(
            CaseExplanation(
                case.id,
                case.should_answer,
                probability,
                probability is not None and is_in_doubt(probability, settings.gate.threshold),
                "" if features is None else model.explain(features),
                case.text,
            )
        )
    return explanations


def _write_model(model: GateModel, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # A daemon may read it meanwhile.
    temporary = file.with_suffix(".new")
    temporary.write_text(model.to_json(), "utf-8")
    temporary.replace(file)


def gate_as_json(measurement: GateEvaluation, model_file: Path | None) -> Mapping[str, Any]:
    """Return the object that `kimas eval gate --json` prints (a contract)."""
    outcomes = {"configured": measurement.configured, "crossed": measurement.cross_validated}
    return {
        "kind": "gate",
        "cases": measurement.cases,
        "by_words": measurement.rule_based_count,
        "level": CONFIDENCE_LEVEL,
        **{
            name: {**scores_as_json(outcome.scores), "auc": None if outcome.auc is None else round(outcome.auc, 4)}
            for name, outcome in outcomes.items()
        },
        **(
            {
                "fitted": {
                    "threshold": measurement.threshold,
                    "model": str(model_file.absolute()),
                    "date": measurement.model.date,
                    "messages": sum(fitted_set.messages for fitted_set in measurement.model.fitted_on),
                }
            }
            if model_file
            else {}
        ),
    }


def _format_auc(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def parse_gate_case(record: RecordReader) -> GateCase:
    """Read one line of labelled data."""
    return GateCase(record.get_text("id"), record.get_text("text"), record.get_bool("should_answer"))


def gate_charts(
    scored_cases: Sequence[ScoredCase], measurement: GateEvaluation, model: GateModel, threshold: float
) -> Sequence[Chart]:
    """Return precision against recall over thresholds, where the configured one stands, and what fitting brings."""
    predictions = [(scored_case.confidence(model), scored_case.case.should_answer) for scored_case in scored_cases]
    series = [Series("each threshold, as configured", precision_recall_curve(predictions))]
    outcomes = (
        ("as configured", measurement.configured, f"threshold {threshold:g}"),
        ("fitted, cross-validated", measurement.cross_validated, ""),
    )
    for name, outcome, label in outcomes:
        recall = outcome.scores.recall.value
        precision = outcome.scores.precision
        if recall is not None and precision.value is not None:
            point = Point(recall, precision.value, precision.low, precision.high)
            series.append(Series(name, [point], is_joined=False, label=label))
    return [Chart(f"When to speak, {measurement.cases} messages; {INTERVALS_NOTE}", "recall", "precision", series)]


def precision_recall_curve(predictions: Sequence[tuple[float, bool]]) -> Sequence[Point]:
    """Return the curve over all thresholds that part the cases, from the strictest on; empty where none is wanted."""
    positive_count = sum(is_positive for _, is_positive in predictions)
    sorted_predictions = sorted(predictions, reverse=True)
    points = []
    true_positives = 0
    for count, (probability, is_positive) in enumerate(sorted_predictions, 1):
        true_positives += is_positive
        # Cases with equal scores pass a threshold together.
        if (
            positive_count
            and probability > 0
            and (count == len(sorted_predictions) or sorted_predictions[count][0] < probability)
        ):
            points.append(Point(true_positives / positive_count, true_positives / count))
    return points


async def calibrate(settings: Settings, chat: str, *, apply: bool, as_json: bool) -> int:
    """Show which threshold suits a chat (`platform:chat`), and with `apply` set it. Works beside a running daemon.

    Raises `UsageError` for too few rated questions or no knowledge, `StoreError`, `EmbeddingError`.
    """
    name = parse_argument(chat)
    # Reading creates nothing: before the first answer there is no database.
    if not await has_database(settings):
        raise UsageError("nobody has rated anything yet")
    now = datetime.now(UTC)
    key = ConversationKey(name.platform, name.id)
    message = Message(uuid.uuid4().hex, key, OPERATOR, OPERATOR, "auto", now, command="threshold")
    calibration = await _calibrate_chat(settings, message, apply=apply)
    if as_json:
        print_json(_as_json(calibration, chat, applied=apply and calibration.is_better))
        return 0
    from core.messaging.commands.chat_commands import format_result

    lines = [
        f"{chat}: {format_result(calibration, is_applied=apply)}",
        *([_APPLY_HINT] if calibration.is_better and not apply else []),
    ]
    make_console().print(strip_control_characters("\n\n".join(lines)), markup=False, soft_wrap=True)
    return 0


async def _calibrate_chat(settings: Settings, message: Message, *, apply: bool) -> CalibrationResult:
    from core.messaging.commands.chat_commands import calibrate_for_chat, set_threshold
    from core.storage.overrides import get_chat_name

    await require_ingested(settings)
    database = await open_database(settings)
    try:
        live = make_live_settings(settings, database)
        async with open_app(settings, database=database, live=live, with_answers=False) as app:
            require_knowledge(app)
            await live.load()
            current_threshold = live.threshold(get_chat_name(message))
            calibration = await calibrate_for_chat(database, message.key, app.deps.library, settings, current_threshold)
        if apply and calibration.is_better:
            await set_threshold(live.overrides, message, calibration, settings)
        return calibration
    finally:
        await database.close()


def _as_json(calibration: CalibrationResult, chat: str, *, applied: bool) -> Mapping[str, Any]:
    """Return the object that `kimas feedback --calibrate --json` prints (a contract)."""
    return {
        "chat": chat,
        "answer": calibration.answer_count,
        "leave": calibration.ignore_count,
        "by_words": calibration.rule_based_count,
        "before": calibration.current_threshold,
        "fitted": calibration.fitted_threshold,
        "after": calibration.recommended_threshold,
        "applied": applied,
        "present": scores_as_json(calibration.current_scores),
        "crossed": scores_as_json(calibration.cross_validated_scores),
    }
