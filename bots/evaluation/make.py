"""`kimas eval make`: proposes labelled lines, and appends those that a person accepts to a file."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from bots.common.open_storage import open_existing_database
from bots.common.terminal import ask_choice, ask_text, make_console
from bots.daemon.bootstrap import open_app
from bots.evaluation.datasets import parse_chat
from bots.evaluation.output import print_lines
from bots.evaluation.proposals import (
    ORIGINS,
    Proposal,
    Wish,
    propose_from_journal,
    propose_from_knowledge,
    propose_gate_lines,
)
from core.errors import UsageError
from core.formatting import pluralize
from core.settings import Settings
from core.storage.labelling import LabellingRepository

MAX_CONTEXT_CHARS = 1_200
# Beside the file: what was refused is not proposed again.
REFUSED_SUFFIX = ".refused"
NO_JOURNAL = "there is no journal yet: the bot keeps there what people ask it"
NO_MODEL = "without a language model nothing comes from the knowledge: set models.main, and it writes the questions"
_JOURNAL_ORIGINS = {"ratings": "liked answers", "unanswered": "unanswered questions"}
_KEYS = "y: accept, n: refuse, e: edit the question, q: stop"
_GATE_KEYS = "y: it should be answered, n: it should not, s: skip, q: stop"


async def make(
    settings: Settings, kind: str, data: Path, *, origins: Sequence[str], chat: str, count: int, as_json: bool
) -> int:
    """Propose lines of a kind (`questions` or `gate`) that are not in `data` yet, and append those that are accepted.

    With `as_json` the proposals are printed and nothing is asked. Raises `UsageError` for options that do not fit, for
    a file that cannot be read or written, and where nobody sits at a terminal.
    """
    if not as_json and (sys.stdin is None or not sys.stdin.isatty()):
        raise UsageError("somebody has to accept the lines: run it in a terminal, or print the proposals with --json")
    known_ids = await asyncio.to_thread(_read_ids, data)
    wish = Wish(tuple(origins) or ORIGINS, parse_chat(chat), known_ids, count)
    accepted_count = 0
    shown_count = 0
    reasons: list[str] = []
    async with aclosing(_propose(settings, kind, wish, reasons)) as proposals:
        async for proposal in proposals:
            shown_count += 1
            if as_json:
                sys.stdout.write(json.dumps(proposal.line, ensure_ascii=False) + "\n")
                continue
            # In the main thread: Ctrl-C does not interrupt a read in another one, and the end would wait for it.
            # Nothing else has to run while somebody decides.
            decision = _ask_person(proposal, is_gate=kind == "gate")
            if decision == "stop":
                break
            if isinstance(decision, dict):
                await asyncio.to_thread(_append, data, json.dumps(decision, ensure_ascii=False))
                accepted_count += 1
            elif decision == "refuse":
                await asyncio.to_thread(_append, _refused_path(data), json.dumps({"id": proposal.line["id"]}))
    if not shown_count:
        make_console(stderr=True).print(
            "\n".join(["nothing new to propose", *(f"  {reason}" for reason in reasons)]), markup=False, soft_wrap=True
        )
    elif not as_json:
        print_lines([f"{pluralize(accepted_count, 'line')} {'was' if accepted_count == 1 else 'were'} added to {data}"])
    return 0


async def _propose(settings: Settings, kind: str, wish: Wish, reasons: list[str]) -> AsyncGenerator[Proposal]:
    """Yield the proposals; add to `reasons` why an origin has none."""
    if kind == "gate" and wish.chat is None:
        raise UsageError("lines for the gate come from the messages of one chat: name it with --chat PLATFORM:CHAT")
    if kind == "gate" or set(wish.origins) & _JOURNAL_ORIGINS.keys():
        async with open_existing_database(settings) as database:
            proposals: Sequence[Proposal] = ()
            if database is not None:
                propose = propose_gate_lines if kind == "gate" else propose_from_journal
                proposals = await propose(LabellingRepository(database), wish)
            if not proposals:
                reasons.append(_describe_journal(kind, wish) if database else NO_JOURNAL)
            for proposal in proposals:
                yield proposal
    if kind != "questions" or "knowledge" not in wish.origins:
        return
    # A model is needed only by those who ask for nothing but questions from the knowledge.
    if wish.origins != ("knowledge",) and not settings.models.main:
        reasons.append(NO_MODEL)
        return
    async with (
        open_app(settings, with_answers=False) as app,
        aclosing(propose_from_knowledge(app, settings, wish, reasons)) as written,
    ):
        async for proposal in written:
            yield proposal


def _describe_journal(kind: str, wish: Wish) -> str:
    """Say what the journal has nothing of that was not accepted or refused before."""
    names = [name for origin, name in _JOURNAL_ORIGINS.items() if origin in wish.origins]
    missing_text = "messages" if kind == "gate" else " and no ".join(names)
    return f"the journal has no {missing_text}{' of ' + ':'.join(wish.chat) if wish.chat else ''} left to propose"


def _ask_person(proposal: Proposal, *, is_gate: bool) -> dict[str, Any] | str:
    """Show a proposal and return the line to add, or "skip", "refuse" or "stop", as at the end of the input. Blocks."""
    try:
        return _decide(proposal, is_gate=is_gate)
    except EOFError:
        return "stop"


def _decide(proposal: Proposal, *, is_gate: bool) -> dict[str, Any] | str:
    line = dict(proposal.line)
    context = (
        proposal.context if len(proposal.context) <= MAX_CONTEXT_CHARS else f"{proposal.context[:MAX_CONTEXT_CHARS]} …"
    )
    print_lines(["", f"[{proposal.origin}, {line['split']}]", *([context, ""] if context else [])])
    if is_gate:
        print_lines([line["text"], f"(the bot {'answered' if line['should_answer'] else 'was silent'})"])
        key = ask_choice(_GATE_KEYS, ("y", "n", "s", "q"))
        return {**line, "should_answer": key == "y"} if key in ("y", "n") else {"s": "skip", "q": "stop"}[key]
    print_lines([f"Question: {line['question']}", *([f"Answer: {line['reference']}"] if "reference" in line else [])])
    key = ask_choice(_KEYS, ("y", "n", "e", "q"))
    if key == "e":
        line["question"] = ask_text("Question", line["question"])
    if key in ("y", "e") and "relevant" not in line:
        documents = ask_text("Documents that answer it, as SOURCE: PATH, with ; between them (empty: unknown)", "")
        if names := [name.strip() for name in documents.split(";") if name.strip()]:
            line["relevant"] = names
    return {"n": "refuse", "q": "stop"}.get(key, line)


def _refused_path(data: Path) -> Path:
    return data.with_name(data.name + REFUSED_SUFFIX)


def _read_ids(data: Path) -> frozenset[str]:
    """Return the ids of the lines that were accepted or refused before. Raises `UsageError`."""
    ids: set[str] = set()
    for path in (data, _refused_path(data)):
        try:
            lines = path.read_text("utf-8").split("\n") if path.exists() else []
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}"
            ) from error
        for number, line in enumerate(lines, 1):
            try:
                ids |= {str(json.loads(line)["id"])} if line.strip() else set()
            except (ValueError, TypeError, KeyError) as error:
                raise UsageError(f"{path}, line {number}: it is no JSON object with an id; repair it first") from error
    return frozenset(ids)


def _append(path: Path, line: str) -> None:
    try:
        is_cut_off = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.write(("\n" if is_cut_off else "") + line + "\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
