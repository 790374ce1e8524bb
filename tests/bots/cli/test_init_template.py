"""The starter configuration: valid as written, and with every optional part switched on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from bots.cli.init_template import PAGE_KEY, SCHEMA_NAME, Answers, init, write_config
from bots.cli.main import main
from core.errors import UsageError
from core.settings import FilesSource
from core.settings.loader import load_settings
from core.settings.schema import json_schema
from tests.support.deployment import logging_as_it_was


def test_is_valid_where_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "kimas.yaml"
    write_config(file, Answers())
    settings = load_settings([file], (), {})
    source = settings.sources["documents"]
    assert isinstance(source, FilesSource)
    assert source.path == file.parent
    assert settings.data_dir == file.parent / ".kimas"
    assert settings.models.main is None


def test_names_the_schema_next_to_it(tmp_path: Path) -> None:
    write_config(tmp_path / "kimas.yaml", Answers())
    first = (tmp_path / "kimas.yaml").read_text("utf-8").split("\n")[0]
    assert first == f"# yaml-language-server: $schema={SCHEMA_NAME}"
    assert (tmp_path / SCHEMA_NAME).read_text("utf-8") == json_schema()


def test_every_optional_part_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "kimas.yaml"
    write_config(file, Answers())
    (tmp_path / "faq.yaml").write_text("[]\n", "utf-8")
    text = file.read_text("utf-8")
    # Parts are keys behind `# `; words have a capital or no colon at the end of their first word.
    switched = re.sub(r"^( *)# ((?:  )*(?:# )?)([a-z_]+:(?: |$))", r"\1\2\3", text, flags=re.MULTILINE)
    switched = switched.replace("    # api_key", "    api_key")
    file.write_text(switched, "utf-8")
    settings = load_settings([file], (), {}, require_secrets=False)
    assert set(settings.sources) == {"documents", "project", "questions"}
    assert set(settings.agents) == {"manual"}
    assert settings.models.main is not None
    assert settings.models.main.api_key is not None
    assert settings.telegram is not None


def test_refuses_to_overwrite(tmp_path: Path) -> None:
    file = tmp_path / "kimas.yaml"
    file.write_text("name: Mine\n", "utf-8")
    with pytest.raises(UsageError, match="exists already"):
        write_config(file, Answers())
    assert file.read_text("utf-8") == "name: Mine\n"
    assert not (tmp_path / SCHEMA_NAME).exists()


def test_says_when_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        write_config(tmp_path / "file" / "kimas.yaml", Answers())


async def test_the_next_steps_name_a_configuration_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    await init(Path("kimas.yaml"), Answers())
    assert "`kimas check --live`" in capsys.readouterr().out
    await init(Path("my bot/a.yaml"), Answers())
    assert "`kimas --config 'my bot/a.yaml' check --live`" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"my bot is a folder; name a file in it: my bot/kimas\.yaml"):
        await init(Path("my bot"), Answers())


def test_a_browser_is_given_a_page_of_an_existing_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "kimas.yaml"
    path.write_text("name: KIMAs\n", "utf-8")
    with logging_as_it_was():
        result = CliRunner().invoke(main, ["init", "--browser", str(path)])
    assert result.exit_code == 2
    assert "has no operator_page.port: docs/operate.md#the-operators-page says how" in result.output
    assert path.read_text("utf-8") == "name: KIMAs\n"
    path.unlink()
    path.with_name("kimas.env").write_text("MINE=1\n", "utf-8")
    with logging_as_it_was():
        result = CliRunner().invoke(main, ["init", "--browser", str(path)])
    assert result.exit_code == 2
    assert "kimas.env exists already" in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["kimas.env"]


def test_an_empty_configuration_has_a_page_and_no_source(tmp_path: Path) -> None:
    path = tmp_path / "kimas.yaml"
    write_config(path, Answers(is_empty=True, page_port=8123, secrets={PAGE_KEY: "a" * 32}))
    settings = load_settings([path], (), {PAGE_KEY: "a" * 32})
    assert (settings.sources, settings.operator_page.port) == ({}, 8123)
    assert "http://127.0.0.1:8123" in path.read_text("utf-8")
