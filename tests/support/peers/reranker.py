"""Rerank services over real HTTP, each at its own path and as strict about requests as the original.

    async with RerankPeer(score=lambda query, text: ...) as peer:
        ...  # talk to peer.url("cohere"); what arrived is in peer.bodies

`failure_mode` as in `WebPeer`; `reply` replaces what a service answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.support.peers.web import WebPeer

KEY = "rerank-key"
Body = dict[str, Any]


class RerankPeer(WebPeer):
    def __init__(self, score: Callable[[str, str], float]) -> None:
        super().__init__()
        self.score = score
        self.reply: str | None = None

    def address(self, service: str) -> str:
        return self.url(PATHS[service])

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.failure_mode or self.status:
            return await super()._answer(request)
        self.requests.append(request)
        service = next((name for name, path in PATHS.items() if path == request.path), None)
        if service is None or request.method != "POST":
            return web.Response(status=404)
        body = await request.json()
        self.bodies.append(body)
        if self.reply is not None:
            return web.Response(text=self.reply, content_type="application/json")
        if service != "tei" and request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"message": "invalid api token"}, status=401)
        problem = _problem(service, body)
        if problem:
            return web.json_response({"message": problem}, status=422)
        return web.json_response(self._ranked(service, body))

    def _ranked(self, service: str, body: Body) -> Any:
        texts = body["texts" if service == "tei" else "documents"]
        scores = [(self.score(body["query"], text), index) for index, text in enumerate(texts)]
        ordered = sorted(scores, reverse=True)[: body.get("top_n", len(texts))]
        if service == "tei":
            return [{"index": index, "score": score} for score, index in ordered]
        results = [{"index": index, "relevance_score": score} for score, index in ordered]
        if service == "voyage":
            return {"object": "list", "data": results, "model": body["model"], "usage": {"total_tokens": 1}}
        return {"id": "rerank-1", "results": results, "meta": {}}


def _problem(service: str, body: Body) -> str:
    known_fields: dict[str, type] = {"query": str, "documents": list, "top_n": int, "model": str}
    if service == "tei":
        known_fields = {"query": str, "texts": list, "truncate": bool, "raw_scores": bool, "return_text": bool}
    wrong_names = [name for name, value in body.items() if not isinstance(value, known_fields.get(name, type(None)))]
    needed_fields = {"query", "texts"} if service == "tei" else {"query", "documents", "model"}
    missing_fields = sorted(needed_fields - body.keys())
    return f"unknown or wrong: {wrong_names}, missing: {missing_fields}" if wrong_names or missing_fields else ""


PATHS = {
    "cohere": "/cohere/v2/rerank",
    "jina": "/jina/v1/rerank",
    "vllm": "/vllm/rerank",
    "infinity": "/infinity/rerank",
    "voyage": "/voyage/v1/rerank",
    "tei": "/tei/rerank",
}
