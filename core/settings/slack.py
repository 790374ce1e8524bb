"""Slack."""

from __future__ import annotations

from pydantic import Field, model_validator

from core.settings.base import Secret, Section


class SlackSettings(Section):
    """One Slack app in one workspace. Exactly one of `app_token` and `signing_secret` says how events arrive."""

    bot_token: Secret = Field(description="Begins with xoxb-")
    app_token: Secret | None = Field(None, description="Begins with xapp-: events come through Socket Mode")
    signing_secret: Secret | None = Field(None, description="Slack sends the events to us over HTTP, signed with it")
    host: str = Field("127.0.0.1", description="For HTTP: the address to listen on")
    port: int = Field(3000, ge=0, le=65535, description="For HTTP: the port to listen on")
    path: str = Field("/slack/events", pattern="^/", description="For HTTP: the path of the request URLs")
    api_url: str = Field("https://slack.com/api/", description="Another Web API server, for a gateway or tests")

    @model_validator(mode="after")
    def _exactly_one_way_in(self) -> SlackSettings:
        if (self.app_token is None) == (self.signing_secret is None):
            raise ValueError("give exactly one of app_token (Socket Mode) or signing_secret (events over HTTP)")
        return self
