"""Docstrings: what their authors take from reStructuredText."""

from __future__ import annotations

import pytest

from core.markup.docstrings import translate_docstring
from core.markup.document import Block
from core.markup.markdown import read_markdown


def read_docstring(text: str) -> tuple[Block, ...]:
    return read_markdown(translate_docstring(text), has_indented_code=False)


LONG = """\
.. _label:

Title
=====

.. note:: This is important to know.

.. code-block:: python
   :caption: x

   run()

Example::

    tarn serve

>>> run()
1

:param host: The host to connect to.
:returns: A session.

- A real item

..
   A hidden comment: the codename is Falcon.

.. hidden as well

```
.. note:: code
```
"""


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("Set :setting:`DEBUG` as :ref:`shown <x>`, not ``off``.", "Set `DEBUG` as shown, not `off`."),
        ("A <b>bold</b> <br/>word\\_here [#note]_", "A bold\nword\\_here"),
        ("`Tarn <https://tarn.org>`_ is |small|.", "Tarn is small."),
        ("Read ``it``\\ s name in C:\\x", "Read `it`s name in C:\\x"),
        ("As follows::", "As follows:"),
    ],
)
def test_no_markup_is_left(markup: str, text: str) -> None:
    [block] = read_docstring(markup)
    assert block.text == text


def test_directives_fields_and_literal_blocks_are_read() -> None:
    blocks = [(block.kind, block.text) for block in read_docstring(LONG)]
    assert blocks == [
        ("heading", "Title"),
        ("paragraph", "This is important to know."),
        ("code", "run()"),
        ("paragraph", "Example:"),
        ("code", "tarn serve"),
        ("code", ">>> run()\n1"),
        ("paragraph", "`host`: The host to connect to."),
        ("paragraph", "A session."),
        ("list", ""),
        ("code", ".. note:: code"),
    ]


def test_what_a_directive_describes_is_named_in_its_text() -> None:
    text = ".. class:: tarn.ProxyRing(size=3)\n   :module: tarn\n\n   Sets the proxy.\n\n   It is small.\n\nAfter it."
    assert [block.text for block in read_docstring(text)] == [
        "`ProxyRing`: Sets the proxy.",
        "It is small.",
        "After it.",
    ]


def test_what_is_indented_below_a_section_is_prose() -> None:
    assert [block.kind for block in read_docstring("Returns:\n\n    A session.\n\n    It is new.")] == ["paragraph"] * 3


@pytest.mark.parametrize("depth", [3, 300])
def test_nested_directives_keep_their_text(depth: int) -> None:
    text = "".join(f"{' ' * level}.. note::\n\n" for level in range(depth)) + " " * depth + "Deep inside."
    assert "Deep inside." in read_docstring(text)[-1].text
