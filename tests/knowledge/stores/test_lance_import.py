"""Passages that an earlier version wrote with LanceDB are taken over once, with their vectors and words."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import StoreError
from core.settings import StoreSettings
from knowledge.ports import StoredDocument, Vectors
from knowledge.stores import check_store, lance_import, open_store
from tests.support.stores import DIMENSION, unit

# In a process of its own: LanceDB takes seconds to import, and its threads would stay.
WRITE = """
import json, sys
import lancedb, pyarrow as pa
folder, labels, rows = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
texts = ["id", "source", "path", "title", "text", "url", "kind"]
types = [(name, pa.string()) for name in texts] + [(name, pa.int32()) for name in ("start_line", "end_line")]
types += [("fingerprint", pa.string()), ("tokens", pa.string()), ("vector", pa.list_(pa.float32(), 16))]
schema = pa.schema([pa.field(*item) for item in types], labels)
connection = lancedb.connect(folder)
table = connection.create_table("passages", schema=schema)
for half in (rows[::2], rows[1::2]):
    table.add(pa.Table.from_pylist([dict(zip(schema.names, row)) for row in half], schema=schema))
"""
OPEN = """
import asyncio, sys
from pathlib import Path
from core.errors import StoreError
from core.settings import StoreSettings
from knowledge.stores import check_store, open_store

async def main(action, *arguments):
    # Pairs of a data directory and the name of an embedder.
    for data_dir, embedder in zip(arguments[::2], arguments[1::2]):
        try:
            if action == "check":
                await check_store(StoreSettings(), Path(data_dir), embedder, 16)
                continue
            store = await open_store(StoreSettings(), Path(data_dir), embedder, 16)
        except StoreError as error:
            print(type(error).__name__, error)
        else:
            await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def lance_row(name: str, path: str, source: str = "it's", vector: Vectors | None = None) -> list[object]:
    texts = [name, source, path, f"Title of {name}", f"Text of {name} ü", f"https://x.org/{name}", "markdown"]
    return [*texts, 3, 9, "print", f"apple {name}", None if vector is None else vector.tolist()]


ROWS = [
    *(lance_row(f"n{number}", f"{number // 2}.md", vector=2 * unit(number)) for number in range(6)),
    lance_row("other", "b'c.md", "other", unit(9)),
    ["empty:1", "it's", "empty.md", "", "", "", "", 0, 0, "nothing", "", None],
    ["gone", "", "", "", "", "", "", 0, 0, "", "", None],
]


@pytest.fixture(scope="module")
def lance_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory as an earlier version left it."""
    data_dir = tmp_path_factory.mktemp("data")
    labels = {"embedder": "test", "dimension": "16", "format": "1"}
    arguments = (str(data_dir / "passages"), json.dumps(labels), json.dumps(ROWS))
    subprocess.run([sys.executable, "-c", WRITE, *arguments], check=True, timeout=100)
    return data_dir


async def opened_in_a_process(*stores: tuple[Path, str], action: str = "open") -> str:
    """Open the stores of data directories there, one after the other; return what that process prints."""
    arguments = [str(argument) for store in stores for argument in store]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPEN, action, *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def test_they_are_copied_once_and_the_old_files_stay(lance_dir: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    await asyncio.to_thread(shutil.copytree, lance_dir, data_dir)
    (data_dir / "passages" / lance_import.UNFINISHED_FOLDER).mkdir()
    (data_dir / "passages" / lance_import.UNFINISHED_FOLDER / "passages.db").write_text("of a killed import")
    outputs = await asyncio.gather(*(opened_in_a_process((data_dir, "test")) for _ in range(2)))
    assert outputs == ["", ""]
    assert {path.name for path in (data_dir / "passages").iterdir()} == {"passages.db", "passages.lance"}
    old_files = {path.relative_to(lance_dir): path.stat().st_size for path in lance_dir.rglob("*") if path.is_file()}
    assert (
        old_files.items()
        <= {path.relative_to(data_dir): path.stat().st_size for path in data_dir.rglob("*") if path.is_file()}.items()
    )
    # This process has no LanceDB, and needs none any more.
    store = await open_store(StoreSettings(), data_dir, "test", DIMENSION)
    try:
        assert await store.manifest("it's") == {
            **{f"{number}.md": StoredDocument("print", 2) for number in range(3)},
            "empty.md": StoredDocument("nothing", 0),
        }
        assert await store.manifest("other") == {"b'c.md": StoredDocument("print", 1)}
        passages = await store.search("n4", unit(3), ["it's", "other"], 1)
        passages_by_id = {passage.id: passage for passage in passages}
        assert passages_by_id.keys() == {"n3", "n4"}
        assert passages_by_id["n3"].similarity == pytest.approx(1, abs=1e-6)
        assert passages_by_id["n4"].lexical > 0
        assert (passages_by_id["n4"].title, passages_by_id["n4"].text, passages_by_id["n4"].end_line) == (
            "Title of n4",
            "Text of n4 ü",
            9,
        )
        (row,) = await store.rows("other", ["b'c.md"])
        assert (row.tokens, row.vector.tolist()) == ("apple other", pytest.approx(unit(9).tolist()))
    finally:
        await store.close()


async def test_what_cannot_be_copied_is_said_with_the_way_out(
    lance_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / "data"
    damaged_dir = tmp_path / "damaged"
    for folder in (data_dir, damaged_dir):
        await asyncio.to_thread(shutil.copytree, lance_dir, folder)
    for path in (damaged_dir / "passages" / "passages.lance" / "data").iterdir():
        path.write_bytes(b"damaged")
    output = await opened_in_a_process((data_dir, "another"), (damaged_dir, "test"))
    checked = await opened_in_a_process(
        (data_dir, "another"), (damaged_dir, "test"), (data_dir, "test"), action="check"
    )
    assert checked == output, "a check says the same, and nothing of what can be copied"
    mismatch, damage = output.splitlines()
    assert "StoreMismatch" in mismatch
    assert "kimas ingest --rebuild" in damage
    with monkeypatch.context() as patched:
        patched.setattr(lance_import, "find_spec", lambda name: None)
        with pytest.raises(StoreError, match=r"-m pip install 'kimas\[lance\]'`, .*kimas ingest --rebuild"):
            await open_store(StoreSettings(), data_dir, "test", DIMENSION)
        with pytest.raises(StoreError, match=r"-m pip install 'kimas\[lance\]'`, .*kimas ingest --rebuild"):
            await check_store(StoreSettings(), data_dir, "test", DIMENSION)
    assert not (data_dir / "passages" / "passages.db").exists()
    assert not (damaged_dir / "passages" / "passages.db").exists()
    store = await open_store(StoreSettings(), damaged_dir, "test", DIMENSION, rebuild=True)
    assert await store.manifest("it's") == {}
    await store.close()
