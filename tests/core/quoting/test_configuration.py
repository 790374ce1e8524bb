"""What is quoted of configuration files: the settings that are asked for, below the keys or the section they are in."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from core.quoting.configuration import MAX_SETTING_LINES, get_configuration_language, get_pieces
from core.quoting.extractive import extract_answer
from core.quoting.nearest import NearPage, find_nearest_pages
from tests.support.fixtures import InMemoryLibrary, passage

YAML = """\
# ****
# Licensed to nobody in particular. It may be used by all.

server:
  # The port of the programming interface.
  port: 8080   # not below 1024
  tls:
    enabled: false
    certificates:
    - name: main
      file: /etc/tarn/main.pem
    #  - name: spare

# fallback_name: "tarn.example"   # for clients without a name
"""
TOML = """\
title = "tarn"

[storage.cache]
# Seconds until an entry expires.
expiry = 60
hosts = [
    "one",
]
"""


async def ask(question: str, text: str, path: str = "conf/tarn.yaml") -> str:
    page = replace(passage("page", text, kind="text"), path=path, title=path)
    return await extract_answer(question, [page], InMemoryLibrary())


async def test_a_setting_is_quoted_below_its_keys() -> None:
    assert await ask("What is the port of the programming interface?", YAML) == (
        "> `server.port` [p1]\n\n"
        "```yaml\nserver:\n  # The port of the programming interface.\n  port: 8080   # not below 1024\n```"
    )
    assert "server:\n  tls:\n    enabled: false" in await ask("Is tls enabled?", YAML)
    items = "plugins:\n  - limit   # how often\n  # - size\n  - proxy"
    assert await ask("Is there a limit plugin?", items) == (
        "> `plugins` [p1]\n\n```yaml\nplugins:\n  - limit   # how often\n```"
    )
    assert "  tls:\n    certificates:\n    - name: main\n      file:" in await ask("certificates main file?", YAML)


async def test_a_setting_that_is_commented_out_is_quoted_as_well() -> None:
    assert '# fallback_name: "tarn.example"' in await ask("How do I set the fallback_name of clients?", YAML)


async def test_a_comment_beside_a_setting_goes_on_below_it() -> None:
    text = "a:\n  port: 80   # not below 1024\n             # on Linux\n  mode: x    # not y\n  level: x   # not y\n"
    assert (await ask("port?", text)).endswith("a:\n  port: 80   # not below 1024\n             # on Linux\n```")
    assert (await ask("mode?", text)).endswith("a:\n  mode: x    # not y\n```")


async def test_a_setting_without_a_name_is_named_by_its_file() -> None:
    quotes = await ask("Is there a limit plugin?", "  - limit-plugin\n  - proxy\n")
    assert quotes == "> `tarn.yaml` [p1]\n\n```yaml\n# …\n- limit-plugin\n```"


async def test_a_comment_is_quoted_below_what_it_is_indented_for() -> None:
    text = "a:\n  list:\n    - 1\n    # - spare: 2\n  mode: x\n\n  # other: y\nb: 1\n# *** NO SENTENCE OTHER ***\n"
    assert (await ask("mode?", text)).endswith("> `a.mode` [p1]\n\n```yaml\na:\n  mode: x\n```")
    assert (await ask("spare?", text)).endswith("> `a.list` [p1]\n\n```yaml\na:\n  list:\n    # - spare: 2\n```")
    assert (await ask("other?", text)).endswith("> `a` [p1]\n\n```yaml\na:\n  # other: y\n```")


async def test_a_comment_that_shows_no_setting_is_prose() -> None:
    assert await ask("Who may use it, who is it licensed to?", YAML) == (
        "> Licensed to nobody in particular. It may be used by all. [p1]"
    )


async def test_a_setting_is_quoted_below_its_section() -> None:
    assert await ask("When does an entry of the cache expire?", TOML, "tarn.toml.example") == (
        "> `storage.cache.expiry` [p1]\n\n```toml\n[storage.cache]\n# Seconds until an entry expires.\nexpiry = 60\n```"
    )
    assert 'hosts = [\n    "one",\n]' in await ask("cache hosts?", TOML, "tarn.toml")
    assert "```properties\ncache.expiry=60\n```" in await ask("cache expiry?", "cache.expiry=60\na=1", "x.properties")


async def test_a_setting_that_lacks_the_subject_is_not_quoted() -> None:
    assert await ask("Which timeout has the upload of pictures to the server?", YAML) == ""
    page = replace(passage("page", YAML, kind="text"), path="tarn.yaml", similarity=0.9)
    pages = await find_nearest_pages("Which timeout has the upload?", [page], InMemoryLibrary(), 0.5)
    assert pages == [NearPage(0, "Licensed to nobody in particular. It may be used by all.")]


async def test_a_setting_whose_keys_are_in_another_passage_says_so() -> None:
    assert "```yaml\n# …\nenabled: true\n```" in await ask("Is tls enabled?", "    enabled: true\n    tls: 1\n")


def test_a_long_setting_is_cut_and_a_large_group_is_not_quoted_as_a_whole() -> None:
    names = "".join(f"  key{number}: {number}\n" for number in range(40))
    text = f"group:\n{names}\nscript: |\n" + "  run it\n" * 40
    settings = get_pieces(text, "yaml")
    assert max(len(setting.lines) for setting in settings) == MAX_SETTING_LINES
    assert "group" not in [setting.path for setting in settings]
    assert "group.key7" in [setting.path for setting in settings]


async def test_a_file_of_other_lines_is_prose() -> None:
    assert get_pieces("server {\n  listen 80;\n}\n", "ini") == []
    assert "every night" in await ask("When is the key rotated?", "The key is rotated every night.", "key.conf")


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("conf/config.yaml.example", "yaml"),
        ("a.YML", "yaml"),
        ("pyproject.toml", "toml"),
        ("setup.cfg", "ini"),
        ("app.properties", "properties"),
        ("notes.txt", ""),
        ("yaml", ""),
        ("conf.d/notes.txt", ""),
    ],
)
def test_configuration_files_are_known_by_their_names(path: str, language: str) -> None:
    assert get_configuration_language(path) == language


@pytest.mark.parametrize("language", ["yaml", "toml"])
def test_reading_settings_is_linear(language: str) -> None:
    deep = "".join(f"{' ' * depth}a:\n" for depth in range(1_000))
    for text in ("# a: b\n" * 20_000, "a: b\n" * 20_000, "- " * 20_000, "#" * 40_000, "[" * 40_000, "a" * 40_000, deep):
        started_at = time.thread_time()
        get_pieces(text, language)
        assert time.thread_time() - started_at < 3, text[:20]
