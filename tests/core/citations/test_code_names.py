"""Names that the code of an answer takes from a package."""

from __future__ import annotations

import pytest

from core.citations.code_names import find_package_names


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
        ("import rocket\nprint('don't)\nrocket.serve('", ["rocket", "rocket.serve"]),
        ("import rocket\nrocket.run(f'''a\nrocket.no''', '''rocket", ["rocket", "rocket.run"]),
    ],
)
def test_only_what_is_certain_is_found(code: str, names: list[str]) -> None:
    text = f"Like this [1]:\n\n```python\n{code}\n```\n\nThat is all."
    assert find_package_names(text, {"rocket"}) == names
    assert find_package_names(text.replace("```python", "```sh"), {"rocket"}) == []
    assert find_package_names(code, {"rocket"}) == [], "prose is no code"
