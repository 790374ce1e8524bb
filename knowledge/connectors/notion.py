"""Pages of Notion that are shared with an integration, with what is nested in their blocks.

https://developers.notion.com/reference: a search lists the pages, the children of a block are asked for in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

from core.errors import SourceError
from core.settings.connectors import NotionOptions
from knowledge.connectors.api import ConnectorApi, open_api
from knowledge.connectors.source import Content, Item, ItemPage
from knowledge.formats.notion import get_plain_text, join_texts, write_page
from knowledge.sources.forge.api import StatusError, parse_timestamp, to_url
from knowledge.web.addresses import redact_url
from knowledge.web.values import as_mappings, dig, to_line

VERSION = "2022-06-28"
PER_REQUEST = 100
MAX_DEPTH = 12
MAX_BLOCKS = 5000
# The time of an edit is given in whole minutes: a second edit in the same one leaves no trace.
SETTLED_S = 120.0
# What they hold is a document of its own.
PAGES = frozenset(("child_page", "child_database"))
# Properties of a page in a database that are text once they are read; people are left out.
_TEXT_PROPERTIES = ("rich_text", "select", "status", "multi_select", "number", "checkbox", "date", "url")


class Notion:
    """Implements `Service` for one integration."""

    max_age_s = 0.0
    says_what_is_gone = True

    def __init__(self, options: NotionOptions) -> None:
        self._options = options

    @property
    def display_name(self) -> str:
        """The service as messages may show it."""
        return redact_url(self._options.base)

    def open(self, seconds: float) -> AbstractAsyncContextManager[ConnectorApi]:
        """Return the API of Notion."""
        headers = {"Authorization": f"Bearer {self._options.token}", "Notion-Version": VERSION}
        return open_api(self._options, f"{self._options.base}/v1", headers, seconds)

    async def list_page(self, api: ConnectorApi, cursor: str) -> ItemPage:
        """Return a part of the pages that are shared."""
        reply = await api.post("/search", self._make_search(cursor, PER_REQUEST))
        if not isinstance(dig(reply, "results"), list):
            raise SourceError(f"{self.display_name} answered with something else than a list of pages")
        pages = [page for page in as_mappings(reply["results"]) if page.get("object") == "page" and page.get("id")]
        next_cursor = to_line(reply.get("next_cursor")) if reply.get("has_more") is True else ""
        return ItemPage([_to_item(page, api.now) for page in pages], next_cursor)

    async def read(self, api: ConnectorApi, item: Item) -> Content:
        """Return a page with its properties and all of its blocks."""
        number = quote(item.path.removeprefix("pages/"), safe="")
        page = await api.get(f"/pages/{number}")
        if not isinstance(dig(page, "properties"), Mapping):
            raise SourceError(f"{self.display_name} answered with something else than a page")
        if _find_skip_reason(page):
            raise StatusError("it was moved to the trash", 404, "")
        blocks = await self._read_children(api, number, [MAX_BLOCKS])
        values = page["properties"]
        title = next((join_texts(value.get("title")) for value in values.values() if dig(value, "type") == "title"), "")
        url = to_url(dig(page, "public_url")) or to_url(dig(page, "url"))
        lines = [f"{name}: {text}" for name, value in values.items() if (text := _read_property(value))]
        return Content(to_line(title) or "Untitled", url, write_page, (blocks, lines), _has_copies(blocks))

    async def probe(self, api: ConnectorApi) -> str:
        """Return whether any page is shared. Raises `SourceError` where none is."""
        reply = await api.post("/search", self._make_search("", 1))
        if not as_mappings(dig(reply, "results")):
            raise SourceError(
                f"{self.display_name} shows no pages: share some with the integration (page menu, Connections)"
            )
        return "answers, with pages that are shared"

    def _make_search(self, cursor: str, size: int) -> dict[str, Any]:
        sort = {"direction": "descending", "timestamp": "last_edited_time"}
        body = {"filter": {"property": "object", "value": "page"}, "sort": sort, "page_size": size}
        return {**body, "start_cursor": cursor} if cursor else body

    async def _read_children(
        self, api: ConnectorApi, block: str, blocks_left: list[int], depth: int = 0
    ) -> list[dict[str, Any]]:
        """Return the blocks in a block, each with those in it under `children`. Beyond the limits they are left out."""
        children: list[dict[str, Any]] = []
        cursor = ""
        while blocks_left[0] > 0:
            params = {"page_size": str(PER_REQUEST), **({"start_cursor": cursor} if cursor else {})}
            reply = await api.get(f"/blocks/{block}/children", params)
            if not isinstance(dig(reply, "results"), list):
                raise SourceError(f"{self.display_name} answered with something else than a page")
            for child in as_mappings(reply["results"]):
                blocks_left[0] -= 1
                nested = await self._read_nested(api, child, blocks_left, depth)
                children.append({**child, "children": nested})
            cursor = to_line(dig(reply, "next_cursor"))
            if not cursor:
                break
        return children

    async def _read_nested(
        self, api: ConnectorApi, block: Mapping[str, Any], blocks_left: list[int], depth: int
    ) -> list[dict[str, Any]]:
        """Return what is nested in a block. What cannot be read of it is left out of the page."""
        if block.get("has_children") is not True or block.get("type") in PAGES or depth >= MAX_DEPTH:
            return []
        # A copy of a synced block has the blocks of its original.
        origin = _find_origin(block)
        try:
            number = quote(origin or to_line(block.get("id")), safe="")
            return await self._read_children(api, number, blocks_left, depth + 1)
        except StatusError as error:
            if error.status in (400, 403, 404):
                return []
            raise


def _find_origin(block: Mapping[str, Any]) -> str:
    """Return the block that one is a copy of, or ""."""
    return to_line(dig(block, "synced_block", "synced_from", "block_id"))


def _has_copies(blocks: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a page has words of another one, whose edits and rights leave no mark in it."""
    return any(_find_origin(block) or _has_copies(block["children"]) for block in blocks)


def _to_item(page: Mapping[str, Any], now: float) -> Item:
    edited = to_line(page.get("last_edited_time"))
    is_settled = now - parse_timestamp(edited) > SETTLED_S
    mark = edited if is_settled else f"{edited} read at {now:.0f}"
    return Item(f"pages/{to_line(page['id'])}", mark, _find_skip_reason(page))


def _find_skip_reason(page: Any) -> str:
    is_gone = dig(page, "in_trash") is True or dig(page, "archived") is True
    return "it is in the trash" if is_gone else ""


def _read_property(value: Any) -> str:
    """Return a property as one line, "" for one that is empty or no text."""
    kind = to_line(dig(value, "type"))
    content = dig(value, kind)
    if kind not in _TEXT_PROPERTIES or content in (None, False):
        return ""
    parts = content if isinstance(content, list) else [content]
    texts = (get_plain_text(part) or dig(part, "name") or dig(part, "start") or part for part in parts)
    return to_line(", ".join("yes" if text is True else str(text) for text in texts if not isinstance(text, Mapping)))
