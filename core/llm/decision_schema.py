"""Schemas of small decisions, and a tolerant parser of model replies: keys, words, brackets, lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from core.llm.reply_parsing import (
    clean_line,
    extract_json,
    match_choice,
    normalize_key,
    parse_bool,
    parse_ids,
    parse_list,
    strip_reasoning,
)
from core.types import ResponseSchema

MAX_TEXT_CHARS = 400
MAX_DEPTH = 5
# Prose in which patterns look for a decision is short: some of them take more than linear time over runs of spaces.
MAX_PROSE_CHARS = 2000
_SPACES = re.compile(r"([^\S\n])[^\S\n]++")
_EMPTY_LINES = re.compile(r"\n{3,}+")
# The papers on three light agents print "Thought: ... Action: ..." on one line.
_ACTION_IN_LINE = re.compile(r"(?i)(?<=\S)[^\S\n](?=(?:action|行动|动作)[^\S\n]?[:：])")
_QUERY_MARKS = " \t)）]】<>《》\"'“”‘’"


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One value of a decision.

    `aliases` are other names that models give it. The kind `choice` is one of the choices, each with its synonyms, in
    the order of the prompt; `ids` are passage ids (p1, p2, ...); `texts` is a list.
    """

    name: str
    kind: Literal["choice", "text", "texts", "ids"]
    description: str = ""
    aliases: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""
        description = {"description": self.description}
        if self.kind == "choice":
            return {"type": "string", "enum": list(self.choices), **description}
        if self.kind == "text":
            return {"type": "string", **description}
        return {"type": "array", "items": {"type": "string"}, **description}


@dataclass(frozen=True, slots=True)
class DecisionSchema:
    """A decision: its fields in the order in which the model is to write them.

    A value without a key belongs to the field `main`, by default the first one; `argument` is the field for a bracket
    action, and, where `has_spoken_argument`, for what stands behind the choice without any mark.
    """

    name: str
    description: str
    fields: tuple[SchemaField, ...]
    argument: str = ""
    main: str = ""
    has_spoken_argument: bool = True

    @property
    def main_field(self) -> SchemaField:
        """The field that decides."""
        return next((schema_field for schema_field in self.fields if schema_field.name == self.main), self.fields[0])

    def to_response_schema(self) -> ResponseSchema:
        """Return the JSON Schema of the decision."""
        properties = {schema_field.name: schema_field.to_json_schema() for schema_field in self.fields}
        constraints = {"required": list(properties), "additionalProperties": False}
        return ResponseSchema(self.name, self.description, {"type": "object", "properties": properties, **constraints})

    def find_field(self, key: str) -> SchemaField | None:
        """Return the field that a key names, in any spelling."""
        normalized_key = normalize_key(key)
        return next(
            (
                schema_field
                for schema_field in self.fields
                if normalized_key in map(normalize_key, (schema_field.name, *schema_field.aliases))
            ),
            None,
        )

    def choice_aliases(self) -> dict[str, str]:
        """Return every synonym of the main field's choices, with its choice."""
        return {alias: name for name, aliases in self.main_field.choices.items() for alias in (name, *aliases)}


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """One reading of a reply: raw values by field."""

    schema: DecisionSchema
    values: Mapping[str, object]

    def get_choice(self, name: str) -> str:
        """Return the choice, or an empty string when the value names none or several."""
        schema_field = next(schema_field for schema_field in self.schema.fields if schema_field.name == name)
        return match_choice(_to_text(self.values.get(name)), schema_field.choices)

    def get_text(self, name: str) -> str:
        """Return a value as one line of sensible length, or an empty string."""
        return clean_line(_to_text(self.values.get(name)))[:MAX_TEXT_CHARS]

    def get_texts(self, name: str) -> tuple[str, ...]:
        """Return a list of lines, without numbering and duplicates."""
        lines = (clean_line(item)[:MAX_TEXT_CHARS] for item in parse_list(self.values.get(name)))
        return tuple(dict.fromkeys(line for line in lines if line))

    def get_ids(self, name: str, count: int) -> tuple[int, ...] | None:
        """Return positions (from 0, below `count`) of passage ids; None when the value says nothing about them."""
        return parse_ids(self.values.get(name), count)


def iter_parsed_replies(reply: str, schema: DecisionSchema) -> Iterator[ParsedReply]:
    """Yield the possible readings of a reply, the most explicit first. Never raises."""
    text = strip_reasoning(reply)
    for values in _iter_values(text, schema):
        if values:
            yield ParsedReply(schema, _fill_argument(values, schema))


