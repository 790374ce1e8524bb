"""Names that the code of an answer takes from a package."""

from __future__ import annotations

import pytest

from core.citations.code_names import find_named_arguments, find_package_names, find_parameters


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from rocket import Server, Client as C  # both", ["rocket.Server", "rocket.Client"]),
        ("from rocket.web import (\n    Server,  # one\n    Client,\n)", ["rocket.web.Server", "rocket.web.Client"]),
        ("from rocket import *", []),
        ("import rocket\n\nrocket.serve(port=1).close()", ["rocket", "rocket.serve"]),
        ("import rocket.web as w\nw.Server.listen()", ["rocket.web", "rocket.web.Server"]),
        ("import rocket.web\nrocket.web.Server()", ["rocket.web", "rocket.web.Server"]),
        ("import numpy as np\nnp.array", []),
        ("from .rocket import Server\nserver.rocket.x", []),
        ("rocket.serve()", []),
        ("import rocket, os as o, rocket.web as w\nw.Server()", ["rocket", "rocket.web", "rocket.web.Server"]),
        ("import rocket; rocket.serve()", ["rocket", "rocket.serve"]),
        ("from rocket import (\n    Server,  # one (of two)\n    Client,\n)", ["rocket.Server", "rocket.Client"]),
        ("import rocket\nprint('see rocket.example.org')  # or rocket.example.com", ["rocket"]),
        (
            r"""import rocket
print("it's \" rocket.no", '# rocket.no'); rocket.serve("")""",
            ["rocket", "rocket.serve"],
        ),
        ("'''Use it:\nfrom rocket import No\nit's \"rocket.no\" '''\nimport rocket", ["rocket"]),
        ("import rocket\nawait rocket.serve()", ["rocket", "rocket.serve"]),
        ("import rocket\nrocket.serve(", []),
        (f"import rocket\n{'not ' * 100_000}rocket.serve", []),
    ],
)
def test_only_what_is_certain_is_found(code: str, names: list[str]) -> None:
    text = f"Like this [1]:\n\n```python\n{code}\n```\n\nThat is all."
    assert find_package_names(text, {"rocket"}) == names
    assert find_package_names(text.replace("```python", "```sh"), {"rocket"}) == []
    assert find_package_names(code, {"rocket"}) == [], "prose is no code"


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("from rocket import run\nrun(1, port=2, host=f(x=1))", [("rocket.run", "port"), ("rocket.run", "host")]),
        ("import rocket.web as w\nw.serve(\n    port = 1,  # no=2\n)", [("rocket.web.serve", "port")]),
        ("from rocket import run\nrun([a := 1, (b == 2)], {'c=': d <= e})", []),
        ("from rocket import run\ndef run(port=1): ...\nport = 2\nrun()", []),
        ("import rocket\nrocket.app.run(port=1)\nserver.rocket.run(port=1)\nrun(port=1)", []),
        ("from rocket import run\n))run(port=1", []),
        ("from flask import run\nrun(port=1)", []),
        (
            "from rocket import run\nrun(lambda a, b=(1, 2), c={1: 2}: a, port=lambda: 1, host=2)",
            [("rocket.run", "port"), ("rocket.run", "host")],
        ),
        ("from rocket import run\nrun(lambda a, b=1)\nc = 2", []),
    ],
)
def test_the_arguments_of_calls_are_found(code: str, arguments: list[tuple[str, str]]) -> None:
    assert find_named_arguments(f"```python\n{code}\n```", {"rocket"}) == arguments


@pytest.mark.parametrize(
    ("code", "parameters"),
    [
        (
            "async def run(a, /, b: dict[str, int] = {'x': (1, 2)}, *c, d: str = '),(') -> N:\n  '''Cut",
            "a b d",
        ),
        ("def run(\n    a,  # the first, of b\n    **others,\n): ...", "a **"),
        ("def run(a, b", "**"),
        ("def run_all(a): ...\nclass Run: ...", ""),
        ("@overload\ndef run(a): ...\n\n\ndef run(b): ...", "a b"),
        ("class run(Base):\n    x: int", "**"),
        ("class run:\n    x: int\nclass Other:\n    def __init__(self, a): ...", "**"),
        ("class run:\n    def go(self, a): ...\n    def __init__(self, b=()): ...", "self b"),
        ("def run(): ...", ""),
        ("@click.command(\n    help='x',\n)\n@click.option('--count')\ndef run(count): ...", "**"),
        ("@staticmethod\ndef run(a): ...\n@functools.lru_cache(maxsize=1)\nasync def run(b): ...", "a b"),
        ("@changes\ndef go(a): ...\n\ndef run(b): ...", "b"),
        ("@changes\nclass run:\n    def __init__(self, a): ...", "**"),
        ("class run:\n    @changes\n    def __init__(self, a): ...", "**"),
    ],
)
def test_the_parameters_of_definitions_are_found(code: str, parameters: str) -> None:
    assert find_parameters(code, "run") == frozenset(parameters.split())
