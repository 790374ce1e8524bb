"""Answers to render."""

from __future__ import annotations

from core.types import Citation

ADDRESSES = [
    "https://en.wikipedia.org/wiki/Foo_(bar)",
    "https://e.org/a_b_c/__init__.py",
    "https://e.org/*x*/y?q=~z~&r=[1]",
    "https://medium.com/@somebody/a-post",
    "https://zh.wikipedia.org/wiki/中国",
]


def long_answer(blocks: int, lines: int) -> tuple[str, list[str]]:
    """Return Markdown that no platform takes in one message, and the lines of its code."""
    code = [
        [f"value_{block}_{line} = compute({line}) # <{line}> & *" for line in range(lines)] for block in range(blocks)
    ]
    pieces = [
        f"## Part {number}\n\nThis is what part {number} is about. " + "It goes on for a while. " * 12
        + "\n\n```python\n" + "\n".join(block) + "\n```"
        for number, block in enumerate(code)
    ]  # fmt: skip
    return "\n\n".join(pieces), [line for block in code for line in block]


CITATIONS = (
    Citation(1, "p1", "docs", "Installing <it>", "docs/install.md", "https://example.org/a?b=1&c=2#x"),
    Citation(2, "p2", "faq", "Frequently asked", "faq.yaml", ""),
)


PIECES = ["**", "*", "`", "```", "\n", "\n\n", "> ", "- ", "1. ", "[", "](https://e.org)", "|", "---", "#", " ", "<b>"]
