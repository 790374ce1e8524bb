from __future__ import annotations

import asyncio

import pytest

from core.errors import ModelError, UsageError
from core.runtime.budget import Budget
from core.settings import BudgetSettings

pytestmark = pytest.mark.usefixtures("time_lapse")


async def _late() -> str:
    await asyncio.sleep(30)
    return "late"


async def _fail() -> str:
    raise ModelError("the endpoint is down")


async def test_a_stage_inside_its_share_is_not_cut() -> None:
    budget = Budget(BudgetSettings())
    assert await budget.run_stage("rerank", asyncio.sleep(0, "done"), lambda: "stand-in") == "done"
    assert budget.degraded == []
    assert "rerank" in budget.timings_ms


@pytest.mark.parametrize("work", [_late, _fail])
async def test_an_overrun_or_a_failed_service_leads_to_the_stand_in(work: object) -> None:
    budget = Budget(BudgetSettings(deadline_s=30, step=0.0075))
    assert await budget.run_stage("rerank", work(), lambda: "stand-in") == "stand-in"  # type: ignore[operator]
    assert budget.degraded == ["rerank"]
    assert budget.timings_ms["rerank"] < 15_000


async def test_other_errors_are_not_forgiven() -> None:
    async def wrong() -> str:
        raise UsageError("no such agent")

    with pytest.raises(UsageError, match="no such agent"):
        await Budget(BudgetSettings()).run_stage("rerank", wrong(), lambda: "stand-in")


async def test_no_stage_gets_more_than_what_is_left() -> None:
    budget = Budget(BudgetSettings(deadline_s=0.05, search=1.0))
    await asyncio.sleep(0.06)
    assert budget.share("search") == 0.0
    assert await budget.run_stage("search", _late(), lambda: "stand-in") == "stand-in"


async def test_what_comes_before_the_answer_leaves_time_to_write_it() -> None:
    budget = Budget(BudgetSettings(deadline_s=60, vision=0.9, search=0.5, write=0.99))

    def whole(stage: str) -> bool:
        """Return whether a stage may take all but what is kept for writing, 59.4 s."""
        remaining_before = budget.remaining()
        share = budget.share(stage)
        remaining_after = budget.remaining()
        return max(0, remaining_after - 59.4) <= share <= max(0, remaining_before - 59.4)

    assert whole("vision")
    assert budget.share("vision") <= 0.61
    await asyncio.sleep(0.3)
    assert whole("search")
    assert budget.share("search") <= 0.31
    assert budget.share("look_back") == pytest.approx(12), "by then the answer is written"
    await asyncio.sleep(0.35)
    assert budget.share("search") == 0.0
    assert budget.remaining() > 0


async def test_the_first_reason_for_a_cut_is_kept() -> None:
    budget = Budget(BudgetSettings(deadline_s=0.5))
    await budget.run_stage("rerank", _late(), lambda: "stand-in")
    await budget.run_stage("route", _fail(), lambda: "stand-in")
    budget.degrade("rerank", "failed")
    assert budget.degraded == ["rerank", "route"]
    assert budget.degrade_reasons == {"rerank": "late", "route": "failed"}
