"""A tool of an MCP server as a live source: KIMAs calls it with the query, and its results are passages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from core.errors import SourceError
from core.formatting import shorten
from core.language.tokens import distinct_words
from core.observability.logs import get_logger
from core.runtime import foreign_json
from core.settings import McpSource
from core.types import Passage
from knowledge.live.mapping import MAX_RESULTS, ResultMapping, clean_text, make_passage, rank_passages
from knowledge.live.retriever import DailyQuota, LiveResult, LiveRetriever
from knowledge.web.client import resolve_secret
from knowledge.web.values import to_line, to_text

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from knowledge.live.mcp.connection import Connection, Tool
    from knowledge.live.mcp.transports import HttpServer, Program

_log = get_logger(__name__)

# A longer text is several passages, divided between paragraphs where it has any.
PIECE_CHARS = 2000
MAX_TITLE_CHARS = 100
MAX_LINK_CHARS = 2000


class McpTool(LiveRetriever):
    """One tool. The connection to its server is opened by the first query, and stays."""

    def __init__(self, name: str, settings: McpSource, quota: DailyQuota | None = None) -> None:
        super().__init__(name, settings, settings.url or " ".join(settings.command), quota)
        if settings.command:
            self.display_url = settings.command[0]
        self._settings = settings
        self._mapping = ResultMapping(name, settings)
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._tool: Tool | None = None

    async def close(self) -> None:
        """Let go of the connection, and end the program that was started for it. Idempotent."""
        if self._connection:
            await self._connection.close()
        await super().close()

    async def _search_uncached(self, query: str) -> LiveResult:
        settings = self._settings
        where = f"source {self.name}: {self.display_url}"
        try:
            # First: without its secrets nothing is sent, and nothing counted.
            server = await self._make_server()
            if self._quota:
                await self._quota.reserve(1)
            async with asyncio.timeout(settings.timeout_s):
                result = await self._call(server, {**settings.arguments, settings.query_argument: query})
        except TimeoutError as error:
            raise SourceError(f"{where} did not answer within {settings.timeout_s:g} s") from error
        except SourceError as error:
            text = str(error)
            raise SourceError(text if text.startswith(f"source {self.name}: ") else f"{where}: {text}") from error
        return LiveResult(rank_passages(await self._to_passages(result, query)))

    async def _make_server(self) -> HttpServer | Program:
        # Loading the SDK takes a moment.
        await asyncio.to_thread(import_module, "knowledge.live.mcp.connection")
        from knowledge.live.mcp.transports import HttpServer, Program

        if self._settings.url:
            return HttpServer(self._client, self._settings.url, await resolve_secret(self._api_key))
        environment = {name: await resolve_secret(secret) for name, secret in self._settings.environment.items()}
        return Program(self._settings.command, environment)

    async def _call(self, server: HttpServer | Program, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call the tool, twice if the connection has ended since the last time: it only reads."""
        from knowledge.live.mcp.connection import ConnectionEnded

        try:
            return await (await self._connect(server)).call(arguments)
        except ConnectionEnded as error:
            _log.info("mcp_source.connecting_again", source=self.name, error=str(error))
            return await (await self._connect(await self._make_server())).call(arguments)

    async def _connect(self, server: HttpServer | Program) -> Connection:
        """Return the connection; if there is none any more, a new one to this server."""
        from knowledge.live.mcp.connection import Connection, Tool

        async with self._connecting:
            if self._connection and self._connection.has_ended:
                await self._connection.close()
                self._connection = None
            self._tool = self._tool or Tool(self._settings)
            self._connection = self._connection or Connection(server, self._tool)
            return self._connection

    async def _to_passages(self, result: CallToolResult, query: str) -> Sequence[Passage]:
        """Return the structured results; without any, the texts and links as they are."""
        blocks = [block.model_dump(mode="json") for block in result.content[:MAX_RESULTS]]
        structured = result.structured_content
        if structured is None and len(blocks) == 1:
            structured = await _read_json(str(blocks[0].get("text", "")))
        return await asyncio.to_thread(self._read_results, structured, blocks, query)

    def _read_results(self, structured: Any, blocks: Sequence[Mapping[str, Any]], query: str) -> Sequence[Passage]:
        limit = self._settings.limit
        results = self._find_results(structured)
        passages = self._mapping.read(results or ())
        if passages or results == []:
            return passages[:limit]
        passages = [passage for block in blocks for passage in self._read_block(block)]
        return passages if len(passages) <= limit else _choose(passages, query, limit)

    def _find_results(self, structured: Any) -> Sequence[Any] | None:
        """Return the list that the mapping names; without it, the only one there is. None where that is none."""
        results = None
        try:
            results = self._mapping.find(structured)
        except SourceError as error:
            _log.debug("mcp_source.not_mapped", source=self.name, error=str(error))
        if results is not None or isinstance(structured, list):
            return structured if results is None else results
        lists = (
            [value for value in structured.values() if isinstance(value, list)] if isinstance(structured, dict) else []
        )
        return lists[0] if len(lists) == 1 else None

    def _read_block(self, block: Mapping[str, Any]) -> list[Passage]:
        """Return a block of a result as passages: a text, a link, or a document with its address; no pictures."""
        resource = block["resource"] if block["type"] == "resource" else block
        text = to_text(resource.get("text")) or to_text(resource.get("description"))
        title = to_line(resource.get("title")) or to_line(resource.get("name"))
        if not text and not (title and resource.get("uri")):
            _log.debug("mcp_source.block_left_out", source=self.name, type=block["type"])
            return []
        title = title or _find_title(text)
        link = to_line(resource.get("uri"), MAX_LINK_CHARS)
        return [make_passage(self.name, piece, title, link) for piece in _split(clean_text(text) or title)]


async def _read_json(text: str) -> Any:
    """Return the values of a text in JSON; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return await foreign_json.read_json(text.encode("utf-8", "replace"), lambda values: values)
    except ValueError:
        return None


def _find_title(text: str) -> str:
    """Return the first line of a text, without the mark of a heading."""
    return shorten(next(filter(None, (line.strip(" #\t") for line in text.splitlines())), ""), MAX_TITLE_CHARS)


def _split(text: str) -> list[str]:
    """Return a text in pieces, divided between paragraphs where it has any."""
    pieces = [""]
    for paragraph in text.split("\n\n"):
        for start in range(0, len(paragraph), PIECE_CHARS):
            part = paragraph[start : start + PIECE_CHARS]
            if len(pieces[-1]) + len(part) > PIECE_CHARS:
                pieces.append(part)
            else:
                pieces[-1] = f"{pieces[-1]}\n\n{part}".strip("\n")
    return [piece for piece in pieces if piece.strip()]


def _choose(passages: Sequence[Passage], query: str, limit: int) -> list[Passage]:
    """Return the passages that have most words of the query, in their order."""
    words = distinct_words(query)
    counts = [len(words & distinct_words(passage.text)) for passage in passages]
    best = sorted(range(len(passages)), key=lambda number: -counts[number])[:limit]
    return [passages[number] for number in sorted(best)]
