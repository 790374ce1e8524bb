"""The command `kimas eval compare`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bots.common.terminal import confirm, make_console, print_json, step_progress
from bots.daemon.bootstrap import App
from bots.evaluation import charts, output
from bots.evaluation.comparison.cost import estimate, format_estimation
from bots.evaluation.comparison.output import comparison_as_json, comparison_charts, format_lines
from bots.evaluation.comparison.result_cache import ResultCache
from bots.evaluation.comparison.results import PASSES, ROUTER, Judgement, SystemAnswer
from bots.evaluation.comparison.run import (
    Trial,
    answer_all,
    count_missing_judgements,
    judge_all,
    make_fingerprint,
    make_systems,
    with_steady_writers,
)
from bots.evaluation.comparison.statistics import compare_judgements
from bots.evaluation.datasets import ANSWERS_LINE_FORMAT, AnswerCase, read_answers, read_cases
from bots.evaluation.judge import Judge, open_judge
from bots.evaluation.measured_knowledge import open_knowledge, read_corpus_entries
from bots.evaluation.metrics import require_package
from core.errors import ModelError, UsageError
from core.observability.logs import make_redactor
from core.settings import Settings
from core.settings.loader import get_secret_values
from knowledge.retrieval.expiry_filter import SourceVersions

RESULTS_FILE = "comparison.jsonl"


async def compare(
    settings: Settings,
    data: Path,
    corpus: Path | None,
    *,
    as_json: bool,
    plot: Path | None,
    systems: str,
    is_fresh: bool,
    is_confirmed: bool,
) -> int:
    """Answer every question with every system, have the answers judged, and print what the judgements say.

    Answers and judgements are kept in the data directory: a run that was interrupted goes on where it stopped. Raises
    `UsageError` for unusable data or options, `ModelError` when the judge fails or none of its replies can be read.
    """
    charts.check_plot(plot)
    # Before the first paid call.
    require_package("scipy")
    cases = await asyncio.to_thread(read_cases, data, read_answers, ANSWERS_LINE_FORMAT, split="test")
    corpus_entries = await read_corpus_entries(corpus)
    names = [name.strip() for name in systems.split(",") if name.strip()]
    make_systems(settings, names)
    opened = open_knowledge(with_steady_writers(settings), corpus_entries)
    async with open_judge(settings) as judge, opened as app:
        trial = await _open_trial(app, cases, names, is_fresh=is_fresh)
        _confirm(app.settings, judge, trial, is_confirmed=is_confirmed or as_json)
        answers, judgements = await _run(app, judge, trial, is_fresh=is_fresh)
    chosen_strategies = {answer.question_id: answer.strategy for answer in answers if answer.system == ROUTER}
    comparison = await asyncio.to_thread(
        compare_judgements, judgements, [system.name for system in trial.systems], chosen_strategies
    )
    if plot:
        await charts.save_charts(comparison_charts(comparison), plot)
    redact = make_redactor(get_secret_values(settings))
    if as_json:
        print_json(comparison_as_json(comparison, answers, judgements, judge.name, redact))
    else:
        output.print_lines(format_lines(comparison, answers, judgements, judge.name, redact))
    if not comparison.judged:
        raise ModelError("nothing was compared: no reply of the judge could be read")
    return 0


async def _open_trial(app: App, cases: Sequence[AnswerCase], names: Sequence[str], *, is_fresh: bool) -> Trial:
    cache = await asyncio.to_thread(ResultCache.open, app.settings.data_dir / RESULTS_FILE, is_fresh=is_fresh)
    knowledge = await SourceVersions(app.store).get_versions(list(app.settings.sources), 0)
    # The systems answer from what was opened: a corpus replaces the sources.
    systems = make_systems(app.settings, names)
    return Trial(cases, systems, knowledge, cache, make_fingerprint(app.deps.prompts))


def _confirm(settings: Settings, judge: Judge, trial: Trial, *, is_confirmed: bool) -> None:
    """Say what the run may cost; a terminal is asked whether to go on, unless it said so before."""
    missing_answers = trial.missing_answers()
    judgements = count_missing_judgements(judge, trial)
    estimation = estimate(settings, missing_answers, judgements, len(trial.systems))
    make_console(stderr=True).print(format_estimation(estimation), markup=False, soft_wrap=True)
    if (missing_answers or judgements) and not is_confirmed and not confirm("Go on?"):
        raise UsageError("nothing was compared")


@contextmanager
def _advice_to_go_on(*, is_fresh: bool) -> Iterator[None]:
    """Say how to go on when the judge fails or somebody interrupts the run."""
    command = "the same command without --fresh" if is_fresh else "the same command again"
    advice = f"What was answered and judged is kept: run {command} to go on"
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{error}\n{advice}") from error
    except asyncio.CancelledError:
        make_console(stderr=True).print(advice, markup=False, soft_wrap=True)
        raise


async def _run(app: App, judge: Judge, trial: Trial, *, is_fresh: bool) -> tuple[list[SystemAnswer], list[Judgement]]:
    if is_fresh:
        # A run that goes on later must not find results from before this one.
        await asyncio.to_thread(trial.cache.discard)
    totals = {"answering": len(trial.cases) * len(trial.systems), "judging": len(trial.cases) * PASSES}
    with _advice_to_go_on(is_fresh=is_fresh), step_progress(make_console(stderr=True), totals) as advance:
        await app.warm_up()
        answers = await answer_all(app.deps, trial, lambda: advance("answering"))
        judgements = await judge_all(judge, trial, answers, lambda: advance("judging"))
    return list(answers.values()), judgements
