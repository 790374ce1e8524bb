"""Folders and files: what is taken, what is skipped and counted, how bytes become text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from core.errors import SourceError
from core.settings import FilesSource
from knowledge.formats.encoding import decode, unusable_reason
from knowledge.ports import Document, Listing, Source
from knowledge.sources.factory import open_source
from tests.support.pdf_documents import write_pdf

NOBODY = 65534


def source(path: Path, **settings: object) -> Source:
    return open_source("docs", FilesSource.model_validate({"kind": "files", "path": path, **settings}), path.parent)


def fill(folder: Path, *paths: str) -> None:
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text\n", "utf-8")


async def listed(path: Path, **settings: object) -> Listing:
    return await source(path, **settings).listing()


async def read(item: Source) -> dict[str, Document]:
    listing = await item.listing()
    return {document.path: document async for document in item.documents(listing, listing.fingerprints)}


async def test_kinds_follow_names(tmp_path: Path) -> None:
    kinds = {
        "README": "text",
        "Dockerfile": "text",
        "Makefile": "text",
        "run.sh": "shell",
        "a.toml": "text",
        "a.json": "text",
        "a.md": "markdown",
        "a.RST": "rst",
        "b/a.py": "python",
        "中文 文件.md": "markdown",
        "a.jsx": "javascript",
        "a.tsx": "typescript",
        "a.go": "go",
        "a.rs": "rust",
        "A.java": "java",
        "a.h": "c",
        "a.hpp": "cpp",
        "a.cs": "csharp",
        "a.php": "php",
        "a.rb": "ruby",
        "a.kts": "kotlin",
    }
    fill(tmp_path, *kinds)
    documents = await read(source(tmp_path))
    assert {path: document.kind for path, document in documents.items()} == kinds


async def test_globs_are_those_of_git(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "docs/a.md", "docs/old/a.md", "docs/a.txt", "src/docs/a.py", "src/a.py")
    assert set((await listed(tmp_path, include=["*.md"])).fingerprints) == {"a.md", "docs/a.md", "docs/old/a.md"}
    assert set((await listed(tmp_path, include=["/docs/"], exclude=["old/"])).fingerprints) == {
        "docs/a.md",
        "docs/a.txt",
    }
    assert set((await listed(tmp_path, exclude=["*", "!src/", "!src/a.py"])).fingerprints) == {"src/a.py"}
    assert set((await listed(tmp_path, include=["src/**/*.py"])).fingerprints) == {"src/docs/a.py", "src/a.py"}


async def test_bulk_and_unknown_files_are_skipped_and_counted(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", ".hidden.md", ".git/x.md", "node_modules/p/README.md", "__pycache__/a.py", "env/lib/a.py")
    fill(
        tmp_path,
        "env/pyvenv.cfg",
        "poetry.lock",
        "package-lock.json",
        "app.min.js",
        "modules/a/nav.adoc",
        "modules/a/content-nav.adoc",
        "a_pb2.py",
        "a.foo",
        "a.png",
        ".x/a.md",
    )
    (tmp_path / "zero.md").write_bytes(b"")
    (tmp_path / "blank.md").write_bytes(b"\xef\xbb\xbf \n\t\n")
    (tmp_path / "picture.md").write_bytes(b"\x89PNG\0\0\0")
    (tmp_path / "long.md").write_text("x" * 3000)
    (tmp_path / "data.json").write_text("1" * 70_000)
    listing = await listed(tmp_path, max_file_kb=2)
    assert set(listing.fingerprints) == {"a.md"}
    assert listing.skipped == {
        "hidden": 1,
        "generated": 6,
        "unknown kind": 2,
        "empty": 2,
        "binary": 1,
        "larger than max_file_kb": 2,
    }


async def test_documents_in_a_format_that_is_not_read_are_named(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "b.pod", "c.1", "d.1", "e.odt", "f.png")
    listing = await listed(tmp_path)
    assert listing.skipped == {
        "format .pod that is not read": 1,
        "format .1 that is not read": 2,
        "format .odt that is not read": 1,
        "unknown kind": 1,
    }
    assert set((await listed(tmp_path, include=["*.pod"])).fingerprints) == {"b.pod"}


async def test_a_menu_is_taken_only_where_a_glob_names_it(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "nav.adoc", "book/SUMMARY.md", "_sidebar.md")
    assert set((await listed(tmp_path, include=["*.md", "*.adoc"])).fingerprints) == {"a.md"}
    assert set((await listed(tmp_path, include=["/book/SUMMARY.md"])).fingerprints) == {"book/SUMMARY.md"}


async def test_what_names_mean_is_read_also_where_the_globs_leave_it_out(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text("Run |version|.\n")
    (tmp_path / "conf.py").write_text("version = '2.1'\n")
    item = source(tmp_path, include=["*.rst"])
    listing = await item.listing()
    documents = await read(item)
    assert set(documents) == {"a.rst"}
    assert documents["a.rst"].names == {"|version|": "2.1"}
    (tmp_path / "conf.py").write_text("version = '2.2'\n")
    assert (await item.listing()).fingerprints != listing.fingerprints


async def test_a_hidden_name_is_taken_where_a_glob_names_what_is_hidden(tmp_path: Path) -> None:
    fill(tmp_path, "docs/a.md", "docs/.b.md")
    assert (await listed(tmp_path, include=["docs/"])).skipped == {"hidden": 1}
    assert set((await listed(tmp_path, include=["docs/*.md"])).fingerprints) == {"docs/a.md"}
    assert set((await listed(tmp_path, include=["docs/", ".b.md"])).fingerprints) == {"docs/a.md", "docs/.b.md"}


async def test_the_theme_of_a_site_is_skipped_unless_a_glob_names_it(tmp_path: Path) -> None:
    fill(tmp_path, "docs/a.md", "docs/_templates/a.html", "docs/_layouts/a.html", "docs/_static/js/a.js")
    fill(tmp_path, "docs/_includes/nav/a.html", "docs/_includes/b.md", "docs/_autoapi_templates/python/a.rst")
    listing = await listed(tmp_path, include=["docs/"])
    assert (set(listing.fingerprints), listing.skipped) == ({"docs/a.md", "docs/_includes/b.md"}, {"theme": 5})
    listing = await listed(tmp_path, include=["docs/", "docs/_layouts/*.html"])
    assert "docs/_layouts/a.html" in listing.fingerprints
    assert listing.skipped == {"theme": 4}
    assert (await listed(tmp_path)).skipped == {"theme": 5}


async def test_the_templates_of_hugo_are_skipped_unless_a_glob_names_them(tmp_path: Path) -> None:
    fill(tmp_path, "layouts/a.html", "site/layouts/shortcodes/b.html", "layouts/partials/c/d.html")
    fill(tmp_path, "layouts/_default/e.html", "docs/layouts/partials/f.md")
    listing = await listed(tmp_path)
    assert set(listing.fingerprints) == {"layouts/a.html", "docs/layouts/partials/f.md"}
    assert listing.skipped == {"theme": 3}
    assert len((await listed(tmp_path, include=["layouts/", "*.html"])).fingerprints) == 5


async def test_an_include_glob_can_name_what_is_otherwise_skipped(tmp_path: Path) -> None:
    fill(tmp_path, "a.foo", "b.lock", "vendor/a.md")
    assert set((await listed(tmp_path, include=["*.foo", "*.lock", "vendor/"])).fingerprints) == {
        "a.foo",
        "b.lock",
        "vendor/a.md",
    }


@pytest.mark.parametrize("data_dir", ["data", "."])
async def test_what_we_keep_ourselves_is_no_document(tmp_path: Path, data_dir: str) -> None:
    """The texts of other sources lie there, and the configuration names closed ones."""
    kept = tmp_path / data_dir / "web" / "closed" / "texts"
    kept.mkdir(parents=True)
    (kept / "1.md").write_text("# Closed\n", "utf-8")
    (tmp_path / "page.md").write_text("# Open\n\n```{include} web/closed/texts/1.md\n```\n", "utf-8")
    (tmp_path / "kimas.yaml").write_text("sources: {}\n", "utf-8")
    (tmp_path / "link.md").symlink_to(kept / "1.md")
    documents = await read(open_source("docs", FilesSource(kind="files", path=tmp_path), tmp_path / data_dir))
    assert list(documents) == ["page.md"]
    assert "Closed" not in documents["page.md"].text


async def test_links_are_taken_once_and_never_lead_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(root, "a.md", "..data/config.md", "sub/b.md")
    fill(tmp_path, "outside/secret.md")
    (root / "again.md").symlink_to("a.md")
    (root / "config.md").symlink_to("..data/config.md")
    (root / "secret.md").symlink_to("../outside/secret.md")
    (root / "loop").symlink_to(".")
    (root / "broken.md").symlink_to("nowhere.md")
    (root / "circle.md").symlink_to("circle.md")
    os.mkfifo(root / "pipe.md")
    listing = await listed(root)
    assert set(listing.fingerprints) == {"a.md", "sub/b.md", "config.md"}
    assert listing.skipped == {"link leading outside": 1, "link to a folder": 1, "broken link": 2}
    (tmp_path / "alias").symlink_to("root")
    assert set((await listed(tmp_path / "alias")).fingerprints) == set(listing.fingerprints)


async def test_a_link_reaches_nothing_that_rules_keep_out(tmp_path: Path) -> None:
    fill(tmp_path, "docs/a.md", ".git/config", "private/plan.md", "node_modules/x/readme.md", "src/notes.md")
    for number, target in enumerate(("../.git/config", "../private/plan.md", "../node_modules/x/readme.md")):
        (tmp_path / f"docs/link{number}.md").symlink_to(target)
    listing = await listed(tmp_path, exclude=["private/"])
    assert set(listing.fingerprints) == {"docs/a.md", "src/notes.md"}
    assert listing.skipped == {"link to what is left out": 3}
    (tmp_path / "docs/notes.md").symlink_to("../src/notes.md")
    assert set((await listed(tmp_path, include=["docs/"])).fingerprints) == {"docs/a.md"}


@pytest.mark.parametrize("swapped", ["docs/a.md", "docs"])
async def test_what_becomes_a_link_after_listing_is_not_followed(tmp_path: Path, swapped: str) -> None:
    root = tmp_path / "root"
    fill(root, "docs/a.md", "b.md", "elsewhere/a.md")
    fill(tmp_path, "outside/a.md")
    folder = source(root)
    listing = await folder.listing()
    shutil.move(root / swapped, tmp_path / "moved")
    (root / swapped).symlink_to(tmp_path / ("outside/a.md" if swapped.endswith(".md") else "outside"))
    assert [document.path async for document in folder.documents(listing, ["docs/a.md", "b.md"])] == ["b.md"]


async def test_what_becomes_a_link_in_the_last_moment_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a file and its opening: the opening itself follows no link."""
    root = tmp_path / "root"
    fill(root, "a.md", "b.md")
    fill(tmp_path, "outside/a.md")
    folder = source(root)
    listing = await folder.listing()
    (root / "a.md").unlink()
    (root / "a.md").symlink_to(tmp_path / "outside/a.md")
    monkeypatch.setattr(Path, "is_symlink", lambda self: False)
    assert [document.path async for document in folder.documents(listing, ["a.md", "b.md"])] == ["b.md"]


