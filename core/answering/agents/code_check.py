"""The check of an answer's code: names that it takes from a package of the sources, and that nothing there mentions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from core.answering.context import AnswerDependencies
from core.catalogue import messages_for
from core.citations.code_names import find_package_names
from core.errors import StoreError
from core.language.tokens import query_tokens
from core.observability.logs import get_logger
from core.runtime.budget import Budget

_log = get_logger(__name__)


async def mark_unknown_names(text: str, deps: AnswerDependencies, budget: Budget) -> str:
    """Return an answer with a note on the names of its code that the sources do not have.

    A name is unknown if no passage has it, whole, in any case. Where the store cannot count words, nothing is.
    """
    modules = deps.library.modules()
    names = find_package_names(text, modules)
    if not names:
        return text
    try:
        weights = await deps.library.term_weights(" ".join(names).replace(".", " "))
    except StoreError as error:
        budget.degrade("names", "failed")
        _log.warning("names.not_checked", error=str(error))
        return text
    unknown_names = [name for name in names if weights and not is_known(name, modules, weights)]
    if not unknown_names:
        return text
    _log.info("names.unknown", names=unknown_names)
    listed_names = ", ".join(f"`{name}`" for name in unknown_names)
    return f"{text.rstrip()}\n\n{messages_for(deps.prompts.language).unknown_names.format(names=listed_names)}"


def is_known(name: str, modules: Mapping[str, Collection[str]], weights: Mapping[str, float]) -> bool:
    """Return whether every part behind the package is a module of it or a word of some passage.

    The first token of a word is the whole of it.
    """
    package, *parts = name.split(".")
    return all(part in modules[package] or weights.get(query_tokens(part).partition(" ")[0]) for part in parts)
