"""What the tools of one client reach: the sources that it may see, the search in them, and answers from them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bots.api.requests import read_text
from bots.common.passage_search import search_passages
from bots.common.reply_json import passage_as_json
from core.answering.context import AnswerDependencies
from core.answering.withholding import make_filter
from core.errors import UsageError
from core.formatting import shorten
from core.language.tokens import estimate_tokens
from core.settings.base import API_PLATFORM
from core.types import Passage, Reply

if TYPE_CHECKING:
    from core.language.word_filter import WordFilter

# In the scope of a request: the list of what raises once its response may not be told any more.
JUDGES = "kimas.judges"
DEFAULT_LIMIT = 8
MAX_LIMIT = 50
MAX_OFFSET = 200
# Some clients cut a result at three times as much, or put it into a file.
MAX_RESULT_TOKENS = 8000
# A passage of a live source may be longer than all others together.
MAX_PASSAGE_CHARS = 8000


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What one client reaches. `deps` has nothing but what it may see; `ask` answers a question from the same.

    `labels` say what its sources read, as these may be other ones under the same names later.
    """

    deps: AnswerDependencies
    ask: Callable[[str], Awaitable[Reply]]
    labels: frozenset[str] = frozenset()

    def is_within(self, later: Knowledge) -> bool:
        """Return whether all of it may still be told of when a client reaches something else, by the same words."""
        settings, settings_now = self.deps.settings, later.deps.settings
        has_sources = settings.sources.keys() <= settings_now.sources.keys() and self.labels <= later.labels
        return has_sources and settings.outgoing == settings_now.outgoing

    async def search(self, arguments: Mapping[str, Any]) -> str:
        """Return passages as compact JSON of a bounded size: whole ones, and how many more there are.

        Raises `InvalidRequest`, and `KimasError` when no source can be searched.
        """
        query = read_text(arguments, "query")
        limit = _read_number(arguments, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        offset = _read_number(arguments, "offset", 0, 0, MAX_OFFSET)
        # One more than is asked for tells whether there are more.
        result = await search_passages(self.deps, query, offset + limit + 1)
        sayable = await asyncio.to_thread(self._keep_sayable, result.passages)
        passages = _fit(sayable[offset : offset + limit])
        values: dict[str, Any] = {"passages": passages}
        next_offset = offset + len(passages)
        if len(sayable) > next_offset and next_offset <= MAX_OFFSET:
            values["next_offset"] = next_offset
        if result.errors_by_agent:
            values["failed"] = list(result.errors_by_agent)
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    @property
    def words(self) -> WordFilter | None:
        """What finds the words that may not leave (section `outgoing`); None where there are none."""
        return make_filter(self.deps.settings.outgoing, API_PLATFORM)

    def _keep_sayable(self, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages without words that may not leave."""
        words = self.words
        if words is None:
            return passages
        return [item for item in passages if not words.find(f"{item.title}\n{item.path}\n{item.url}\n{item.text}")]

    def describe_source(self, name: str) -> Mapping[str, Any]:
        """Return what a source is about. Raises `UsageError` for one that the client may not see, or that is none."""
        source = self.deps.settings.sources.get(name)
        if source is None:
            raise UsageError(f"there is no source {name[:100]!r}")
        agents = [name_ for name_, agent in self.deps.settings.retrieval_agents().items() if name in agent.sources]
        library = self.deps.library
        words = self.words
        titles = [title for agent in agents for title in library.titles().get(agent, ())]
        return {
            "name": name,
            "kind": source.kind,
            "agents": agents,
            "languages": sorted({code for agent in agents for code in library.languages().get(agent, ())}),
            "titles": [title for title in titles if not (words and words.find(title))],
        }


# What a client reaches, by its name. Raises `KimasError`.
OpenKnowledge = Callable[[str], Awaitable[Knowledge]]


def _fit(passages: Sequence[Passage]) -> list[Mapping[str, Any]]:
    """Return as many passages as a result may have."""
    fitting: list[Mapping[str, Any]] = []
    tokens = 0
    for passage in passages:
        value = {
            **passage_as_json(passage),
            "title": passage.title,
            "text": shorten(passage.text, MAX_PASSAGE_CHARS),
        }
        tokens += estimate_tokens(json.dumps(value, ensure_ascii=False))
        if fitting and tokens > MAX_RESULT_TOKENS:
            break
        fitting.append(value)
    return fitting


def _read_number(arguments: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name} has to be a whole number from {least} to {most}")
    return value
