"""Measures, intervals, corpora and fits, on figures that can be worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bots.evaluation.datasets import (
    CORPUS_LINE_FORMAT,
    CorpusDocument,
    corpus_store,
    read_cases,
    read_corpus_document,
    read_retrieval,
    read_routing,
    to_document_ids,
    with_corpus,
)
from bots.evaluation.metrics import (
    METRICS,
    MIN_CASES,
    check_enough_cases,
    compute_metrics,
    compute_routing_metrics,
    cross_validate,
    mean_with_interval,
    split_folds,
)
from bots.evaluation.retrieval import RETRIEVAL_LINE_FORMAT
from bots.evaluation.routing import ROUTING_LINE_FORMAT
from bots.evaluation.tuning_routing import (
    MIX_IN_KINDS,
    Cosines,
    MixWeights,
    RoutingWeights,
    compute_cosines,
    select_agent_columns,
    tune_all,
    tune_scales_and_threshold,
)
from core.errors import UsageError
from core.settings import Settings
from core.types import Passage
from knowledge.retrieval.routing import AgentIndex, MixInText, compute_score
from tests.support.knowledge import WordEmbedder


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), "utf-8")
    return path


class TestMeasures:
    def test_are_those_of_the_books(self) -> None:
        rankings = [["a", "x", "b", "y"], ["x", "y", "z", "c"], [], ["d"]]
        metrics = compute_metrics(rankings, [{"a", "b"}, {"c"}, {"d"}, {"d", "e", "f"}])
        assert set(metrics) == set(METRICS)
        assert metrics["recall@5"].tolist() == [1, 1, 0, pytest.approx(1 / 3)]
        assert metrics["MRR"].tolist() == [1, 0.25, 0, 1]
        assert metrics["hit@1"].tolist() == [1, 0, 0, 1]
        assert metrics["hit@3"].tolist() == [1, 0, 0, 1]
        ideal = 1 + 1 / math.log2(3)
        assert metrics["nDCG@10"].tolist() == pytest.approx(
            [1.5 / ideal, 1 / math.log2(5), 0, 1 / (ideal + 0.5)], abs=1e-6
        )

    def test_the_order_counts_and_not_the_names(self) -> None:
        assert compute_metrics([["z", "a"], ["a", "z"]], [{"a"}, {"z"}])["MRR"].tolist() == [0.5, 0.5]

    def test_means_have_intervals_that_shrink(self) -> None:
        wide_mean, narrow_mean = (mean_with_interval(np.array([0.0, 1.0] * times)) for times in (10, 1000))
        assert wide_mean.value == narrow_mean.value == 0.5
        assert wide_mean.low is not None
        assert wide_mean.high is not None
        assert wide_mean.low < 0.5 < wide_mean.high
        assert narrow_mean.low is not None
        assert narrow_mean.low > wide_mean.low
        # Of 20 coins: 0.5 give or take about 1.96 * 0.5 / sqrt(20).
        assert wide_mean.low == pytest.approx(0.28, abs=0.06)
        assert mean_with_interval(np.array([0.0, 1.0] * 10)) == wide_mean, "the same at every run"
        assert mean_with_interval(np.array([np.nan, 1.0])).value == 1
        assert mean_with_interval(np.array([np.nan])).value is None

    def test_documents_come_once_by_path_or_with_their_source(self) -> None:
        passages = [
            Passage(str(n), source, path, "", "")
            for n, (source, path) in enumerate([("a", "x.md"), ("a", "x.md"), ("b", "x.md"), ("b", "y.md")])
        ]
        assert to_document_ids(passages, {"x.md"}) == ["x.md", "y.md"]
        assert to_document_ids(passages, {"b: x.md"}) == ["x.md", "b: x.md", "y.md"]


class TestCases:
    def test_are_read_with_their_conversation(self, tmp_path: Path) -> None:
        history = '[{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Yes?"}]'
        data = write(
            tmp_path / "a.jsonl",
            '{"id": "1", "question": "How?", "relevant": ["a"], "history": ' + history + "}",
            '{"id": "2", "question": "Why?", "relevant": ["a", "b"], "history": []}',
        )
        first, second = read_cases(data, read_retrieval, RETRIEVAL_LINE_FORMAT)
        assert [(turn.role, turn.text) for turn in first.question.history] == [("user", "Hi"), ("assistant", "Yes?")]
        assert second.question.history == ()
        assert second.expected_ids == {"a", "b"}

    def test_tell_all_that_is_wrong(self, tmp_path: Path) -> None:
        data = write(
            tmp_path / "a.jsonl",
            '{"id": "1", "question": "How?", "relevant": []}',
            '{"id": "2", "question": "How?", "relevant": ["a"], "history": [{"role": "bot", "text": "Hi"}]}',
            '{"id": "3", "question": "", "relevant": "a", "history": "x"}',
        )
        with pytest.raises(UsageError) as error_info:
            read_cases(data, read_retrieval, RETRIEVAL_LINE_FORMAT)
        message = str(error_info.value)
        assert "line 1: relevant must be a list with at least one document" in message
        assert "line 2: history[0].role must be user or assistant" in message
        assert "line 3: history must be a list of objects" in message
        assert "line 3: question must be" in message

    def test_no_agent_is_a_label_too(self, tmp_path: Path) -> None:
        data = write(tmp_path / "a.jsonl", '{"id": "1", "question": "Weather?", "agents": []}')
        assert read_cases(data, read_routing, ROUTING_LINE_FORMAT)[0].expected_ids == frozenset()


class TestCorpora:
    def test_are_searched_as_they_are_and_leave_nothing(self, tmp_path: Path) -> None:
        data = write(
            tmp_path / "c.jsonl",
            '{"id": "a/1", "text": "Apples are sweet.", "title": "Apples", "url": "https://x.y/1", "source": "fruit"}',
            '{"id": "a/2", "text": "Hammers are hard."}',
        )
        entries = read_cases(data, read_corpus_document, CORPUS_LINE_FORMAT)
        assert entries[0] == CorpusDocument("a/1", "Apples are sweet.", "Apples", "https://x.y/1", "fruit")
        assert entries[1].source == "corpus"
        bad_file = write(tmp_path / "b.jsonl", '{"id": "x", "text": "t", "source": "No Name"}')
        with pytest.raises(UsageError, match="source 'No Name' is no name"):
            read_cases(bad_file, read_corpus_document, CORPUS_LINE_FORMAT)

    async def test_fill_a_store_for_the_length_of_a_block(self, embedder: WordEmbedder) -> None:
        entries = [
            CorpusDocument("one", "Apples are sweet.", source="fruit"),
            CorpusDocument("two", "Hammers are hard."),
        ]
        async with corpus_store(entries, embedder, chunk_tokens=200) as store:
            assert set(await store.manifest("fruit")) == {"one"}
            results = await store.search("hammer", None, ["corpus", "fruit"], 5)
            assert [passage.path for passage in results] == ["two"]

    def test_keep_the_agents_that_they_have_all_sources_of(self) -> None:
        source = {"kind": "files", "path": "/nowhere"}
        agents = {"cook": {"sources": ["fruit"], "scale": 2}}
        settings = Settings.model_validate({"sources": {"fruit": source, "web": source}, "agents": agents})
        corpus_settings = with_corpus(settings, [CorpusDocument("a", "x", source="fruit")])
        assert (set(corpus_settings.sources), corpus_settings.retrieval_agents()["cook"].scale) == ({"fruit"}, 2)
        other = with_corpus(
            settings, [CorpusDocument("a", "x", source="fruit"), CorpusDocument("b", "x", source="tools")]
        )
        assert set(other.retrieval_agents()) == {"fruit", "tools"}


class TestRouting:
    def test_is_rated_by_hand(self) -> None:
        chosen_agents = [["a", "b"], ["b"], [], ["c"], []]
        expected_agents = [frozenset("a"), frozenset("ab"), frozenset("a"), frozenset(), frozenset()]
        metrics = compute_routing_metrics(chosen_agents, expected_agents, 4)
        assert metrics["accuracy"].tolist() == [1, 1, 0, 0, 1]
        assert metrics["saved"].tolist() == [0.5, 0.75, 1, 0.75, 1]
        assert metrics["coverage"][:3].tolist() == [1, 0.5, 0]
        assert np.isnan(metrics["coverage"][3:]).all()
        assert metrics["irrelevant"][3:].tolist() == [0, 1]

    def test_a_scale_that_is_wrong_is_found(self) -> None:
        dice = np.random.default_rng(3)
        expected_agents = np.eye(3, dtype=bool)[dice.integers(3, size=300)]
        scores = 0.25 + 0.15 * expected_agents + dice.normal(0, 0.04, size=(300, 3))
        # The third agent's cosines are a third lower than the others': it hardly ever comes first.
        scores[:, 2] *= 0.65
        weights = tune_scales_and_threshold(scores, expected_agents, 1)

        def accuracy(weights: RoutingWeights) -> float:
            columns = select_agent_columns(scores, weights, 1)
            return float(np.mean([bool(item) and expected_agents[case, item[0]] for case, item in enumerate(columns)]))

        default_weights = RoutingWeights(np.ones(3), -1.0)
        assert accuracy(default_weights) < 0.8
        assert accuracy(weights) > 0.93
        assert weights.scales[2] > 1.25 * weights.scales[0]

    def test_a_threshold_keeps_out_what_belongs_to_nobody(self) -> None:
        dice = np.random.default_rng(4)
        expected_agents = np.zeros((200, 2), dtype=bool)
        expected_agents[:100, 0] = True
        scores = dice.normal(0.1, 0.03, size=(200, 2))
        scores[:100, 0] += 0.4
        weights = tune_scales_and_threshold(scores, expected_agents, 2)
        assert 0.15 < weights.threshold < 0.45
        columns = select_agent_columns(scores, weights, 2)
        assert all(item == [0] for item in columns[:100])
        assert sum(map(bool, columns[100:])) <= 2

    def test_where_nothing_is_to_be_gained_the_scales_stay(self) -> None:
        dice = np.random.default_rng(5)
        expected_agents = np.eye(2, dtype=bool)[dice.integers(2, size=40)]
        scores = 0.2 + 0.5 * expected_agents + dice.normal(0, 0.01, size=(40, 2))
        assert tune_scales_and_threshold(scores, expected_agents, 2).scales.tolist() == pytest.approx([1, 1], abs=0.1)


class TestFits:
    def test_are_judged_on_what_they_have_not_seen(self) -> None:
        folds = split_folds(23)
        assert sorted(np.concatenate(folds).tolist()) == list(range(23))
        assert {len(fold) for fold in folds} == {4, 5}

        def score_fold(rows: set[int], fold: object) -> dict[str, np.ndarray]:
            return {"unseen": np.array([number not in rows for number in fold], float)}  # type: ignore[attr-defined]

        values = cross_validate(23, lambda cases: set(cases.tolist()), score_fold)
        assert values["unseen"].tolist() == [1] * 23

    def test_need_enough_questions(self, tmp_path: Path) -> None:
        lines = [f'{{"id": "{n}", "question": "How?", "relevant": ["a"]}}' for n in range(MIN_CASES)]
        cases = read_cases(write(tmp_path / "a.jsonl", *lines), read_retrieval, RETRIEVAL_LINE_FORMAT)
        check_enough_cases(cases)
        with pytest.raises(UsageError, match=f"--fit needs {MIN_CASES} questions at least; there are {MIN_CASES - 1}"):
            check_enough_cases(cases[1:])


class TestMixes:
    def test_give_the_scores_of_routing(self) -> None:
        dice = np.random.default_rng(7)

        def units(count: int) -> np.ndarray:
            rows = dice.standard_normal((count, 8)).astype(np.float32)
            unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            return unit

        message = tuple(
            MixInText(kind, "x", weight) for kind, weight in (("description", 0.5), ("pairs", 0.8), ("pairs", 0.8))
        )
        weights = np.array([[item.weight] for item in message], np.float32)
        indexes = [
            AgentIndex("both", units(4), units(3) * weights, 0.3, 1.0, message),
            AgentIndex("passages", units(2), units(0), 0.3, 1.0),
            AgentIndex("told", units(0), units(3) * weights, 0.7, 1.0, message),
        ]
        queries = units(20)
        mix = MixWeights(np.array([0.3, 0.3, 0.7]), np.array([[0.5, 1.0, 0.8], [1.0, 1.0, 1.0], [0.5, 1.0, 0.8]]))
        expected = [[compute_score(query, index) for index in indexes] for query in queries]
        assert np.allclose(compute_cosines(queries, indexes).mix_scores(mix), expected, atol=1e-5)

    def test_a_side_that_misleads_is_weighed_less(self) -> None:
        dice = np.random.default_rng(8)
        expected_agents = np.eye(3, dtype=bool)[dice.integers(3, size=240)]
        noise = dice.normal(0, 0.12, size=(240, 3))
        kinds = np.full((240, 3, len(MIX_IN_KINDS)), np.nan)
        kinds[:, :, MIX_IN_KINDS.index("description")] = 0.45 + dice.normal(0, 0.15, size=(240, 3))
        kinds[:, :, MIX_IN_KINDS.index("examples")] = 0.3 + 0.25 * expected_agents + dice.normal(0, 0.04, size=(240, 3))
        cosines = Cosines(0.3 + noise, kinds)
        configured = MixWeights(np.full(3, 0.3), np.ones((3, len(MIX_IN_KINDS))))
        tuning = tune_all(cosines, expected_agents, configured, 1)
        assert tuning.mix is not None
        assert tuning.mix.mix_in[0] > 0.6, "the passages say nothing here"
        assert tuning.mix.kinds[0, 0] < 0.7, "descriptions say nothing either"
        assert tuning.mix.kinds[0, 1] == 1

        def accuracy(mix: MixWeights, weights: RoutingWeights) -> float:
            columns = select_agent_columns(cosines.mix_scores(mix), weights, 1)
            return float(np.mean([bool(item) and expected_agents[case, item[0]] for case, item in enumerate(columns)]))

        assert accuracy(tuning.mix, tuning) > accuracy(configured, RoutingWeights(np.ones(3), -1.0)) + 0.2

    def test_where_nothing_is_mixed_in_the_mix_stays(self) -> None:
        cosines = Cosines(np.random.default_rng(9).random((30, 2)), np.full((30, 2, len(MIX_IN_KINDS)), np.nan))
        configured = MixWeights(np.full(2, 0.3), np.ones((2, len(MIX_IN_KINDS))))
        assert tune_all(cosines, np.eye(2, dtype=bool)[[0, 1] * 15], configured, 1).mix is configured
