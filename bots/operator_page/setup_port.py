"""What the page needs of whoever changes the configuration: the command line, which has the checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bots.operator_page.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the file has now. `digest` stands for its text: a change is made to this text and no other.

    `problem` is why it cannot be read, or "".
    """

    digest: str
    sources: Sequence[str] = ()
    models: Sequence[str] = ()
    platforms: Sequence[str] = ()
    chats: Sequence[str] = ()
    owners: Sequence[str] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PlatformQuestion:
    """A platform that can be connected: how its bot is made, and its secrets by the names of their settings."""

    name: str
    hint: str
    secrets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found, in a few words, where to go next, if anywhere, and which sections only a restart takes up."""

    text: str
    link: str = ""
    restart: Sequence[str] = ()


@dataclass(slots=True)
class Setup(ABC):
    """Adds to one configuration file what the page asks for. `sessions` outlive a restart, where it is offered."""

    file: Path
    can_restart: bool = False
    sessions: Sessions | None = field(default=None, init=False)

    @property
    @abstractmethod
    def secrets_file(self) -> Path:
        """Where secrets are kept."""

    @property
    @abstractmethod
    def platforms(self) -> Sequence[PlatformQuestion]:
        """What platforms ask for."""

    @abstractmethod
    async def read(self) -> Configuration:
        """Return what the file has now."""

    @abstractmethod
    async def add(self, kind: str, fields: Mapping[str, str], digest: str) -> Found:
        """Check an answer, add it to the file, and return what was found.

        Raises `KimasError` for an answer that does not pass, and for a file that is not the one of the digest or cannot
        be written; then nothing has changed.
        """

    @abstractmethod
    def restart(self) -> None:
        """Stop in order, and start again with the configuration as it is."""

    @abstractmethod
    def announce(self, port: int, sessions: Sessions) -> None:
        """Take note that the page is being served."""
