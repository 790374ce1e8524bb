"""What the lines above a block of AsciiDoc say of it: its title, and its attributes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from knowledge.formats.asciidoc_inline import split_attributes

_QUOTED = re.compile(r"([\"'])(.*)\1")


@dataclass(slots=True)
class Style:
    """What the lines above a block say of it."""

    title: str = ""
    positions: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The first position, which says what a block is, without what else stands there."""
        return re.split(r"[.#%]", self.positions[0], maxsplit=1)[0].strip() if self.positions else ""

    def has(self, option: str) -> bool:
        """Return whether an option is set, in any of the forms."""
        names = self.options.get("options") or self.options.get("opts") or ""
        return f"%{option}" in self.get_position(0) or option in re.split(r"[,; ]+", names)

    def get_position(self, number: int) -> str:
        """Return what stands at a position, from 0; nothing where there is nothing."""
        return self.positions[number].strip() if number < len(self.positions) else ""


def read_style(text: str, style: Style) -> None:
    """Read the attributes of a block: positions first, names anywhere."""
    for number, part in enumerate(split_attributes(text)):
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[\w-]+", name.strip()):
            style.options[name.strip()] = value.strip().strip("\"'")
        elif part.strip() or number:
            # `[,yaml]` has nothing in the first one.
            style.positions += [""] * (number - len(style.positions))
            style.positions[number:] = [_QUOTED.sub(r"\2", part.strip())]
