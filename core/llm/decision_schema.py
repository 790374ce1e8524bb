"""The shapes of small decisions, and reading them out of what a model wrote: keys, words, brackets, lists, ordinals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from core.llm.json_repair import cleaned, objects
from core.llm.reply_vocabulary import chosen, flag_of, ids_of, items_of, plain, squeezed
from core.ports import Form

MAX_TEXT_CHARS = 400
MAX_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Slot:
    """One value of a decision.

    `keys` are other names that models give it. A `choice` is one of `choices`, each with other words for it, in the
    order in which the prompt lists them. `ids` are passage ids (p1, p2, ...), `texts` a list.
    """

    name: str
    kind: Literal["choice", "text", "texts", "ids"]
    description: str = ""
    keys: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""
        about = {"description": self.description}
        if self.kind == "choice":
            return {"type": "string", "enum": list(self.choices), **about}
        if self.kind == "text":
            return {"type": "string", **about}
        return {"type": "array", "items": {"type": "string"}, **about}


@dataclass(frozen=True, slots=True)
class Shape:
    """A decision. What comes without a key belongs to the first slot; `argument` is what a bracket action acts on."""

    name: str
    description: str
    slots: tuple[Slot, ...]
    argument: str = ""

    def form(self) -> Form:
        """Return it for endpoints that take a JSON Schema."""
        properties = {slot.name: slot.schema() for slot in self.slots}
        closed = {"required": list(properties), "additionalProperties": False}
        return Form(self.name, self.description, {"type": "object", "properties": properties, **closed})

    def slot_of(self, key: str) -> Slot | None:
        """Return the slot that a key names, in any spelling."""
        wanted = squeezed(key)
        return next((one for one in self.slots if wanted in map(squeezed, (one.name, *one.keys))), None)

    def heads(self) -> dict[str, str]:
        """Return every word that names a choice of the first slot, with the choice."""
        return {word: name for name, words in self.slots[0].choices.items() for word in (name, *words)}


@dataclass(frozen=True, slots=True)
class Record:
    """One reading of a reply: raw values by slot."""

    shape: Shape
    values: Mapping[str, object]

    def choice(self, name: str) -> str:
        """Return the chosen value, or an empty string when none or several are named."""
        slot = next(slot for slot in self.shape.slots if slot.name == name)
        return chosen(_text(self.values.get(name)), slot.choices)

    def text(self, name: str) -> str:
        """Return a value as one line of sensible length, or an empty string."""
        return plain(_text(self.values.get(name)))[:MAX_TEXT_CHARS]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of lines, without numbering and without doubles."""
        lines = (plain(item)[:MAX_TEXT_CHARS] for item in items_of(self.values.get(name)))
        return tuple(dict.fromkeys(line for line in lines if line))

    def ids(self, name: str, count: int) -> tuple[int, ...] | None:
        """Return positions (from 0, below `count`) of passage ids; None when the value says nothing about them."""
        return ids_of(self.values.get(name), count)


def records(reply: str, shape: Shape) -> Iterator[Record]:
    """Yield the possible readings of a reply, the most explicit first. Never raises."""
    text = cleaned(reply)
    for values in _readings(text, shape):
        if values:
            yield Record(shape, _completed(values, shape))


def _readings(text: str, shape: Shape) -> Iterator[dict[str, object]]:
    first = shape.slots[0]
    # Without braces it is still an object.
    bare = bool(re.match(r"[\s,]*[\"'“]\w{1,30}[\"'”]\s*[:：=]", text))
    explicit = False
    for value in objects("{" + text + "}" if bare else text):
        # Several arrays are no array but ids in a sentence: [p1] and [p4].
        if isinstance(value, list) and (first.kind == "texts" or (first.kind == "ids" and text.count("[") == 1)):
            yield {first.name: value}
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                found = fields(item, shape)
                explicit = explicit or first.name in found
                yield found
    if explicit:
        # It was said in so many words, and did not make sense: nothing better is hidden between them.
        return
    tags = re.findall(r"<(\w{1,30})>\s*([^<]{1,2000}?)\s*</\1>", text)
    yield fields(dict(reversed(tags)), shape)
    yield from _actions(text, shape)
    yield _lines(text, shape)
    yield {first.name: text if first.kind != "texts" or re.search(r"[?？\n]", text) else []}


def fields(found: Mapping[Any, Any], shape: Shape, depth: int = 0) -> dict[str, object]:
    """Sort what an object holds into slots: keys in any spelling, nested objects, choices used as keys."""
    values: dict[str, object] = {}
    heads = {squeezed(word): name for word, name in shape.heads().items()}
    first = shape.slots[0]
    if first.kind == "ids" and found and all(re.fullmatch(r"(?i)(?:passage)?\s*p?\d{1,3}", str(key)) for key in found):
        return {first.name: dict(found)}
    later: list[Mapping[Any, Any]] = []
    implied: dict[str, object] = {}
    for key, value in found.items():
        slot, head = shape.slot_of(str(key)), heads.get(squeezed(str(key)))
        nested = _nested(value) if depth < MAX_DEPTH else None
        if slot and not (nested is not None and slot.kind in ("choice", "text")):
            if value not in (None, "", []) or slot.kind in ("ids", "texts"):
                values.setdefault(slot.name, value)
        elif head and not slot and value not in (None, "", [], {}):
            implied = implied or _implied(head, value, shape)
        if nested is not None:
            later.append(nested)
    for mapping in later:
        for name, value in fields(mapping, shape, depth + 1).items():
            values.setdefault(name, value)
    for name, value in implied.items():
        values.setdefault(name, value)
    return values


