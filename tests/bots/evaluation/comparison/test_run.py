"""`kimas eval compare`: strategies side by side, judged by a model that may be biased, forgetful or interrupted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bots.evaluation.comparison.command import compare
from bots.evaluation.comparison.cost import Estimation, estimate, format_estimation
from bots.evaluation.comparison.result_cache import ResultCache
from bots.evaluation.comparison.results import CRITERIA, Judgement
from bots.evaluation.comparison.run import make_fingerprint, make_systems, order_systems, parse_scores
from bots.evaluation.comparison.statistics import OVERALL, Pair, PairTest, TTest, compare_judgements, correct_by_holm
from bots.evaluation.judge import without_chance
from core.errors import UsageError
from core.llm.prompts import Prompts
from core.messaging.gate.classification_metrics import Estimate
from core.settings import ModelSettings, Settings
from core.settings.loader import load_settings
from core.storage.usage import TokenUsage
from tests.support.deployment import Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.scripted import Body, ScriptedPeer
from tests.support.terminal import open_kimas
from tests.support.waiting import until

ANSWER = re.compile(r'<answer id="(\w)">\n(.*?)\n</answer>', re.DOTALL)
SYSTEMS = ("single", "parallel", "simple", "react")
QUESTIONS = 6
WARM = {"base_url": "http://127.0.0.1/v1", "model": "m", "temperature": 0.7}
UNKNOWN = Estimate(None, None, None)


class ScriptedJudge(LanguageModelPeer):
    """Scores an answer by the words that it has, and by its position as `bias` says. `reply` may spoil the JSON."""

    def __init__(self, spoil: Callable[[Body, str], str] = lambda _, reply: reply, bias: Sequence[int] = ()) -> None:
        super().__init__(reply=self._judge)
        self._spoil = spoil
        self._bias = bias

    def _judge(self, body: Body) -> str:
        request = body["messages"][1]["content"]
        scores_by_label = {}
        for position, (label, text) in enumerate(ANSWER.findall(request)):
            worth = (
                1 + ("pip" in text) + ("Python" in text) + (self._bias[position] if position < len(self._bias) else 0)
            )
            scores_by_label[label] = {"reason": f"{len(text)} characters", **dict.fromkeys(CRITERIA, min(5, worth))}
        return self._spoil(body, f"Here you are:\n{json.dumps(scores_by_label)}")


def _write_questions(path: Path, count: int) -> Path:
    lines = [{"id": f"q{number}", "question": f"How do I install Rocket {number}?"} for number in range(count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return _write_questions(tmp_path / "questions.jsonl", QUESTIONS)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "documents.jsonl"
    path.write_text(json.dumps({"id": "install.md", "text": "Install Rocket with pip. It needs Python 3.11."}), "utf-8")
    return path


def _deployment(folder: Path, writer: LanguageModelPeer, judge: LanguageModelPeer | None) -> Deployment:
    main = {"base_url": writer.base_url, "model": "writer", "price_prompt": 1.0, "price_completion": 2.0}
    judging = {"judge": {**main, "base_url": judge.base_url, "model": "judge"}} if judge else {}
    return Deployment(folder, {"models": {"main": main, **judging}, "knowledge": {"search": {"rerank": "none"}}})


async def _compare(deployment: Deployment, data: Path, corpus: Path, *options: str) -> Any:
    arguments = ("eval", "compare", str(data), "--corpus", str(corpus), *options)
    return await asyncio.to_thread(deployment.json, *arguments)


class Writer(ScriptedPeer):
    """Writes a better answer for `parallel`, whose evidence it knows by the split question."""

    def __init__(self) -> None:
        super().__init__(write=self._by_strategy, split='{"questions": ["install Rocket", "which Python"]}', react="ok")

    def _by_strategy(self, body: Body) -> str:
        is_split = any("You split a question" in str(item["messages"][0]["content"]) for item in self.requests[-2:-1])
        return "Use pip, with Python 3.11 [p1]." if is_split else "Use pip [p1]."


async def test_twenty_questions_and_four_systems(corpus: Path, tmp_path: Path) -> None:
    data = _write_questions(tmp_path / "questions.jsonl", 20)
    picture = tmp_path / "compare.png"
    async with Writer() as writer, ScriptedJudge() as judge:
        deployment = _deployment(tmp_path, writer, judge)
        options = ("--systems", ",".join(SYSTEMS), "--plot", str(picture))
        comparison = await _compare(deployment, data, corpus, *options)
        writer_count = len(writer.requests)
        judge_count = len(judge.requests)
        second_result = await _compare(deployment, data, corpus, *options)
        assert (len(writer.requests), len(judge.requests)) == (writer_count, judge_count), "everything was kept"
        arguments = ("eval", "compare", str(data), "--corpus", str(corpus), "--systems", ",".join(SYSTEMS))
        table = (await asyncio.to_thread(deployment.call, *arguments)).stdout
    assert (comparison["questions"], comparison["judged"], judge_count) == (20, 20, 2 * 20)
    assert second_result["systems"] == comparison["systems"]
    assert list(comparison["systems"]) == list(SYSTEMS)
    overall = {name: comparison["systems"][name][OVERALL]["value"] for name in SYSTEMS}
    assert overall["parallel"] == max(overall.values()) > overall["simple"]
    [pair] = [pair for pair in comparison["pairs"] if {pair["first"], pair["second"]} == {"parallel", "simple"}]
    assert (pair["win_rate"], len(comparison["pairs"])) == (1.0, 6)
    assert comparison["agreement"]["same_winner"] == 1.0
    assert comparison["systems"]["parallel"]["usage"]["cost"] > comparison["systems"]["simple"]["usage"]["cost"] > 0
    assert comparison["judge_usage"]["cost"] > 0
    assert set(pair["tests"]) == {OVERALL, *CRITERIA}
    assert pair["tests"][OVERALL]["p_holm"] == pair["p_holm"]
    assert len(comparison["answers"]) == 20 * len(SYSTEMS)
    assert comparison["judgements"][0]["reasons"]["simple"].endswith("characters")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert re.search(r"^parallel against simple\s+100%", table, re.MULTILINE)


async def test_writers_and_the_judge_leave_nothing_to_chance(data: Path, corpus: Path, tmp_path: Path) -> None:
    async with Writer() as writer, ScriptedJudge() as judge:
        await _compare(_deployment(tmp_path, writer, judge), data, corpus, "--systems", "single,planning,react")
        assert {body.get("temperature") for body in (*writer.requests, *judge.requests)} == {0}
        warm = ("--set", "models.main.temperature=0.7", "--fresh")
        writer.requests.clear()
        await _compare(_deployment(tmp_path, writer, judge), data, corpus, "--systems", "single,planning,react", *warm)
        assert {body.get("temperature") for body in writer.requests} == {0.7}
    fallbacks = {"cold": {"base_url": "http://127.0.0.1/v1", "model": "m"}, "warm": {**WARM, "temperature": 1}}
    steady = without_chance(ModelSettings.model_validate({**WARM, "fallbacks": fallbacks}))
    assert {name: fallback.temperature for name, fallback in steady.fallbacks.items()} == {"cold": 0, "warm": 1}


@pytest.mark.parametrize("bias", [(2, 1, 0, 0), (0, 0, 0, 2)])
async def test_a_position_that_the_judge_prefers_changes_no_winner(
    bias: Sequence[int], data: Path, corpus: Path, tmp_path: Path
) -> None:
    async with Writer() as writer, ScriptedJudge(bias=bias) as judge:
        deployment = _deployment(tmp_path, writer, judge)
        comparison = await _compare(deployment, data, corpus, "--systems", ",".join(SYSTEMS))
    overall = {name: comparison["systems"][name][OVERALL]["value"] for name in SYSTEMS}
    assert max(overall, key=lambda name: overall[name]) == "parallel"
    # The passes contradict each other where the position decides, and the output says so.
    assert comparison["agreement"]["same_winner"] < 1


async def test_unreadable_verdicts_are_asked_for_again_and_reported(data: Path, corpus: Path, tmp_path: Path) -> None:
    def spoil(body: Body, reply: str) -> str:
        is_first_attempt = len(body["messages"]) == 2
        # Every question has a number: the even ones are spoiled.
        number = re.search(r"Rocket (\d)", body["messages"][1]["content"])
        is_spoiled = is_first_attempt and number is not None and int(number[1]) % 2 == 0
        return "All of them are fine, I think: A 5, B 4." if is_spoiled else reply

    async with Writer() as writer, ScriptedJudge(spoil) as judge:
        deployment = _deployment(tmp_path, writer, judge)
        comparison = await _compare(deployment, data, corpus, "--systems", "parallel,simple")
        assert len(judge.requests) == 2 * QUESTIONS + comparison["asked_again"]
    assert comparison["asked_again"] == QUESTIONS
    assert (comparison["unreadable"], comparison["judged"]) == (0, QUESTIONS)
    assert comparison["pairs"][0]["win_rate"] == 1.0


async def test_a_judge_that_replies_nonsense_is_shown_and_nothing_is_ranked(
    data: Path, corpus: Path, tmp_path: Path
) -> None:
    arguments = ("eval", "compare", str(data), "--corpus", str(corpus), "--systems", "parallel,simple")
    async with Writer() as writer, ScriptedJudge(lambda *_: f"I \x1b[31m\u202ecannot\nsay.{' So' * 99}") as judge:
        deployment = _deployment(tmp_path, writer, judge)
        result = await asyncio.to_thread(lambda: deployment.call(*arguments, "--json", code=69))
        table = (await asyncio.to_thread(lambda: deployment.call(*arguments, code=69))).stdout
    comparison = json.loads(result.stdout)
    assert (comparison["unreadable"], comparison["judged"]) == (2 * QUESTIONS, 0)
    assert comparison["systems"]["simple"][OVERALL]["value"] is None
    assert comparison["pairs"][0]["win_rate"] is None
    assert "cannot say. So" in comparison["unreadable_reply"]
    assert len(comparison["unreadable_reply"]) == 100
    assert "no reply of the judge could be read" in result.stderr
    assert re.search(r"^parallel against simple( +-){5}$", table, re.MULTILINE)
    assert "An unreadable reply of the judge begins: I [31mcannot say. So" in table
    assert "The two passes agree" not in table


@pytest.mark.parametrize(("keys", "code"), [(b"\x03", 130), (b"\x04", 2)])
async def test_control_c_and_the_end_of_the_input_are_a_no(
    keys: bytes, code: int, data: Path, corpus: Path, tmp_path: Path
) -> None:
    async with ScriptedPeer() as writer, ScriptedJudge() as judge:
        deployment = _deployment(tmp_path, writer, judge)
        arguments = deployment.arguments(
            "eval", "compare", str(data), "--corpus", str(corpus), "--systems", "single,simple"
        )
        async with open_kimas(arguments, tmp_path) as user:
            await user.read("Go on? [y/n]")
            user.type(keys)
            assert await user.end() == code
            assert "Traceback" not in user.output
        assert not writer.requests
        assert not judge.requests


async def test_an_interrupted_comparison_goes_on_where_it_stopped(data: Path, corpus: Path, tmp_path: Path) -> None:
    systems = ("--systems", "parallel,simple")
    async with Writer() as writer, ScriptedJudge() as judge:
        deployment = _deployment(tmp_path, writer, judge)
        judge.status = 500
        arguments = ("eval", "compare", str(data), "--corpus", str(corpus), *systems)
        failed_run = await asyncio.to_thread(lambda: deployment.call(*arguments, code=69))
        assert "is kept: run the same command" in failed_run.stderr
        request_count = len(writer.requests)
        judge.status = 0
        # What the judge has still to do costs money too, and so does all of it with another judge.
        judgement_count = len(
            [line for line in (tmp_path / "data/comparison.jsonl").read_text().splitlines() if "scores" in line]
        )
        second_output = await asyncio.to_thread(deployment.call, *arguments)
        assert f"To do: 0 answers and {2 * QUESTIONS - judgement_count} judgements" in second_output.stderr
        assert "Nothing is left to do" in (await asyncio.to_thread(deployment.call, *arguments)).stderr
        models = deployment.settings["models"]
        deployment.settings["models"] = {**models, "judge": {**models["judge"], "model": "another-judge"}}
        other = await asyncio.to_thread(deployment.call, *arguments)
        assert f"To do: 0 answers and {2 * QUESTIONS} judgements" in other.stderr
        comparison = await _compare(deployment, data, corpus, *systems)
        assert len(writer.requests) == request_count, "the answers were kept"
        await _compare(deployment, data, corpus, *systems, "--fresh")
        assert len(writer.requests) > request_count
    assert comparison["judged"] == QUESTIONS


async def test_an_interrupted_fresh_comparison_goes_on_without_old_results(
    data: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("eval", "compare", str(data), "--corpus", str(corpus), "--systems", "parallel,simple")
    kept_file = tmp_path / "data/comparison.jsonl"
    async with Writer() as writer, ScriptedJudge() as judge:
        deployment = _deployment(tmp_path, writer, judge)
        await asyncio.to_thread(deployment.call, *arguments)
        old_results = kept_file.read_text("utf-8")
        with monkeypatch.context() as patch:
            patch.setattr("bots.evaluation.comparison.command.confirm", lambda _: False)
            await asyncio.to_thread(lambda: deployment.call(*arguments, "--fresh", code=2))
        assert kept_file.read_text("utf-8") == old_results, "nobody confirmed"
        judge.status = 500
        failed_run = await asyncio.to_thread(lambda: deployment.call(*arguments, "--fresh", code=69))
        assert "is kept: run the same command without --fresh to go on" in failed_run.stderr
        answer_count = sum('"answer"' in line for line in kept_file.read_text("utf-8").splitlines())
        judge.status = 0
        second_run = await asyncio.to_thread(deployment.call, *arguments)
    assert answer_count == 2 * QUESTIONS, "the old answers are gone"
    assert "To do: 0 answers and 12 judgements" in second_run.stderr


async def test_ctrl_c_says_how_to_go_on(
    data: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Writer() as writer, ScriptedJudge() as judge:
        judge.hang = True
        settings = load_settings([_deployment(tmp_path, writer, judge).config], (), {})
        options: dict[str, Any] = {"as_json": True, "plot": None, "systems": "single,simple"}
        run = asyncio.create_task(compare(settings, data, corpus, **options, is_fresh=False, is_confirmed=True))
        await until(lambda: judge.requests)
        # This is what `asyncio.run` does at Ctrl-C.
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert "is kept: run the same command again to go on" in capsys.readouterr().err


async def test_an_edited_prompt_file_is_answered_with_anew(data: Path, corpus: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "summarizer.md"
    judging = tmp_path / "judge.md"
    prompt.write_text("Answer from the evidence.", "utf-8")
    judging.write_text("Judge the answers {{labels}} with 0 to {{most}}.", "utf-8")
    arguments = ("eval", "compare", str(data), "--corpus", str(corpus), "--systems", "single,simple")
    async with Writer() as writer, ScriptedJudge() as judge:
        deployment = _deployment(tmp_path, writer, judge)
        deployment.settings["prompts"] = {"summarizer": str(prompt), "judge": str(judging)}
        await asyncio.to_thread(deployment.call, *arguments)
        assert "Nothing is left to do" in (await asyncio.to_thread(deployment.call, *arguments)).stderr
        judging.write_text("Judge {{labels}} with 0 to {{most}}.", "utf-8")
        rejudged = await asyncio.to_thread(deployment.call, *arguments)
        assert f"To do: 0 answers and {2 * QUESTIONS} judgements" in rejudged.stderr
        prompt.write_text("Answer from the evidence, in one sentence.", "utf-8")
        edited = await asyncio.to_thread(deployment.call, *arguments)
    assert f"To do: {2 * QUESTIONS} answers" in edited.stderr


def test_another_version_of_kimas_answers_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = Prompts({"summarizer": "Answer."})
    fingerprint = make_fingerprint(prompts)
    assert make_fingerprint(prompts) == fingerprint
    monkeypatch.setattr("bots.evaluation.comparison.run.get_version", lambda: "99.0")
    assert make_fingerprint(prompts) != fingerprint


async def test_an_answer_without_its_model_is_counted_and_tried_again(data: Path, corpus: Path, tmp_path: Path) -> None:
    systems = ("--systems", "single,simple")
    async with Writer() as writer, ScriptedJudge() as judge:
        deployment = _deployment(tmp_path, writer, judge)
        writer.status = 500
        comparison = await _compare(deployment, data, corpus, *systems)
        assert comparison["systems"]["single"]["degraded"] == QUESTIONS
        assert comparison["systems"]["single"]["quoted"] == QUESTIONS
        assert comparison["answers"][0]["why_cut"] == {"write": "failed"}
        assert "500" in comparison["answers"][0]["error"]
        arguments = ("eval", "compare", str(data), "--corpus", str(corpus), *systems)
        lines = (await asyncio.to_thread(deployment.call, *arguments)).stdout.splitlines()
        assert lines[-2].startswith("6 of 6 answers of single were quoted because the model failed: ")
        assert "500" in lines[-2]
        writer.status = 0
        comparison = await _compare(deployment, data, corpus, *systems)
    assert (comparison["systems"]["single"]["degraded"], comparison["systems"]["single"]["quoted"]) == (0, 0)


async def test_an_answer_that_failed_gets_nothing(data: Path, corpus: Path, tmp_path: Path) -> None:
    with data.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "long", "question": "Why? " * 5000}))
    async with Writer() as writer, ScriptedJudge() as judge:
        comparison = await _compare(_deployment(tmp_path, writer, judge), data, corpus, "--systems", "single,simple")
    assert comparison["systems"]["single"]["failed"] == 1
    [judgement] = [item for item in comparison["judgements"] if (item["id"], item["pass"]) == ("long", 1)]
    assert set(judgement["scores"]["single"].values()) == {0}
    assert "25000 characters" in next(item["error"] for item in comparison["answers"] if item["id"] == "long")


def test_what_cannot_be_compared_is_said_before_anything_is_opened(data: Path, corpus: Path, tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, {})
    arguments = ("eval", "compare", str(data), "--corpus", str(corpus))
    assert "models.judge" in deployment.call(*arguments, code=2).stderr
    unknown = deployment.call(*arguments, "--systems", "single,magic", code=2).stderr
    assert "--systems magic: there is no such system" in unknown
    data.write_text('{"id": "a"}\n{"id": "b", "question": 7}\n', "utf-8")
    unusable = deployment.call(*arguments, code=2).stderr
    assert "line 1: question is missing" in unusable
    assert "line 2: question must be a text" in unusable
    assert not (tmp_path / "data").exists()


def test_the_router_and_the_baselines_are_compared_by_default() -> None:
    settings = Settings.model_validate({"strategies": {"allowed": ["none", "single", "planning"], "default": "single"}})
    systems = make_systems(settings)
    assert [system.name for system in systems] == ["router", "single", "planning", "simple", "react"]
    assert systems[0].settings.strategies.allowed == ("none", "single", "planning")
    assert systems[-1].settings.strategies.allowed == ("react",)
    assert [system.name for system in make_systems(Settings())] == ["single", "simple", "react"]
    with pytest.raises(UsageError, match="2 to 10"):
        make_systems(Settings(), ["single"])


def test_the_second_pass_turns_the_order_round_and_questions_differ() -> None:
    orders = [order_systems(f"q{number}", SYSTEMS, 0) for number in range(QUESTIONS)]
    assert all(order_systems(f"q{number}", SYSTEMS, 1) == order[::-1] for number, order in enumerate(orders))
    assert {order[0] for order in orders} == set(SYSTEMS)


SCORES = dict.fromkeys(CRITERIA, 3)


@pytest.mark.parametrize(
    ("value", "is_readable"),
    [
        ({"A": SCORES, "B": {**SCORES, "reason": "good"}}, True),
        ({"Answer A": SCORES, "b": dict.fromkeys(CRITERIA, "4/5")}, True),
        ({"A": SCORES}, False),
        ({"A": SCORES, "B": {**SCORES, "novelty": 6}}, False),
        ({"A": SCORES, "B": {**SCORES, "novelty": "high"}}, False),
        ({"A": SCORES, "B": {**SCORES, "novelty": True}}, False),
        ({"A": SCORES, "B": [3, 3, 3, 3]}, False),
    ],
)
def test_a_verdict_is_read_whole_or_not_at_all(value: Mapping[str, Any], is_readable: bool) -> None:
    assert (parse_scores(value, ["A", "B"]) is not None) is is_readable


def test_holm_corrects_by_the_number_of_pairs() -> None:
    # The example of the method: three tests, the smallest p counts three times.
    tests = [TTest(1.0, 0.03), TTest(1.0, 0.01), TTest(1.0, 0.04), None]
    pairs = [Pair("a", str(number), {OVERALL: PairTest(0.5, UNKNOWN, test)}) for number, test in enumerate(tests)]
    assert [pair.tests[OVERALL].p_holm for pair in correct_by_holm(pairs)] == [
        pytest.approx(0.06),
        pytest.approx(0.03),
        pytest.approx(0.06),
        None,
    ]


def test_the_paired_test_sees_a_small_steady_difference() -> None:
    judgements = [
        Judgement(
            f"q{question}", number, {"a": (score + 1,) * 4, "b": (score, score, score, score + 1)}, {}, 1, TokenUsage()
        )
        for question, score in enumerate((0, 1, 2, 3, 4, 3, 2, 1))
        for number in range(2)
    ]
    judgements[0] = Judgement("q0", 0, {"a": (1,) * 4, "b": (1,) * 4}, {}, 1, TokenUsage())
    comparison = compare_judgements(judgements, ["a", "b"])
    [pair] = comparison.pairs
    test = pair.tests[OVERALL]
    assert test.win_rate == 1.0
    assert test.paired is not None
    assert test.paired.p == test.p_holm
    assert test.paired.p < 0.001
    assert test.welch is not None
    assert test.welch.p > 0.2, "the questions differ more than the systems do"
    assert comparison.agreement.same_winner == pytest.approx(7 / 8)


def _judged(scores: Mapping[str, Sequence[int]]) -> list[Judgement]:
    """Return one pass over each question: the score of each system there, the same by all criteria."""
    names = list(scores)
    return [
        Judgement(
            f"q{number}", 0, {name: (score,) * 4 for name, score in zip(names, row, strict=True)}, {}, 1, TokenUsage()
        )
        for number, row in enumerate(zip(*scores.values(), strict=True))
    ]


def test_t_and_p_are_those_of_the_textbook() -> None:
    comparison = compare_judgements(_judged({"a": (3, 4, 5, 4), "b": (2, 4, 3, 1)}), ["a", "b"])
    test = comparison.pairs[0].tests["novelty"]
    # Differences 1, 0, 2, 3: mean 1.5, standard deviation 1.291, so that t = 1.5 / (1.291 / 2).
    assert test.paired is not None
    assert test.welch is not None
    assert test.paired.t == pytest.approx(2.3238, abs=1e-3)
    assert test.paired.p == pytest.approx(0.1027, abs=1e-3)
    # Variances 0.667 and 1.667 of four scores each: t = 1.5 / sqrt(0.1667 + 0.4167).
    assert test.welch.t == pytest.approx(1.964, abs=1e-3)
    assert test.welch.p == pytest.approx(0.105, abs=5e-3)


def test_a_win_of_several_is_shared_and_the_shares_are_whole() -> None:
    scores = {"a": (5, 3, 2), "b": (5, 1, 4), "c": (5, 1, 0)}
    shares = compare_judgements(_judged(scores), list(scores)).win_shares
    assert shares["a"][OVERALL] == pytest.approx((1 / 3 + 1) / 3)
    assert shares["b"][OVERALL] == pytest.approx((1 / 3 + 1) / 3)
    assert sum(share["novelty"] for share in shares.values()) == pytest.approx(1)


def test_the_router_is_compared_by_the_strategies_that_it_chose() -> None:
    scores = {"router": (5, 5, 4, 2), "simple": (3, 4, 4, 3)}
    chosen = {"q0": "planning", "q1": "planning", "q2": "single", "q3": "single"}
    rows = compare_judgements(_judged(scores), list(scores), chosen).by_strategy
    assert [(row.strategy, row.system, row.questions) for row in rows] == [
        ("planning", "simple", 2),
        ("single", "simple", 2),
    ]
    assert [row.test.difference.value for row in rows] == [1.5, -0.5]
    assert compare_judgements(_judged(scores), list(scores)).by_strategy == []


def test_the_cost_is_estimated_from_the_prices() -> None:
    model = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "price_prompt": 1.0, "price_completion": 2.0}
    settings = Settings.model_validate({"models": {"main": model, "judge": {**model, "price_prompt": None}}})
    systems = make_systems(settings, ["single", "simple"])
    unknown = estimate(settings, systems, 4, 2)
    assert (unknown.answers, unknown.judgements, unknown.cost) == (2, 4, None)
    assert "no price is known" in format_estimation(unknown)
    settings = Settings.model_validate({"models": {"main": model, "judge": model}})
    assert (estimate(settings, systems, 4, 2).cost or 0) > (estimate(settings, systems[:1], 2, 2).cost or 0) > 0
    assert estimate(settings, [], 0, 2).cost == 0


def test_one_answer_is_no_answers() -> None:
    assert format_estimation(Estimation(1, 1, 900, None)).startswith("To do: 1 answer and 1 judgement, ")


def test_models_of_the_own_machine_cost_nothing() -> None:
    local = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
    settings = Settings.model_validate({"models": {"main": local, "judge": local}})
    free = estimate(settings, make_systems(settings, ["single", "simple"]), 4, 2)
    assert free.cost == 0
    assert format_estimation(free).endswith("cost: none, the models to be called are free")
    remote = {"base_url": "https://api.example.org/v1", "model": "m"}
    settings = Settings.model_validate({"models": {"main": local, "judge": remote}})
    assert estimate(settings, make_systems(settings, ["single", "simple"]), 4, 2).cost is None


async def test_a_result_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "results.jsonl"
    cache = await asyncio.to_thread(ResultCache.open, path)
    await cache.put("a", {"answer": 1})
    path.write_text(path.read_text("utf-8") + '{"key": "b", "val', "utf-8")
    cache = await asyncio.to_thread(ResultCache.open, path)
    assert (cache.get("a"), cache.get("b")) == ({"answer": 1}, None)
    await cache.put("b", {"answer": 2})
    reopened = await asyncio.to_thread(ResultCache.open, path)
    assert (reopened.get("a"), reopened.get("b")) == ({"answer": 1}, {"answer": 2})
