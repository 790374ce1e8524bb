"""A refresh beside which questions are answered leaves them the interpreter most of the time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field

from knowledge.ports import Document, Listing, Store
from knowledge.sync import refresh
from tests.knowledge.conftest import DictSource, WordEmbedder


@dataclass
class Asked(DictSource):
    """A source that notes down how long after each document it is asked for the next one, in seconds."""

    gaps: list[float] = field(default_factory=list)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        async for document in super().documents(listing, paths):
            began = time.monotonic()
            yield document
            self.gaps.append(time.monotonic() - began)


async def test_it_rests_twice_as_long_as_it_cut_a_document(
    store: Store, embedder: WordEmbedder, markdown: Callable[..., str]
) -> None:
    text = "\n\n".join(markdown(f"apple{number}", "pear") for number in range(300))

    async def gap(name: str, *, gently: bool) -> float:
        source = Asked(name, {"a.md": text})
        await refresh(source, store, embedder, chunk_tokens=200, gently=gently)
        [seconds] = source.gaps
        return seconds

    # By turns, so that the machine is as busy for the ones as for the others.
    plain, gentle = list[float](), list[float]()
    for number in range(3):
        plain.append(await gap(f"plain{number}", gently=False))
        gentle.append(await gap(f"gentle{number}", gently=True))
    assert min(gentle) > 2 * min(plain)