def _iter_values(text: str, schema: DecisionSchema) -> Iterator[dict[str, object]]:
    main_field = schema.main_field
    # An object without its braces.
    is_bare_object = bool(re.match(r"[\s,]*[\"'“]\w{1,30}[\"'”]\s*[:：=]", text))
    is_explicit = False
    for value in extract_json("{" + text + "}" if is_bare_object else text):
        # Several arrays are no array but ids in a sentence: [p1] and [p4].
        if isinstance(value, list) and (
            main_field.kind == "texts" or (main_field.kind == "ids" and text.count("[") == 1)
        ):
            yield {main_field.name: value}
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                field_values = map_to_fields(item, schema)
                # Also one that has no value: `{"query": null}`.
                is_explicit = is_explicit or any(schema.find_field(str(key)) is main_field for key in item)
                yield field_values
    if is_explicit:
        # It was said in so many words, and did not make sense: nothing better is hidden between them.
        return
    tags = [(name, value.strip()) for name, value in re.findall(r"<(\w{1,30})>([^<]{1,3000}+)</\1>", text)]
    yield map_to_fields(dict(reversed(tags)), schema)
    prose = _ACTION_IN_LINE.sub("\n", _EMPTY_LINES.sub("\n\n", _SPACES.sub(r"\1", text)))[:MAX_PROSE_CHARS]
    yield from _parse_actions(prose, schema)
    yield _parse_lines(prose, schema)
    yield {main_field.name: text if main_field.kind != "texts" or re.search(r"[?？\n]", text) else []}


def map_to_fields(data: Mapping[Any, Any], schema: DecisionSchema, depth: int = 0) -> dict[str, object]:
    """Sort the values of an object into fields: keys in any spelling, nested objects, choices used as keys."""
    values: dict[str, object] = {}
    choices_by_alias = {normalize_key(alias): choice_name for alias, choice_name in schema.choice_aliases().items()}
    main_field = schema.main_field
    if (
        main_field.kind == "ids"
        and data
        and all(re.fullmatch(r"(?i)(?:passage)?\s*p?\d{1,3}", str(key)) for key in data)
    ):
        return {main_field.name: dict(data)}
    nested_objects: list[Mapping[Any, Any]] = []
    implied_values: dict[str, object] = {}
    for key, value in data.items():
        schema_field = schema.find_field(str(key))
        choice = choices_by_alias.get(normalize_key(str(key)))
        nested_value = _parse_nested(value) if depth < MAX_DEPTH else None
        if schema_field and not (nested_value is not None and schema_field.kind in ("choice", "text")):
            if value not in (None, "", []) or schema_field.kind in ("ids", "texts"):
                values.setdefault(schema_field.name, value)
        elif choice and not schema_field and value not in (None, "", [], {}):
            implied_values = implied_values or _imply_values(choice, value, schema)
        if nested_value is not None:
            nested_objects.append(nested_value)
    for mapping in nested_objects:
        for name, value in map_to_fields(mapping, schema, depth + 1).items():
            values.setdefault(name, value)
    for name, value in implied_values.items():
        values.setdefault(name, value)
    return values


