"""Slack's intervals and rate limits, and its errors besides those of `bots/common/connection.py`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from bots.common.connection import Intervals, NotAllowed, NotEditable, Refused, RetryLater, TokenRefused, Unreachable
from core.errors import MessageDeleted, PlatformError
from core.runtime.retry_after import read_retry_after

REFUSED_MESSAGE = "slack.{which} was refused ({detail}): copy it again from api.slack.com/apps, {where}"
_TOKEN_LOCATIONS = {
    "bot_token": "OAuth & Permissions, Bot User OAuth Token (xoxb-)",
    "app_token": "Basic Information, App-Level Tokens (xapp-), with the scope connections:write",
}
_TOKEN_ERRORS = (
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
)


@dataclass(frozen=True, slots=True)
class SlackIntervals(Intervals):
    """All intervals in seconds. The defaults keep within the limits of Slack's own servers.

    Slack counts calls per method and workspace: some 50 edits and 100 appended pieces a minute are always allowed,
    and about one post a second in a channel. `ping_s` is how often a silent connection is tested, `request_timeout_s`
    bounds a call, `submit_timeout_s` the answer to a form that was sent: Slack waits three seconds for it.
    """

    post_s: float = 1.0
    edit_s: float = 1.2
    append_s: float = 0.6
    ping_s: float = 10.0
    request_timeout_s: float = 20.0
    submit_timeout_s: float = 2.0


class RateLimiter:
    """Calls that share a limit take turns: one per interval and name."""

    def __init__(self) -> None:
        self._next_slots: dict[str, float] = {}

    def reserve(self, name: str, interval_s: float) -> float:
        """Reserve the next turn and return the seconds until it comes."""
        now = time.monotonic()
        if len(self._next_slots) > 1000:
            self._next_slots = {key: slot_time for key, slot_time in self._next_slots.items() if slot_time > now}
        slot = max(now, self._next_slots.get(name, 0.0))
        self._next_slots[name] = slot + interval_s
        return slot - now


class MethodUnavailable(Refused):
    """The workspace, the channel or the token's scopes do not have this method: do without it."""


class StreamClosed(Refused):
    """A streamed message was closed: by Slack after some minutes, by a person, or because it is full: edit it."""


class StillStreaming(Refused):
    """A message cannot be edited while it is being streamed: stop the stream."""


class ThreadRefused(Refused):
    """The channel takes no messages in threads: write into the channel itself."""


class BlocksRefused(Refused):
    """Slack does not take a layout: some workspaces lack its newer parts."""


class TriggerExpired(PlatformError):
    """A form can no longer be opened: the moment after the command is over, or was used for one already."""


INVITE = "/invite it"
_ERROR_MAPPING: tuple[tuple[tuple[str, ...], type[PlatformError], str], ...] = (
    (("message_not_found", "thread_not_found", "cannot_reply_to_message"), MessageDeleted, "the message was deleted"),
    (
        ("not_in_channel", "channel_not_found", "is_archived", "user_not_found"),
        NotAllowed,
        f"the bot is not in the channel; {INVITE}",
    ),
    (("user_not_in_channel",), NotAllowed, "the asker is not in the channel"),
    (
        (
            "restricted_action",
            "restricted_action_read_only_channel",
            "restricted_action_thread_only_channel",
            "restricted_action_thread_locked",
            "access_denied",
            "messages_tab_disabled",
        ),
        NotAllowed,
        "the bot may not write in this channel",
    ),
    (("restricted_action_non_threadable_channel",), ThreadRefused, "the channel takes no threads"),
    (("invalid_blocks", "invalid_blocks_format"), BlocksRefused, "{call} takes no such blocks"),
    (("message_not_in_streaming_state", "stopped_by_user"), StreamClosed, "the stream was closed"),
    (("streaming_state_conflict",), StillStreaming, "the message is being streamed"),
    (("edit_window_closed", "cant_update_message"), NotEditable, "the reply can no longer be edited"),
    (
        ("expired_trigger_id", "exchanged_trigger_id", "invalid_trigger_id"),
        TriggerExpired,
        "Slack opens a form within three seconds of the command, and only once",
    ),
    (
        (
            "unknown_method",
            "missing_scope",
            "feature_not_enabled",
            "no_permission",
            "channel_type_not_supported",
            "method_not_supported_for_channel_type",
            "missing_recipient_team_id",
            "missing_recipient_user_id",
        ),
        MethodUnavailable,
        "{call} is not available here",
    ),
    (("internal_error", "fatal_error", "service_unavailable", "request_timeout"), Unreachable, "{call} failed"),
)


def to_platform_error(call: str, credential: str, error_code: str, status: int, headers: Any) -> PlatformError:
    """Return the error that Slack's answer to a call means; `credential` is the token that was used."""
    if status == 429 or error_code in ("ratelimited", "rate_limited"):
        seconds = retry_after(headers)
        return RetryLater(f"Slack asks to wait {seconds:g} s before {call}", seconds)
    if error_code in _TOKEN_ERRORS:
        return TokenRefused(
            REFUSED_MESSAGE.format(which=credential, detail=error_code, where=_TOKEN_LOCATIONS[credential])
        )
    for codes, error_class, meaning in _ERROR_MAPPING:
        if error_code in codes:
            return error_class(f"{meaning.format(call=call)} (Slack: {error_code})")
    if not error_code or status >= 500:
        return Unreachable(f"Slack's answer to {call} makes no sense (status {status})")
    return Refused(f"Slack refused {call}: {error_code[:200]}")


def retry_after(headers: Any) -> float:
    """Return for how many seconds Slack asks to wait; 1 where it does not say."""
    wait_s = read_retry_after(headers)
    return 1.0 if wait_s is None else wait_s
