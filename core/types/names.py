"""Chats and people by their names, and the network in which such a name means something."""

from __future__ import annotations

import re
from dataclasses import dataclass

# The platform of which there can be several networks; chats and people of the others are unique without a name.
NETWORK_PLATFORM = "http"
# Every account on Mastodon and Bluesky has its own mentions, lists and timelines. People's names hold their server.
NAMESPACED_CHAT_PLATFORMS = (NETWORK_PLATFORM, "mastodon", "bluesky")
# They are asked what stands there: what was pressed long ago is found again at every start.
FORGES = ("github", "gitlab")
_NETWORK_SUFFIX = re.compile(r"@([a-z0-9][a-z0-9_-]{0,62})$")


@dataclass(frozen=True, slots=True)
class PlatformName:
    """A chat or a person, as the journal and the configuration name them: `platform:id`.

    The id of a further HTTP network ends in `@` and its name. Only the daemon writes this ending: behind every id of
    such a network, and the unnamed network may send none that has it. Elsewhere the ending says which bot is meant.

    >>> shop = PlatformName.parse("http:lobby@shop")
    >>> shop.network, shop.bot, PlatformName.parse("http:ann@example.org").network
    ('http@shop', 'shop', 'http')
    """

    platform: str
    id: str

    @classmethod
    def parse(cls, text: str) -> PlatformName:
        """Return what a text names. Without a platform or an id, that part is empty."""
        platform, _, identifier = text.partition(":")
        return cls(platform, identifier)

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    @property
    def network_suffix(self) -> str:
        """What the id of a further HTTP network ends in; "" for all others."""
        match = _NETWORK_SUFFIX.search(self.id) if self.platform == NETWORK_PLATFORM else None
        return match[0] if match else ""

    @property
    def network(self) -> str:
        """Where the name means something: the platform, with `@NAME` for a further HTTP network."""
        return f"{self.platform}{self.network_suffix}"

    @property
    def bot(self) -> str:
        """The name of the bot that is meant; "" for the first one of the platform.

        >>> PlatformName.parse("mastodon:home@news").bot, PlatformName.parse("mastodon:ann@example.org").bot
        ('news', '')
        """
        if self.platform == NETWORK_PLATFORM:
            return self.network_suffix[1:]
        name = self.id[1:].rpartition("@")[2] if "@" in self.id[1:] else ""
        # The server in somebody's name on Mastodon has a full stop, the name of a bot has none.
        return "" if "." in name else name

    @property
    def native_id(self) -> str:
        """The id as the platform knows it."""
        return self.id.removesuffix(f"@{self.bot}") if self.bot else self.id

    @property
    def posted_id(self) -> str:
        """The id of the chat that is meant by this name where the bot posts by itself."""
        return self.id if self.platform in NAMESPACED_CHAT_PLATFORMS else self.native_id
