"""Jupyter notebooks: prose, code in its language, short output; old versions too."""

from __future__ import annotations

import json

import pytest

from knowledge.formats.notebook import read_notebook
from knowledge.parsing.limits import FormatError


def notebook(*cells: object, **metadata: object) -> str:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})


def code(source: str | list[str], *outputs: object) -> object:
    return {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": source, "outputs": outputs}


def printed(text: str, name: str = "stdout") -> object:
    return {"output_type": "stream", "name": name, "text": text.splitlines(keepends=True)}


def result(**data: str) -> object:
    return {"output_type": "execute_result", "data": {key.replace("_", "/"): value for key, value in data.items()}}


@pytest.mark.parametrize(
    ("metadata", "source", "language"),
    [
        ({"kernelspec": {"language": "julia"}}, "x", "julia"),
        ({"language_info": {"name": "R"}}, "x", "r"),
        ({}, "x", "python"),
        ({"language_info": {"name": "python"}}, "%%bash\nls", "bash"),
        ({}, "%%time\nx", "python"),
    ],
)
def test_code_is_in_the_language_of_its_kernel(metadata: dict[str, object], source: str, language: str) -> None:
    assert read_notebook(notebook(code(source), **metadata)) == f"```{language}\n{source}\n```"


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([printed("took 3 s\n")], "took 3 s"),
        ([printed("\x1b[31mred\x1b[0m\n"), result(text_plain="42", text_html="<b>42</b>")], "red\n42"),
        ([printed("careful", "stderr")], ""),
        ([{"output_type": "error", "ename": "E", "evalue": "no", "traceback": ["no"]}], ""),
        ([result(image_png="iVBORw0KGgo=")], ""),
        ([result(image_png="iVBORw0KGgo=", text_plain="<Figure size 720x720 with 1 Axes>")], ""),
        ([printed("row\n" * 11)], ""),
        ([printed("x" * 900)], ""),
    ],
)
def test_output_is_kept_while_it_is_short(outputs: list[object], expected: str) -> None:
    output = f"\n\n```text\n{expected}\n```" if expected else ""
    assert read_notebook(notebook(code("run()", *outputs))) == f"```python\nrun()\n```{output}"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"nbsphinx": "hidden"}, ""),
        ({"tags": ["remove-cell"]}, ""),
        ({"tags": ["remove-output"]}, "```python\nrun()\n```"),
    ],
)
def test_what_a_page_hides_of_a_cell_is_left_out(metadata: dict[str, object], expected: str) -> None:
    cell = {"cell_type": "code", "metadata": metadata, "source": "run()", "outputs": [printed("took 3 s\n")]}
    assert read_notebook(notebook(cell)) == expected


def test_prose_is_markdown_without_pictures_of_the_file() -> None:
    prose = {
        "cell_type": "markdown",
        "metadata": {},
        "attachments": {"a.png": {"image/png": "iVBORw0KGgo="}},
        "source": "# Load\n\n![a](attachment:a.png) ![](data:image/png;base64,iVBOR) *Now* [load](https://example.org).",
    }
    text = read_notebook(notebook(prose, code(["```\n", "x"])))
    assert text == "# Load\n\n*Now* [load](https://example.org).\n\n````python\n```\nx\n````"


def test_what_a_cell_leaves_open_ends_with_it() -> None:
    prose = {"cell_type": "markdown", "source": "Run:\n\n```\nmake <!-- x"}
    hidden = {"cell_type": "code", "metadata": {"tags": ["remove-input"]}, "source": "import os"}
    after = {"cell_type": "markdown", "source": "# Next"}
    assert read_notebook(notebook(prose, hidden, after)) == "Run:\n\n```\nmake <!-- x\n```\n\n# Next"


def test_old_versions_are_read() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Load"},
        {
            "cell_type": "code",
            "language": "python",
            "input": "load()",
            "outputs": [{"output_type": "pyout", "text": "42"}],
        },
        {"cell_type": "markdown", "source": "First load it."},
    ]
    text = json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]})
    assert read_notebook(text) == "## Load\n\n```python\nload()\n```\n\n```text\n42\n```\n\nFirst load it."


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nbformat": 4, "cells": 7}', "[" * 9000])
def test_what_is_no_notebook_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        read_notebook(text)
