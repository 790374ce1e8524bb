"""Any other network, over plain HTTP."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from core.settings.base import Secret, Section


class HttpSettings(Section):
    """A network that posts its messages to us and takes the replies at an address of its own."""

    secret: Secret = Field(description="Shared with the network: it signs what it sends, we sign what we send")
    callback_url: str = Field(pattern=r"^https?://", description="Where replies are posted")
    host: str = Field("127.0.0.1", description="The address to listen on")
    port: int = Field(8088, ge=0, le=65535, description="The port to listen on")
    max_kb: PositiveInt = Field(64, description="Larger events are refused")
    partials: bool = Field(False, description="Send the reply while it is being written, too")
    timeout_s: PositiveFloat = Field(10, description="Longest time for one callback, seconds")
    allow_private: tuple[str, ...] = Field((), description="Host names of the callback that may have private addresses")
