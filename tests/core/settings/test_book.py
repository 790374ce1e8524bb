"""The settings model is the only place where a setting is described: other files are written from it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from core.settings.book import TABLE, default_yaml, generate_files, name_sections
from core.settings.loader import load_settings
from core.settings.schema import find_kind, list_setting_keys
from core.settings.yaml_file import parse_yaml

ROOT = Path(__file__).parents[3]
# More need a reason: each is something that people have to read, understand and choose.
MAX_SETTINGS = 423
# What the file of defaults shows at one place only: other models, further bots, `refresh`, secrets.
SHOWN_ONCE = r"^models\.(light|vision|judge|sets|transcription)\.|^bots\.|\.refresh\.|\.(env|file)$|\.pairs\."


def test_the_files_written_from_the_settings_are_current() -> None:
    stale = [path.name for path, text in generate_files(ROOT).items() if path.read_text("utf-8") != text]
    assert stale == [], "run `make settings`"


def test_every_section_has_a_table() -> None:
    sections = name_sections()
    page = (ROOT / "docs/configure.md").read_text("utf-8")
    shown_sections = {sections[match["name"]] for match in TABLE.finditer(page)}
    assert {name for name, section in sections.items() if section not in shown_sections} == set()


def test_every_setting_has_words() -> None:
    keys = [key for key in list_setting_keys() if not key.field.description and key.path[-1] != "kind"]
    names_of_sections = {name.partition(" ")[0] for name in name_sections()}
    unexplained_names = {".".join(key.path) for key in keys} - names_of_sections
    assert unexplained_names == set()


def test_there_are_few_enough_settings() -> None:
    classes = {base for section in name_sections().values() for base in section.__mro__}
    bases = [base for base in classes if base.__module__.startswith("core.settings")]
    names = [name for base in bases for name in inspect.get_annotations(base) if not name.startswith("_")]
    assert len(names) <= MAX_SETTINGS


def test_the_optional_parts_show_every_key_and_are_valid(tmp_path: Path) -> None:
    """Without the `#` in front of optional parts, the file of defaults is a configuration that has every key."""
    file = tmp_path / "kimas.yaml"
    file.write_text(re.sub(r"^#(?=(?:  )*[\w#])", "", default_yaml(), flags=re.MULTILINE), "utf-8")
    settings = load_settings([file], (), {}, require_secrets=False, require_sources=False)
    assert settings.telegram
    assert settings.models.main
    lines = parse_yaml(file.read_bytes(), file)
    missing_names = [
        ".".join(key.path)
        for key in list_setting_keys()
        if not any(key.matches(path, find_kind(lines.data, path)) for path in lines.lines)
    ]
    assert [name for name in missing_names if not re.search(SHOWN_ONCE, name)] == []
