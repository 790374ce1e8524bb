"""The container image: its steps run as a script where no container engine is, and its parts agree with the daemon.

NOT VERIFIED here: the base image, Debian's packages and the account, whose steps change the machine (`SKIPPED`).
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from core.settings import MetricsSettings, RunSettings
from core.settings.loader import load_settings
from core.settings.yaml_file import read_yaml
from tests.support.deployment import ROOT

pytestmark = pytest.mark.slow

UV_VERSION = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
# Steps that change the machine, or bring a tool that is here already: exactly these do not run.
SKIPPED = [
    f"pip install --no-cache-dir uv=={UV_VERSION[1] if UV_VERSION else '?'}",
    "apt-get update && apt-get install --yes --no-install-recommends git openssh-client && rm -rf /var/lib/apt/lists/*",
    "useradd --system --uid 10001 --create-home --home-dir /data kimas",
]
# Takes longer than all other steps: here what is run is compiled when it is imported. What all packages are compiled to
# is larger than their source by this factor.
COMPILE = " --compile-bytecode"
COMPILED_FACTOR = 1.25
LAZILY_COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
ROOTS = ("/src", "/opt/kimas", "/data", "/etc/kimas")


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def environment_of_image() -> dict[str, str]:
    (text,) = (arguments for name, arguments in instructions() if name == "ENV")
    return dict(word.partition("=")[::2] for word in shlex.split(text))


def relocate(text: str, folder: Path) -> str:
    """Put the image's folders below a folder of the test."""
    return re.sub(rf"(?<![\w.])({'|'.join(ROOTS)})(?=[/\s:]|$)", lambda match: f"{folder}{match[1]}", text)


