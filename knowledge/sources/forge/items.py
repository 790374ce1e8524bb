"""Items of a forge, and how each becomes a document. It imports little: worker processes load it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from knowledge.formats.posts import clean_markdown, format_day

MAX_TEXT_CHARS = 60_000
MAX_COMMENT_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment.

    `created_at` is in seconds since 1970. `is_excluded` is true when a bot wrote it or it was hidden.
    """

    author: str
    text: str
    created_at: float
    is_accepted: bool = False
    is_excluded: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One issue, discussion or release, without the comments that have to be asked for.

    `updated_at` and `created_at` are in seconds since 1970; `stamp` changes whenever the item or the number of its
    comments does. `comments` is None where they have to be asked for; an accepted answer comes first. `state` is open,
    closed, or empty where there is none. `skip_reason` says why it is skipped whatever the settings are.
    """

    path: str
    name: str
    title: str
    url: str
    body: str
    author: str
    created_at: float
    updated_at: float
    stamp: str
    state: str = ""
    labels: tuple[str, ...] = ()
    comments: Sequence[Comment] | None = ()
    skip_reason: str = ""

    def to_markdown(self, comments: Sequence[Comment], skipped_authors: Collection[str]) -> str:
        """Return the item as Markdown: its text, what it is, its comments in their order.

        Comments of bots and of the `skipped_authors` names are left out.
        """
        parts = [clean_markdown(self.body[:MAX_TEXT_CHARS]), f"({self._metadata_line()})"]
        skipped_names = {name.casefold() for name in skipped_authors}
        for comment in comments:
            text = clean_markdown(comment.text[:MAX_COMMENT_CHARS])
            if text and not comment.is_excluded and comment.author.casefold() not in skipped_names:
                label = "Accepted answer" if comment.is_accepted else "Comment"
                parts.append(
                    f"## {label} by {comment.author or 'somebody'}, {format_day(comment.created_at)}\n\n{text}"
                )
        return "\n\n".join(part for part in parts if part)[:MAX_TEXT_CHARS]

    def _metadata_line(self) -> str:
        byline = f" by {self.author}" if self.author else ""
        labels = f"labels: {', '.join(self.labels)}" if self.labels else ""
        return "; ".join(filter(None, (f"{self.name}{byline}, {format_day(self.created_at)}", self.state, labels)))
