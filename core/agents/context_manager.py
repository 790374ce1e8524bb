"""The context manager: makes a question complete before anything is searched for it (KIMAs 3.2.1)."""

from __future__ import annotations

from core.budget import Budget
from core.evidence import defuse
from core.ports import ChatModel
from core.prompts import Prompts
from core.rewrite import own_turns, rule_rewrite
from core.types import Question, Turn

MAX_QUERY_CHARS = 600


async def complete_question(question: Question, model: ChatModel | None, prompts: Prompts, budget: Budget) -> str:
    """Return a query that can be searched without knowing the conversation.

    The light model writes it when there is one and there is a conversation; otherwise, and whenever the model is too
    slow, fails or talks too much, rules do.
    """
    history = own_turns(question.history, question.author_id)
    by_rule = rule_rewrite(question.text, question.history, question.author_id)
    if model is None or not history:
        budget.timings_ms.setdefault("rewrite", 0.0)
        return by_rule
    system = prompts.fill("rewrite")
    conversation = defuse("\n".join(f"{turn.role}: {turn.text}" for turn in history))
    request = f"<conversation>\n{conversation}\n</conversation>\n<question>\n{defuse(question.text)}\n</question>"
    written = await budget.within(
        "rewrite",
        model.complete(system, [Turn("user", request)], role="light", budget=budget, agent="rewrite"),
        lambda: "",
    )
    query = " ".join(written.split()).strip("\"'` ")
    return query if 0 < len(query) <= MAX_QUERY_CHARS else by_rule
