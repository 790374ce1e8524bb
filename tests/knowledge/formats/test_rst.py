"""reStructuredText as blocks: what docutils knows, what Sphinx adds, and what nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from core.markup.document import Block
from core.markup.writer import write_markdown
from knowledge.formats.rst import read_rst
from knowledge.parsing.limits import FormatError


def read(text: str) -> str:
    return write_markdown(read_rst(text))


def walk(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        yield from walk(block.children)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("..\n   The codename is Falcon.\n\nIt starts.", "It starts."),
        ("It starts.\n\n.. Another comment: the password is swordfish.\n\nIt ends.", "It starts.\n\nIt ends."),
        ("a\n\n..\n\nb", "a\n\nb"),
        (".. _label:\n\nHeading\n=======\n\n.. |x| replace:: the *x*\n\nSee |x| and |version|.",
         "# Heading\n\nSee the *x* and version."),
        (":orphan:\n\nText", "Text"),
        (":html_theme.sidebar_secondary.remove: true\n\nText", "Text"),
        (".. toctree::\n   :maxdepth: 2\n\n   guide\n   api\n\nText", "Text"),
        (".. raw:: html\n\n   <video src='x'></video>\n\n.. contents:: Here\n\n.. index:: pair: a; b\n\nText", "Text"),
        (".. include:: /etc/passwd\n\nText", "Text"),
        (".. csv-table::\n   :file: /etc/passwd\n\nText", "Text"),
        ("Text [1]_ here.\n\n.. [1] The note.", "Text (The note.) here."),
        ("- J. Smith\n- Ann\n- P. L. Lim", "- J. Smith\n- Ann\n- P. L. Lim"),
        ("- A) one\n- B) two", "- A) one\n- B) two"),
        ("A. Smith", "A. Smith"),
        ("a. one\nb. two", "1. one\n2. two"),
        ("Then:\n\nc. *go* on\n\n   there\nd. end", "Then:\n\nc. *go* on\n\nthere\n\nd. end"),
        ("a. first\nb. second\n\n3. third", "1. first\n2. second\n\n3. third"),
    ],
)  # fmt: skip
def test_what_nobody_sees_is_no_content(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("``a*b`` and *c* and **d**", "`a*b` and *c* and **d**"),
        ("2 * 3, f(*args), <name>, a_b", "2 * 3, f(*args), \\<name>, a_b"),
        (":ref:`the guide <x>` :py:func:`~os.path.join` :class:`!Lock` :term:`node`", "the guide `join()` `Lock` node"),
        (":class:`~@AsyncResult` :func:`~solve` :file:`~/.bashrc`", "`@AsyncResult` `solve()` `~/.bashrc`"),
        ("See :any:`a.solve` and :any:`the way <a.solve>`.", "See `a.solve` and `the way`."),
        (":unknown-role:`kept text` :kbd:`Ctrl+C` :menuselection:`File --> Save`", "kept text `Ctrl+C` File → Save"),
        (":rfc:`9309` :samp:`print({x})` :guilabel:`&Open`", "RFC 9309 `print(x)` Open"),
        ("conda_ and `the site <https://a.example/b>`_ and `here`__\n\n.. _conda: https://conda.io\n__ https://c.example",
         "[conda](https://conda.io) and [the site](https://a.example/b) and [here](https://c.example)"),
        (f"`Try it <https://a.example/#{'eN_q' * 80}>`_ now", "Try it now"),
        ("`a page <page.html>`_ and missing_ and https://a.example/", "a page and missing and https://a.example/"),
        (".. role:: red\n\n:red:`hot` :raw-html:`<br/>`", "hot"),
        (".. |a| replace:: |b| |b|\n.. |b| replace:: |a| |a|\n\n|a|!", "!"),
        ("A `mark that nothing closes", "A `mark that nothing closes"),
    ],
)  # fmt: skip
def test_marks_become_those_of_markdown(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "language", "code"),
    [
        ("Run::\n\n  x = 1\n\n    y", "", "x = 1\n\n  y"),
        (".. code-block:: Python\n   :linenos:\n\n   import os", "python", "import os"),
        (".. code-block:: bash\n   cd x", "bash", "cd x"),
        (".. code-block::\n\n   :x: 1", "", ":x: 1"),
        (".. prompt:: bash $\n\n   apt install x", "bash", "apt install x"),
        (".. click:run::\n\n   invoke(hello)", "python", "invoke(hello)"),
        (".. ipython:: python\n   :okwarning:\n\n   ds.mean()", "python", "ds.mean()"),
        (">>> 1 + 1\n2", "python", ">>> 1 + 1\n2"),
        (".. highlight:: yaml\n\n::\n\n  a: 1", "yaml", "a: 1"),
        (".. parsed-literal::\n\n   pip install *x*", "", "pip install *x*"),
        (".. math::\n\n   a^2", "math", "a^2"),
        ("=====  ===\nbad table\n=====\n", "", "=====  ===\nbad table\n====="),
        (".. csv-table::\n   :header-rows: many\n\n   a, b", "", "a, b"),
    ],
)
def test_code_has_its_language(text: str, language: str, code: str) -> None:
    block = next(block for block in read_rst(text) if block.kind == "code")
    assert (block.language, block.text) == (language, code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".. note:: One\n   and two.\n\n   Three.", "> **Note**\n>\n> One and two.\n>\n> Three."),
        (".. admonition:: Mind *this*\n\n   Text.", "> **Mind *this***\n>\n> Text."),
        (".. versionadded:: 1.2 A new way.", "> **Added in 1.2**\n>\n> A new way."),
        (".. deprecated:: 3.0", "> **Deprecated since 3.0**"),
        (".. option:: -v\n            --verbose\n\n   Says more.", "**`-v`, `--verbose`**: Says more."),
        (".. py:function:: run(*args)\n   :x: x\n\n   Runs.\n\n   :param int port: a port\n   :raises OSError: no",
         "**`run(*args)`**: Runs.\n\n**`port`**: a port\n\n**Raises `OSError`**: no"),
        (".. confval:: html_theme\n\n   The theme.", "**`html_theme`**: The theme."),
        (".. confval:: a\n   :type: ``str``\n   :default: ``'b'``\n   :no-index:\n\n   It is.",
         "**`a`**: Type: `str`; Default: `'b'`\n\nIt is."),
        (".. confval:: a\n   :default: none\n\n   It is.", "**`a`**: Default: none\n\nIt is."),
        (".. py:data:: a\n   :no-index:\n   :module: b\n\n   It is.", "**`a`**: It is."),
        (".. http:get:: /users\n\n   All users.\n\n   :query int page: b\n   :>json string name: c\n   :form a: d",
         "**`GET /users`**: All users.\n\n**Query parameter `page` (int)**: b\n\n"
         "**Response JSON `name` (string)**: c\n\n**Form parameter `a`**: d"),
        (".. grid:: 2\n\n   .. grid-item:: **Before**\n\n      It grew.", "**Before**: It grew."),
        (".. grid:: 1 2\n\n   .. card::\n\n      **A**\n      ^^^\n      One :octicon:`a;1em` and :fas:`b` two.\n"
         "      +++\n      .. button-ref:: a\n\n         Go", "**A**\n\nOne and two.\n\nGo"),
        (".. signature::\n   copy(FROM\n     <file>)\n   copy(TO <file>)\n   :target: FROM\n\n   It copies.",
         "**`copy(FROM <file>)`, `copy(TO <file>)`**: It copies."),
        (".. py:function:: run(a) \\\n     -> int\n   stop()\n\n   Both.", "**`run(a) -> int`, `stop()`**: Both."),
        (":variable:`A_<LANG>_<TYPE>`, :genex:`$<PREFIX>`, :a:`NAME <A_<LANG>>`, :issue:`this one<7>`, :ref:`__x__<y>`",
         "A\\_\\<LANG>\\_\\<TYPE>, $\\<PREFIX>, NAME, this one, \\_\\_x\\_\\_"),
        (".. autoclass:: a.B\n   :members:\n\nText", "Text"),
        (".. class:: Builder\n\n   Builds.\n\n.. class:: a.run(b)\n\n   Runs.",
         "**`Builder`**: Builds.\n\n**`a.run(b)`**: Runs."),
        (".. py:class:: thing\n\n   It is.\n\n.. cpp:class:: x\n\n   An x.", "**`thing`**: It is.\n\n**`x`**: An x."),
        (".. class:: special\n\nText\n\n.. rst-class:: Wide", "Text"),
        (".. nobody-knows-it:: A title\n   :option: x\n\n   Its *text*.", "**A title**: Its *text*."),
        (".. nobody-knows-it::\n\n   - a\n   - b", "- a\n- b"),
        (".. only:: html\n\n   Text.", "Text."),
        (".. tabs::\n\n   .. tab:: Linux\n\n      Run it.\n\n   .. code-tab:: bash Mac OS\n\n      brew install x",
         "**Linux**\n\nRun it.\n\n**Mac OS**\n\n```bash\nbrew install x\n```"),
        (".. tab-set::\n   :sync-group: os\n\n   .. tab-item:: Fedora\n      :sync: f\n\n      dnf it",
         "**Fedora**\n\ndnf it"),
        ("term : kind\n   What it is.\n\nother\n   Else.", "**term (kind)**: What it is.\n\n**other**: Else."),
        (".. glossary::\n\n   a\n   b\n      Both.\n\n   c\n      Alone.", "**a, b**: Both.\n\n**c**: Alone."),
        (".. glossary::\n   :sorted:\n\n   a : x\n       It is.\n\n      Still *a*\n       here.\n\n   .. no\n\n   b",
         "**a**: It is.\n\nStill *a* here.\n\n**b**"),
        ("-a FILE  reads\n--bee    buzzes", "**`-a FILE`**: reads\n\n**`--bee`**: buzzes"),
        ("| one\n|   two", "one  \ntwo"),
        (".. autosummary::\n   :toctree: x\n\n   Run\n   ~Run.stop\n\n   .. Run.wait", "- `Run`\n- `Run.stop`"),
        (".. jupyter-execute::\n   :hide-code:\n\n   import x\n\nText", "Text"),
        (".. _here:\n\nThe Part\n--------\n\nSee :ref:`here`, :ref:`other-part` and :doc:`/guide/first-steps`.",
         "# The Part\n\nSee The Part, other part and first steps."),
        ("Call :attr:`.Run.name` of :file:`.env`.", "Call `Run.name` of `.env`."),
        ("3. a\n#. b\n\n   - c\n", "3. a\n4. b\n   - c"),
        ("0. a\n1. b\n", "0. a\n1. b"),
        ("Text\n\n   A quotation.\n\n   -- Ada", "Text\n\n> A quotation.\n>\n> — Ada"),
        ("a\n\n----\n\nb", "a\n\n---\n\nb"),
        (".. figure:: a.png\n\n   The caption.\n\n   The legend.", "The caption.\n\nThe legend."),
        (".. rubric:: Notes", "**Notes**"),
        ("It is [1]_. A\\ [#]_, b [#n]_ and c [*]_.\n\n.. [#n] Named.\n.. [#] *So*.\n.. [1] One.\n.. [*] Star.",
         "It is (One.). A (*So*.), b (Named.) and c (Star.)."),
        ("It is [1]_, or [2]_.\n\n.. [1] One.\n\n   More.\n.. [2] See [1]_.", "It is, or.\n\nOne.\n\nMore.\n\nSee."),
        (f"{'It is [1]_. ' * 6}\n\n.. [1] One.", f"{'It is. ' * 6}".strip() + "\n\nOne."),
        (f"It is [1]_.\n\n.. [1] {'x' * 400}", f"It is.\n\n{'x' * 400}"),
        ("See [Ab1]_ and [3]_.\n\n.. [Ab1] A *paper*.", "See Ab1 and.\n\n**Ab1**: A *paper*."),
    ],
)  # fmt: skip
def test_directives_and_blocks(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "header", "rows"),
    [
        ("+---+---+\n| a | b |\n+===+===+\n| c | d |\n|   | e |\n+---+---+", ("a", "b"), (("c", "d e"),)),
        ("+---+---+\n| a | b |\n|   +---+\n|   | c |\n+---+---+", (), (("a", "b"), ("", "c"))),
        ("=== ===\na   b\n=== ===\nc   d\n=== ===", ("a", "b"), (("c", "d"),)),
        (".. list-table:: Times\n   :header-rows: 1\n   :new: x\n\n   * - Size\n     - Time\n   * - 1 TB\n     - 2 h",
         ("Size", "Time"), (("1 TB", "2 h"),)),
        (".. list-table::\n\n   * - a\n   * - b\n     - c", (), (("a",), ("b", "c"))),
        (".. csv-table::\n   :header: x, y\n   :unknown: z\n\n   1, ``2``", ("x", "y"), (("1", "`2`"),)),
        ("+-------+------+\n| **a** | **b**|\n+-------+------+\n| c     | d    |\n+-------+------+",
         ("a", "b"), (("c", "d"),)),
        (".. table:: Ports\n   :widths: auto\n\n   === ===\n   a   b\n   === ===", (), (("a", "b"),)),
    ],
)  # fmt: skip
def test_tables(text: str, header: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> None:
    blocks = read_rst(text)
    assert (blocks[-1].header, blocks[-1].rows) == (header, rows)


def test_headings_have_levels_also_where_docutils_has_none() -> None:
    text = "A\n=\n\nB\n-\n\nC\n~\n\nD\n=\n\nE\n~\n\ntext\n\n.. note::\n\n   F\n   ^\n\n   text"
    headings = [(block.text, block.level) for block in walk(read_rst(text)) if block.kind == "heading"]
    assert headings == [("A", 1), ("B", 2), ("C", 3), ("D", 1), ("E", 1), ("F", 1)]


@pytest.mark.parametrize("directive", ["only:: html", "ifconfig:: x", "unknown::"])
def test_titles_in_a_directive_say_nothing_of_those_below_it(directive: str) -> None:
    inner = "   To come\n   ^^^^^^^\n\n   Text.\n\n   Past\n   ^^^^\n"
    outer = "Release 2\n=========\n\nFixes\n-----\n\nNone.\n\nRelease 1\n=========\n\nFixes\n-----\n\nDeep\n^^^^\n"
    blocks = read_rst(f"=======\nChanges\n=======\n\n.. {directive}\n\n{inner}\n{outer}")
    headings = [(block.text, block.level) for block in blocks if block.kind == "heading"]
    assert headings == [
        ("Changes", 1),
        ("To come", 2),
        ("Past", 2),
        ("Release 2", 2),
        ("Fixes", 3),
        ("Release 1", 2),
        ("Fixes", 3),
        ("Deep", 4),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read _pytest/__init__.py first.", "Read \\_pytest/\\_\\_init\\_\\_.py first."),
        ("__all__ of a__b", "\\_\\_all\\_\\_ of a__b"),
        ("The name x_y is one.", "The name x_y is one."),
    ],
)
def test_names_of_python_are_no_marks(text: str, expected: str) -> None:
    assert read(text.replace("_", "\\_")) == expected


def test_lines_are_those_of_the_document() -> None:
    text = """\
