from __future__ import annotations

import pytest

from core.settings import schema
from core.settings.schema import SettingKey, find_keys, list_setting_keys


def test_keys_are_found_as_they_match() -> None:
    keys = list_setting_keys()
    paths = {tuple("any" if step == "*" else step for step in key.path) for key in keys}
    for path in sorted(paths | {path[:-1] for path in paths} | {("name", 0), (1, "a")}, key=str):
        for kind in ("", "git", "website"):
            assert list(find_keys(path, kind)) == [key for key in keys if key.matches(path, kind)], path


def test_a_path_is_compared_with_keys_of_its_section_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[SettingKey] = []
    matches = SettingKey.matches
    monkeypatch.setattr(schema.SettingKey, "matches", lambda key, *path: (compared.append(key), matches(key, *path))[1])
    assert list(find_keys(("knowledge", "refresh_minutes")))
    assert 0 < len(compared) < len(list_setting_keys()) / 10
    assert {key.path[0] for key in compared} == {"knowledge"}
