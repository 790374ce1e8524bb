"""The check of an answer's code: names and arguments that a package of the sources is to have, and has not."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from core.answering.context import AnswerDependencies
from core.catalogue import messages_for
from core.citations.code_names import ANY_ARGUMENT, find_named_arguments, find_package_names, find_parameters
from core.errors import StoreError
from core.language.tokens import query_tokens
from core.observability.logs import get_logger
from core.ports import Library
from core.runtime.budget import Budget

_log = get_logger(__name__)

# A name that so many passages have may be defined in others too.
MAX_DEFINITIONS = 50
# Each takes a search.
MAX_CALLEES = 20


async def mark_unknown_names(text: str, deps: AnswerDependencies, budget: Budget) -> str:
    """Return an answer with a note on the names and arguments of its code that the sources do not have.

    A name is unknown if no passage has it, whole, in any case; an argument if the definitions that passages have of
    what is called name all of theirs, without this one. Where the store cannot count words, no name is. A
    look-up that is late names nothing.
    """
    modules = deps.library.modules()
    names = find_package_names(text, modules)
    if not names:
        return text
    arguments = find_named_arguments(text, modules)
    try:
        unknown = await budget.run_stage("names", _find_unknown(names, arguments, deps.library), list)
    except StoreError as error:
        budget.degrade("names", "failed")
        _log.warning("names.not_checked", error=str(error))
        return text
    if not unknown:
        return text
    _log.info("names.unknown", names=unknown)
    listed_names = ", ".join(f"`{name}`" for name in unknown)
    return f"{text.rstrip()}\n\n{messages_for(deps.prompts.language).unknown_names.format(names=listed_names)}"


async def _find_unknown(names: Sequence[str], arguments: Sequence[tuple[str, str]], library: Library) -> list[str]:
    modules = library.modules()
    weights = await library.term_weights(" ".join(names).replace(".", " "))
    unknown_names = [name for name in names if weights and not is_known(name, modules, weights)]
    callees = list(dict.fromkeys(name for name, _ in arguments))[:MAX_CALLEES]
    found_parameters = await asyncio.gather(*(_find_parameters(name, library) for name in callees))
    parameters = dict(zip(callees, found_parameters, strict=True))
    return unknown_names + [
        f"{name}({argument}=)"
        for name, argument in arguments
        if parameters.get(name) and parameters[name].isdisjoint((argument, ANY_ARGUMENT))
    ]


async def _find_parameters(name: str, library: Library) -> frozenset[str]:
    """Return the parameters of all definitions of a name; any where more passages have it than are searched."""
    own_name = name.rpartition(".")[2]
    passages = (await library.match_words(own_name, MAX_DEFINITIONS)).passages
    if len(passages) >= MAX_DEFINITIONS:
        return frozenset({ANY_ARGUMENT})
    code = (passage.text for passage in passages if passage.kind == "python")
    return frozenset[str]().union(*(find_parameters(text, own_name) for text in code))


def is_known(name: str, modules: Mapping[str, Collection[str]], weights: Mapping[str, float]) -> bool:
    """Return whether every part behind the package is a module of it or a word of some passage.

    The first token of a word is the whole of it.
    """
    package, *parts = name.split(".")
    return all(part in modules[package] or weights.get(query_tokens(part).partition(" ")[0]) for part in parts)
