from __future__ import annotations

import pytest

from core.language.follow_ups import depends_on_history, expand_with_history, get_author_turns
from core.types import Turn

HISTORY = (
    Turn("user", "How do I configure the vector store of AgentScope?", "Ann", "1"),
    Turn("assistant", "AgentScope takes a `VectorStore` object [1]."),
)


def test_a_follow_up_carries_the_terms_of_the_conversation() -> None:
    query = expand_with_history("How do I delete it?", HISTORY)
    assert query.startswith("How do I delete it?")
    assert {"vector", "store", "agentscope"} <= set(query.lower().split())


def test_a_question_that_stands_alone_is_left_as_it_is() -> None:
    question = "Which Python versions does the installer of LanceDB support on Windows?"
    assert expand_with_history(question, HISTORY) == question


def test_without_a_conversation_nothing_is_added() -> None:
    assert expand_with_history("And then?", ()) == "And then?"


def test_what_somebody_else_asked_is_not_carried_over() -> None:
    history = (
        *HISTORY,
        Turn("user", "Where are the Kubernetes manifests?", "Bob", "2"),
        Turn("assistant", "In deploy."),
    )
    query = expand_with_history("How do I delete it?", get_author_turns(history, "1"))
    assert "kubernetes" not in query
    assert "vector" in query


def test_only_the_last_subject_is_carried() -> None:
    history = (
        *HISTORY,
        Turn("user", "How do pipelines stream tokens?", "Ann", "1"),
        Turn("assistant", "With a generator."),
    )
    added = expand_with_history("Why is it slow?", history).removeprefix("Why is it slow?").split()
    assert added == ["pipelines", "stream", "tokens"]


@pytest.mark.parametrize("question", ["那它怎么用？", "and on Windows?", "why?", "What about those?"])
def test_leaning_questions_are_recognised(question: str) -> None:
    assert depends_on_history(question)
