"""The decision maker: judges the evidence so far and decides what comes next.

States and outputs:

| state | `action` | `query` | `quality` and `reason` |
|---|---|---|---|
| the evidence suffices | `answer` | empty | `good` |
| it does not, and a search may help | `search` | the next query, a new one | `poor`, and why |
| it does not, and no search will help | `answer` | empty | `poor`, and why |
| default: the model failed, overran or cannot be understood | `answer` | empty | empty |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.answering.agents.conversation import format_question
from core.answering.context import AnswerDependencies
from core.evidence.rendering import render_to_budget
from core.language.keywords import content_words
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.structured_output import CallBudget, DecisionRequest, decide
from core.runtime.budget import Budget
from core.types import Passage, Question, Turn

ANSWER_WORDS = (
    "final answer",
    "final",
    "finish",
    "finished",
    "done",
    "stop",
    "respond",
    "reply",
    "summarize",
    "conclude",
    "enough",
    "sufficient",
    "complete",
    "answerable",
    "end",
    "write",
    # As the papers on three light agents print it.
    "llm",
    "大模型",
    "回答",
    "答案",
    "完成",
    "结束",
    "停止",
    "足够",
    "总结",
    "作答",
)
SEARCH_WORDS = (
    "search again",
    "retrieve",
    "retrieve knowledge",
    "retrieval",
    "lookup",
    "look up",
    "find",
    "continue",
    "research",
    "search knowledge",
    "web search",
    "搜索",
    "检索",
    "查找",
    "继续",
    "继续搜索",
    "再搜索",
)
ACTIONS = {"answer": ANSWER_WORDS, "search": SEARCH_WORDS}
QUALITIES = {
    "good": ("high", "fine", "relevant", "excellent", "好", "良好", "高"),
    "poor": ("bad", "low", "weak", "差", "不足", "低"),
}
QUERY_KEYS = (
    "next query",
    "search query",
    "new query",
    "q",
    "queries",
    "keyword",
    "keywords",
    "search term",
    "search terms",
    "action input",
    "input",
    "tool input",
    "argument",
    "arguments",
    "args",
    "parameters",
    "text",
    "topic",
    "查询",
    "查询词",
    "搜索词",
    "关键词",
    "检索词",
    "下一个查询",
    "输入",
    "行动输入",
    "动作输入",
    "参数",
    "内容",
)
ACTION_KEYS = (
    "act",
    "decision",
    "next",
    "next action",
    "next step",
    "choice",
    "tool",
    "tool name",
    "name",
    "function",
    "type",
    "command",
    "行动",
    "动作",
    "决定",
    "决策",
    "操作",
    "选择",
    "下一步",
    "工具",
)
REASON_KEYS = (
    "reasoning",
    "why",
    "explanation",
    "thought",
    "thoughts",
    "rationale",
    "because",
    "analysis",
    "理由",
    "原因",
    "说明",
    "思考",
    "分析",
    "解释",
)
DECISION_SCHEMA = DecisionSchema(
    "decision",
    "What comes next: answer, or search once more",
    (
        SchemaField(
            "quality",
            "choice",
            "good or poor: what the evidence is worth for this question",
            ("result quality", "results", "rating", "质量", "评价"),
            QUALITIES,
        ),
        SchemaField("reason", "text", "why, in a few words", REASON_KEYS),
        SchemaField("action", "choice", "answer or search", ACTION_KEYS, ACTIONS),
        SchemaField("query", "text", "the next search query; empty for answer", QUERY_KEYS),
    ),
    main="action",
    argument="query",
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step. `quality` is `good`, `poor` or empty for unknown."""

    action: Literal["answer", "search"] = "answer"
    query: str = ""
    quality: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SearchAttempt:
    """A finished search: its query, how many of its passages were kept, and a remark on them."""

    query: str
    kept_count: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Goal:
    """A step of a roadmap: what to find out, as a query; `is_known` if it needs no search."""

    text: str
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far a strategy has come: its evidence, its searches, its plan, and what the filter misses."""

    evidence: Sequence[Passage]
    attempts: Sequence[SearchAttempt] = ()
    plan: Sequence[Goal] = ()
    missing_information: str = ""

    def search_log(self) -> str:
        """Return the searches so far, one line each, without anything that could close a fence.

        It is data as well: models wrote much of it after reading passages, and a query may repeat the question.
        """
        entries = [f"{'known' if goal.is_known else 'planned'}: {goal.text}" for goal in self.plan]
        entries += [
            f"searched: {attempt.query} (kept: {attempt.kept_count}) {attempt.note}".strip()
            for attempt in self.attempts
        ]
        entries += [f"missing: {self.missing_information}"] if self.missing_information else []
        return "\n".join(" ".join(entry.split()) for entry in entries).replace("<", "‹").replace(">", "›")


def parse_decision(parsed_reply: ParsedReply) -> Decision | None:
    """Return the decision of a reply; None without an action, and for a search without a query."""
    query = parsed_reply.get_text("query")
    action = parsed_reply.get_choice("action")
    if not action and query and not parsed_reply.get_text("action"):
        action = "search"
    quality = parsed_reply.get_choice("quality")
    reason = parsed_reply.get_text("reason")
    if action == "search" and content_words(query):
        return Decision("search", query, quality, reason)
    return Decision("answer", "", quality, reason) if action == "answer" else None


async def decide_next(
    question: Question,
    progress: SearchProgress,
    deps: AnswerDependencies,
    budget: Budget,
    call_budget: CallBudget | None = None,
) -> Decision:
    """Judge the evidence and decide: answer, or search once more, and for what. The default is to answer."""
    evidence = progress.evidence
    evidence_text = render_to_budget(evidence, deps.settings.evidence_tokens("light")) or "(nothing was kept)"
    request = (
        f"<evidence>\n{evidence_text}\n</evidence>\n<searches>\n{progress.search_log()}\n</searches>\n"
        f"{format_question(question)}"
    )
    decision_request = DecisionRequest(
        "decide", "step", DECISION_SCHEMA, deps.prompts.fill("decide"), [Turn("user", request)], call_budget=call_budget
    )
    return await decide(decision_request, parse_decision, Decision(), deps, budget)
