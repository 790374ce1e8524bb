"""JSON from outside: how much of it is read, and what of it counts."""

from __future__ import annotations

import json
import time

import pytest

from core.runtime.foreign_json import MAX_JSON_VALUES, JsonTooComplex, read_json


async def load(content: bytes) -> object:
    return await read_json(content, lambda values: values)


@pytest.mark.parametrize("unit", [",", "[", "{", '"', "\\", '\\",[', "\u2200,"])
async def test_what_people_write_in_a_text_is_no_value(unit: str) -> None:
    """Two issues full of commas must not keep all others from being read."""
    values = [{"body": unit * 60_000}, {"body": unit * 60_000}, {"body": "So."}]
    for encoding in ("utf-8", "utf-16"):
        assert await load(json.dumps(values, ensure_ascii=False).encode(encoding)) == values


@pytest.mark.parametrize(
    "text",
    [
        "[" + "[]," * MAX_JSON_VALUES + "[]]",
        "[" + '"",' * 2 * MAX_JSON_VALUES + '""]',
        "[" + '"\\\\",' * 2 * MAX_JSON_VALUES + '""]',
        '["\u2200",' + "[]," * MAX_JSON_VALUES + "[]]",
        "[" * 50_000,
        *("," * 2 * MAX_JSON_VALUES + never_ends for never_ends in ('"', '"\\', '"' * 999_999, '"\\' * 999_999)),
    ],
    ids=range(9),
)
async def test_more_values_than_are_read_are_refused_in_time(text: str) -> None:
    for encoding in ("utf-8", "utf-16"):
        began_at = time.process_time()
        with pytest.raises(JsonTooComplex):
            await load(text.encode(encoding))
        assert time.process_time() - began_at < 1.0