async def test_a_file_that_grows_beyond_its_limit_after_listing_is_left_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(root, "a.md", "b.md")
    folder = source(root, max_file_kb=1)
    listing = await folder.listing()
    (root / "a.md").write_text("x" * 1025, "utf-8")
    (root / "b.md").write_text("x" * 1024, "utf-8")
    assert [document.path async for document in folder.documents(listing, ["a.md", "b.md"])] == ["b.md"]
    alone = source(root / "b.md", max_file_kb=1)
    listing = await alone.listing()
    (root / "b.md").write_text("x" * 1025, "utf-8")
    assert [document.path async for document in alone.documents(listing, ["b.md"])] == []


async def test_a_document_may_have_more_bytes_than_a_text_file(tmp_path: Path) -> None:
    page = f"<html><body><h1>Manual</h1><p>{'Words of the manual. ' * 200}</p></body></html>"
    (tmp_path / "manual.html").write_text(page, "utf-8")
    (tmp_path / "notes.md").write_text("x" * 2000, "utf-8")
    limits = {"max_file_kb": 1, "max_document_kb": 5}
    folder = source(tmp_path, **limits)
    listing = await folder.listing()
    assert (set(listing.fingerprints), listing.skipped) == ({"manual.html"}, {"larger than max_file_kb": 1})
    assert [document.path async for document in folder.documents(listing, ["manual.html"])] == ["manual.html"]
    assert set((await listed(tmp_path / "manual.html", **limits)).fingerprints) == {"manual.html"}
    with pytest.raises(SourceError, match="1 larger than max_document_kb"):
        await listed(tmp_path / "manual.html", max_file_kb=1, max_document_kb=3)


