"""The model and the embedder that all systems share, each in a process of its own.

    python -m tests.lab.comparison.peers model CASES.json
    python -m tests.lab.comparison.peers embedder FOLDER

The model answers with a fixed number of tokens. Asked to complete a question, it says what CASES has for it: a line
`[question, a text of the conversation, completed question]` for each; KIMAs asks for the key words that are missing,
and gets those of the same completion. It calls the tool that it is offered for that. `/calls` has what was asked of it
so far, what a provider would bill for the answers, and for how many questions it had no completion.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import html
import json
import re
import signal
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web

from core.settings import EmbeddingSettings
from knowledge.embedding import open_embedder
from knowledge.ports import Embedder, Vectors
from tests.lab.benchmarks.load_model import PASSAGE
from tests.lab.comparison.contract import DIMENSION, EMBEDDING_MODEL, MODEL, RATE, REWRITE_PROMPT, TOKENS, TTFT_MS
from tests.support.peers.language_model import BODY, Body, LanguageModelPeer, ToolCall, split_pieces
from tests.support.peers.rewriting import REWRITE_MARK, to_rewrite_reply

MIN_STATEMENT_WORDS = 4
STATEMENT_END = re.compile(r"[.!?:;]\s")
DENIAL = re.compile(r"\b(?:no|not|nor|never|none|nothing|without|neither|cannot)\b|n[’']t\b", re.IGNORECASE)
PLAIN_TEXT = "the answer is in the guide and it says what to set where it stands and why it is there"
# What asks for a complete question: our prompt, that of KIMAs, that of LlamaIndex.
REWRITES = (REWRITE_PROMPT, REWRITE_MARK, "to be a standalone question")
SELECTION = "You prepare a conversation"


class ComparisonModel(LanguageModelPeer):
    """The model. `cases` are (question, a text of the conversation, completed question)."""

    def __init__(self, cases: Sequence[Sequence[str]], *, ttft_s: float, tokens_per_s: float) -> None:
        super().__init__(reply=self.reply_to, ttft_s=ttft_s, tokens_per_s=tokens_per_s, models=(MODEL,))
        self._cases: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for question, user_texts, completed in cases:
            self._cases[_normalize(question)].append((_normalize(user_texts), completed))
        self.calls = 0
        self.prompt_tokens = 0
        self.unknown = 0
        # Of the calls that write answers: the prompts, and every token that was made, also for a client that left.
        self.answer_tokens = 0

    def make_app(self) -> web.Application:
        app = super().make_app()
        app.router.add_get("/v1/calls", self._report)
        return app

    async def _report(self, request: web.Request) -> web.Response:
        counts = {"calls": self.calls, "prompt_tokens": self.prompt_tokens, "answer_tokens": self.answer_tokens}
        return web.json_response({**counts, "unknown": self.unknown, "active": self.active - 1})

    async def _pace(self, request: web.Request, index: int) -> None:
        self.answer_tokens += _is_answer(request[BODY])
        await super()._pace(request, index)

    def reply_to(self, body: Body) -> str | ToolCall:
        """Reply, and count the call."""
        self.requests.clear()
        self.calls += 1
        prompt_tokens = self._count_usage(body, 0)["prompt_tokens"]
        self.prompt_tokens += prompt_tokens
        self.answer_tokens += prompt_tokens * _is_answer(body)
        texts = [_text(message) for message in body["messages"]]
        if REWRITE_MARK in texts[0]:
            return to_rewrite_reply(_last_question(texts), self._complete(texts))
        if any(words in texts[0] for words in REWRITES):
            return self._complete(texts)
        if SELECTION in texts[0]:
            return "1, 2\nThe asker wants to know more about it."
        if body.get("tools") and body["messages"][-1]["role"] != "tool":
            name = next(tool["function"]["name"] for tool in body["tools"] if "search" in tool["function"]["name"])
            return ToolCall(name, {"query": self._complete(texts)})
        return _answer(texts)

    def _complete(self, texts: Sequence[str]) -> str:
        """Return the completion of the question that is put last, in the conversation that was sent."""
        conversation = _normalize("\n".join(texts))
        questions = [question for question in self._cases if question in conversation]
        # Of two questions that end at the same place, the shorter is only the end of the longer.
        questions.sort(key=lambda question: (conversation.rfind(question) + len(question), len(question)))
        for question in reversed(questions):
            for user_texts, completed in self._cases[question]:
                if user_texts in conversation:
                    return completed
        self.unknown += 1
        return texts[-1].strip().rpartition("\n")[2]


def _is_answer(body: Body) -> bool:
    """Return whether a call writes the answer, or chooses what to search for it; not one that only prepares it."""
    system = _text(body["messages"][0])
    return not any(words in system for words in (*REWRITES, SELECTION))


def _last_question(texts: Sequence[str]) -> str:
    """Return the question that KIMAs wants to have completed."""
    questions = re.findall(r"<question>\n(.*?)\n</question>", texts[-1], re.DOTALL)
    return html.unescape(questions[-1])


def _normalize(text: str) -> str:
    return " ".join(html.unescape(text).split())


def _text(message: Body) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _answer(texts: Sequence[str]) -> str:
    """Return an answer of `TOKENS` tokens: with a citation that holds, where passages are numbered for citations.

    It says the longest statement of the first passage again and again, or the longest cell of a table where there is
    nothing else. The words of a whole passage, or of a denial, would say something else without their signs.
    """
    match = PASSAGE.search("\n".join(texts))
    lines = match[1].splitlines() if match else []
    prose = " ".join(line for line in lines if not line.lstrip().startswith(("|", "#")))
    cells = [cell for line in lines for cell in line.split("|")]
    cell_texts = [text for cell in cells for text in STATEMENT_END.split(cell)]
    words = _longest_statement(STATEMENT_END.split(prose)) or _longest_statement(cell_texts) or PLAIN_TEXT.split()
    words *= TOKENS
    end = " [p1]." if match else " indeed."
    pieces = split_pieces(" ".join(words[:TOKENS]))[: TOKENS - len(split_pieces(end))]
    return "".join(pieces) + end


def _longest_statement(texts: Sequence[str]) -> list[str]:
    """Return the words of the longest text that denies nothing; none for a text of a word or two."""
    statements = [re.findall(r"[A-Za-z]{2,}", text) for text in texts if not DENIAL.search(text)]
    longest = max(statements, key=len, default=[])
    return longest if len(longest) >= MIN_STATEMENT_WORDS else []


class EmbedderPeer(LanguageModelPeer):
    """The built-in model of KIMAs behind OpenAI's embeddings API.

    Below `/indexing/v1` it remembers what it has embedded, for the next system that indexes the same documents. Below
    `/v1` it computes every vector, so a question costs the same for all.
    """

    def __init__(self, embedder: Embedder, file: Path) -> None:
        super().__init__(dimension=DIMENSION, models=(EMBEDDING_MODEL,))
        self._embedder = embedder
        self._file = file
        self._vectors_by_key: dict[str, Vectors] = {}
        if file.exists():
            with np.load(file) as arrays:
                self._vectors_by_key = dict(zip(arrays["keys"].tolist(), arrays["vectors"], strict=True))

    def make_app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/embeddings", self._compute)
        app.router.add_post("/indexing/v1/embeddings", self._remember)
        return app

    async def _compute(self, request: web.Request) -> web.Response:
        body = await request.json()
        return _to_reply(body, await self._embedder.embed(_inputs(body)))

    async def _remember(self, request: web.Request) -> web.Response:
        body = await request.json()
        texts = _inputs(body)
        keys = [hashlib.sha256(text.encode()).hexdigest()[:24] for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors_by_key}
        if new:
            self._vectors_by_key.update(zip(new, await self._embedder.embed(list(new.values())), strict=True))
        return _to_reply(body, np.array([self._vectors_by_key[key] for key in keys], np.float32))

    def save(self) -> None:
        """Keep what was remembered for the next run."""
        if self._vectors_by_key:
            np.savez(
                self._file,
                keys=np.array(list(self._vectors_by_key)),
                vectors=np.array(list(self._vectors_by_key.values())),
            )


def _inputs(body: Body) -> list[str]:
    return [body["input"]] if isinstance(body["input"], str) else body["input"]


def _to_reply(body: Body, vectors: Vectors) -> web.Response:
    as_text = body.get("encoding_format") == "base64"
    rows: list[Any] = [_to_base64(vector) if as_text else vector.tolist() for vector in vectors]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})


def _to_base64(vector: Vectors) -> str:
    return base64.b64encode(np.asarray(vector, np.float32).tobytes()).decode()


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if options.peer == "model":
        cases = json.loads(options.cases.read_text("utf-8"))
        async with ComparisonModel(cases, ttft_s=options.ttft, tokens_per_s=options.rate) as model:
            print(model.base_url, flush=True)
            await stop.wait()
        return
    embedder = await open_embedder(EmbeddingSettings(), options.folder / "models")
    async with EmbedderPeer(embedder, options.folder / "vectors.npz") as peer:
        print(peer.base_url, flush=True)
        await stop.wait()
        peer.save()
    await embedder.close()


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    peers = parser.add_subparsers(dest="peer", required=True)
    model = peers.add_parser("model")
    embedder = peers.add_parser("embedder")
    model.add_argument("cases", type=Path)
    model.add_argument("--ttft", type=float, default=TTFT_MS / 1000, help="seconds to the first token")
    model.add_argument("--rate", type=float, default=RATE, help="tokens a second after it; 0: no delay")
    embedder.add_argument("folder", type=Path)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
