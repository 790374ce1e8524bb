"""What `kimas init` writes: a short configuration that works as it stands, with the next steps as comments."""

from __future__ import annotations

from pathlib import Path

import click

from core.errors import UsageError
from core.settings.schema import json_schema

SCHEMA_NAME = "kimas.schema.json"

_TEMPLATE = f"""\
# yaml-language-server: $schema={SCHEMA_NAME}
#
# A KIMAs configuration. Paths are relative to this file's folder. Secrets never stand in here: {{env: NAME}} takes one
# from an environment variable, {{file: PATH}} from a file. Next:
#   kimas check            says what is right and what is missing
#   kimas ingest           reads the sources
#   kimas ask "..."        answers a question with citations
#   kimas run              answers in chats, once a platform is configured

# What the bot calls itself.
name: KIMAs

# Where passages, clones and the journal are kept. Can be rebuilt except for the journal.
data_dir: .kimas

# What the bot knows. The name of a source is yours to choose.
sources:
  documents:
    kind: files
    path: .
    include: ["*.md", "*.rst", "*.txt"]
    exclude: [".*/", node_modules/]

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

# Which source to ask is learnt from the passages themselves; a few words in the users' language make it better.
# agents:
#   manual:
#     sources: [documents, questions]
#     description: Installation and everyday use
#     examples: ["How do I install it?"]

# A language model that writes the answers: any OpenAI-compatible endpoint. Without one the bot quotes the best
# sentences, and nothing leaves this machine.
# models:
#   main:
#     base_url: http://localhost:11434/v1
#     model: qwen3:8b
#     # api_key: {{env: OPENAI_API_KEY}}

# A Telegram bot, with the token from @BotFather.
# telegram:
#   token: {{env: TELEGRAM_TOKEN}}
"""


async def init(path: Path) -> int:
    """Write the starter configuration and say what to do next. Raises `UsageError`."""
    write_config_template(path)
    click.echo(
        f"{path} is written, and beside it a schema for editors. Next: name your sources in it, then "
        "`kimas check`, `kimas ingest` and `kimas chat`."
    )
    return 0


def write_config_template(path: Path) -> None:
    """Write a commented configuration, and next to it the schema with which editors complete and check it.

    Folders on the way are made. Raises `UsageError` when the file exists (it is left alone) or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_TEMPLATE)
        path.with_name(SCHEMA_NAME).write_text(json_schema(), "utf-8")
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            raise UsageError(f"{path} exists already; remove it first, or name another file") from error
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
