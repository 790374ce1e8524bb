"""Keys of earlier versions, with what took their place.

An error names it where one of these is still set. `make settings` writes the list into docs/install.md.
"""

from __future__ import annotations

from collections.abc import Sequence

# In a path, `*` is a name that the user chose. A whole section stands for its keys.
FORMER_KEYS = {
    "alerts.budget_share": "always 0.8",
    "answer.max_question_chars": "always 4000",
    "budget.choose": "two thirds of `budget.step`",
    "budget.compress": "two thirds of `budget.step`",
    "budget.context": "always 0.12",
    "budget.look_back": "always 0.2",
    "budget.look_up": "always 0.05",
    "budget.requery": "`budget.step`",
    "budget.rerank": "two thirds of `budget.step`",
    "budget.rewrite": "`budget.step`",
    "budget.route": "always 0.1",
    "budget.second_opinion": "`budget.step`",
    "cache.entries": "always 1000",
    "context.head_start_max_extra": "always 0.15; `context.head_start` switches head starts off",
    "context.head_start_min_kept": "always 0.5",
    "context.head_start_pause_minutes": "always 60",
    "evidence.duplicates": "always 0.85",
    "evidence.layout": "always structured",
    "evidence.order": "always edges",
    "gate.doubt_width": "always 0.25; `limits.second_opinions_per_hour: 0` switches it off",
    "gate.grey_width": "always 0.15; `gate.grey: silent` switches it off",
    "gate.modes": "`chats: {CHAT: {mode: ...}}`",
    "gate.thresholds": "`chats: {CHAT: {threshold: ...}}`",
    "gate.weights": "without effect: fit your labelled messages with `kimas eval gate DATA.jsonl --fit`",
    "knowledge.embedding.timeout_s": "always 30",
    "knowledge.parsing.output_mb": "always 32",
    "knowledge.search.candidates": "always 100",
    "knowledge.search.reranker.timeout_s": "always 2",
    "knowledge.store.weaviate.batch": "always 200",
    "knowledge.store.weaviate.connect_timeout_s": "always 5",
    "limits.images_per_message": "always 3",
    "models.*.hedge_after_s": "no endpoint is asked twice; `first_token_s` says when another one takes over",
    "models.*.hedge_share": "no endpoint is asked twice",
    "models.*.stall_s": "always 20",
    "models.*.whole_s": "1.25 times `first_token_s`",
    "models.circuit": "always 3 failures and 30 seconds",
    "sources.*.enhanced": "always true; a service without `/retrieve` gets `/search`",
    "sources.*.use_compression": "`body: {use_compression: true}`",
    "sources.*.use_rerank": "`body: {use_rerank: false}`",
}


def describe_former_key(path: Sequence[str | int]) -> str:
    """Return what became of a key, or an empty string for a path that never was one."""
    for former_key, successor in FORMER_KEYS.items():
        steps = former_key.split(".")
        if len(path) >= len(steps) and all(
            expected in ("*", step) for expected, step in zip(steps, path[: len(steps)], strict=True)
        ):
            return f"is not a setting any more ({successor.replace('`', '')}): remove it (docs/install.md)"
    return ""


def format_former_keys() -> str:
    """Return the table of former keys for the page about installation and upgrades."""
    rows = [f"| `{key}` | {successor} |" for key, successor in sorted(FORMER_KEYS.items())]
    return "".join(row + "\n" for row in ["| former key | now |", "|---|---|", *rows])
