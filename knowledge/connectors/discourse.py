"""Topics of a Discourse forum: the question, its solution, and the other replies, without their authors' names.

https://docs.discourse.org, by reading: `/latest.json` lists topics, `/t/ID.json` has the first posts of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from core.errors import SourceError
from core.settings.connectors import DiscourseOptions
from knowledge.connectors.api import ConnectorApi, open_api
from knowledge.connectors.source import Content, Item, ItemPage, is_of_part
from knowledge.formats.discourse import Post, write_topic
from knowledge.sources.forge.api import StatusError, parse_timestamp
from knowledge.web.addresses import redact_url
from knowledge.web.values import as_mappings, dig, get_int, to_line, to_text

# Moderators' notes, small actions and whispers have other types.
REGULAR_POST = 1
POSTS_PER_REQUEST = 20
MAX_POSTS = 400
DAY_S = 86_400.0


class Discourse:
    """Implements `Service` for one forum."""

    # An edit of a reply in the middle of a topic leaves no mark in the list.
    max_age_s = 7 * DAY_S
    says_what_is_gone = True

    def __init__(self, options: DiscourseOptions) -> None:
        self._options = options
        self._lists = [f"/c/{category}/l/latest.json" for category in options.categories] or ["/latest.json"]

    @property
    def display_name(self) -> str:
        """The forum as messages may show it."""
        return redact_url(self._options.base)

    def open(self, seconds: float) -> AbstractAsyncContextManager[ConnectorApi]:
        """Return the API of the forum."""
        names = {"Api-Key": self._options.token, "Api-Username": self._options.username}
        headers = {name: value for name, value in names.items() if value}
        return open_api(self._options, self._options.base, headers, seconds)

    async def list_page(self, api: ConnectorApi, cursor: str) -> ItemPage:
        """Return a page of topics. The cursor is the number of the category and that of the page."""
        list_number, page_number = map(int, cursor.split()) if cursor else (0, 0)
        # In the order of creation no reply moves a topic from one page to another.
        params = {"page": str(page_number), "order": "created"}
        path = self._lists[list_number]
        next_list = f"{list_number + 1} 0" if list_number + 1 < len(self._lists) else ""
        try:
            topic_list = dig(await api.get(path, params), "topic_list")
        except StatusError as error:
            if len(self._lists) == 1 or page_number or not is_of_part(error):
                raise
            return ItemPage((), next_list, path, str(error), error.is_refused)
        if not isinstance(topic_list, Mapping) or not isinstance(topic_list.get("topics"), list):
            raise SourceError(f"{self.display_name} answered with something else than a list of topics")
        topics = as_mappings(topic_list["topics"])
        has_more = topics and topic_list.get("more_topics_url")
        next_cursor = f"{list_number} {page_number + 1}" if has_more else next_list
        part = path if len(self._lists) > 1 else ""
        return ItemPage([_to_item(topic, part) for topic in topics if get_int(topic, "id") > 0], next_cursor)

    async def read(self, api: ConnectorApi, item: Item) -> Content:
        """Return a topic with its posts: the first ones come with it, the others by their ids."""
        number = item.path.removeprefix("topics/")
        topic = await api.get(f"/t/{number}.json", {"include_raw": "true"})
        if not isinstance(dig(topic, "post_stream", "posts"), list):
            raise SourceError(f"{self.display_name} answered with something else than a topic")
        posts = as_mappings(topic["post_stream"]["posts"])
        stream = dig(topic, "post_stream", "stream")
        known_ids = {get_int(post, "id") for post in posts}
        ids = [post for post in stream if isinstance(post, int)][:MAX_POSTS] if isinstance(stream, list) else []
        missing_ids = [post for post in ids if post not in known_ids]
        for start in range(0, len(missing_ids), POSTS_PER_REQUEST):
            query = "&".join(f"post_ids[]={post}" for post in missing_ids[start : start + POSTS_PER_REQUEST])
            reply = await api.get(f"/t/{number}/posts.json?include_raw=true&{query}")
            posts += as_mappings(dig(reply, "post_stream", "posts"))
        posts.sort(key=lambda post: get_int(post, "post_number"))
        slug = re.sub(r"[^\w-]", "", to_line(dig(topic, "slug"))) or "-"
        visible_posts = [_to_post(post) for post in posts if _is_visible(post)]
        url = f"{self._options.base}/t/{slug}/{number}"
        return Content(to_line(dig(topic, "title")) or f"Topic {number}", url, write_topic, (visible_posts,))

    async def probe(self, api: ConnectorApi) -> str:
        """Return how many topics the first page of each list has."""
        counts = [
            len(as_mappings(dig(await api.get(path, {"order": "created"}), "topic_list", "topics")))
            for path in self._lists
        ]
        if not any(counts):
            raise SourceError(f"{self.display_name} shows no topics: are the categories right, and open to the token?")
        return f"answers with topics of {len(counts)} {'list' if len(counts) == 1 else 'lists'}"


def _to_item(topic: Mapping[str, Any], part: str) -> Item:
    marks = (
        topic.get(key) for key in ("posts_count", "highest_post_number", "bumped_at", "title", "has_accepted_answer")
    )
    is_listed = topic.get("visible", True) is True and topic.get("archetype", "regular") == "regular"
    return Item(
        f"topics/{get_int(topic, 'id')}",
        " ".join(to_line(str(mark)) for mark in marks),
        "" if is_listed else "not listed",
        part=part,
    )


def _is_visible(post: Mapping[str, Any]) -> bool:
    is_gone = post.get("hidden") is True or post.get("user_deleted") is True or bool(post.get("deleted_at"))
    return not is_gone and get_int(post, "post_type") == REGULAR_POST


def _to_post(post: Mapping[str, Any]) -> Post:
    raw = to_text(post.get("raw"))
    return Post(
        raw or to_text(post.get("cooked")),
        parse_timestamp(post.get("created_at")),
        is_solution=post.get("accepted_answer") is True and get_int(post, "post_number") > 1,
        is_html=not raw,
    )
