"""Pages of a repository hold what they include from its commit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from core.settings import GitSource
from knowledge.ports import Source
from knowledge.sources.factory import open_source
from knowledge.sources.git.command import Git
from tests.support.git_repositories import commit, git, read

PAGES = {
    "docs/page.rst": "Title\n=====\n\n.. include:: a b.inc\n\nEnd.\n",
    "docs/a b.inc": "One.\n\n.. include:: deep.inc\n",
    "docs/deep.inc": "Deep.\n",
    "docs/plain.md": "Plain.\n",
    "guide/a.mdx": "import P from './_p.mdx';\n\n<P />\n",
    "guide/_p.mdx": "Shown once.\n",
    "guide/_alone.mdx": "Alone.\n",
}


def open_repository(folder: Path, **settings: object) -> Source:
    return open_source("docs", GitSource.model_validate({"kind": "git", "url": str(folder), **settings}), folder.parent)


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, dict(PAGES))
    return folder


async def test_a_page_holds_what_it_includes(tmp_path: Path) -> None:
    item = open_repository(make_repository(tmp_path / "repository"))
    listing = await item.listing()
    documents = await read(item, listing)
    assert set(documents) == {"docs/page.rst", "docs/plain.md", "guide/a.mdx", "guide/_alone.mdx"}
    assert documents["docs/page.rst"].text.split() == ["Title", "=====", "One.", "Deep.", "End."]
    assert documents["docs/page.rst"].lines[-2:] == (6, 7)
    assert documents["guide/a.mdx"].text.endswith("Shown once.\n")
    assert listing.fingerprints["docs/plain.md"] == git(tmp_path / "repository", "rev-parse", "HEAD:docs/plain.md")
    assert listing.skipped["part of other pages"] == 1


async def test_what_a_page_is_made_of_is_no_page_beside_it(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository")
    commit(folder, {"api/a.model.mdx": "A model.\n", "api/a.mdx": "A page.\n", "api/b.model.mdx": "Alone.\n"})
    listing = await open_repository(folder).listing()
    assert {"api/a.mdx", "api/b.model.mdx"} == {path for path in listing.fingerprints if path.startswith("api/")}


async def test_a_change_of_an_included_file_changes_its_page(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository")
    item = open_repository(folder)
    listing = await item.listing()
    commit(folder, {"docs/deep.inc": "Deeper.\n"})
    changed = await item.listing()
    different_paths = {path for path, text in changed.fingerprints.items() if listing.fingerprints[path] != text}
    assert different_paths == {"docs/page.rst"}
    assert "Deeper." in (await read(item, changed))["docs/page.rst"].text
    # The pages of a listing are those of its commit.
    assert "Deep." in (await read(item, listing))["docs/page.rst"].text


async def test_each_branch_includes_its_own_files(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository")
    git(folder, "checkout", "-qb", "v2")
    commit(folder, {"docs/deep.inc": "Deeper.\n"})
    item = open_repository(folder, branches=["main", "v2"])
    documents = await read(item, await item.listing())
    assert "Deep.\n" in documents["main:docs/page.rst"].text
    assert "Deeper.\n" in documents["v2:docs/page.rst"].text
    assert "main:guide/_p.mdx" not in documents
    assert "v2:docs/plain.md" not in documents


async def test_what_is_kept_out_is_not_included(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository")
    names = ("private/a.md", ".env.md", "vendor/b.md", "../c.md", "big.md", "link.md", "docs", "data.md")
    files: dict[str, str | bytes] = dict.fromkeys(names[:3], "secret")
    commit(folder, {**files, "big.md": "secret" * 1000, "data.md": b"secret\0", "secret.txt": "secret"})
    (folder / "link.md").symlink_to("secret.txt")
    git(folder, "add", "link.md")
    commit(folder, {"page.md": "Here:\n" + "\n".join(f'--8<-- "{name}"' for name in names)})
    item = open_repository(folder, exclude=["private/"], max_file_kb=2)
    text = (await read(item, await item.listing()))["page.md"].text
    assert "Here:" in text
    assert text.replace('"secret', "").count("secret") == 0


async def test_attributes_for_editors_are_read_and_other_hidden_files_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    page = "include::../../../.env[]\n\nRun {product}.\n"
    commit(folder, {"m/.asciidoctorconfig": ":product: Rocket\n", "m/modules/ROOT/pages/a.adoc": page, "m/.env": "K=1"})
    item = open_repository(folder)
    documents = await read(item, await item.listing())
    assert list(documents) == ["m/modules/ROOT/pages/a.adoc"]
    assert "Rocket" in documents["m/modules/ROOT/pages/a.adoc"].text
    assert "K=1" not in documents["m/modules/ROOT/pages/a.adoc"].text


async def test_a_changed_title_changes_the_pages_that_refer_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    pages = {"docs/a.rst": ".. _ports:\n\nPorts\n=====\n", "docs/b.rst": "See :ref:`ports`.\n", "docs/c.rst": "No.\n"}
    included = {"m/antora.yml": "name: m\n", "m/modules/ROOT/partials/p.adoc": "= Part\n\nxref:q.adoc[]\n"}
    antora = {
        "m/modules/ROOT/pages/p.adoc": "include::partial$p.adoc[]\n",
        "m/modules/ROOT/pages/q.adoc": "xref:p.adoc[]\n",
    }
    commit(folder, {**pages, **included, **antora})
    item = open_repository(folder)
    listing = await item.listing()
    documents = await read(item, listing)
    assert documents["docs/b.rst"].names == {"ports": "Ports"}
    assert documents["m/modules/ROOT/pages/q.adoc"].names == {"p.adoc": "Part"}
    assert "+" not in listing.fingerprints["docs/c.rst"]
    commit(folder, {"docs/a.rst": ".. _ports:\n\nAll ports\n=========\n"})
    changed = await item.listing()
    different_paths = {path for path, text in changed.fingerprints.items() if listing.fingerprints[path] != text}
    assert different_paths == {"docs/a.rst", "docs/b.rst"}
    assert (await read(item, changed))["docs/b.rst"].names == {"ports": "All ports"}
    # Those of a listing are those of its commit, also for whoever lists nothing before.
    assert (await read(item, listing))["docs/b.rst"].names == {"ports": "Ports"}
    assert (await read(open_repository(folder), listing))["docs/b.rst"].names == {"ports": "Ports"}


async def test_each_branch_has_its_own_titles(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {"a.rst": ".. _x:\n\nOne\n===\n", "b.rst": ":ref:`x`\n"})
    git(folder, "checkout", "-qb", "v2")
    commit(folder, {"a.rst": ".. _x:\n\nTwo\n===\n"})
    item = open_repository(folder, branches=["main", "v2"])
    documents = await read(item, await item.listing())
    assert documents["main:b.rst"].names == {"x": "One"}
    assert documents["v2:b.rst"].names == {"x": "Two"}


async def test_what_names_mean_is_read_also_where_the_globs_leave_it_out(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    pages = {
        "a.md": "See {{ name }}.\n",
        "m/modules/ROOT/pages/a.adoc": "xref:b.adoc[]\n",
        "m/modules/ROOT/nav.adoc": "*",
    }
    settings = {"conf.py": "myst_substitutions = {'name': 'Rocket'}\n", "x/conf.py": "version = '1'\n"}
    antora = "name: m\nasciidoc:\n  attributes:\n    product: Rocket\n"
    commit(folder, {**pages, **settings, "m/antora.yml": antora, "m/modules/ROOT/pages/b.adoc": "= On {product}\n"})
    item = open_repository(folder, include=["*.md", "*.adoc"], exclude=["x/"])
    listing = await item.listing()
    documents = await read(item, listing)
    assert set(documents) == {"a.md", "m/modules/ROOT/pages/a.adoc", "m/modules/ROOT/pages/b.adoc"}
    assert documents["a.md"].names == {"{{name": "Rocket"}
    assert documents["m/modules/ROOT/pages/a.adoc"].names == {"b.adoc": "On Rocket"}
    commit(folder, {"conf.py": "myst_substitutions = {'name': 'Comet'}\n"})
    changed = await item.listing()
    different_paths = {path for path, text in changed.fingerprints.items() if listing.fingerprints[path] != text}
    assert different_paths == {"a.md"}
    assert (await read(item, changed))["a.md"].names == {"{{name": "Comet"}


async def test_a_later_refresh_reads_only_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {"a.md": "# A\n\nSee [](b.md).\n", "b.md": "# Old\n", "c.md": "C.\n"})
    first = await open_repository(folder).listing()
    commit(folder, {"b.md": "# New\n"})
    changed_blob = git(folder, "rev-parse", "HEAD:b.md")
    read_blobs = set[str]()
    read_all = Git.blobs

    def record(self: Git, blobs: Sequence[str]) -> AsyncGenerator[tuple[str, bytes], None]:
        read_blobs.update(blobs)
        return read_all(self, blobs)

    monkeypatch.setattr(Git, "blobs", record)
    item = open_repository(folder)
    second = await item.listing()
    assert read_blobs == {changed_blob}
    assert {path for path in first.fingerprints if first.fingerprints[path] != second.fingerprints[path]} == {
        "a.md",
        "b.md",
    }
    assert "New" in str((await read(item, second))["a.md"].names)
    # Nothing has changed, then what was kept is damaged.
    read_blobs.clear()
    assert await open_repository(folder).listing() == second
    assert not read_blobs
    (tmp_path / "git/docs.outlines").write_text("{")
    assert await open_repository(folder).listing() == second
    assert len(read_blobs) == 3


async def test_the_same_text_under_another_name_is_read_by_its_kind(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    text = ".. _here:\n\nPlace\n=====\n"
    page = {"a.rst": "A\n=\n\n:ref:`here`\n"}
    commit(folder, {"b.md": text, **page})
    assert "+" not in (await open_repository(folder).listing()).fingerprints["a.rst"]
    commit(folder, {"b.md": None, "b.rst": text})
    assert "+" in (await open_repository(folder).listing()).fingerprints["a.rst"]
