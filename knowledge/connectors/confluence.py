"""Pages and posts of spaces in Confluence, in the cloud or on a server of one's own. Restricted ones are not read.

By the search of content (`/rest/api/content/search`), which both have: it says of each page who may read it and what is
above it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from core.errors import SourceError
from core.settings.connectors import ConfluenceOptions
from knowledge.connectors.api import ConnectorApi, open_api
from knowledge.connectors.source import Content, Item, ItemPage, is_of_part
from knowledge.formats.confluence import read_storage
from knowledge.sources.forge.api import StatusError
from knowledge.web.addresses import redact_url
from knowledge.web.values import as_mappings, dig, to_line, to_text

SEARCH = "/rest/api/content/search"
PAGES_PER_REQUEST = 50
_WHO = ("restrictions.read.restrictions.user", "restrictions.read.restrictions.group")
_EXPANSIONS = ["version", "ancestors", *_WHO, *(f"ancestors.{name}" for name in _WHO)]
RESTRICTED = "it is restricted, or a page above it is"


class Confluence:
    """Implements `Service` for some spaces."""

    # Each edit is a new version.
    max_age_s = 0.0
    says_what_is_gone = True

    def __init__(self, options: ConfluenceOptions) -> None:
        self._options = options

    @property
    def display_name(self) -> str:
        """The site as messages may show it."""
        return redact_url(self._options.base)

    def open(self, seconds: float) -> AbstractAsyncContextManager[ConnectorApi]:
        """Return the API of the site."""
        token, username = self._options.token, self._options.username
        credentials = base64.b64encode(f"{username}:{token}".encode()).decode()
        authorization = f"Basic {credentials}" if username else f"Bearer {token}"
        return open_api(self._options, self._options.base, {"Authorization": authorization} if token else {}, seconds)

    async def list_page(self, api: ConnectorApi, cursor: str) -> ItemPage:
        """Return a part of the pages of a space. The cursor is its number, and the address that the last part named.

        Asked for several spaces at once, Confluence refuses all for one that is not there.
        """
        number, _, address = cursor.partition(" ")
        index = int(number or 0)
        key = self._options.spaces[index]
        next_space = f"{index + 1} " if index + 1 < len(self._options.spaces) else ""
        query = f'space in ("{key}") and type in (page, blogpost)'
        try:
            reply = await (api.get(address) if address else self._search(api, query, _EXPANSIONS, PAGES_PER_REQUEST))
        except StatusError as error:
            if address or not is_of_part(error):
                raise
            return ItemPage((), next_space, key, f"{error}: is there such a space, and may the account read it?")
        items = [
            _to_item(page, key)
            for page in _get_results(reply, self.display_name)
            if to_line(page.get("id")).isdecimal()
        ]
        next_url = to_text(dig(reply, "_links", "next"))
        # Whatever host and folder it names: ours is asked.
        _, _, query = next_url.partition(f"{SEARCH}?")
        if next_url and not query:
            raise SourceError(f"{self.display_name} names a next part that is not understood")
        return ItemPage(items, f"{index} {SEARCH}?{query}" if query else next_space)

    async def read(self, api: ConnectorApi, item: Item) -> Content:
        """Return a page, unless it was restricted meanwhile, or moved to another space."""
        number = item.path.removeprefix("pages/")
        try:
            reply = await self._search(api, f'id={number} and space="{item.part}"', ["body.storage", *_EXPANSIONS], 1)
        except StatusError as error:
            if is_of_part(error):
                # As for a space that this account may not see any more.
                await self._raise_if_gone(api, number, item.part)
            raise
        pages = _get_results(reply, self.display_name)
        if not pages:
            await self._raise_if_gone(api, number, item.part)
            raise SourceError(f"{self.display_name} does not find {item.path}, which is there: is its index complete?")
        if _find_skip_reason(pages[0]):
            raise StatusError(RESTRICTED, 404, "")
        link = to_line(dig(pages[0], "_links", "webui"), 2000)
        # What does not begin with a slash would be part of the host's name.
        link = link if link.startswith("/") else f"/pages/viewpage.action?pageId={number}"
        storage = to_text(dig(pages[0], "body", "storage", "value"))
        return Content(to_line(pages[0].get("title")), f"{self._options.base}{link}", read_storage, (storage,))

    async def _raise_if_gone(self, api: ConnectorApi, number: str, space: str) -> None:
        """Raise `StatusError` for a page that is not in a space any more, or not for this account."""
        page = await api.get(f"/rest/api/content/{number}", {"expand": "space"})
        if to_line(dig(page, "space", "key")) not in ("", space):
            raise StatusError("it was moved to another space", 404, "")

    async def probe(self, api: ConnectorApi) -> str:
        """Return the spaces. Raises `SourceError` for one that shows no page."""
        for key in self._options.spaces:
            if not _get_results(await self._search(api, f'space="{key}" and type=page', ["version"], 1), key):
                raise SourceError(f"space {key} shows no pages: does it exist, and may the account read it?")
        return f"answers for {', '.join(self._options.spaces)}"

    async def _search(self, api: ConnectorApi, query: str, expansions: list[str], limit: int) -> Any:
        return await api.get(SEARCH, {"cql": query, "expand": ",".join(expansions), "limit": str(limit)})


def _get_results(reply: Any, name: str) -> list[Mapping[str, Any]]:
    if not isinstance(dig(reply, "results"), list):
        raise SourceError(f"{name} answered with something else than a list of pages")
    return as_mappings(reply["results"])


def _to_item(page: Mapping[str, Any], space: str) -> Item:
    mark = to_line(str(dig(page, "version", "number")))
    return Item(f"pages/{page['id']}", mark, _find_skip_reason(page), part=space)


def _find_skip_reason(page: Mapping[str, Any]) -> str:
    """Return why a page is not for everybody in its space; what is not known of it counts as a restriction."""
    if page.get("status", "current") != "current":
        return "it is a draft, archived or in the trash"
    ancestors = page.get("ancestors")
    if not isinstance(ancestors, list) or not all(map(_is_open, [page, *ancestors])):
        return RESTRICTED
    return ""


def _is_open(page: Any) -> bool:
    readers = [dig(page, "restrictions", "read", "restrictions", kind, "results") for kind in ("user", "group")]
    return readers == [[], []]
