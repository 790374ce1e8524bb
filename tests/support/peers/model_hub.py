"""A model hub over real HTTP: the part of the protocol that huggingface_hub uses to fetch one file of a revision."""

from __future__ import annotations

import hashlib
from pathlib import Path

from aiohttp import web


class ModelHubPeer:
    """Serves the files of `folder` as those of any repository, at exactly one revision; `paths` is what was asked."""

    def __init__(self, folder: Path, revision: str) -> None:
        self.paths: list[str] = []
        self.url = ""
        self._folder = folder
        self._revision = revision
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> ModelHubPeer:
        application = web.Application()
        application.router.add_get("/", self._front_page)
        application.router.add_get("/{owner}/{name}/resolve/{revision}/{file:.+}", self._resolve)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _front_page(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text="a hub")

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(f"{request.method} {request.path}")
        file = self._folder / request.match_info["file"]
        if request.match_info["revision"] != self._revision or not file.is_file():
            code = "EntryNotFound" if file.is_file() else "RevisionNotFound"
            return web.Response(status=404, headers={"X-Error-Code": code})
        etag = hashlib.sha256(file.name.encode()).hexdigest()
        return web.FileResponse(file, headers={"X-Repo-Commit": self._revision, "ETag": f'"{etag}"'})
