"""Python by definition, tutorial scripts, other languages."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent, indent

import pytest

from core.language.tokens import estimate_tokens
from knowledge.chunking import chunk
from knowledge.ports import Chunk, Document

BODY = "\n".join(f"    total = total + compute_something({number}, total)" for number in range(12))


def python(text: str, tokens: int = 200, path: str = "pkg/module.py") -> list[Chunk]:
    return chunk(Document(path, dedent(text).lstrip("\n"), "python"), tokens)


def titles(chunks: list[Chunk]) -> list[str]:
    return [piece.title for piece in chunks]


def indented(text: str) -> str:
    return "\n".join("    " + line if line else line for line in text.split("\n"))


HEADER = '''class Agent(Base):
    """An agent listens and replies.

    It holds a model, a memory and a toolkit; what these are for is said here at the length that a class deserves,
    because otherwise the header would be so short that it is joined to the first method.
    """

    name: str'''


def test_functions_and_methods_are_chunks_with_their_class_in_the_title() -> None:
    method = indented(f"# What it is for.\n@cached\ndef {{}}(self, total):\n    '''Doc of {{}}.'''\n{BODY}")
    start = f'#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"""About."""\nimport os\n\n\ndef helper(total):\n{BODY}'
    methods = [method.format(name, name) for name in ("reply", "listen")]
    chunks = python("\n\n\n".join([start, "\n\n".join([HEADER, *methods])]) + "\n")
    assert titles(chunks) == [
        "module.py > helper",
        "module.py > class Agent",
        "module.py > class Agent > reply",
        "module.py > class Agent > listen",
    ]
    assert chunks[0].text.startswith('"""About."""\nimport os')
    assert chunks[1].text == HEADER
    assert chunks[2].text.startswith("    # What it is for.\n    @cached\n    def reply")
    assert "Doc of reply." in chunks[2].text


def test_small_definitions_are_joined() -> None:
    chunks = python(
        "def a():\n    return 1\n\n\ndef b():\n    return 2\n\n\nclass C:\n    def d(self):\n        return 3\n"
    )
    assert titles(chunks) == ["module.py > a / b / class C"]


def test_packages_are_named_with_their_folder() -> None:
    assert titles(python("X = 1\n", path="src/agent/__init__.py")) == ["agent/__init__.py"]


def test_long_functions_are_split_between_statements_under_their_name() -> None:
    step = indented(
        "for item_{0} in items:\n    if item_{0}.ready:\n        record(item_{0})\n    else:\n        skip(item_{0})"
    )
    steps = "\n".join(step.format(number) for number in range(20))
    chunks = python(f"def work(items: list[Item], *, limit: int = 3) -> None:\n    '''Work.'''\n{steps}\n", 100)
    assert set(titles(chunks)) == {"module.py > work"}, "a name, not the whole signature"
    assert len(chunks) > 4
    for piece in chunks[1:]:
        assert piece.text.startswith("    for item_"), "cut inside a statement"


def test_attribute_docstrings_stay_with_their_attribute() -> None:
    fields = "\n\n".join(
        f"    field_{number}: str\n    '''What field {number} means, at some length for once.'''"
        for number in range(30)
    )
    for piece in python(f"class Card:\n    '''A card.'''\n\n{fields}\n", 100):
        assert not piece.text.lstrip().startswith("'''What")


def test_what_does_not_parse_is_split_as_text() -> None:
    chunks = python("def broken(:\n" + "    x = 1\n" * 200)
    assert len(chunks) > 1
    assert set(titles(chunks)) == {"module.py"}


def test_parsing_leaves_warnings_alone_in_threads() -> None:
    filters_before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: python("def f():\n    return '\\d' is 3\n"), range(40)))
    assert all(titles(result) == ["module.py > f"] for result in results)
    assert list(warnings.filters) == filters_before


TUTORIAL = '''
    # -*- coding: utf-8 -*-
    """
    .. _tool:

    Tool
    =====

    Tools are functions that a model may call. This introduction says why, in as many words as it takes to be a chunk
    of its own, which is about sixty tokens; that is reached by the end of this sentence, or a little after the end.
    """
    import toolkit

    # %%
    # Tool Function
    # -------------
    # A tool function returns a ``Response``. A template follows, with all the words that an explanation of such a
    # template needs, so that this section is long enough to stand alone in the end, without its neighbours::
    #
    #     literal


    def tool_function(a: int) -> Response:
        """Describe."""
        return Response(a)


    ####################################
    # Registering
    # ^^^^^^^^^^^
    # - Tools are registered in a toolkit, which is explained at length here, because otherwise this would be joined.
    # - And another point about it, for the same reason, with a few words more than would be needed in real life.
    toolkit.register(tool_function)  # done
'''


def test_definitions_in_branches_have_their_names() -> None:
    text = (
        f"import sys\n\ntry:\n    from fast import load\nexcept ImportError:\n\n    def load(total):\n"
        f"{indent(BODY, '    ')}\n\n"
        f"if sys.version_info > (3, 12):\n    class Reader:\n        def read(self, total):\n"
        f"{indent(BODY, '        ')}\n\n        def close(self, total):\n{indent(BODY, '        ')}\n"
        f"else:\n    def Reader(total):\n{indent(BODY, '    ')}\n"
    )
    names = [title.removeprefix("module.py > ") for title in titles(python(text))]
    assert set(names) == {"load", "class Reader > read", "class Reader > close", "Reader"}


def test_tutorial_scripts_are_prose_with_code() -> None:
    chunks = python(TUTORIAL, 100)
    assert titles(chunks) == ["Tool", "Tool > Tool Function", "Tool > Tool Function > Registering"]
    assert "Tools are functions" in chunks[0].text
    assert "import toolkit" in chunks[0].text
    assert chunks[1].text.startswith("## Tool Function\n\nA tool function returns")
    assert "```\nliteral\n```" in chunks[1].text
    assert "def tool_function" in chunks[1].text
    assert "toolkit.register(tool_function)  # done" in chunks[2].text
    assert all("# %%" not in piece.text and "####" not in piece.text for piece in chunks)
    lines = dedent(TUTORIAL).lstrip("\n").split("\n")
    assert lines[chunks[1].start_line - 1] == "# Tool Function"
    assert lines[chunks[2].end_line - 1].startswith("toolkit.register")
    assert {piece.kind for piece in chunks} == {"markdown"}, "prose, which can be quoted"
    assert '```python\ndef tool_function(a: int) -> Response:\n    """Describe' in chunks[1].text


