"""An OpenAI-compatible service that writes down recordings, over real HTTP, as strict about uploads as the original.

async with TranscriptionPeer("How do I install it?") as peer:
    ...  # talk to peer.base_url; what arrived is in peer.uploads
"""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import MultipartReader, web

MAX_BYTES = 25 * 10**6
# How files of these names begin, and what they are called.
FORMATS: dict[str, tuple[bytes, str]] = {
    "ogg": (b"OggS", "audio/ogg"),
    "wav": (b"RIFF", "audio/wav"),
    "flac": (b"fLaC", "audio/flac"),
    "webm": (b"\x1aE\xdf\xa3", "audio/webm"),
    "mp3": (b"ID3", "audio/mpeg"),
    "m4a": (b"\0\0\0\x18ftyp", "audio/mp4"),
}
KNOWN_FIELDS = ("file", "model", "response_format", "language", "prompt", "temperature", "stream")
OGG = b"OggS" + bytes(range(200))


def make_wav(seconds: float = 0.1) -> bytes:
    """Return a recording of silence."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as recording:
        recording.setnchannels(1)
        recording.setsampwidth(2)
        recording.setframerate(16_000)
        recording.writeframes(bytes(2 * round(16_000 * seconds)))
    return buffer.getvalue()


@dataclass(frozen=True)
class Upload:
    """What arrived: the fields of the form, and the file with its name and type."""

    fields: dict[str, str]
    file_name: str
    media_type: str
    content: bytes
    authorization: str


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TranscriptionPeer:
    """The service; its attributes may be changed while it runs.

    `text` is what every recording says. Faults, off by default: `status` answers with this error (429 carries
    `retry_after`), `failures` limits that to the next so many requests, `hang` never answers, `body` is sent as it is.
    """

    def __init__(self, text: str = "How do I install it?", *, api_key: str = "", models: Collection[str] = ()) -> None:
        self.text = text
        self.api_key = api_key
        self.models = models
        self.uploads: list[Upload] = []
        self.base_url = ""
        self.status = 0
        self.failures: int | None = None
        self.retry_after = 0.2
        self.hang = False
        self.body: str | None = None
        self.arrived = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/audio/transcriptions", self._transcribe)
        app.router.add_get("/v1/models", self._list_models)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def configuration(self, **changes: Any) -> dict[str, Any]:
        """Return the section `models.transcription` that leads here."""
        return {"base_url": self.base_url, "model": "whisper", **changes}

    async def _list_models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models or ("whisper",)]})

    async def _transcribe(self, request: web.Request) -> web.Response:
        try:
            self._check_key(request)
            self.uploads.append(await self._read(request))
            self.arrived.set()
            self._fail()
        except Refusal as refusal:
            error = {"message": str(refusal), "type": "invalid_request_error", "param": None, "code": None}
            headers = {"Retry-After": f"{self.retry_after:g}"} if refusal.status == 429 else {}
            return web.json_response({"error": error}, status=refusal.status, headers=headers)
        if self.hang:
            await asyncio.Event().wait()
        if self.body is not None:
            return web.Response(text=self.body, content_type="application/json")
        return web.json_response({"text": self.text, "usage": {"type": "duration", "seconds": 1}})

    def _check_key(self, request: web.Request) -> None:
        if self.api_key and request.headers.get("Authorization") != f"Bearer {self.api_key}":
            raise Refusal(401, "Incorrect API key provided.")

    def _fail(self) -> None:
        if self.status and self.failures != 0:
            self.failures = None if self.failures is None else self.failures - 1
            raise Refusal(self.status, f"This peer was told to answer {self.status}.")

    async def _read(self, request: web.Request) -> Upload:
        if request.content_type != "multipart/form-data":
            raise Refusal(400, f"Expected multipart/form-data, got {request.content_type}.")
        reader = await request.multipart()
        fields: dict[str, str] = {}
        file: tuple[str, str, bytes] | None = None
        while (part := await reader.next()) is not None:
            if isinstance(part, MultipartReader) or part.name not in KNOWN_FIELDS or part.name in fields:
                raise Refusal(400, f"Unknown parameter: {getattr(part, 'name', 'a nested form')!r}.")
            content = bytes(await part.read())
            if part.name != "file":
                fields[part.name] = content.decode()
            elif file is None:
                file = part.filename or "", part.headers.get("Content-Type", ""), content
            else:
                raise Refusal(400, "Two files.")
        self._check(fields, file)
        assert file is not None
        return Upload(fields, *file, request.headers.get("Authorization", ""))

    def _check(self, fields: dict[str, str], file: tuple[str, str, bytes] | None) -> None:
        if file is None or not file[2]:
            raise Refusal(400, "Missing required parameter: 'file'.")
        name, media_type, content = file
        if len(content) > MAX_BYTES:
            raise Refusal(413, "Maximum content size limit (25000000) exceeded.")
        beginning, expected_type = FORMATS.get(name.rpartition(".")[2], (b"?", ""))
        if not content.startswith(beginning) or media_type != expected_type:
            raise Refusal(400, f"Invalid file format: {name} of type {media_type}.")
        if fields.get("response_format", "json") != "json":
            raise Refusal(400, f"Unsupported response_format {fields['response_format']!r}.")
        if not fields.get("model"):
            raise Refusal(400, "Missing required parameter: 'model'.")
        if self.models and fields["model"] not in self.models:
            raise Refusal(404, f"The model `{fields['model']}` does not exist.")
