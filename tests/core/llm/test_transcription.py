"""Recordings and what endpoints make of them: formats by their first bytes, words without names of sounds."""

from __future__ import annotations

import pytest

from core.errors import ModelError
from core.llm.recordings import read_recording
from core.llm.transcription import Transcriber, clean_transcript
from core.runtime.budget import Budget
from core.settings import BudgetSettings, TranscriptionSettings
from tests.support.peers.transcription import FORMATS, TranscriptionPeer, make_wav

pytestmark = pytest.mark.usefixtures("time_lapse")


@pytest.mark.parametrize(
    ("content", "file_name"),
    [
        *((beginning, f"voice.{name}") for name, (beginning, _) in FORMATS.items() if name not in ("wav", "m4a")),
        (make_wav(), "voice.wav"),
        (b"\0\0\0\x1cftypM4A ", "voice.m4a"),
        (b"\xff\xfb\x90\x64", "voice.mp3"),
        (b"\xff\xf1\x50\x80", None),
        (b"RIFF\0\0\0\0AVI LIST", None),
        (b"\xff", None),
        (b"<!doctype html>", None),
        (b"", None),
    ],
)
def test_the_first_bytes_say_what_a_recording_is(content: bytes, file_name: str | None) -> None:
    recording = read_recording(content)
    assert (recording.file_name if recording else None) == file_name


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (" Hello\n there.\x07\u202e ", "Hello there."),
        ("怎么安装？", "怎么安装？"),
        ("[coughs] How? (laughs)", "[coughs] How? (laughs)"),
        ("half \ud800", "half \ufffd"),
        *(
            (text, "")
            for text in ("", " ", "[BLANK_AUDIO]", " (music) ", "*sighs* ♪", "[ Silence ] [ Silence ]", "...")
        ),
    ],
)
def test_a_transcript_is_a_line_of_words_or_nothing(text: str, line: str) -> None:
    assert clean_transcript(text) == line


def open_transcriber(peer: TranscriptionPeer, **changes: object) -> Transcriber:
    transcriber = Transcriber.open(TranscriptionSettings.model_validate(peer.configuration(**changes)))
    assert transcriber
    return transcriber


async def transcribe(transcriber: Transcriber, deadline_s: float = 30) -> str:
    recording = read_recording(make_wav())
    assert recording
    try:
        return await transcriber.transcribe(recording, Budget(BudgetSettings(deadline_s=deadline_s)))
    finally:
        await transcriber.close()


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"status": 404}, "status 404"),
        ({"status": 503}, "status 503"),
        ({"api_key": "right"}, "it wants an API key"),
        ({"body": "[1, 2]"}, "whisper sent"),
        ({"body": '{"text": 7}'}, "a transcription without a text"),
        ({"body": "<html>"}, "instead of JSON"),
        ({"text": "word " * 60_000}, "a reply of more than 256 kB"),
        ({"hang": True}, "did not answer in time"),
    ],
)
async def test_what_an_endpoint_does_wrong_is_said(faults: dict[str, object], words: str) -> None:
    async with TranscriptionPeer() as peer:
        for name, value in faults.items():
            setattr(peer, name, value)
        with pytest.raises(ModelError, match=words):
            await transcribe(open_transcriber(peer, timeout_s=5))


async def test_a_wait_that_does_not_fit_is_not_waited_for() -> None:
    async with TranscriptionPeer() as peer:
        peer.status, peer.retry_after = 429, 20
        with pytest.raises(ModelError, match="status 429"):
            await transcribe(open_transcriber(peer), deadline_s=10)
        assert len(peer.uploads) == 1
        peer.failures = 1
        assert await transcribe(open_transcriber(peer), deadline_s=60) == "How do I install it?"


async def test_an_endpoint_that_fails_again_and_again_is_open_in_its_circuit() -> None:
    async with TranscriptionPeer() as peer:
        peer.status = 500
        transcriber = open_transcriber(peer)
        recording = read_recording(make_wav())
        assert recording
        for _ in range(3):
            with pytest.raises(ModelError):
                await transcriber.transcribe(recording, Budget(BudgetSettings()))
        assert [deployment.circuit_breaker.is_open for deployment in transcriber.deployments()] == [True]
        await transcriber.close()


def test_without_an_endpoint_there_is_none() -> None:
    assert Transcriber.open(None) is None
