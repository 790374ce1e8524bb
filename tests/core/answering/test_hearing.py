"""Which endpoint hears a voice message: that of its chat's models, and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from core.answering.chat_models import ChatModels
from core.answering.context import AnswerDependencies
from core.answering.service import AnswerService
from core.catalogue import ENGLISH
from core.llm.model_sets import ModelSets
from core.types import ConversationKey, Question, Speech
from tests.support.fixtures import MemorySink, parts, settings
from tests.support.peers.transcription import OGG, TranscriptionPeer


def make_question(key: ConversationKey, transcripts: list[str]) -> Question:
    async def fetch() -> bytes:
        return OGG

    async def record(transcript: str) -> None:
        transcripts.append(transcript)

    return Question("", key=key, speech=Speech(len(OGG), 3.0, fetch, record))


@asynccontextmanager
async def open_deps(general: TranscriptionPeer, team: TranscriptionPeer) -> AsyncIterator[AnswerDependencies]:
    """Open deployments whose chat `slack:C1` has a set of its own, and `slack:C2` one that hears nothing."""
    configuration = settings(
        models={
            "transcription": general.configuration(),
            "sets": {"team": {"transcription": team.configuration()}, "quotes": {}},
        },
        chats={"slack:C1": {"models": "team"}, "slack:C2": {"models": "quotes"}},
    )
    models = ModelSets.open(configuration.models)
    deps = parts(configuration=configuration)
    chat_models = ChatModels(models.by_name, lambda: configuration, deps.reranker, models.transcribers)
    try:
        yield replace(deps, transcriber=models.transcriber, chat_models=chat_models)
    finally:
        await models.close()


async def test_a_recording_goes_to_the_endpoint_of_its_chat_alone() -> None:
    async with (
        TranscriptionPeer("general") as general,
        TranscriptionPeer("team") as team,
        open_deps(general, team) as deps,
    ):
        transcripts: list[str] = []
        for chat in ("C1", "C3"):
            question = make_question(ConversationKey("slack", chat), transcripts)
            await AnswerService(deps).answer(question, MemorySink())
    assert transcripts == ["team", "general"]
    assert (len(general.uploads), len(team.uploads)) == (1, 1)


async def test_a_courtesy_that_is_said_gets_the_reply_of_a_written_one() -> None:
    async with TranscriptionPeer("Thank you!") as peer, open_deps(peer, peer) as deps:
        sink = MemorySink()
        reply = await AnswerService(deps).answer(make_question(ConversationKey("slack", "C3"), []), sink)
        assert reply.text == ENGLISH.you_are_welcome
        assert sink.replies[-1].text == f"I heard: “Thank you!”\n\n{ENGLISH.you_are_welcome}"