class Builder:
    """Runs the steps of the Dockerfile in a folder that stands for the file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.skipped: list[str] = []
        self.compiled = 0
        self.directory = folder
        tools = folder / "tools"
        tools.mkdir(parents=True)
        (tools / "uv").symlink_to(Path(sys.prefix) / "bin" / "uv")
        (tools / "python").symlink_to(sys.executable)
        # What the lock names was installed here from the same cache: no step needs the network.
        self.environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "UV_OFFLINE": "1"}
        for variable in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            self.environment.pop(variable, None)

    def run(self) -> None:
        for name, arguments in instructions():
            if name == "WORKDIR":
                self.directory = Path(relocate(arguments, self.folder))
                self.directory.mkdir(parents=True, exist_ok=True)
            elif name == "COPY" and not arguments.startswith("--from"):
                *sources, target = arguments.split()
                self._copy(sources, target)
            elif name == "RUN" and arguments in SKIPPED:
                self.skipped.append(arguments)
            elif name == "RUN":
                self.compiled += COMPILE in arguments
                self._run(relocate(arguments.replace(COMPILE, ""), self.folder))

    def _copy(self, sources: list[str], target: str) -> None:
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, self.directory / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(ROOT / source, self.directory / source)

    def _run(self, command: str) -> None:
        result = subprocess.run(
            ["/bin/sh", "-c", command], cwd=self.directory, env=self.environment,
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"


@pytest.mark.timeout(900)
def test_the_steps_make_a_daemon_that_answers_without_a_network(tmp_path: Path) -> None:
    builder = Builder(tmp_path / "root")
    builder.run()
    assert (builder.skipped, builder.compiled) == (SKIPPED, 2)
    root = tmp_path / "root"
    sizes = [(file.suffix, file.lstat().st_size) for file in (root / "opt/kimas").rglob("*")]
    compiled_size = COMPILED_FACTOR * sum(size for suffix, size in sizes if suffix == ".py")
    assert sum(size for _, size in sizes) + compiled_size < 1_500_000_000
    # As in the image: nothing but /data is written.
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text("# Rocket\n\nThe launch key is kept in the blue safe.\n", "utf-8")
    config = root / "etc/kimas/kimas.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"sources: {{docs: {{kind: files, path: {tmp_path / 'docs'}}}}}\n", "utf-8")
    image = {name: relocate(value, root) for name, value in environment_of_image().items()}
    image["PATH"] = image["PATH"].replace("$PATH", os.environ["PATH"])
    for arguments in (["ingest"], ["check"], ["ask", "Where is the launch key kept?"]):
        result = subprocess.run(
            ["kimas", "--config", str(config), *arguments],
            cwd=root / "data", env={**image, "HF_HUB_OFFLINE": "1", **LAZILY_COMPILED},
            executable=str(root / "opt/kimas/bin/kimas"),
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
    assert "blue safe" in result.stdout
    assert (root / "data/knowledge/passages").is_dir()


def test_the_build_is_that_of_the_checkout() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    copied = {word for name, arguments in instructions() if name == "COPY" for word in arguments.split()[:-1]}
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert {name for name in copied if not name.startswith(("--", "/"))} == allowed
    assert all((ROOT / name).exists() for name in allowed)
    assert "--require-hashes -r requirements.lock" in text
    assert all(arguments.startswith("python:3.11-slim") for name, arguments in instructions() if name == "FROM")


def test_it_is_no_root_and_says_how_it_is() -> None:
    by_name: dict[str, list[str]] = {}
    for name, arguments in instructions():
        by_name.setdefault(name, []).append(arguments)
    names = [name for name, _ in instructions()]
    assert by_name["USER"] == ["10001"]
    # What comes after the account is made runs as it.
    assert names.index("USER") < names.index("ENTRYPOINT")
    image = environment_of_image()
    (check,) = by_name["HEALTHCHECK"]
    assert f"http://127.0.0.1:{image['KIMAS_METRICS__PORT']}/healthz" in check
    assert MetricsSettings().host == "127.0.0.1"
    settings = load_settings((), (), {"KIMAS_DATA_DIR": "/data/knowledge", "KIMAS_METRICS__PORT": "9464"})
    assert (str(settings.data_dir), settings.metrics.port) == ("/data/knowledge", 9464)


@pytest.fixture
def services() -> dict[str, Any]:
    services: dict[str, Any] = read_yaml(ROOT / "compose.yaml").data["services"]
    return services


def test_compose_closes_what_is_not_needed(services: dict[str, Any]) -> None:
    kimas = services["kimas"]
    assert (kimas["read_only"], kimas["cap_drop"]) == (True, ["ALL"])
    assert kimas["security_opt"] == ["no-new-privileges:true"]
    assert int(kimas["stop_grace_period"].removesuffix("s")) >= RunSettings().grace_s + 10
    assert "ports" not in kimas


def test_between_releases_the_version_is_newer_than_the_last_one() -> None:
    version = Version(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    if sections[0] == "Unreleased":
        assert version.is_devrelease, "an installer takes it for newer than the last release"
        assert Version(sections[1]) < version
    else:
        assert str(version) == sections[0]


def test_no_page_names_a_version_to_install() -> None:
    for name in ("README.md", "docs/install.md", "compose.yaml"):
        assert not re.findall(r"kimas[-:]\d+\.\d+", (ROOT / name).read_text("utf-8"))


def test_every_place_names_the_same_server_of_weaviate() -> None:
    places = ("config/compose.yaml", "Makefile", "docs/weaviate.md")
    pattern = re.compile(r"(?:weaviate:|WEAVIATE_VERSION := |weaviate-server@v)(\d+\.\d+\.\d+)")
    versions = [pattern.findall((ROOT / name).read_text("utf-8")) for name in places]
    assert all(versions)
    assert len(set(itertools.chain.from_iterable(versions))) == 1


def test_compose_names_settings_that_exist(services: dict[str, Any]) -> None:
    environment = {
        name: re.sub(r"\$\{\w+:\?[^}]*\}", "a-key", str(value))
        for name, value in services["kimas"]["environment"].items()
    }
    settings = load_settings((), (), environment)
    assert settings.knowledge.store.weaviate.host == "weaviate"
    assert settings.knowledge.store.weaviate.api_key is not None
    assert settings.journal.url == f"postgresql://{services['postgres']['environment']['POSTGRES_USER']}@postgres/kimas"
    assert settings.journal.password is not None


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="NOT VERIFIED: docker compose is not installed, nobody parsed compose.yaml",
)
def test_compose_is_accepted_by_its_program(tmp_path: Path) -> None:
    for name in ("compose.yaml", "config/compose.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "kimas.env").write_text("KIMAS_TELEGRAM__TOKEN=1:x\n", "utf-8")
    environment = {**os.environ, "WEAVIATE_KEY": "k", "POSTGRES_PASSWORD": "p"}
    result = subprocess.run(
        ["docker", "compose", "config", "--quiet"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
