"""A trial of a language model, for `kimas check --live`: one answer and one choice, as the bot needs them.

The answer's prompt is as long as the configuration allows, and the passage that answers comes first in it: a server
that cuts long prompts has lost it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing, suppress

from bots.cli.console import Finding
from bots.cli.endpoints import explain_failure
from core.answering.agents.summarizer import describe_answer_language
from core.answering.strategies.router import make_choice
from core.citations.markers import find_markers
from core.errors import ModelError
from core.evidence.rendering import render_passages
from core.language.tokens import estimate_tokens
from core.llm.client import OpenAIClient
from core.llm.prompts import Prompts
from core.llm.repetition import RepeatingReply, RepetitionDetector
from core.llm.role_models import RoleChatModel
from core.llm.structured_output import parse_structured_reply
from core.runtime.budget import Budget
from core.settings import BudgetSettings, FallbackSettings, ModelSettings, Settings
from core.types import Passage, Question, Turn

# Who called a model, in `kimas usage`.
AGENT = "check"
QUESTION = "On which port does the Lantern server listen?"
ANSWER = "7413"
EVIDENCE = f"The Lantern server listens on port {ANSWER}. The variable LANTERN_PORT changes it."
FILLER = "Lamp {number} stands in hall {number}. Clean its glass every week, and store it dry in winter."
CHECK_TIMEOUT_S = 30.0
# Tokens of passages, tried until an answer begins after a third of its time; the least where none does.
ROOMS: tuple[int, ...] = (ModelSettings.model_fields["context_tokens"].default, 2000, 1000, 500)
READING_S = BudgetSettings().deadline_s / 3


class ModelTrial:
    """Tries the endpoint at a path of the configuration, such as `models.main`; each call is added to `budgets`.

    For an endpoint of a set, `settings` have the models of that set alone.
    """

    def __init__(self, path: str, endpoint: FallbackSettings, settings: Settings, budgets: list[Budget]) -> None:
        self._path = path
        self._endpoint = endpoint
        self._settings = settings
        self._budgets = budgets
        self._prompts = Prompts.read(settings.prompts)
        self._warnings: list[str] = []

    async def run(self) -> list[Finding]:
        """Return what the model is good for. Raises `ModelError` where it does not answer, with the way out."""
        names = self._path.split(".")
        role = names[3] if names[1] == "sets" else names[1]
        models = self._settings.models
        model = RoleChatModel.open_endpoint(self._endpoint)
        facts: list[str] = []
        try:
            # What this process loads first is not the model's time.
            await model.warm_up()
            if role == "main" or (role == "light" and models.main is None):
                facts.append(await self._write(model))
            if role == "light" or (role == "main" and models.light is None):
                facts.append(await self._choose(model))
            if not facts:
                await model.complete("", [Turn("user", "Say yes.")], role="main", budget=self._start(), agent=AGENT)
        except ModelError as error:
            explanation = await self._explain(error)
            if not facts:
                raise ModelError(explanation) from error
            self._warnings.append(f"it made no decision: {explanation}")
        finally:
            await model.close()
        text = f"{self._endpoint.model} at {self._endpoint.base_url} answers"
        return [
            Finding("ok", self._path, f"{text}: {'; '.join(facts)}" if facts else text),
            *(Finding("warning", self._path, warning) for warning in self._warnings),
        ]

    def _start(self) -> Budget:
        """Return a new budget, whose time begins now."""
        self._budgets.append(Budget(self._settings.budget))
        return self._budgets[-1]

    async def _explain(self, error: ModelError) -> str:
        endpoint = self._endpoint
        if error.is_timeout:
            allowed_s = min(endpoint.timeout_s, self._settings.budget.deadline_s)
            return (
                f"{endpoint.model} at {endpoint.base_url} began no answer within {allowed_s:g} s, with "
                f"{self._settings.evidence_tokens():,} tokens of passages: take a smaller model, less in "
                "context_tokens, or more time (budget.deadline_s, timeout_s)"
            )
        api_key = endpoint.api_key.value() if endpoint.api_key else ""
        return await explain_failure(error, endpoint.base_url, endpoint.model, api_key, endpoint.timeout_s)

    async def _write(self, model: RoleChatModel) -> str:
        """Let it write an answer, and return how fast it was. Raises `ModelError` before the first word."""
        settings = self._settings
        persona = settings.answer.get_persona(self._prompts.language)
        language = describe_answer_language(Question(QUESTION), self._prompts)
        system = self._prompts.fill("summarizer", name=settings.name, persona=persona, language=language)
        evidence = render_passages(list(_make_passages(settings.evidence_tokens())), settings.evidence_tokens())
        prompt = f"<evidence>\n{evidence}\n</evidence>\n<question>\n{QUESTION}\n</question>"
        detector = RepetitionDetector((system, QUESTION))
        budget = self._start()
        started_at = time.monotonic()
        first_token_s: float | None = None
        text = ""
        end = ""
        try:
            chunks = model.stream(system, [Turn("user", prompt)], role="main", budget=budget, agent=AGENT)
            async with aclosing(chunks):
                async for chunk in chunks:
                    first_token_s = first_token_s or time.monotonic() - started_at
                    text += chunk
                    detector.feed(chunk)
            detector.finish()
        except RepeatingReply:
            end = "it only repeats itself or its instructions: answers will be quoted from the sources"
        except ModelError as error:
            if first_token_s is None:
                raise
            end = f"its reply broke off: {error}" if budget.remaining() else "its reply takes longer than that"
        whole_s = time.monotonic() - started_at
        self._warnings += [end] if end else self._find_faults(text)
        deadline_s = settings.budget.deadline_s
        return (
            f"first token after {first_token_s or whole_s:.1f} s, whole reply after {whole_s:.1f} s of {deadline_s:g} s"
        )

    def _find_faults(self, text: str) -> Iterator[str]:
        if not any(position == 0 for marker in find_markers(text) for position in marker.positions):
            yield "it does not name the passage that it answers from: statements will be without sources"
        if ANSWER not in text:
            yield (
                f"it did not find the answer in a prompt with {self._settings.evidence_tokens():,} tokens of passages: "
                "either its server cuts long prompts (Ollama: num_ctx, llama.cpp: -c), then give it more or write less "
                "in context_tokens, or the model is too weak"
            )

    async def _choose(self, model: RoleChatModel) -> str:
        """Let it choose a search strategy, and return how fast it was. Raises `ModelError`."""
        request, accept = make_choice(
            Question(QUESTION), self._settings.strategies, self._prompts, "the Lantern server"
        )
        schema = request.schema.to_response_schema()
        budget = self._start()
        allowed_s = budget.share(request.budget_share)
        started_at = time.monotonic()
        reply = await model.complete(
            request.system, request.turns, role="light", budget=budget, response_schema=schema, agent=AGENT
        )
        spent_s = time.monotonic() - started_at
        if parse_structured_reply(reply, request.schema, accept) is None:
            self._warnings.append("it does not answer in the form of a decision: rules will decide instead")
        elif spent_s > allowed_s:
            self._warnings.append(f"a decision may take {allowed_s:.1f} s: rules will decide instead")
        return f"a decision after {spent_s:.1f} s"


def _make_passages(max_tokens: int) -> Iterator[Passage]:
    """Yield the passage that answers, and others up to a number of tokens."""
    yield Passage("0", "docs", "server.md", "Lantern server", EVIDENCE)
    remaining_tokens = max_tokens - estimate_tokens(EVIDENCE)
    number = 0
    while remaining_tokens > 0:
        number += 1
        text = " ".join(FILLER.format(number=10 * number + line) for line in range(10))
        remaining_tokens -= estimate_tokens(text)
        yield Passage(str(number), "docs", f"hall-{number}.md", f"Hall {number}", text)


async def find_room(base_url: str, model: str, api_key: str) -> int | None:
    """Return with how many tokens of passages a model begins to answer soon enough; None: with the usual number.

    Raises `ModelError`, also where nothing has come in time.
    """
    client = OpenAIClient.open(base_url, api_key, CHECK_TIMEOUT_S)
    try:
        # A server may load the model first, which is not its speed.
        await _begin(client, model, "Say yes.")
        for room in ROOMS:
            # What the server keeps of an earlier prompt would make this one look quick: their beginnings differ.
            passages = f"{room} tokens:\n{render_passages(list(_make_passages(room)), room)}"
            with suppress(TimeoutError):
                try:
                    async with asyncio.timeout(READING_S):
                        await _begin(client, model, passages)
                    break
                except ModelError:
                    # It may have room for fewer.
                    if room == ROOMS[-1]:
                        raise
    except ModelError as error:
        raise ModelError(await explain_failure(error, base_url, model, api_key, CHECK_TIMEOUT_S)) from error
    finally:
        await client.close()
    return None if room == ROOMS[0] else room


async def _begin(client: OpenAIClient, model: str, prompt: str) -> None:
    """Wait until a model begins to answer."""
    async with aclosing(client.stream({"model": model, "messages": [{"role": "user", "content": prompt}]})) as chunks:
        async for _ in chunks:
            break
