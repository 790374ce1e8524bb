"""The service: systemd accepts every line of it, and it agrees with what the daemon does."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from pydantic import BaseModel, TypeAdapter

from bots.common.connection import TokenRefused, Unreachable
from bots.discord.connection import GatewayRefused
from core.errors import ConfigurationError
from core.settings import RunSettings, Settings
from core.settings.loader import find_default_files
from knowledge.stores.sqlite.store import READ_TIMEOUT_S

SYSTEMD = Path(__file__).parents[2] / "systemd"
UNIT = SYSTEMD / "kimas.service"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="NOT VERIFIED: systemd-analyze is not installed, nobody checked systemd/kimas.service",
)


def complaints(folder: Path, text: str) -> str:
    """Return what `systemd-analyze verify` says about a unit, with the installed paths replaced by real ones."""
    unit = folder / "kimas.service"
    for program in ("/opt/kimas/.venv/bin/kimas", "/usr/local/bin/weaviate-server"):
        text = text.replace(program, sys.executable)
    unit.write_text(text, "utf-8")
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=100, check=False
    )
    # Old versions report an unknown directive and still exit with 0: what counts is that nothing is said.
    return result.stdout + result.stderr + ("" if result.returncode == 0 else f"exit code {result.returncode}")


def seconds(span: str) -> float:
    units = {"": 1, "s": 1, "min": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)\s*([a-z]*)", span))


@pytest.fixture(scope="module")
def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes="#", delimiters="=")
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT, "utf-8")
    return unit["Service"]


@needs_systemd
@pytest.mark.parametrize("name", ["kimas.service", "weaviate.service"])
def test_systemd_accepts_the_unit(tmp_path: Path, name: str) -> None:
    assert complaints(tmp_path, (SYSTEMD / name).read_text("utf-8")) == ""


@needs_systemd
@pytest.mark.parametrize(
    ("valid_line", "invalid_line"),
    [
        ("NoNewPrivileges=yes", "NoNewPrivilege=yes"),
        ("WatchdogSec=1min", "WatchdogSec=soon"),
        ("Type=notify", "Type=notification"),
        ("/opt/kimas/.venv/bin/kimas", "/opt/elsewhere/kimas"),
    ],
)
def test_systemd_would_complain(tmp_path: Path, valid_line: str, invalid_line: str) -> None:
    text = UNIT.read_text("utf-8")
    assert text.count(valid_line) == 1
    assert complaints(tmp_path, text.replace(valid_line, invalid_line)) != ""


def _documented_drop_in() -> str:
    """Return the drop-in of docs/operate.md that loads further secrets."""
    blocks = re.findall(r"```ini\n(.*?)```", (UNIT.parents[1] / "docs" / "operate.md").read_text("utf-8"), re.DOTALL)
    (drop_in,) = (block for block in blocks if "LoadCredential=" in block)
    return str(drop_in)


@needs_systemd
def test_systemd_accepts_the_documented_credentials(tmp_path: Path) -> None:
    assert complaints(tmp_path, f"{UNIT.read_text('utf-8')}\n{_documented_drop_in()}") == ""
    assert complaints(tmp_path, f"{UNIT.read_text('utf-8')}\n{_documented_drop_in()}LoadCredential=a/b:c\n") != ""


def test_the_documented_configuration_names_the_credentials_of_the_unit() -> None:
    """What the unit and the drop-in load is what the examples read, by the path where systemd puts it."""
    text = (UNIT.parents[1] / "docs" / "operate.md").read_text("utf-8")
    names = set(re.findall(r"/run/credentials/kimas\.service/([\w-]+)\}", text))
    loaded = set(
        re.findall(r"^LoadCredential=([\w-]+):", UNIT.read_text("utf-8") + _documented_drop_in(), re.MULTILINE)
    )
    assert names == loaded


def test_every_secret_can_be_a_credential(tmp_path: Path) -> None:
    """Each setting that is a secret is read from a file as systemd makes it: closed to others, ending in a newline."""
    credential = tmp_path / "credential"
    credential.write_text("from-systemd\n", "utf-8")
    credential.chmod(0o400)
    sections = {field for section in _sections(Settings) for field in _secret_fields(section)}
    assert len(sections) >= 15, "there are this many secrets"
    for section, field in sections:
        secret = TypeAdapter(section.model_fields[field].annotation)
        value = secret.validate_python(
            {"header": {"file": credential}} if field in ("headers", "environment") else {"file": credential}
        )
        for item in value.values() if isinstance(value, dict) else [value]:
            assert (item.value(), item.missing_reason()) == ("from-systemd", ""), (section, field)


def _sections(section: type[BaseModel]) -> set[type[BaseModel]]:
    """Return a section of the settings with all that are inside."""
    models = set[type[BaseModel]]()
    pending_models = [section]
    while pending_models:
        current = pending_models.pop()
        if current in models:
            continue
        models.add(current)
        annotations = [field.annotation for field in current.model_fields.values()]
        while annotations:
            annotation = annotations.pop()
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                pending_models.append(annotation)
            annotations += getattr(annotation, "__args__", ())
    return models


def _secret_fields(section: type[BaseModel]) -> list[tuple[type[BaseModel], str]]:
    """Return the fields of a section that hold a secret, or are named like one."""
    secret_name = re.compile(r"(^|_)(token|secret|password|api_key)$")
    holds = {name for name, field in section.model_fields.items() if "Secret" in repr(field.annotation)}
    suspicious = {name for name, field in section.model_fields.items() if secret_name.search(name)}
    assert suspicious <= holds, f"{section}: {suspicious - holds} cannot be read from a file"
    return [(section, name) for name in holds]


@needs_systemd
def test_the_service_is_hardly_exposed() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=14", "--no-pager", str(UNIT)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    # Above the threshold, which is in tenths, it exits with 1.
    assert result.returncode == 0, [*result.stdout.splitlines()[-1:], result.stderr]


def test_memory_and_metadata_of_the_cloud_are_out_of_reach(service: configparser.SectionProxy) -> None:
    assert service["MemoryHigh"] == "1536M"
    assert service["MemoryMax"] == "2G"
    assert service["IPAddressDeny"].split() == ["link-local", "100.100.100.200", "fd00:ec2::254"]
    assert service["LimitCORE"] == "0", "a core file would hold the secrets"


def test_the_unit_starts_the_daemon_with_the_system_configuration(
    service: configparser.SectionProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bots.cli.main import main

    _, *arguments = service["ExecStart"].split()
    assert arguments[-1] in main.list_commands(click.Context(main))
    assert {option for option in arguments if option.startswith("--")} <= {
        option for parameter in main.params for option in parameter.opts
    }
    # It is the file that commands without --config look for, too, so that an administrator's `kimas check` sees it.
    monkeypatch.chdir(tmp_path)
    try:
        (text,) = map(str, find_default_files({"XDG_CONFIG_HOME": str(tmp_path)}))
    except ConfigurationError as error:
        text = str(error)
    assert arguments[arguments.index("--config") + 1] in text


def test_a_start_that_reads_a_million_passages_is_not_ended(service: configparser.SectionProxy) -> None:
    assert seconds(service["TimeoutStartSec"]) >= READ_TIMEOUT_S + 120


def test_stopping_takes_longer_than_the_grace_period(service: configparser.SectionProxy) -> None:
    grace = RunSettings().grace_s
    assert seconds(service["TimeoutStopSec"]) >= grace + 10
    assert service["KillMode"] == "mixed"


def test_what_a_restart_cannot_mend_is_not_tried_again(service: configparser.SectionProxy) -> None:
    permanent = {str(error.exit_code) for error in (ConfigurationError, TokenRefused, GatewayRefused)}
    assert set(service["RestartPreventExitStatus"].split()) == permanent
    assert str(Unreachable.exit_code) not in permanent
    assert service["Restart"] == "on-failure"


def test_the_embedding_model_may_make_its_kernels(service: configparser.SectionProxy) -> None:
    assert service.get("MemoryDenyWriteExecute", "no") == "no"


def test_the_service_runs_as_the_user_that_is_made(service: configparser.SectionProxy) -> None:
    matches = re.findall(r"^u\s+(\S+)", (SYSTEMD / "kimas.sysusers.conf").read_text("utf-8"), re.MULTILINE)
    assert matches == [service["User"]]
    folders = re.findall(r"^d\s+(\S+)", (SYSTEMD / "kimas.tmpfiles.conf").read_text("utf-8"), re.MULTILINE)
    credential = Path(service["LoadCredential"].partition(":")[2])
    assert str(credential.parent) in folders


@pytest.mark.skipif(
    shutil.which("systemd-sysusers") is None or os.geteuid() != 0,
    reason="NOT VERIFIED: needs systemd-sysusers and root, nobody checked the sysusers and tmpfiles configuration",
)
def test_systemd_makes_the_user_and_the_folders(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    root = f"--root={tmp_path}"
    for command, name in (("systemd-sysusers", "sysusers"), ("systemd-tmpfiles", "tmpfiles")):
        target = tmp_path / "usr/lib" / f"{name}.d" / "kimas.conf"
        target.parent.mkdir(parents=True)
        shutil.copy(SYSTEMD / f"kimas.{name}.conf", target)
        create = ["--create"] if name == "tmpfiles" else []
        result = subprocess.run(
            [command, root, *create, str(target)], capture_output=True, text=True, timeout=100, check=False
        )
        assert result.returncode == 0, result.stderr
    assert "\nkimas:" in "\n" + (tmp_path / "etc/passwd").read_text("utf-8")
    assert (tmp_path / "etc/kimas").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "etc/kimas/credentials").stat().st_mode & 0o777 == 0o700