def _parse_nested(value: object) -> Mapping[Any, Any] | None:
    """Return the object inside a value, also when it is a string of JSON."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = next(extract_json(value), None)
    return value if isinstance(value, Mapping) else None


def _imply_values(choice: str, value: object, schema: DecisionSchema) -> dict[str, object]:
    """Return the meaning of a choice used as a key: yes or no, or the argument of the choice."""
    main_field = schema.main_field
    takes_argument = bool(schema.argument) and schema.has_spoken_argument
    flag = parse_bool(value)
    if flag is None:
        return {
            main_field.name: choice,
            **({schema.argument: value} if takes_argument and not _parse_nested(value) else {}),
        }
    other_choices = [name for name in main_field.choices if name != choice]
    return {main_field.name: choice} if flag else {main_field.name: other_choices[0]} if len(other_choices) == 1 else {}


def _build_pattern(words: Iterable[str]) -> str:
    """Return a pattern for any of these words, the longest first, whatever joins their parts."""
    words_by_length = sorted(set(words), key=len, reverse=True)
    return "|".join(r"[\s_\-]*".join(map(re.escape, re.split(r"[\s_]+", word))) for word in words_by_length)


def _parse_actions(text: str, schema: DecisionSchema) -> Iterator[dict[str, object]]:
    """Yield bracket actions: `[search: words]`, `[search] <words>`, `search("words")`, `Action: search[words]`."""
    choices_by_alias = schema.choice_aliases()
    if not choices_by_alias or not schema.argument:
        return
    argument_field = next(schema_field for schema_field in schema.fields if schema_field.name == schema.argument)
    alias_pattern = rf"({_build_pattern([*choices_by_alias, argument_field.name, *argument_field.aliases])})"
    patterns = (
        rf"[\[【［「(（]\s*{alias_pattern}\s*(?:[:：,，|=\-]+|\s)\s*([^\]】］」\n]+)",
        rf"[\[【［「]\s*{alias_pattern}\s*[\]】］」][ \t:：]*([^\n]*)",
        rf"(?<![a-z\d]){alias_pattern}\s*[(（\[【]\s*([^\n]*?)\s*[)）\]】]?[;.。]?\s*$",
    )
    matches = [match for pattern in patterns if (match := re.search(pattern, text, re.IGNORECASE | re.MULTILINE))]
    choices_by_key = {normalize_key(alias): choice_name for alias, choice_name in choices_by_alias.items()}
    for match in sorted(matches, key=re.Match.start):
        argument_text = re.sub(
            rf"(?i)^\s*(?:{_build_pattern([argument_field.name, *argument_field.aliases])})\s*[:：=]\s*", "", match[2]
        )
        framed_argument = re.match(r"\s*<([^<>\n]+)>", argument_text)
        query = (framed_argument[1] if framed_argument else argument_text).strip(_QUERY_MARKS)
        values: dict[str, object] = {argument_field.name: query} if query else {}
        choice = choices_by_key.get(normalize_key(match[1]))
        yield {**({schema.main_field.name: choice} if choice else {}), **values}


def _parse_lines(text: str, schema: DecisionSchema) -> dict[str, object]:
    """Read `key: value` lines, with list items below a key without a value."""
    field_names = [word for schema_field in schema.fields for word in (schema_field.name, *schema_field.aliases)]
    line_pattern = re.compile(
        rf"^\W*({_build_pattern([*field_names, *schema.choice_aliases()])})[\s*_\"'`”’)）\]】]*"
        rf"(?:[:：=|→]|->|=>|(?<=\s)is\s|是|为)+[\s*_|]*(.*?)[\s|,，;；*_]*$",
        re.IGNORECASE,
    )
    heading_pattern = re.compile(rf"^\s*(?:#+|\*\*)\s*({_build_pattern(field_names)})()[\s*:：]*$", re.IGNORECASE)
    values: dict[str, object] = {}
    current_key = ""
    for line in text.splitlines():
        match = line_pattern.match(line) or heading_pattern.match(line)
        if match:
            current_key = match[1]
            values.setdefault(current_key, match[2].strip("\"'“”`"))
        elif current_key and line.strip() and not line.strip().startswith("```") and values[current_key] in ("", []):
            values[current_key] = [line.strip()]
        elif current_key and line.strip() and isinstance(items := values[current_key], list):
            items.append(line.strip())
    return map_to_fields(values, schema)


def _fill_argument(values: dict[str, object], schema: DecisionSchema) -> dict[str, object]:
    """Split an action into the action and its argument: `search for the memory module`."""
    main_field = schema.main_field
    choice_text = _to_text(values.get(main_field.name))
    if not schema.has_spoken_argument or not schema.argument or values.get(schema.argument) or not choice_text:
        return values
    choice_text = choice_text[:MAX_PROSE_CHARS]
    choice = match_choice(choice_text, main_field.choices)
    if not choice:
        return values
    choice_pattern = rf"(?<![a-z\d])(?:{_build_pattern([choice, *main_field.choices[choice]])})"
    quoted_match = re.search(
        rf"(?i){choice_pattern}[^\"“「'\n]{{0,40}}[\"“「']([^\"”」\n]{{3,}}?)[\"”」']", choice_text
    )
    unquoted_match = re.search(
        rf"(?i){choice_pattern}\W*(?:(?:for|about|on|up|关于|一下)\W+)?(\w[^\n.。?？;；]*)", choice_text
    )
    match = quoted_match or unquoted_match
    return {**values, schema.argument: match[1]} if match else values


def _to_text(value: object) -> str:
    """Return any value as text; the first item of a list, the first text of an object."""
    if isinstance(value, Mapping):
        value = next((item for item in value.values() if isinstance(item, str)), "")
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = value[0] if value else ""
    return "" if value is None or isinstance(value, Mapping | list) else str(value)
