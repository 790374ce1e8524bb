"""Search without a language model: route, search, rerank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.answering.agents.reranker import rerank
from core.answering.context import AnswerDependencies
from core.errors import KimasError
from core.observability.logs import make_redactor
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.settings.loader import get_secret_values
from core.types import AgentScore, Passage


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search: the agents asked, the best passages, and why an agent failed, by its name.

    `candidates` are the passages by agent that the best were taken from.
    """

    query: str
    agents: Sequence[AgentScore]
    passages: Sequence[Passage]
    candidates: Mapping[str, Sequence[Passage]] = field(default_factory=dict)
    errors_by_agent: Mapping[str, str] = field(default_factory=dict)


async def search_passages(deps: AnswerDependencies, query: str, top_k: int, agent: str = "") -> SearchResult:
    """Return the `top_k` best passages, of one agent if it is named.

    When all agents fail, the first error is raised.
    """
    agents = [AgentScore(agent, 1.0)] if agent else list(await deps.library.route(query, at_least_one=True))
    candidates, errors_by_agent = await _search_agents(deps, query, [score.name for score in agents], top_k)
    passages = [passage for agent_passages in candidates.values() for passage in agent_passages]
    # Without a language model, even where one ranks the passages of answers.
    ranked_passages = await rerank(query, passages, deps, Budget(deps.settings.budget), by_model=False)
    return SearchResult(query, agents, list(ranked_passages)[:top_k], candidates, errors_by_agent)


async def _search_agents(
    deps: AnswerDependencies, query: str, agents: Sequence[str], limit: int
) -> tuple[Mapping[str, Sequence[Passage]], Mapping[str, str]]:
    """Return the passages by agent, and why an agent failed, by its name. Raises the first error when all fail."""
    async with task_group() as tasks:
        search_tasks = [tasks.create_task(capture_error(deps.library.search(name, query, limit))) for name in agents]
    outcomes = [task.result() for task in search_tasks]
    passages_by_agent = dict[str, Sequence[Passage]]()
    errors_by_agent = dict[str, str]()
    redact = make_redactor(get_secret_values(deps.settings))
    for name, result in zip(agents, outcomes, strict=True):
        if isinstance(result, KimasError):
            errors_by_agent[name] = redact(str(result))
        else:
            passages_by_agent[name] = result
    if errors_by_agent and not passages_by_agent:
        raise next(error for error in outcomes if isinstance(error, KimasError))
    return passages_by_agent, errors_by_agent
