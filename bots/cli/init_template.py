"""What `kimas init` writes: a short configuration that works as it stands, with the next steps as comments."""

from __future__ import annotations

import json
import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from bots.cli.env_file import get_env_path, write_env_file
from core.errors import UsageError
from core.settings.schema import json_schema

SCHEMA_NAME = "kimas.schema.json"
# A platform's secrets, by the setting that names the variable.
TOKENS = {
    "telegram": {"token": "KIMAS_TELEGRAM_TOKEN"},
    "discord": {"token": "KIMAS_DISCORD_TOKEN"},
    "slack": {"bot_token": "KIMAS_SLACK_BOT_TOKEN", "app_token": "KIMAS_SLACK_APP_TOKEN"},
}
MODEL_KEY = "KIMAS_MODEL_KEY"
PAGE_KEY = "KIMAS_PAGE_TOKEN"
PAGE_KEY_BYTES = 24
PAGE_PORT = 8090
_PLATFORM_COMMENTS = {
    "telegram": "A Telegram bot, with the token from @BotFather: docs/telegram.md",
    "discord": "A Discord bot, with the token from the developer portal: docs/discord.md",
    "slack": "A Slack app in Socket Mode: docs/slack.md",
}
_BARE = re.compile(r"[A-Za-z./~][\w./~-]*|-?\d+")
# Words that YAML does not take for texts.
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "~"})

_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA_NAME}
#
# A KIMAs configuration. Paths are relative to this file's folder. Do not write secrets into it: {{env: NAME}} reads one
# from an environment variable or from kimas.env beside this file, {{file: PATH}} from a file of its own. Next:
#   kimas check --live     says what is right and what is missing
#   kimas ingest           reads the sources
#   kimas ask "..."        answers a question with citations
#   kimas run              answers in chats, once a platform is configured

# What the bot calls itself.
name: KIMAs

# Where passages, clones and the journal are kept. Can be rebuilt except for the journal.
data_dir: .kimas

# What the bot knows. The name of a source is yours to choose.
sources:
"""
_DEFAULT_SOURCE = """\
  documents:
    kind: files
    path: .
    include: ["*.md", "*.rst", "*.txt"]
    exclude: [".*/", node_modules/]
"""
_MORE_SOURCES = """
  # A git repository: a remote URL, or the path of a local one. {{commit}} pins the links.
  # project:
  #   kind: git
  #   url: https://git.example.org/team/project.git
  #   include: ["docs/**", "*.py"]
  #   link: https://git.example.org/team/project/blob/{{commit}}/{{path}}#L{{start}}-L{{end}}

  # Questions with answers: a list of question and answer in YAML, CSV or JSON Lines.
  # questions:
  #   kind: faq
  #   path: faq.yaml

# Where to search is decided by comparing the question with the passages. A description and example questions, in the
# language of those who ask, make the choice better.
# agents:
#   manual:
#     sources: [{source}]
#     description: Installation and everyday use
#     examples: ["How do I install it?"]

"""
_LEARNED_SOURCE = """
  # What trusted people teach with /learn and somebody approves with /faq.
  learned:
    kind: learned
"""
_MODEL_COMMENT = """\
# A language model that writes the answers: any OpenAI-compatible endpoint. Without one the bot quotes the best
# sentences, and nothing leaves this machine.
"""


# Where the commands look for a configuration, in the folder where they run.
DEFAULT_NAME = "kimas.yaml"


@dataclass(slots=True)
class Answers:
    """What somebody answered to `kimas init`; the defaults make the template. `is_empty`: sources are added later."""

    is_empty: bool = False
    page_port: int = PAGE_PORT
    platform: str = ""
    api_url: str = ""
    chat: str = ""
    owner: str = ""
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    model: dict[str, str] = field(default_factory=dict)
    # Values by the names of their variables; empty for those that are to be filled in.
    secrets: dict[str, str] = field(default_factory=dict)


async def init(path: Path, answers: Answers) -> int:
    """Write the configuration and say what to do next. Raises `UsageError`."""
    write_config(path, answers)
    other_files = "a schema for editors" + (
        f" and {get_env_path(path).name} with the secrets" if answers.secrets else ""
    )
    command = "kimas" if path == Path(DEFAULT_NAME) else f"kimas --config {shlex.quote(str(path))}"
    next_steps = f"`{command} check --live`, `{command} ingest` and `{command} {'run' if answers.platform else 'chat'}`"
    first = "" if answers.sources else "name your sources in it, then "
    click.echo(f"{path} is written, and beside it {other_files}. Next: {first}{next_steps}.")
    return 0


def write_config(path: Path, answers: Answers) -> None:
    """Write a commented configuration, and next to it its secrets, and the schema with which editors check it.

    Folders on the way are made. Raises `UsageError` when a file exists (it is left alone) or cannot be written; then
    nothing is left half-written.
    """
    env_file = get_env_path(path)
    new_files: list[Path] = []
    try:
        check_is_new(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if answers.secrets:
            check_is_new(env_file)
            write_env_file(env_file, answers.secrets)
            new_files.append(env_file)
        with path.open("x", encoding="utf-8") as stream:
            new_files.append(path)
            stream.write(render_config(answers))
        path.with_name(SCHEMA_NAME).write_text(json_schema(), "utf-8")
    except BaseException as error:
        for file in new_files:
            file.unlink()
        if isinstance(error, OSError):
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
        raise


def check_api_url(api_url: str, *, is_asking: bool) -> None:
    """Raise click's `UsageError` for what is no address, and where no question says whose address it is."""
    if api_url and not api_url.startswith(("http://", "https://")):
        raise click.UsageError(f"--api-url {api_url} is no address: it begins with http:// or https://")
    if api_url and not is_asking:
        raise click.UsageError(
            "--api-url belongs to the platform that the questions ask for, and nothing is asked here: write api_url "
            "into the platform's section of the file instead"
        )