def _nested(value: object) -> Mapping[Any, Any] | None:
    """Return an object inside a value, also one that was written as a string."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = next(objects(value), None)
    return value if isinstance(value, Mapping) else None


def _implied(head: str, value: object, shape: Shape) -> dict[str, object]:
    """Return what a choice used as a key means: a yes or no, or the argument of the choice."""
    first = shape.slots[0]
    said = flag_of(value)
    if said is None:
        return {first.name: head, **({shape.argument: value} if shape.argument and not _nested(value) else {})}
    others = [name for name in first.choices if name != head]
    return {first.name: head} if said else {first.name: others[0]} if len(others) == 1 else {}


def _pattern(words: Iterable[str]) -> str:
    """Return a pattern for any of these words, the longest first, whatever joins their parts."""
    ordered = sorted(set(words), key=len, reverse=True)
    return "|".join(r"[\s_\-]*".join(map(re.escape, re.split(r"[\s_]+", word))) for word in ordered)


def _actions(text: str, shape: Shape) -> Iterator[dict[str, object]]:
    """Yield bracket actions: `[search: words]`, `[search] words`, `search("words")`, `Action: search[words]`."""
    heads = shape.heads()
    if not heads or not shape.argument:
        return
    argument = next(slot for slot in shape.slots if slot.name == shape.argument)
    head = rf"({_pattern([*heads, argument.name, *argument.keys])})"
    patterns = (
        rf"[\[【［「(（]\s*{head}\s*(?:[:：,，|=\-]+|\s)\s*([^\]】］」\n]+)",
        rf"[\[【［「]\s*{head}\s*[\]】］」][ \t:：]*([^\n]*)",
        rf"(?<![a-z\d]){head}\s*[(（\[【]\s*([^\n]*?)\s*[)）\]】]?[;.。]?\s*$",
    )
    matches = [match for one in patterns if (match := re.search(one, text, re.IGNORECASE | re.MULTILINE))]
    squeezed_heads = {squeezed(word): name for word, name in heads.items()}
    for match in sorted(matches, key=re.Match.start):
        named = re.sub(rf"(?i)^\s*(?:{_pattern([argument.name, *argument.keys])})\s*[:：=]\s*", "", match[2])
        values: dict[str, object] = {argument.name: named.strip(" \t)）]】")} if named.strip() else {}
        choice = squeezed_heads.get(squeezed(match[1]))
        yield {**({shape.slots[0].name: choice} if choice else {}), **values}


def _lines(text: str, shape: Shape) -> dict[str, object]:
    """Read `key: value` lines, with list items below a key that has no value of its own."""
    keys = [word for slot in shape.slots for word in (slot.name, *slot.keys)]
    line = re.compile(
        rf"^[^\w\u3400-\u9fff]*({_pattern([*keys, *shape.heads()])})[\s*_\"'`”’)）\]】]*"
        rf"(?:[:：=|→]|->|=>|(?<=\s)is\s|是|为)+[\s*_|]*(.*?)[\s|,，;；*_]*$",
        re.IGNORECASE,
    )
    heading = re.compile(rf"^\s*(?:#+|\*\*)\s*({_pattern(keys)})()[\s*:：]*$", re.IGNORECASE)
    found: dict[str, object] = {}
    current = ""
    for one in text.splitlines():
        match = line.match(one) or heading.match(one)
        if match:
            current = match[1]
            found.setdefault(current, match[2].strip("\"'“”`"))
        elif current and one.strip() and not one.strip().startswith("```") and found[current] in ("", []):
            found[current] = [one.strip()]
        elif current and one.strip() and isinstance(below := found[current], list):
            below.append(one.strip())
    return fields(found, shape)


def _completed(values: dict[str, object], shape: Shape) -> dict[str, object]:
    """Take the argument out of an action that holds it: `search for the memory module`."""
    first = shape.slots[0]
    said = _text(values.get(first.name))
    if not shape.argument or values.get(shape.argument) or not said:
        return values
    choice = chosen(said, first.choices)
    if not choice:
        return values
    head = rf"(?<![a-z\d])(?:{_pattern([choice, *first.choices[choice]])})"
    quoted = re.search(rf"(?i){head}[^\"“「'\n]{{0,40}}[\"“「']([^\"”」\n]{{3,}}?)[\"”」']", said)
    named = re.search(rf"(?i){head}\W*(?:(?:for|about|on|up|关于|一下)\W+)?([\w\u3400-\u9fff][^\n.。?？;；]*)", said)
    match = quoted or named
    return {**values, shape.argument: match[1]} if match else values


def _text(value: object) -> str:
    """Return any value as text; of a list the first item, of an object the first text."""
    if isinstance(value, Mapping):
        value = next((one for one in value.values() if isinstance(one, str)), "")
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = value[0] if value else ""
    return "" if value is None or isinstance(value, Mapping | list) else str(value)
