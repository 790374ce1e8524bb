"""What people see of a message of Discord's: its text, embeds, components and polls, and what it forwards."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from bots.common.visible_text import Walker, format_moment, join_paragraphs, join_texts

Json = Mapping[str, Any]

BUTTON = 2
_USER_OR_ROLE = r"@!?(?P<user>\d{1,20})|@&(?P<role>\d{1,20})"
_EMOJI = r"a?(?P<emoji>:\w{1,64}:)\d{1,20}"
_CHANNEL = r"#(?P<channel>\d{1,20})"
_COMMAND = r"(?P<command>/[^<>:\n]{1,100}):\d{1,20}"
_MOMENT = r"t:(?P<moment>-?\d{1,13})(?::(?P<style>[a-zA-Z]))?"
_REFERENCE = re.compile(f"<(?:{_USER_OR_ROLE}|{_EMOJI}|{_CHANNEL}|{_COMMAND}|{_MOMENT})>")
_DATE_STYLES = ("d", "D")
# What holds words beside the text; a sticker is seen as well, but to send one is a gesture.
_PARTS = ("embeds", "components", "poll")
# In the order in which they are shown.
_WORD_KEYS = (
    "provider",
    "author",
    "question",
    "title",
    "description",
    "content",
    "text",
    "name",
    "label",
    "fields",
    "answers",
    "components",
    "footer",
)
_HIDDEN_KEYS = frozenset(("emoji", "image", "media", "options", "thumbnail", "video"))


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads: the bot and its own roles, and the names of channels and roles that it knows, by id."""

    bot_id: str
    own_roles: Collection[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def get_channel_title(self, channel: str) -> str:
        """Return what a channel is called, or "" for one that is not known."""
        name = self.names.get(channel, "")
        return f"#{name}" if name else ""

    def get_attached_text(self, message: Json) -> str:
        """Return what is shown below a message's own text, without what it forwards."""
        return self._join(message, _PARTS, self.resolve_mentions(message)[1])

    def get_forwarded_text(self, message: Json) -> str:
        """Return the words of the messages that a message forwards."""
        return join_paragraphs(*(self.get_visible_text(snapshot) for snapshot in get_snapshots(message)))

    def get_visible_text(self, message: Json) -> str:
        """Return all that people see of a message."""
        text = self.resolve_mentions(message)[1]
        attached_text = self._join(message, (*_PARTS, "sticker_items"), text)
        own_text = "\n".join(filter(None, (text, attached_text)))
        return join_paragraphs(own_text, self.get_forwarded_text(message))

    def resolve_mentions(self, message: Json) -> tuple[bool, str]:
        """Return whether a message's own text mentions the bot, and the text without that, all else by name."""
        return self._resolve(str(message.get("content") or ""), message)

    def _resolve(self, text: str, message: Json) -> tuple[bool, str]:
        pieces: list[str] = []
        is_mentioned = False
        position = 0
        user_names = _get_user_names(message)
        for match in _REFERENCE.finditer(text):
            pieces.append(text[position : match.start()])
            position = match.end()
            if match["user"] == self.bot_id or match["role"] in self.own_roles:
                is_mentioned = True
                # "@bot, what is this?": its comma goes too, and one of the spaces around it.
                if not "".join(pieces).strip() or pieces[-1].endswith(" "):
                    position += len(text[position:]) - len(text[position:].lstrip(" ,:;" if not pieces[-1] else " "))
            else:
                pieces.append(_render_reference(match, user_names, self.names))
        return is_mentioned, "".join([*pieces, text[position:]]).strip()

    def _join(self, message: Json, parts: tuple[str, ...], already_shown: str) -> str:
        walker = Walker(_WORD_KEYS, _HIDDEN_KEYS, _render, lambda text: self._resolve(text, message)[1])
        return join_texts(walker.iter_texts([_prepare(message.get(part)) for part in parts]), already_shown)


def get_snapshots(message: Json) -> list[Json]:
    """Return the messages that a message forwards."""
    snapshots = message.get("message_snapshots") or ()
    messages = [snapshot.get("message") for snapshot in snapshots if isinstance(snapshot, Mapping)]
    return [item for item in messages if isinstance(item, Mapping)]


def _get_user_names(message: Json) -> dict[str, str]:
    users = [user for user in message.get("mentions") or () if isinstance(user, Mapping)]
    return {str(user.get("id") or ""): str(user.get("global_name") or user.get("username")) for user in users}


def _render_reference(match: re.Match[str], user_names: Mapping[str, str], names: Mapping[str, str]) -> str:
    if match["user"]:
        return f"@{user_names.get(match['user'], 'somebody')}"
    if match["role"]:
        return f"@{names.get(match['role'], 'role')}"
    if match["channel"]:
        return f"#{names.get(match['channel'], 'unknown')}"
    if match["moment"]:
        moment = format_moment(match["moment"])
        return (moment.partition(" ")[0] if match["style"] in _DATE_STYLES else moment) or match[0]
    return match["emoji"] or match["command"]


def _prepare(part: object) -> object:
    """Return a part of a message in which the title of an embed says where it leads."""
    return [_link_title(node) if isinstance(node, dict) else node for node in part] if isinstance(part, list) else part


def _link_title(embed: dict[str, Any]) -> Json:
    title = embed.get("title")
    url = embed.get("url")
    return embed | {"title": f"{title} ({url})"} if title and url else embed


def _render(node: Json) -> str | None:
    """Return the text of an object that is read as a whole; None for one that is walked into."""
    url = node.get("url")
    if node.get("type") == BUTTON and "style" in node:
        # What is pressed says nothing; a link leads somewhere.
        return f"{node.get('label') or ''} ({url})" if url else ""
    name = node.get("name")
    value = node.get("value")
    if isinstance(name, str) and isinstance(value, str):
        return f"{name}: {value}"
    return None