def check_is_new(file: Path) -> None:
    """Raise `UsageError` for a file that exists, and for a folder."""
    if file.is_dir():
        raise UsageError(f"{file} is a folder; name a file in it: {file / DEFAULT_NAME}")
    if file.exists():
        raise UsageError(f"{file} exists already; remove it first, or name another file")


def find_port() -> int:
    """Return the page's usual port, or another one where something listens on that. Raises `UsageError`."""
    for port in (PAGE_PORT, 0):
        with socket.socket() as listener, suppress(OSError):
            # As the page will: connections that have ended do not count.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            return int(listener.getsockname()[1])
    raise UsageError("no port is free on 127.0.0.1")


def render_config(answers: Answers) -> str:
    """Return the configuration as commented YAML: what was answered is in force, everything else is a comment."""
    sources = "".join(_render_section(name, source, "  ") for name, source in answers.sources.items())
    source_names = ", ".join(answers.sources) or "documents, questions"
    model = answers.model or {"base_url": "http://localhost:11434/v1", "model": "qwen3:8b"}
    key = {"api_key": {"env": MODEL_KEY}} if MODEL_KEY in answers.secrets else {}
    models = "models:\n" + _render_section("main", model | key, "  ")
    parts = [
        _HEAD.replace("sources:\n", "sources: {}\n") if answers.is_empty else _HEAD + (sources or _DEFAULT_SOURCE),
        _LEARNED_SOURCE if answers.platform else "",
        _MORE_SOURCES.format(source=source_names),
        _MODEL_COMMENT + (models if answers.model else _comment_out(f"{models}    # api_key: {{env: {MODEL_KEY}}}")),
        *_render_platforms(answers),
    ]
    if answers.chat:
        gate = {"chats": [f"{answers.platform}:{answers.chat}"]}
        parts.append("\n# Groups where the bot answers; others are ignored.\n" + _render_section("gate", gate))
    owner = f"{answers.platform}:{answers.owner}" if answers.owner else "telegram:123456789"
    for comment, name, values, is_known in (
        ("Who may give every command: docs/commands.md", "administration", {"owners": [owner]}, answers.owner),
        (
            f"What the bot did, at http://127.0.0.1:{answers.page_port}: docs/operate.md",
            "operator_page",
            {"port": str(answers.page_port), "owner_token": {"env": PAGE_KEY}},
            PAGE_KEY in answers.secrets,
        ),
    ):
        text = _render_section(name, values)
        parts.append(f"\n# {comment}.\n" + (text if is_known else _comment_out(text)))
    return "".join(parts)


def _render_platforms(answers: Answers) -> Iterator[str]:
    for platform, tokens in TOKENS.items():
        section: dict[str, Any] = {name: {"env": variable} for name, variable in tokens.items()}
        if platform == answers.platform and answers.api_url:
            section = {"api_url": answers.api_url, **section}
        text = _render_section(platform, section)
        yield f"\n# {_PLATFORM_COMMENTS[platform]}.\n" + (text if platform == answers.platform else _comment_out(text))


def _render_section(name: str, values: Mapping[str, Any], indent: str = "") -> str:
    return f"{indent}{name}:\n" + "".join(f"{indent}  {key}: {_render_value(value)}\n" for key, value in values.items())


def _render_value(value: Any) -> str:
    """Write a value in YAML's short form.

    >>> _render_value({"env": "KEY"}), _render_value(["*.md", "docs"]), _render_value("a: b")
    ('{env: KEY}', '["*.md", docs]', '"a: b"')
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_render_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_render_value, value)) + "]"
    is_bare = _BARE.fullmatch(value) and value not in _WORDS
    return value if is_bare else json.dumps(value, ensure_ascii=False)


def _comment_out(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())
