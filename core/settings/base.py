"""The base classes and types of the configuration's sections."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

Fraction = Annotated[float, Field(gt=0, le=1)]
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
# Capitals only: a secret pasted in place of a variable's name does not match, so that no message repeats it.
ENV_VARIABLE_PATTERN = r"^[A-Z_][A-Z0-9_]*$"
# White space around an address is a slip of copying.
Address = Annotated[str, StringConstraints(strip_whitespace=True)]
# One that is read as it is: `check` says more of those of models.
WebAddress = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^https?://[^/\s]\S*$")]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
# The terminal: only people who run the bot use it.
OPERATOR_PLATFORM = "console"
# Programs that ask: each client of the section `api` is a chat there.
API_PLATFORM = "api"
# The chat there that stands for all visitors of the page.
PAGE_CLIENT = "page"
EVERYONE = "everyone"
Audience = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]),
    Field(
        min_length=1,
        description="who may see it (docs/configure.md#who-may-see-what): everyone, or a list of chats "
        "(`slack:C0123456789`), platforms (`slack`, `http@NAME`) and roles (`admins`, `owners`)",
    ),
]


def is_loopback(host: str) -> bool:
    """Return whether a host, without its port, is this machine itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Section(BaseModel):
    """The base of every section: unknown keys are errors, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RestrictedSection(Section):
    """The base of what only some askers may see."""

    audience: Audience = (EVERYONE,)


class RequestingSection(Section):
    """The base of what sends requests to addresses that somebody else may choose."""

    allow_private: tuple[str, ...] = Field((), description="host names that may have private addresses")


class Secret(Section):
    """Where a secret comes from: an environment variable or a file. Never the configuration itself."""

    env: str | None = Field(
        None, pattern=ENV_VARIABLE_PATTERN, description="name of an environment variable, in capitals"
    )
    file: Path | None = Field(
        None, description="a file that holds nothing but the secret; surrounding white space is ignored"
    )

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("give exactly one of env (a variable's name) or file (a path)")
        return self

    def missing_reason(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return what is missing, or an empty string."""
        if self.env is not None:
            return "" if environment.get(self.env) else f"environment variable {self.env} is not set"
        try:
            return "" if self.value() else f"file {self.file} is empty"
        except (OSError, UnicodeDecodeError) as error:
            return f"file {self.file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"

    def value(self) -> str:
        """Return the secret. Raises `KeyError` or `OSError` when it is missing (the loader checks that first)."""
        text = os.environ[self.env] if self.env is not None else Path(self.file or "").read_text("utf-8")
        return text.strip()


Strategy = Literal["none", "single", "parallel", "planning", "react", "simple"]
# What the router may choose: a strategy, or to ask back what is meant.
Route = Strategy | Literal["clarify"]