def test_galleries_and_lists_of_files_in_tutorials_are_no_passages() -> None:
    script = (
        f'"""\nTool\n====\n\n{BODY}\n"""\n\n# %%\n# .. raw:: html\n#\n#     <div class="card">\n#\n# After it.\nrun()\n'
    )
    chunks = python(script)
    assert "After it." in chunks[-1].text
    assert all("card" not in piece.text and "raw::" not in piece.text for piece in chunks)


def test_a_banner_of_hashes_does_not_make_a_tutorial() -> None:
    text = f'"""Plain module."""\n\n{"#" * 40}\n# Helpers\n{"#" * 40}\n\n\ndef helper(total):\n{BODY}\n'
    assert titles(python(text)) == ["module.py > helper"]


CODE = {
    "javascript": ("a.js", "export function load(path) {{\n{body}\n}}\n", "    total += compute({n});"),
    "typescript": (
        "a.tsx",
        "export const View = (props: Props) => {{\n{body}\n  return <p>{{total}}</p>;\n}};\n",
        "    total += compute({n});",
    ),
    "go": (
        "a.go",
        "package main\n\nfunc (s *Server) Load(path string) int {{\n{body}\n}}\n",
        "    total += compute({n})",
    ),
    "rust": ("a.rs", "pub fn load(path: &str) -> u32 {{\n{body}\n}}\n", "    total += compute({n});"),
    "java": ("A.java", "public class Loader {{\n  void load() {{\n{body}\n  }}\n}}\n", "    total += compute({n});"),
    "c": ("a.c", "struct loader {{ int a; }};\n\nint load(void) {{\n{body}\n}}\n", "    total += compute({n});"),
    "cpp": ("a.cc", "class Loader {{\n  int load() {{\n{body}\n  }}\n}};\n", "    total += compute({n});"),
}


@pytest.mark.parametrize("kind", CODE)
def test_other_languages_are_split_by_whole_lines_and_named(kind: str) -> None:
    path, frame, line = CODE[kind]
    text = frame.format(body="\n".join(line.format(n=n) for n in range(80)))
    chunks = chunk(Document(f"src/{path}", text, kind))
    assert len(chunks) > 1
    source = text.split("\n")
    for piece in chunks:
        assert piece.text == "\n".join(source[piece.start_line - 1 : piece.end_line]).rstrip()
        assert estimate_tokens(piece.text) <= 300
        assert piece.title.startswith(f"{path} > ")
