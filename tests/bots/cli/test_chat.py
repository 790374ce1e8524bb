"""`kimas chat` without a model: the second question is answered for itself."""

from __future__ import annotations

import pytest

from tests.support.deployment import Deployment

PAGES = {
    "groups": "Groups nest: a group may hold other groups, up to a depth of nine.",
    "password": "A password is read with the option prompt, which hides what is typed.",
    "progress": "A progress bar wraps any iterable and shows the time that is left.",
    "colour": "Coloured output is styled with the function style and reset at the end.",
    "config": "The configuration file is looked up in the home directory under settings.ini.",
    "testing": "Commands are tested with the runner, which captures output and the exit code.",
    "completion": "Shell completion is activated by sourcing a script in the profile of bash.",
    "license": "The license of the project is BSD with three clauses.",
    "editor": "The editor is opened on a temporary file with the function edit.",
    "plugins": "Plugins are discovered through entry points of installed packages.",
}
QUESTIONS = (
    ("How do I nest groups?", "How do I read a password?", "hides what is typed"),
    ("How do I read a password?", "How do I show a progress bar?", "wraps any iterable"),
    ("How do I show a progress bar?", "Where is the configuration file looked up?", "settings.ini"),
    ("Where is the configuration file looked up?", "How are commands tested?", "exit code"),
    ("How are commands tested?", "How do I activate shell completion?", "sourcing a script"),
    ("How do I activate shell completion?", "Which license does the project have?", "three clauses"),
    ("Which license does the project have?", "How do I open an editor?", "temporary file"),
    ("How do I open an editor?", "How are plugins discovered?", "entry points"),
    ("How are plugins discovered?", "How do I style coloured output?", "reset at the end"),
    ("How do I milk a giraffe?", "How do groups nest?", "depth of nine"),
)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    folder = tmp_path_factory.mktemp("second")
    docs = folder / "docs"
    docs.mkdir()
    for name, text in PAGES.items():
        (docs / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", "utf-8")
    deployment = Deployment(folder, {"sources": {"docs": {"kind": "files", "path": str(docs)}}})
    deployment.call("ingest")
    return deployment


@pytest.mark.parametrize(("first", "second", "expected"), QUESTIONS)
def test_the_second_question_is_answered_for_itself(
    deployment: Deployment, first: str, second: str, expected: str
) -> None:
    welcome, answers, first_answer, second_answer = (
        deployment.call("chat", stdin="".join(f"{line}\n" for line in lines)).stdout
        for lines in ((), (first, second), (first,), (second,))
    )
    assert expected in " ".join(second_answer.split())
    assert answers == first_answer + second_answer.removeprefix(welcome)


def test_forget_counts_what_was_said_in_this_conversation(deployment: Deployment) -> None:
    output = deployment.call("chat", stdin="How do I nest groups?\n/forget\n/forget\n").stdout
    assert "Forgotten: 1 message" in " ".join(output.split())
    assert output.count("Nothing to forget") == 1
