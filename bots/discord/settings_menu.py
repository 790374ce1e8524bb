"""The settings of a chat on Discord: a note that only the asker sees, with lists to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bots.common.events import IgnoredEvent
from bots.common.reply_sink import FinalTextSink
from bots.common.settings_menu import MENU_FIELD, Menu, build_menu, to_menu_message
from bots.discord.connection import DiscordIntervals, InteractionExpired
from bots.discord.convert import Identity, to_interaction
from bots.discord.feedback import ACTION_ROW, acknowledge
from bots.discord.render import escape_markup, render
from core.catalogue import messages_for
from core.types import Message, Reply
from core.types.forms import SettingsForm

if TYPE_CHECKING:
    from asyncio import Future

    from bots.discord.client import DiscordClient

SELECT = 3
FIELDS_ID = "settings-fields"
VALUES_ID = "settings-values"
# How many entries a list takes, and how many characters a text or the data of an entry.
MAX_OPTIONS = 25
MAX_LABEL_CHARS = 100
MAX_DATA_BYTES = 100


def is_menu_event(event: Mapping[str, Any]) -> bool:
    """Return whether an interaction is a choice in the menu."""
    data = event.get("data")
    return isinstance(data, Mapping) and data.get("custom_id") in (FIELDS_ID, VALUES_ID)


def from_menu_choice(event: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert a choice in the menu, or return why it is ignored.

    `reference` is that of a slash command, with the field that was opened or set. Raises `KeyError` and the like for a
    malformed event.
    """
    message = to_interaction(event, me)
    choice = to_menu_message(message, str(next(iter(event["data"]["values"]), "")))
    return choice or IgnoredEvent("a choice that is not ours", is_expected=False)


async def show_menu(
    client: DiscordClient,
    application_id: str,
    message: Message,
    form: SettingsForm,
    intervals: DiscordIntervals,
    *,
    acknowledged: Future[bool] | None,
) -> None:
    """Answer the slash command with the menu, or change the menu that was chosen in. Raises `PlatformError`."""
    reference = message.reference
    menu = build_menu(form, str(reference.get(MENU_FIELD, "")), MAX_DATA_BYTES, MAX_OPTIONS)
    title, *lines = map(escape_markup, menu.lines)
    if not menu.values:
        lines = [*(f"- {escape_markup(label)}" for label, _, _ in menu.fields), *lines]
    text = "\n".join([f"**{title}**", *lines])
    components = _to_components(menu, form.language)
    if MENU_FIELD in reference:
        interaction = str(reference["interaction"])
        token = str(reference["token"])
        await acknowledge(
            lambda: client.respond_to_button(interaction, token, text, components, replace_original=True), intervals
        )
        return
    if acknowledged is not None and not await acknowledged:
        raise InteractionExpired("the slash command was not acknowledged in time")
    await client.edit_original_response(application_id, str(reference["token"]), text, components=components)


class DiscordMenuSink(FinalTextSink):
    """Shows the result of a choice instead of the text above the lists; failures get a separate note."""

    def __init__(self, client: DiscordClient, message: Message, intervals: DiscordIntervals) -> None:
        self._client = client
        self._reference = message.reference
        self._intervals = intervals

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        if not reply.text:
            # The menu itself is the answer to a field that is opened.
            return
        interaction = str(self._reference["interaction"])
        token = str(self._reference["token"])
        text = render(reply.text)[0]
        await acknowledge(
            lambda: self._client.respond_to_button(interaction, token, text, None, replace_original=not is_error),
            self._intervals,
        )


def _to_components(menu: Menu, language: str) -> list[dict[str, Any]]:
    texts = messages_for(language)
    lists = [(FIELDS_ID, texts.form_choose, menu.fields), (VALUES_ID, texts.form_choose_value, menu.values)]
    return [_to_row(name, prompt, entries) for name, prompt, entries in lists if entries]


def _to_row(name: str, prompt: str, entries: Sequence[tuple[str, str, bool]]) -> dict[str, Any]:
    options = [
        {"label": label[:MAX_LABEL_CHARS], "value": data, **({"default": True} if is_chosen else {})}
        for label, data, is_chosen in entries
    ]
    select = {"type": SELECT, "custom_id": name, "placeholder": prompt, "options": options[:MAX_OPTIONS]}
    return {"type": ACTION_ROW, "components": [select]}
