"""Fallback endpoints, circuits and the one retry, over real connections to peers that misbehave."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import pytest

from core.errors import ModelError
from core.llm.failover import TIMEOUT_GRACE_S
from core.llm.role_models import RoleChatModel
from core.observability.logs import configure_logs
from core.runtime.budget import Budget
from core.settings import BudgetSettings, LogSettings, ModelsSettings, Settings
from core.settings.answering import CircuitSettings
from core.settings.loader import get_secret_values
from core.types import Turn
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

ASK = [Turn("user", "Where is the treasure?")]
NOBODY = "http://127.0.0.1:9/v1"


@asynccontextmanager
async def open_models(
    *addresses: LanguageModelPeer | str, circuit: dict[str, float] | None = None, **main: Any
) -> AsyncIterator[RoleChatModel]:
    """Open the addresses as the main model and its fallbacks, in this order."""
    urls = [address if isinstance(address, str) else address.base_url for address in addresses]
    first, *fallback_settings = ({"base_url": url, "model": f"model-{index}"} for index, url in enumerate(urls))
    fallbacks = {f"spare-{index}": other for index, other in enumerate(fallback_settings)}
    settings = ModelsSettings.model_validate({"main": {**first, **main, "fallbacks": fallbacks}})
    models = RoleChatModel.open(settings, circuit=CircuitSettings(**(circuit or {})))  # type: ignore[arg-type]
    assert models is not None
    # The first client takes a second to load, which is not what is measured here.
    await models.warm_up()
    try:
        yield models
    finally:
        await models.close()


@pytest.fixture
async def peers() -> AsyncIterator[list[LanguageModelPeer]]:
    async with (
        LanguageModelPeer(reply="I am one.") as model_peer,
        LanguageModelPeer(reply="I am two.") as two,
        LanguageModelPeer(reply="I am three.") as three,
    ):
        yield [model_peer, two, three]


def budget(deadline_s: float = 60.0) -> Budget:
    return Budget(BudgetSettings(deadline_s=deadline_s))


async def streamed(models: RoleChatModel, time_budget: Budget | None = None) -> str:
    return "".join([piece async for piece in models.stream("", ASK, role="main", budget=time_budget or budget())])


async def completed(models: RoleChatModel, time_budget: Budget | None = None) -> str:
    return await models.complete("", ASK, role="main", budget=time_budget or budget())


async def until_it_breaks(models: RoleChatModel, time_budget: Budget) -> tuple[str, str]:
    """Return what arrived of a reply that breaks off, and how that was told."""
    text = ""
    try:
        async for piece in models.stream("", ASK, role="main", budget=time_budget):
            text += piece
    except ModelError as error:
        return text, str(error)
    raise AssertionError(f"it did not break off: {text}")


async def idle(peers: Iterable[LanguageModelPeer]) -> None:
    """Wait until no request is open any more."""
    await until(lambda: not any(peer.active for peer in peers))


def misbehave(peer: LanguageModelPeer, **failure_mode: object) -> None:
    for name, value in failure_mode.items():
        assert hasattr(peer, name)
        setattr(peer, name, value)


class TestMovingOn:
    async def test_after_a_hanging_endpoint_the_second_one_answers_in_time(
        self, peers: list[LanguageModelPeer]
    ) -> None:
        model_peer, two, _ = peers
        model_peer.hang = True
        async with open_models(model_peer, two, first_token_s=0.5) as models:
            time_budget = budget()
            first_token = 0.0
            async for _piece in models.stream("", ASK, role="main", budget=time_budget):
                first_token = first_token or time_budget.elapsed_ms()
            await idle(peers)
        # Half of the budget is what the first one would get without a limit of its own.
        assert 500 <= first_token < 20_000
        assert len(model_peer.requests) == len(two.requests) == 1
        assert [peer.requests[0]["model"] for peer in (model_peer, two)] == ["model-0", "model-1"]

    async def test_a_hang_leaves_the_others_their_time_whatever_the_patience(
        self, peers: list[LanguageModelPeer]
    ) -> None:
        model_peer, two, _ = peers
        model_peer.hang = True
        two.hang = True
        async with open_models(*peers, first_token_s=60) as models:
            time_budget = budget(3)
            assert await streamed(models, time_budget) == "I am three."
        assert time_budget.remaining() > 0

    @pytest.mark.parametrize(
        "failure_mode",
        [
            {"status": 500},
            {"status": 429},
            {"status": 400},
            {"api_key": "another"},
            {"models": ["none"]},
            {"hang": True},
            {"stall_after": 0},
            {"drop_after": 0},
        ],
        ids=str,
    )
    async def test_whatever_goes_wrong_before_the_first_token(
        self, peers: list[LanguageModelPeer], failure_mode: dict[str, object]
    ) -> None:
        model_peer, two, _ = peers
        misbehave(model_peer, **failure_mode)
        async with open_models(model_peer, two, first_token_s=0.2) as models:
            assert await streamed(models) == "I am two."
            await idle(peers)

    async def test_an_unreachable_address_and_one_that_is_none(self, peers: list[LanguageModelPeer]) -> None:
        async with open_models(NOBODY, "http://[::1", peers[2]) as models:
            assert await streamed(models) == await completed(models) == "I am three."

    @pytest.mark.parametrize("failure_mode", [{"status": 503}, {"hang": True}], ids=str)
    async def test_whole_replies_move_on_as_well(
        self, peers: list[LanguageModelPeer], failure_mode: dict[str, object]
    ) -> None:
        model_peer, two, _ = peers
        misbehave(model_peer, **failure_mode)
        async with open_models(model_peer, two, first_token_s=0.16) as models:
            assert await completed(models) == "I am two."
            await idle(peers)

    async def test_the_last_endpoint_is_waited_for_to_the_deadline(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.status = 500
        two.ttft_s = 0.6
        async with open_models(model_peer, two, first_token_s=0.1) as models:
            assert await streamed(models) == "I am two."

    async def test_all_fail_is_one_error_that_names_them_all(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.status = 500
        two.hang = True
        async with open_models(model_peer, two, NOBODY, first_token_s=0.2) as models:
            for call in (streamed, completed):
                with pytest.raises(ModelError) as error_info:
                    await call(models)
                for address in (model_peer.base_url, two.base_url, NOBODY):
                    assert address in str(error_info.value)

    async def test_nothing_is_started_again_after_the_first_token(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.drop_after = 2
        async with open_models(model_peer, two) as models:
            received_text, error = await until_it_breaks(models, budget())
        assert "model-0" in error
        assert received_text == "I am"
        assert two.requests == []

    async def test_a_silence_in_the_middle_ends_the_reply(
        self, peers: list[LanguageModelPeer], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("core.llm.role_models.STALL_S", 0.5)
        model_peer, two, _ = peers
        model_peer.stall_after = 2
        async with open_models(model_peer, two) as models:
            time_budget = budget()
            received_text, error = await until_it_breaks(models, time_budget)
            await idle(peers)
        assert "model-0 stopped for 0.5 s" in error
        assert received_text == "I am"
        assert time_budget.elapsed_ms() < 20_000
        assert two.requests == []

    async def test_a_slow_reader_is_not_taken_for_a_silent_endpoint(
        self, peers: list[LanguageModelPeer], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("core.llm.role_models.STALL_S", 0.3)
        async with open_models(peers[0]) as models:
            text = ""
            async for piece in models.stream("", ASK, role="main", budget=budget()):
                text += piece
                await asyncio.sleep(0.4)
        assert text == "I am one."


class TestCircuit:
    async def test_opens_to_save_the_next_question_time_and_a_probe_closes_it(
        self, peers: list[LanguageModelPeer]
    ) -> None:
        model_peer, two, _ = peers
        model_peer.hang = True
        circuit = {"failures": 2, "rest_s": 3}
        async with open_models(model_peer, two, first_token_s=1.5, circuit=circuit) as models:
            for _ in range(2):
                assert await streamed(models) == "I am two."
            started_at = time.monotonic()
            assert await streamed(models) == "I am two."
            assert time.monotonic() - started_at < 1.5, "less than the first one would have been given"
            assert len(model_peer.requests) == 2
            model_peer.hang = False
            await asyncio.sleep(3.1)
            assert [await streamed(models) for _ in range(3)] == ["I am one."] * 3

    async def test_rests_again_after_a_failed_probe(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.status = 500
        async with open_models(model_peer, two, circuit={"failures": 1, "rest_s": 1.5}) as models:
            await completed(models)
            await asyncio.sleep(1.6)
            for _ in range(4):
                assert await completed(models) == "I am two."
        assert len(model_peer.requests) == 2

    async def test_lets_one_probe_through_at_a_time(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.status = 500
        async with open_models(model_peer, two, first_token_s=1, circuit={"failures": 1, "rest_s": 0.2}) as models:
            await streamed(models)
            misbehave(model_peer, status=0, hang=True)
            await asyncio.sleep(0.3)
            assert await asyncio.gather(*(streamed(models) for _ in range(8))) == ["I am two."] * 8
        assert len(model_peer.requests) == 2

    async def test_a_probe_that_is_cancelled_lets_another_one_through(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.status = 500
        async with open_models(model_peer, two, circuit={"failures": 1, "rest_s": 0.1}) as models:
            await completed(models)
            misbehave(model_peer, status=0, hang=True)
            await asyncio.sleep(0.2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(completed(models), 0.1)
            model_peer.hang = False
            assert await completed(models) == "I am one."

    async def test_a_stream_that_nobody_wants_any_more_opens_none(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.ttft_s = 5.0
        async with open_models(model_peer, two, circuit={"failures": 1, "rest_s": 60}) as models:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(streamed(models), TIMEOUT_GRACE_S + 0.2)
            model_peer.ttft_s = 0.0
            assert await streamed(models) == "I am one."

    async def test_with_all_open_the_least_recently_failed_is_asked(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.status = 500
        two.status = 500
        async with open_models(model_peer, two, circuit={"failures": 1, "rest_s": 60}) as models:
            with pytest.raises(ModelError):
                await completed(models)
            model_peer.status = 0
            two.status = 0
            assert await completed(models) == "I am one."
            assert await completed(models) == "I am one."

    async def test_an_only_endpoint_is_asked_whatever_its_circuit(self, peers: list[LanguageModelPeer]) -> None:
        model_peer = peers[0]
        model_peer.api_key = "another"
        async with open_models(model_peer, circuit={"failures": 1, "rest_s": 60}) as models:
            for _ in range(3):
                with pytest.raises(ModelError, match="API key"):
                    await completed(models)
            model_peer.api_key = ""
            assert await completed(models) == "I am one."

    async def test_a_refused_request_is_no_failure_of_the_endpoint(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.status = 400
        model_peer.failures = 6
        async with open_models(model_peer, two, circuit={"failures": 1, "rest_s": 60}) as models:
            replies = [await completed(models) for _ in range(7)]
        assert replies == ["I am two."] * 6 + ["I am one."]

    async def test_breaks_in_the_middle_count(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.drop_after = 1
        async with open_models(model_peer, two, circuit={"failures": 2, "rest_s": 60}) as models:
            for _ in range(2):
                with pytest.raises(ModelError):
                    await streamed(models)
            assert await streamed(models) == "I am two."

    async def test_calls_that_a_stage_gave_up_count_after_a_fair_chance(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        model_peer.hang = True
        async with open_models(model_peer, two, first_token_s=3.2, circuit={"failures": 1, "rest_s": 60}) as models:
            for patience_s, request_count in ((TIMEOUT_GRACE_S / 2, 1), (TIMEOUT_GRACE_S + 0.2, 2)):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(completed(models), patience_s)
                assert len(model_peer.requests) == request_count
            assert await completed(models) == "I am two."
        assert len(model_peer.requests) == 2

    async def test_its_changes_are_logged_without_prompt_and_key(
        self, peers: list[LanguageModelPeer], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TEST_KEY", "hush-hush")
        configure_logs(LogSettings(format="json"), string_io := io.StringIO())
        model_peer, two, _ = peers
        model_peer.status = 500
        main: dict[str, Any] = {"api_key": {"env": "TEST_KEY"}}
        async with open_models(model_peer, two, circuit={"failures": 1, "rest_s": 0.1}, **main) as models:
            await completed(models)
            model_peer.status = 0
            await asyncio.sleep(0.2)
            await completed(models)
        log = string_io.getvalue()
        positions = [
            log.index(event) for event in ("circuit.opened", "model.failed_over", "circuit.probed", "circuit.closed")
        ]
        assert all(earlier_position < later_position for earlier_position, later_position in pairwise(positions))
        assert f"model-0 at {model_peer.base_url}" in log
        assert "hush" not in log
        assert "treasure" not in log


class TestRetry:
    async def test_an_overloaded_only_endpoint_is_asked_again_when_it_says(
        self, peers: list[LanguageModelPeer]
    ) -> None:
        model_peer = peers[0]
        misbehave(model_peer, status=429, failures=1, retry_after=0.4)
        async with open_models(model_peer) as models:
            for call in (streamed, completed):
                model_peer.failures = 1
                time_budget = budget()
                assert await call(models, time_budget) == "I am one."
                assert 400 <= time_budget.elapsed_ms() < 20_000
        assert len(model_peer.requests) == 4

    async def test_a_server_error_is_retried_once(self, peers: list[LanguageModelPeer]) -> None:
        model_peer = peers[0]
        model_peer.status = 503
        async with open_models(model_peer) as models:
            with pytest.raises(ModelError, match="status 503"):
                await streamed(models)
            assert len(model_peer.requests) == 2
            model_peer.failures = 1
            assert await streamed(models) == "I am one."

    async def test_a_wait_that_does_not_fit_the_budget_is_not_begun(self, peers: list[LanguageModelPeer]) -> None:
        model_peer = peers[0]
        misbehave(model_peer, status=429, retry_after=20)
        async with open_models(model_peer) as models:
            time_budget = budget(30)
            with pytest.raises(ModelError, match="status 429"):
                await streamed(models, time_budget)
        assert time_budget.elapsed_ms() < 20_000
        assert len(model_peer.requests) == 1

    @pytest.mark.parametrize("status", [401, 404])
    async def test_a_refusal_is_not_retried(self, peers: list[LanguageModelPeer], status: int) -> None:
        model_peer = peers[0]
        model_peer.status = status
        async with open_models(model_peer) as models:
            with pytest.raises(ModelError):
                await completed(models)
        assert len(model_peer.requests) == 1

    async def test_with_a_fallback_nobody_waits(self, peers: list[LanguageModelPeer]) -> None:
        model_peer, two, _ = peers
        misbehave(model_peer, status=429, retry_after=20)
        async with open_models(model_peer, two) as models:
            time_budget = budget()
            assert await streamed(models, time_budget) == "I am two."
        assert time_budget.elapsed_ms() < 15_000
        assert len(model_peer.requests) == 1


class TestPrices:
    async def test_the_cost_is_that_of_the_endpoint_that_answered(self) -> None:
        async with LanguageModelPeer(reply="I am one.") as model_peer, LanguageModelPeer(reply="I am two.") as two:
            prices = {"price_prompt": 2.0, "price_completion": 8.0}
            main = {"base_url": model_peer.base_url, "model": "dear", **prices}
            cheap = {"base_url": two.base_url, "model": "cheap", "price_completion": 0.5}
            settings = {"main": {**main, "fallbacks": {"cheap": cheap}}}
            models = RoleChatModel.open(ModelsSettings.model_validate(settings))
            assert models is not None
            first = budget()
            second = budget()
            await models.complete("", ASK, role="main", budget=first, agent="writer")
            model_peer.status = 500
            async with aclosing(models.stream("", ASK, role="main", budget=second, agent="writer")) as pieces:
                assert [piece async for piece in pieces]
            await models.close()
        prompt_tokens = first.tokens["writer.prompt"]
        completion_tokens = first.tokens["writer.completion"]
        assert prompt_tokens > 0
        assert completion_tokens == 3
        assert first.cost == {"writer": pytest.approx((prompt_tokens * 2.0 + completion_tokens * 8.0) / 1e6)}
        assert second.cost == {"writer": pytest.approx(3 * 0.5 / 1e6)}

    async def test_an_unknown_price_costs_nothing(self, peers: list[LanguageModelPeer]) -> None:
        async with open_models(peers[0]) as models:
            time_budget = budget()
            await completed(models, time_budget)
        assert time_budget.tokens["main.prompt"] > 0
        assert time_budget.cost == {}


def test_the_secrets_of_fallbacks_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARE_KEY", "spare-secret")
    spare = {"base_url": NOBODY, "model": "m", "api_key": {"env": "SPARE_KEY"}}
    main = {"base_url": NOBODY, "model": "m", "fallbacks": {"spare": spare}}
    settings = Settings.model_validate({"models": {"main": main}})
    assert set(settings.secrets()) == {"models.main.fallbacks.spare.api_key"}
    assert get_secret_values(settings) == ("spare-secret",)


async def test_a_reader_who_leaves_takes_the_connection_along(peers: list[LanguageModelPeer]) -> None:
    model_peer = peers[0]
    model_peer.tokens_per_s = 1
    arrived = list[str]()
    async with open_models(model_peer, peers[1]) as models:
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(0.7),
                aclosing(models.stream("", ASK, role="main", budget=budget())) as pieces,
            ):
                async for piece in pieces:
                    assert model_peer.active == 1
                    arrived.append(piece)
        assert "".join(arrived) != "I am one."
        await idle(peers)
    assert arrived
