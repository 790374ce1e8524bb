"""What a source is about is not told by the titles of documents, and the names of modules, that it may not show now."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.security.test_closing_that_waits import CLOSED, PLAN, WAYS, Group, Way, fill, open_group, stack

__all__ = ["stack"]
TITLE = f"# Numbat comes on the first of May\n\n{PLAN}\n"


async def get_titles(group: Group) -> str:
    await group.bot.live.overrides.load()
    library = group.bot.app.library.restricted_to({"docs"})
    return f"{library.titles()} {library.modules()}".lower()


async def get_new_titles(group: Group) -> str:
    """Return the titles once they were loaded again."""
    async with asyncio.timeout(60):
        while "launcher" not in (titles := await get_titles(group)):
            await asyncio.sleep(0.05)
    return titles


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["included", "private"])
async def test_no_title_of_what_was_closed_is_told(stack: AsyncExitStack, tmp_path: Path, way: Way, what: str) -> None:
    fill(tmp_path)
    kb = tmp_path / "kb"
    (kb / "docs" / "launcher.md").write_text("# The launcher\n\nThe launcher has a button.\n")
    if what == "included":
        (kb / "team" / "plan.md").write_text(TITLE)
        (kb / "docs" / "start.md").write_text('--8<-- "team/plan.md"\n')
    else:
        (kb / "docs" / "write.md").write_text(TITLE)
    docs = {"kind": "files", "path": kb, "include": ["docs/**"]}
    group = await open_group(stack, tmp_path, docs=docs)
    assert "numbat" in await get_titles(group)
    if what == "private":
        group.options = {"prompts": {"write": str(kb / "docs" / "write.md")}}
        await group.change(way, docs=docs)
    else:
        await group.change(way, docs=docs, team={"kind": "files", "path": kb / "team", **CLOSED})
    assert "numbat" not in await get_titles(group)
    assert "numbat" not in await get_new_titles(group)
