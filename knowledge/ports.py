"""The Protocols of the knowledge package: where documents come from, what makes vectors, where passages live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# As a text: worker processes, which cut documents, do without NumPy.
Vectors: TypeAlias = "NDArray[np.float32]"
# Of more vectors than these a sample says as well what a source is about: 30 MB of 384 numbers each.
MAX_SAMPLED_VECTORS = 20_000
# Many models want to be told which of the two a text is.
TextKind = Literal["query", "passage"]
# Names of sources are words with hyphens and underscores.
LABEL_SUFFIX = "#label"


@dataclass(frozen=True, slots=True)
class Listing:
    """The current content of a source: a fingerprint per path (a hash of the content) and what was passed over.

    `revision` names the state (a commit for git). `skipped` counts by reason ("binary", "too large", ...). `stale` is
    empty, or says why the listing is not the newest (a remote that cannot be reached). `unreadable` names documents
    that were passed over because they cannot be read, with the reason. `is_refused`: it is stale because the service
    lets us see nothing any more.
    """

    fingerprints: Mapping[str, str]
    revision: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)
    stale: str = ""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a source. `kind` is how to chunk it: markdown, rst, python, a language's name, faq or text.

    `url` may carry the placeholders `{start}` and `{end}`, filled with each chunk's line range. `edition` tells it from
    others of the same path, such as the same file in another branch; the titles of all its passages carry it.
    `unreadable_reason` is empty, or says why the document has no text. `lines` is empty; where the text holds other
    files that the document includes, it has the line of the document for each line of the text. `names` are the titles
    of what its references lead to in other files, by the references as they are written. `pages` is empty; of a printed
    document it has the page, from 1, for each line of the text.
    """

    path: str
    text: str
    kind: str
    title: str = ""
    url: str = ""
    edition: str = ""
    unreadable_reason: str = ""
    lines: tuple[int, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    pages: tuple[int, ...] = ()

    def get_line(self, number: int) -> int:
        """Return the line of the document for a line of its text."""
        return self.lines[min(number, len(self.lines)) - 1] if self.lines and number else number

    def get_page(self, number: int) -> int:
        """Return the page on which a line of the text is printed; 0 where there are no pages."""
        return self.pages[min(number, len(self.pages)) - 1] if self.pages and number else 0

    def get_link(self, start: int, end: int) -> str:
        """Return the link to lines of the document; where it has pages, to that of the first line.

        >>> Document("a.pdf", "One.", "markdown", url="https://x.org/a.pdf#L{start}", pages=(3,)).get_link(1, 1)
        'https://x.org/a.pdf#page=3'
        """
        address, _, place = self.url.partition("#")
        page = self.get_page(start)
        if page and address and (not place or "{start}" in place):
            return f"{address}#page={page}"
        return self.url.replace("{start}", str(start)).replace("{end}", str(end))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document. Lines are 1-based, inclusive; `title` is the heading path or enclosing definition.

    `kind` is that of the text where it is not the document's: a tutorial script is prose.
    """

    text: str
    title: str
    start_line: int
    end_line: int
    kind: str = ""


class Source(Protocol):
    """One body of knowledge."""

    name: str

    async def listing(self) -> Listing:
        """Fetch what is new and list it. Raises `SourceError` when there is nothing usable at all."""
        ...

    def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield these paths of that listing, in any order. A path that vanished meanwhile is left out."""
        ...


@runtime_checkable
class LargeSource(Source, Protocol):
    """A source whose listing takes long, so that some of its documents are read before it."""

    async def beginning(self) -> Listing | None:
        """List some documents that are soon listed; None where `listing` is soon done. Raises `SourceError`."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors. `name` identifies the model: vectors of different names never meet in one store."""

    name: str
    dimension: int

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        """Return unit vectors, shape (len(texts), dimension), float32. Raises `EmbeddingError`.

        A row may be NaN for a blank text, and is for one that the model refuses while it takes others.
        """
        ...

    async def warm_up(self) -> None:
        """Load what the first query would otherwise wait for; send nothing, and raise nothing."""
        ...

    def vocabulary_coverage(self, text: str) -> float:
        """Return which share of the text's tokens the model knows (0 to 1): below a half its vectors mean little."""
        ...

    async def close(self) -> None:
        """Free the model or the connection. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A passage as a store keeps it: with the fingerprint of its document, its lexical tokens and its vector.

    The vector is None until it is made, and zero for a text that the embedding model refuses.
    """

    passage: Passage
    fingerprint: str
    tokens: str
    vector: Vectors | None = None


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document in a store: its fingerprint and its number of passages (0 for an empty document).

    One that has lost some of its passages has an empty fingerprint, so that it is read again. `unfilled_count` passages
    have no vector yet.
    """

    fingerprint: str
    passage_count: int
    unfilled_count: int = 0

    @property
    def is_damaged(self) -> bool:
        """Return whether some of its passages are missing."""
        return not self.fingerprint


def label_name(source: str) -> str:
    """Return under which name a store keeps for whom a source was stored: the path of a document without passages.

    No source has such a name. It stands in the store itself: a backup that comes back brings its own.

    >>> label_name("docs")
    'docs#label'
    """
    return f"{source}{LABEL_SUFFIX}"


@dataclass(frozen=True, slots=True)
class StoreOwner:
    """The deployment that a store on a server belongs to, by its id.

    `sources` are those that it has or had. Where `is_named`, the configuration says that the store is its own.
    """

    id: str
    sources: frozenset[str] = frozenset()
    is_named: bool = False


class CopyOrigin(Protocol):
    """A store from which passages can be copied with their vectors."""

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        ...

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[PassageRow]:
        """Return the rows of these paths of a source."""
        ...


class SearchableStore(CopyOrigin, Protocol):
    """What questions need of a store."""

    async def filled(self, sources: Collection[str]) -> Set[str]:
        """Return those of these sources that have passages. Raises `StoreError` where that cannot be known now."""
        ...

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, unordered.

        Every passage carries both of its true scores; the cosine is 0 for one that has no vector. `vector` None
        searches by tokens alone.
        """
        ...

    async def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Return the IDF of each token over all passages, as BM25 has it; empty where the store cannot count them.

        With `sources`, a token that no passage of theirs has weighs what a word weighs that no passage has at all.
        """
        ...

    async def vectors(self, source: str) -> Vectors:
        """Return the vectors of a source, shape (passages with one, dimension), for the routing centroids.

        Of a source with more than `MAX_SAMPLED_VECTORS` an even sample is enough, the same for the same passages.
        """
        ...


class Store(SearchableStore, Protocol):
    """Where passages live. Every write is atomic: a reader sees a document's old rows or its new ones, never a mix."""

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        """In one commit: these paths of the source now consist of exactly these rows (none: they are deleted).

        `empty` names documents without a passage by path, with their fingerprints, so that the manifest knows them.
        Raises `StoreError` (disk full, damaged), after which the old rows are still there.
        """
        ...

    async def optimize(self) -> None:
        """Bring files and indexes up to date after writes: without it searches are slower and BM25 less exact."""
        ...

    async def close(self) -> None:
        """Let go of the files or the connection. Idempotent."""
        ...
