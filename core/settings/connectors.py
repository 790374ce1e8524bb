"""The options of connectors, which are sources that a plug-in of our own reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, PositiveInt, ValidationError, model_validator

from core.errors import SourceError
from core.settings.base import Section, WebAddress

_LOOPBACK = re.compile(r"http://(?:127\.0\.0\.1|localhost)(?::\d{1,5})?(?:/|$)")

AnyOptions = TypeVar("AnyOptions", bound="ConnectorOptions")


def is_private_enough(url: str) -> bool:
    """Return whether what is sent to an address travels encrypted, or not over a network at all."""
    return url.startswith("https://") or _LOOPBACK.match(url) is not None


class ConnectorOptions(Section):
    """What the options of all connectors share: where the service is, a token, and how much is taken."""

    url: WebAddress
    token: str = ""
    max_items: PositiveInt = 5000
    allow_private: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_token(self) -> ConnectorOptions:
        if self.token and not is_private_enough(self.url):
            raise ValueError("token needs an https address, so that it travels encrypted")
        return self

    @property
    def base(self) -> str:
        """The address without a slash at its end."""
        return self.url.rstrip("/")


class DiscourseOptions(ConnectorOptions):
    """`categories` as their addresses have them (`support/5`); none: all that can be read. `username` acts."""

    categories: tuple[Annotated[str, Field(pattern=r"^[\w-]+(/[\w-]+)*/\d+$")], ...] = ()
    username: str = ""


class ConfluenceOptions(ConnectorOptions):
    """`spaces` by their keys. `username` is the address of the account in the cloud; without one the token is sent
    alone, as servers of one's own want it.
    """

    spaces: tuple[Annotated[str, Field(pattern=r"^~?[A-Za-z0-9._-]+$")], ...] = Field(min_length=1)
    username: str = ""


class NotionOptions(ConnectorOptions):
    """What is shared with the integration is read."""

    url: WebAddress = "https://api.notion.com"
    token: str = Field(min_length=1)


class SlackOptions(ConnectorOptions):
    """`channels` by their ids, as far as `days` back. `private_channels` are those of them that may be private."""

    url: WebAddress = "https://slack.com"
    token: str = Field(min_length=1)
    channels: tuple[Annotated[str, Field(pattern=r"^[CG][A-Z0-9]{2,30}$")], ...] = Field(min_length=1)
    private_channels: tuple[str, ...] = ()
    days: PositiveInt = 365


class DiscordOptions(ConnectorOptions):
    """`channels` by their ids, as far as `days` back. `private_channels` are those of them that may be private."""

    url: WebAddress = "https://discord.com"
    token: str = Field(min_length=1)
    channels: tuple[Annotated[str, Field(pattern=r"^\d{15,22}$")], ...] = Field(min_length=1)
    private_channels: tuple[str, ...] = ()
    days: PositiveInt = 365


class GoogleDriveOptions(ConnectorOptions):
    """`folders` by their ids, with all that is in them. The token is what a file of Google's with a key holds."""

    url: WebAddress = "https://www.googleapis.com"
    token: str = Field(min_length=1)
    folders: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{5,100}$")], ...] = Field(min_length=1)


# By the names of their entry points.
CONNECTORS: Mapping[str, type[ConnectorOptions]] = {
    "confluence": ConfluenceOptions,
    "discord_channels": DiscordOptions,
    "discourse": DiscourseOptions,
    "google_drive": GoogleDriveOptions,
    "notion": NotionOptions,
    "slack_channels": SlackOptions,
}


def get_default_address(plugin: str) -> str:
    """Return where a connector reads if its options do not say it; "" for other plug-ins.

    >>> get_default_address("notion"), get_default_address("discourse"), get_default_address("wiki")
    ('https://api.notion.com', '', '')
    """
    address = CONNECTORS[plugin].model_fields["url"].default if plugin in CONNECTORS else ""
    return address if isinstance(address, str) else ""


def parse_options(kind: type[AnyOptions], options: Mapping[str, Any]) -> AnyOptions:
    """Return the options of a connector. Raises `SourceError` that names what is wrong, without its value."""
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        faults = (
            f"{'.'.join(map(str, fault['loc'])) or 'options'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise SourceError("options: " + "; ".join(faults)) from None