.. A comment.

Title
=====

One
two.

.. note::

   Three.

   .. code-block:: sh

      a
      b

- four
- five

  six
"""
    lines = {block.text: (block.start_line, block.end_line) for block in walk(read_rst(text)) if block.text}
    assert lines == {
        "Title": (3, 3),
        "One two.": (6, 7),
        "Note": (9, 16),
        "Three.": (11, 11),
        "a\nb": (15, 16),
        "four": (18, 18),
        "five": (19, 21),
        "six": (21, 21),
    }


@pytest.mark.parametrize(
    "text", ["", "\n\n", "..", "::", ".. ::", ".. a::", "=", "\x00\f\v", "`", ".. |a| image::", "+-+"]
)
def test_remains_are_no_error(text: str) -> None:
    for block in walk(read_rst(text)):
        assert 1 <= block.start_line <= block.end_line


def test_a_document_that_is_nested_too_deeply_is_refused_with_its_reason() -> None:
    with pytest.raises(FormatError, match="nested too deeply"):
        read_rst("- " * 5000)


def test_a_paragraph_of_marks_that_nothing_closes_keeps_its_text() -> None:
    assert read("*a " * 5000).count("a") == 5000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"The set $\alpha_{nj}$ of :math:`x \cdot y`.", r"The set `\alpha_{nj}` of `x \cdot y`."),
        (r"`\mathcal{S} = \{(r, \theta)\}` and `a\*b`", r"`\mathcal{S} = \{(r, \theta)\}` and `a*b`"),
        ("$$\\sum_{j} A\n= 2$$", r"`\sum_{j} A = 2`"),
        (r"It costs $5, not $6: ``$\x_1$``, $HOME/a_b, $A_B.", r"It costs $5, not $6: `$\x_1$`, $HOME/a_b, $A_B."),
    ],
)
def test_formulas_keep_their_backslashes(text: str, expected: str) -> None:
    assert read(text) == expected


def test_included_markdown_is_read_as_such() -> None:
    text = "Title\n=====\n\n.. markdown::\n\n   ## Use [it](https://a.example) *now*\n\n   - `a` | b\n\nEnd."
    assert read(text) == "# Title\n\n## Use [it](https://a.example) *now*\n\n- `a` | b\n\nEnd."
    lines = {block.text: block.start_line for block in read_rst(text)}
    assert (lines["Use [it](https://a.example) *now*"], lines["End."]) == (6, 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (">>> f()  # doctest: +ELLIPSIS\n<BLANKLINE>\n1", "```python\n>>> f()\n\n1\n```"),
        (
            ".. plot::\n   :include-source:\n\n   import a\n   # Draw\n   a.b()",
            "```python\nimport a\n# Draw\na.b()\n```",
        ),
        (".. doctest-requires:: scipy\n\n   >>> f()", "```python\n>>> f()\n```"),
        (".. plot:: pyplots/a.py", ""),
    ],
)
def test_code_that_is_run_is_shown_as_code(text: str, expected: str) -> None:
    assert read(text) == expected


def test_numbers_above_and_below_the_line_keep_their_meaning() -> None:
    text = r"2\ :sup:`63`, H\ :sub:`2`\ O, 4\ :superscript:`th`"
    assert write_markdown(read_rst(text)) == "2⁶³, H₂O, 4th"


def test_raw_html_is_read_as_its_page_shows_it() -> None:
    html = "    <script>run()</script>\n    <table><tr><td>red</td><td>It moves.</td></tr></table>\n"
    html += "    <textarea>\n    a:\n      b: 1\n    </textarea>\n"
    text = f"Colors:\n\n.. raw:: html\n\n{html}\n.. raw:: latex\n\n    \\newpage\n\nIt ends."
    assert read(text) == "Colors:\n\n- red: It moves.\n\n```\na:\n  b: 1\n```\n\nIt ends."


def test_columns_of_code_keep_their_names() -> None:
    cells = "| .. code::   | .. code::   |\n|             |             |\n|    f(1)     |    g(1)     |"
    cells += "\n|    f(2)     |    g(2)     |"
    rule = "+-------------+-------------+"
    text = read(f"{rule}\n| **Slow**    | **Fast**    |\n{rule}\n{cells}\n{rule}")
    assert text == "- Slow:\n\n  ```\n  f(1)\n  f(2)\n  ```\n\n  Fast:\n\n  ```\n  g(1)\n  g(2)\n  ```"
