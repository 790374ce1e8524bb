"""The Slack peer's views: App Homes, and modals, opened by a fresh trigger, checked as Slack does, filled in, sent."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

# The keys that a view, a block and an element may have; Slack refuses others.
VIEW = {"type", "callback_id", "title", "submit", "close", "private_metadata", "blocks", "clear_on_close"} | {
    "notify_on_close",
    "external_id",
}
HOME = {"type", "callback_id", "private_metadata", "blocks", "external_id"}
BLOCKS: dict[str, set[str]] = {
    "input": {"type", "block_id", "label", "element", "hint", "optional", "dispatch_action"},
    "section": {"type", "block_id", "text", "fields", "accessory", "expand"},
    "context": {"type", "block_id", "elements"},
    "divider": {"type", "block_id"},
}
ELEMENTS: dict[str, set[str]] = {
    "plain_text_input": {
        "type",
        "action_id",
        "initial_value",
        "multiline",
        "min_length",
        "max_length",
        "placeholder",
        "focus_on_load",
    },
    "static_select": {"type", "action_id", "options", "initial_option", "placeholder", "focus_on_load"},
}


class InvalidView(Exception):
    """Slack would refuse the view; the text says why."""


@dataclass(slots=True)
class View:
    """A modal. `open` until it is sent and taken; `errors` are those shown at its fields, `trouble` that it broke."""

    id: str
    user: str
    json: Json
    open: bool = True
    trouble: bool = False
    errors: dict[str, str] = field(default_factory=dict)

    def inputs(self) -> Iterator[Json]:
        """Return the blocks that can be filled in."""
        return (block for block in self.json["blocks"] if block["type"] == "input")

    def get_values(self) -> dict[str, str]:
        """Return what the fields show at first, by their names."""
        return {entry["block_id"]: _initial(entry["element"]) for entry in self.inputs()}

    def notes(self) -> str:
        """Return what can only be read."""
        return "\n".join(block["text"]["text"] for block in self.json["blocks"] if block["type"] == "section")

    def filled(self, values: dict[str, str]) -> Json:
        """Return the view as Slack sends it on. Raises `LookupError` for what nobody could fill in."""
        if unknown := set(values) - set(self.get_values()):
            raise LookupError(f"no such fields: {unknown}")
        state: Json = {}
        for block in self.inputs():
            name = block["block_id"]
            element = block["element"]
            value = values.get(name, _initial(element))
            if not value and not block.get("optional"):
                raise LookupError(f"{name} must not be empty")
            state[name] = {element["action_id"]: _state(element, value)}
        hash_ = f"{time.time():.6f}.abcdef"
        return {"id": self.id, "hash": hash_, **self.json, "state": {"values": state}}

    def take(self, answer: Json) -> None:
        """Do what the answer to a submission says; `trouble` for one that Slack would not understand."""
        self.errors = {}
        if not answer:
            self.open = False
            return
        errors = answer.get("errors")
        is_valid = set(answer) == {"response_action", "errors"} and answer["response_action"] == "errors"
        block_ids = {entry["block_id"] for entry in self.inputs()}
        if not is_valid or not isinstance(errors, dict) or not errors or set(errors) - block_ids:
            self.trouble = True
            return
        self.trouble = not all(isinstance(error, str) and 1 <= len(error) <= 2000 for error in errors.values())
        self.errors = errors


class Views:
    """The modals of a workspace. A trigger is good for one modal within `trigger_s` seconds."""

    def __init__(self) -> None:
        self.trigger_s = 3.0
        self.all: list[View] = []
        # What stands on each person's App Home.
        self.homes: dict[str, Json] = {}
        self._triggers: dict[str, tuple[float, str]] = {}
        self._used: set[str] = set()

    def trigger(self, number: str, user: str) -> str:
        """Note that somebody did something that may be answered by a modal."""
        self._triggers[number] = (time.monotonic(), user)
        return number

    def publish(self, params: Json) -> str:
        """Return an error or nothing."""
        view = params["view"]
        try:
            _check_known(view, HOME, "the view")
            _require(view.get("type") == "home", "a view is of the type home")
            _blocks(view)
        except InvalidView as error:
            return f"invalid_arguments: {error}"
        if len(json.dumps(view)) > 250_000:
            return "view_too_large"
        self.homes[params["user_id"]] = view
        return ""

    def open(self, params: Json) -> tuple[str, Json]:
        """Return an error or nothing, and the answer to `views.open`."""
        trigger = params["trigger_id"]
        if trigger not in self._triggers:
            return "invalid_trigger_id", {}
        at, user = self._triggers[trigger]
        if trigger in self._used:
            return "exchanged_trigger_id", {}
        if time.monotonic() - at > self.trigger_s:
            return "expired_trigger_id", {}
        if len(json.dumps(params["view"])) > 250_000:
            return "view_too_large", {}
        try:
            check(params["view"])
        except InvalidView as error:
            return f"invalid_arguments: {error}", {}
        self._used.add(trigger)
        view = View(f"V{len(self.all) + 1:04d}", user, params["view"])
        self.all.append(view)
        return "", {"view": {"id": view.id, **view.json}}


def check(view: Json) -> None:
    """Check a modal as Slack does. Raises `InvalidView`."""
    _check_known(view, VIEW, "the view")
    _require(view.get("type") == "modal", "a view is of the type modal")
    for name in ("title", "submit", "close"):
        if name in view or name == "title":
            _text(view.get(name), 24, is_plain=True)
    _require(len(view.get("private_metadata", "")) <= 3000, "private_metadata is too long")
    _require(len(view.get("callback_id", "")) <= 255, "callback_id is too long")
    blocks = _blocks(view)
    inputs = [part for part in blocks if part["type"] == "input"]
    _require(not inputs or "submit" in view, "a view with inputs needs submit")
    actions = [(entry.get("block_id"), entry["element"]["action_id"]) for entry in inputs]
    _require(len(set(actions)) == len(actions), "two elements have one name")


def _blocks(view: Json) -> list[Json]:
    blocks = view.get("blocks")
    _require(isinstance(blocks, list) and 1 <= len(blocks) <= 100, "a view has 1 to 100 blocks")
    assert isinstance(blocks, list)
    for block in blocks:
        _block(block)
    names = [entry["block_id"] for entry in blocks if "block_id" in entry]
    _require(len(set(names)) == len(names), "two blocks have one name")
    return blocks


def _block(block: Any) -> None:
    _require(isinstance(block, dict) and block.get("type") in BLOCKS, "an unknown block")
    _check_known(block, BLOCKS[block["type"]], block["type"])
    _require(1 <= len(block.get("block_id", "x")) <= 255, "block_id has 1 to 255 characters")
    if block["type"] == "section":
        _text(block.get("text"), 3000)
    if block["type"] != "input":
        return
    _text(block.get("label"), 2000, is_plain=True)
    if "hint" in block:
        _text(block["hint"], 2000, is_plain=True)
    element = block.get("element")
    _require(isinstance(element, dict) and element.get("type") in ELEMENTS, "an unknown element")
    assert isinstance(element, dict)
    _check_known(element, ELEMENTS[element["type"]], element["type"])
    _require(1 <= len(element.get("action_id", "")) <= 255, "action_id has 1 to 255 characters")
    if element["type"] == "plain_text_input":
        initial = element.get("initial_value", "x")
        _require(isinstance(initial, str) and 1 <= len(initial) <= 3000, "initial_value")
        return
    options = element.get("options")
    _require(isinstance(options, list) and 1 <= len(options) <= 100, "a select has 1 to 100 options")
    assert isinstance(options, list)
    for option in options:
        _check_known(option, {"text", "value", "description"}, "an option")
        _text(option.get("text"), 75, is_plain=True)
        _require(isinstance(option.get("value"), str) and 1 <= len(option["value"]) <= 150, "the value of an option")
    values = [entry["value"] for entry in options]
    _require(len(set(values)) == len(values), "two options have one value")
    _require("initial_option" not in element or element["initial_option"] in options, "initial_option is no option")


def _text(text: Any, max_length: int, *, is_plain: bool = False) -> None:
    _require(isinstance(text, dict), "a text is missing")
    _check_known(
        text, {"type", "text", "emoji"} if text.get("type") == "plain_text" else {"type", "text", "verbatim"}, "text"
    )
    _require(text.get("type") in (("plain_text",) if is_plain else ("plain_text", "mrkdwn")), "the type of a text")
    _require(
        isinstance(text.get("text"), str) and 1 <= len(text["text"]) <= max_length,
        f"a text of 1 to {max_length} characters",
    )


def _check_known(results: Json, known_fields: set[str], subject: str) -> None:
    _require(not set(results) - known_fields, f"{subject} has {set(results) - known_fields}")


def _require(true: bool, output: str) -> None:
    if not true:
        raise InvalidView(output)


def _initial(element: Json) -> str:
    option = element.get("initial_option")
    return str(option["value"] if option else element.get("initial_value", ""))


def _state(element: Json, value: str) -> Json:
    if element["type"] == "plain_text_input":
        return {"type": element["type"], "value": value or None}
    options = [option for option in element["options"] if option["value"] == value]
    if not options:
        raise LookupError(f"{value} is no option")
    return {"type": element["type"], "selected_option": options[0]}