@pytest.fixture
def closed_to_us() -> Iterator[Path]:
    """An empty folder of a user whom permission bits bind; for the length of the test we are not root."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        root = os.geteuid() == 0
        if root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)
            for path in folder.rglob("*"):
                path.chmod(0o700)


async def test_unreadable_files_and_folders_are_counted(closed_to_us: Path) -> None:
    fill(closed_to_us, "a.md", "closed/b.md", "c.md")
    (closed_to_us / "c.md").chmod(0)
    (closed_to_us / "closed").chmod(0)
    listing = await listed(closed_to_us)
    assert set(listing.fingerprints) == {"a.md"}
    assert listing.skipped == {"unreadable": 2}
    with pytest.raises(SourceError, match=r"closed cannot be read: Permission denied"):
        await listed(closed_to_us / "closed")


async def test_a_folder_that_can_be_listed_but_not_searched_is_counted(closed_to_us: Path) -> None:
    fill(closed_to_us, "a.md", "names/b.md", "names/c.md")
    (closed_to_us / "names").chmod(0o444)
    listing = await listed(closed_to_us)
    assert set(listing.fingerprints) == {"a.md"}
    assert listing.skipped == {"unreadable": 2}


async def test_a_path_below_a_folder_that_cannot_be_searched_is_named(closed_to_us: Path) -> None:
    fill(closed_to_us, "parent/docs/a.md")
    (closed_to_us / "parent").chmod(0o600)
    with pytest.raises(SourceError, match=r"source docs: .*parent/docs cannot be read: Permission denied\. Check path"):
        await listed(closed_to_us / "parent" / "docs")


async def test_names_that_are_no_text_are_counted(tmp_path: Path) -> None:
    fill(tmp_path, "a.md")
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("text")
    except OSError:
        pytest.skip("this file system refuses names that are not UTF-8")
    assert (await listed(tmp_path)).skipped == {"unreadable name": 1}


async def test_a_single_file_of_any_suffix_is_a_source(tmp_path: Path) -> None:
    fill(tmp_path, "notes.xyz")
    documents = await read(source(tmp_path / "notes.xyz"))
    assert {path: document.kind for path, document in documents.items()} == {"notes.xyz": "text"}
    (tmp_path / "notes.xyz").write_text("x" * 2000)
    with pytest.raises(SourceError, match="1 larger than max_file_kb"):
        await listed(tmp_path / "notes.xyz", max_file_kb=1)


async def test_missing_and_empty_folders_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"source docs: .*nowhere does not exist\. Check path"):
        await listed(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"empty holds no files\. Check path, include and exclude"):
        await listed(tmp_path / "empty")
    fill(tmp_path, "full/a.png", "full/b.lock")
    with pytest.raises(SourceError, match=r"skipped: 1 generated, 1 unknown kind"):
        await listed(tmp_path / "full")


async def test_bad_globs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="source docs: include holds a glob"):
        source(tmp_path, include=["!"])


async def test_a_file_that_vanished_is_left_out(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "b.md")
    item = source(tmp_path)
    listing = await item.listing()
    (tmp_path / "a.md").unlink()
    assert [document.path async for document in item.documents(listing, listing.fingerprints)] == ["b.md"]


async def test_links_are_filled_and_encoded(tmp_path: Path) -> None:
    fill(tmp_path, "a b/中{start}.md")
    (document,) = (await read(source(tmp_path, link="https://x.example/{path}#L{start}-L{end}"))).values()
    assert document.url == "https://x.example/a%20b/%E4%B8%AD%7Bstart%7D.md#L{start}-L{end}"
    (document,) = (await read(source(tmp_path))).values()
    assert document.url == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"\xef\xbb\xbfcaf\xc3\xa9", "café"),
        (b"caf\xe9 \xff", "caf\ufffd \ufffd"),
        ("héé".encode("utf-16"), "héé"),
        (b"\xfe\xff" + "中".encode("utf-16-be"), "中"),
        ("中é".encode("utf-32"), "中é"),
        (b"\xff\xfea", "\ufffd"),
    ],
)
def test_bytes_become_text(data: bytes, text: str) -> None:
    assert unusable_reason(data) == ""
    assert decode(data) == text


def test_zero_bytes_are_binary_wherever_they_stand() -> None:
    assert unusable_reason(b"x" * 100_000 + b"\0") == "binary"


async def test_a_page_holds_what_it_includes(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    fill(folder, "private/b.md", ".hidden/c.md", "big.md", "usage/sub.rst.inc", "_part.md", "own.md")
    (folder / "usage/page.rst").write_text("Usage\n=====\n\n.. include:: sub.rst.inc\n\nEnd.\n")
    names = ("_part.md", "own.md", "private/b.md", ".hidden/c.md", "big.md", "../outside.md", "link.md")
    (folder / "page.md").write_text("\n".join(f'--8<-- "{name}"' for name in names))
    (folder / "_part.md").write_text("part\n")
    (folder / "own.md").write_text("own\n")
    (folder / "big.md").write_text("x" * 3000)
    (tmp_path / "outside.md").write_text("outside")
    (folder / "link.md").symlink_to(tmp_path / "outside.md")
    item = source(folder, exclude=["private/"], max_file_kb=2)
    listing = await item.listing()
    documents = await read(item)
    assert set(documents) == {"own.md", "page.md", "usage/page.rst"}
    assert documents["page.md"].text.split("\n")[:2] == ["part", "own"]
    assert "--8<--" in documents["page.md"].text
    assert not any(secret in documents["page.md"].text for secret in ("outside\n", "xxx", "text"))
    assert documents["usage/page.rst"].text.split() == ["Usage", "=====", "text", "End."]
    assert documents["usage/page.rst"].lines[-2:] == (6, 7)
    assert listing.skipped["part of other pages"] == 1
    (folder / "usage/sub.rst.inc").write_text("changed")
    changed = await item.listing()
    assert {path for path, value in changed.fingerprints.items() if listing.fingerprints[path] != value} == {
        "usage/page.rst"
    }


async def test_a_changed_title_changes_the_pages_that_refer_to_it(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text(".. _ports:\n\nPorts\n=====\n", "utf-8")
    (tmp_path / "b.rst").write_text(".. include:: c.inc\n", "utf-8")
    (tmp_path / "c.inc").write_text("See :ref:`ports`.\n", "utf-8")
    (tmp_path / "d.rst").write_text("See nothing.\n", "utf-8")
    item = source(tmp_path)
    listing = await item.listing()
    assert (await read(item))["b.rst"].names == {"ports": "Ports"}
    (tmp_path / "a.rst").write_text(".. _ports:\n\nAll ports\n=========\n", "utf-8")
    changed = await item.listing()
    different_paths = {path for path, text in changed.fingerprints.items() if listing.fingerprints[path] != text}
    assert different_paths == {"a.rst", "b.rst"}
    assert (await read(item))["b.rst"].names == {"ports": "All ports"}


async def test_titles_that_change_places_change_the_page(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("{doc}`one` and {doc}`two`\n", "utf-8")
    (tmp_path / "one.md").write_text("# Plan\n", "utf-8")
    item = source(tmp_path)
    before = (await item.listing()).fingerprints["page.md"]
    (tmp_path / "one.md").rename(tmp_path / "two.md")
    assert (await item.listing()).fingerprints["page.md"] != before


async def test_a_value_that_is_no_text_costs_no_page(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text('myst_substitutions = {"half": "\\ud800", "whole": "Rocket"}\n', "utf-8")
    (tmp_path / "page.md").write_text("{{ half }} and {{ whole }}\n", "utf-8")
    item = source(tmp_path)
    assert (await read(item))["page.md"].names == {"{{half": "\ufffd", "{{whole": "Rocket"}
    assert (await item.listing()).fingerprints.keys() == {"conf.py", "page.md"}


async def test_a_printed_document_has_the_pages_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(write_pdf("It runs.", "It stops."))
    document = (await read(source(tmp_path)))["a.pdf"]
    assert dict(zip(document.text.split("\n"), document.pages, strict=True)) == {
        "# Page 1": 1,
        "It runs.": 1,
        "": 2,
        "# Page 2": 2,
        "It stops.": 2,
    }
