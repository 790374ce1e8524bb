"""`kimas init` in a terminal: asks, checks every answer at once, and writes nothing before the last one."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from bots.cli.env_file import get_env_path
from bots.cli.init_template import MODEL_KEY, PAGE_KEY, PAGE_KEY_BYTES, TOKENS, Answers, check_is_new, find_port
from bots.cli.model_trial import find_room
from bots.cli.options import import_by_path
from bots.cli.setup_checks import (
    MANY_FILES,
    MAX_SHOWN_MODELS,
    OLLAMA_URL,
    OWNER_IDS,
    TOKEN_HINTS,
    TOKEN_NAMES,
    check_token,
    diagnose_bot,
    examine_owner,
    examine_source,
    find_channel,
    list_models,
    list_repository,
    make_section,
    propose_include,
)
from bots.common.diagnosis import Diagnosis, FoundChat
from core.errors import ConfigurationError, KimasError, ModelError, PlatformError, UsageError
from core.language.secrets import mask_secrets
from knowledge.sources.git.source import is_local

Result = TypeVar("Result")

GROUP_WAIT_S = 60.0
NO_MODEL = "none"
# Of an endpoint that wants a key.
KEY_STATUSES = frozenset({400, 401, 403})
MAX_SHOWN_KINDS = 6


def ask_all(path: Path, api_url: str) -> Answers:
    """Ask for everything that a bot needs. Raises click's `Abort`, and its `UsageError` for a file that exists."""
    try:
        check_is_new(path)
        check_is_new(get_env_path(path))
        answers = Answers(page_port=find_port(), api_url=api_url)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    click.echo("Enter takes what is in brackets. Ctrl-C ends; nothing is written before that or the last answer.\n")
    try:
        _ask_questions(answers)
    except (click.Abort, KeyboardInterrupt):
        is_something = any(answers.secrets.values()) or answers.sources
        if not (is_something and click.confirm("\nWrite what you have answered so far?", default=True)):
            raise click.Abort from None
    if answers.platform:
        # For the operator's page.
        answers.secrets[PAGE_KEY] = secrets.token_urlsafe(PAGE_KEY_BYTES)
    return answers


def _ask_questions(answers: Answers) -> None:
    click.echo("For Mastodon, Bluesky, GitHub, GitLab or HTTP choose none, and add the section of its page in docs/.")
    platform = click.prompt("Platform", type=click.Choice([*TOKENS, "none"]), default="telegram")
    if platform != "none":
        _ask_platform(answers, platform)
    _ask_sources(answers)
    _ask_model(answers)


def _ask(
    text: str,
    examine: Callable[[str], Result],
    *,
    default: str | None = "",
    hidden: bool = False,
    keep: Callable[[str], Result] | None = None,
) -> Result:
    """Ask until an answer passes; every refusal is shown with its reason.

    What a service refused may be kept nevertheless (`keep`), but not what no service would take.
    """
    while True:
        answer: str = click.prompt(text, default=default, hide_input=hidden, show_default=bool(default) and not hidden)
        try:
            return examine(answer.strip())
        except (KimasError, ValueError, OSError, TimeoutError) as error:
            _show_problem(getattr(error, "strerror", None) or str(error) or "no answer in time")
            is_usable = not isinstance(error, ConfigurationError | ValueError)
        if keep and is_usable and click.confirm("  Keep it anyway?", default=False):
            return keep(answer.strip())


def _show_problem(text: str) -> None:
    click.secho(f"  {text}", fg="red")


def _ask_platform(answers: Answers, platform: str) -> None:
    answers.platform = platform
    click.echo(f"\n{TOKEN_HINTS[platform]}")
    tokens: dict[str, str] = {}

    def examine(setting: str) -> Callable[[str], Diagnosis | None]:
        variable = TOKENS[platform][setting]
        is_last = setting == list(TOKENS[platform])[-1]

        def run(value: str) -> Diagnosis | None:
            tokens[variable] = check_token(value)
            return _diagnose(answers, tokens) if is_last and all(tokens.values()) else None

        return run

    diagnosis = None
    for setting in TOKENS[platform]:
        diagnosis = _ask(f"{TOKEN_NAMES[setting]}, not shown (Enter: later)", examine(setting), hidden=True)
    answers.secrets |= tokens
    if diagnosis is None:
        click.echo(f"  Fill in {', '.join(tokens)} later.")
        return
    click.secho(f"  ok: {diagnosis.identity}", fg="green")
    click.echo(f"\nBring the bot into your group: {diagnosis.invitation}")
    if platform == "telegram":
        _find_telegram_group(answers)
    else:
        answers.chat = _ask_channel(answers)
    if not answers.owner:
        text = f"Your own {OWNER_IDS[platform]}, to administer the bot (Enter: later)"
        answers.owner = _ask(text, lambda value: examine_owner(platform, value))


def _diagnose(answers: Answers, secrets: dict[str, str], chats: Sequence[str] = ()) -> Diagnosis:
    """Reach the platform, and show what is less than it could be. Raises `PlatformError`."""
    os.environ.update(secrets)
    section = make_section(answers.platform, answers.api_url)
    diagnosis = asyncio.run(diagnose_bot(section, answers.platform, chats))
    for problem in diagnosis.problems:
        click.secho(f"  {problem.text}", fg="yellow")
    return diagnosis


def _find_telegram_group(answers: Answers) -> None:
    """Wait for a message in a group: it tells the group and, if they agree, the owner."""
    find_chat = import_by_path("telegram.diagnosis:find_chat")
    while True:
        hint = "Add it to the group, and write a message there that begins with /ask. Enter: wait for it, s: skip"
        answer = click.prompt(hint, default="", show_default=False).strip().lower()
        if answer == "s":
            return
        if answer:
            _show_problem("only Enter or s is an answer here")
            continue
        click.echo(f"  waiting for up to {GROUP_WAIT_S:.0f} s ...")
        try:
            chat: FoundChat | None = asyncio.run(
                find_chat(make_section(answers.platform, answers.api_url), GROUP_WAIT_S)
            )
        except PlatformError as error:
            _show_problem(str(error))
            continue
        if chat is None:
            _show_problem("nothing arrived: is the bot in the group?")
            continue
        if click.confirm(f"  {chat.title} ({chat.id}): answer in this group only?", default=True):
            answers.chat = chat.id
        owner = f"{chat.author} ({chat.author_id})"
        if chat.author_id and click.confirm(f"  {owner}: is that you, who administers the bot?", default=True):
            answers.owner = chat.author_id
        return


def _ask_channel(answers: Answers) -> str:
    """Ask for a channel by its link; return its id, or "" to answer in every channel."""

    def examine(value: str) -> str:
        if not value:
            return ""
        channel = find_channel(answers.platform, value)
        _diagnose(answers, {}, (channel,))
        return channel

    return _ask("Link of the channel, to answer there only (Enter: everywhere)", examine)


def _ask_sources(answers: Answers) -> None:
    click.echo("\nWhat does the bot answer from? A folder, a file, a repository or a web site.")
    text = "Source"
    default = "."
    while location := _ask(text, lambda value: _examine_source(value, answers), default=default):
        text = "Another source (Enter: none)"
        default = ""
        click.secho(f"  ok: {location}", fg="green")
        _ask_include(list(answers.sources.values())[-1])


def _ask_include(source: dict[str, Any]) -> None:
    """Show what a repository holds, and let its part be chosen."""
    if source["kind"] != "git":
        return
    is_here = is_local(source["url"])
    files = asyncio.run(list_repository(source))
    if not (files or is_here):
        click.echo("  all of it is read, code and tests too: `include` in the configuration limits that")
    if len(files) < MANY_FILES:
        return
    kinds = Counter(file.suffix or "no suffix" for file in files).most_common(MAX_SHOWN_KINDS)
    click.echo("  it holds " + ", ".join(f"{count} {kind}" for kind, count in kinds))
    proposal = " ".join(propose_include(files)) or "all"
    patterns = click.prompt("  Read which of them? Patterns, or all", default=proposal).split()
    if patterns != ["all"]:
        source["include"] = patterns


def _examine_source(location: str, answers: Answers) -> str:
    """Add a source that can be read, and return what is there; "" for an empty answer. Raises `SourceError`."""
    if not location:
        return ""
    source = asyncio.run(examine_source(location, answers.sources, at_terminal=True))
    answers.sources[source.name] = source.settings
    return source.text


def _ask_model(answers: Answers) -> None:
    click.echo("\nA language model writes the answers. Without one, the bot quotes the best sentences.")
    choice = click.prompt("Model", type=click.Choice(["none", "ollama", "other"]), default="none")
    if choice == "none":
        return
    base_url, names = _ask(
        "Address of the endpoint (none: no model)",
        lambda address: _examine_address(address, may_need_key=choice == "other"),
        default=OLLAMA_URL if choice == "ollama" else None,
        keep=lambda address: (address, None),
    )
    if base_url == NO_MODEL:
        return
    key = ""
    if choice == "other":
        is_reached = names is not None
        key, names = _ask(
            "API key, not shown (Enter: none)",
            lambda value: _examine_key(value, base_url if is_reached else ""),
            hidden=True,
            keep=lambda value: (value, ()),
        )
    if names:
        click.echo("  it has " + ", ".join(sorted(names)[:MAX_SHOWN_MODELS]))
    model, room = _ask(
        "Model's name (none: no model)",
        lambda name: _examine_model(name, base_url, key),
        default=names[0] if names and len(names) == 1 else None,
        keep=lambda name: (name, None),
    )
    if model == NO_MODEL:
        return
    answers.model = {"base_url": base_url, "model": model} | ({"context_tokens": str(room)} if room else {})
    if key:
        answers.secrets[MODEL_KEY] = key


def _examine_address(address: str, *, may_need_key: bool) -> tuple[str, Sequence[str] | None]:
    """Return the address of an endpoint with its models, empty where it shows none without a key.

    Raises `KimasError`.
    """
    if address == NO_MODEL:
        return address, ()
    try:
        return address, asyncio.run(list_models(address, ""))
    except ModelError as error:
        # The key is asked for next.
        if may_need_key and error.status in KEY_STATUSES:
            return address, ()
        raise


def _examine_key(key: str, base_url: str) -> tuple[str, Sequence[str]]:
    """Return a key with the models that it opens at an address; "": one that is not reached now.

    Raises `KimasError`, `ValueError`.
    """
    check_token(key)
    return key, asyncio.run(list_models(base_url, key)) if base_url else ()


def _examine_model(name: str, base_url: str, key: str) -> tuple[str, int | None]:
    """Return the name of a model that answers, and its `context_tokens` where it reads slowly. Raises `ModelError`."""
    if name == NO_MODEL:
        return name, None
    if mask_secrets(name) != name:
        raise ValueError("this is no model's name: it looks like a key")
    room = asyncio.run(find_room(base_url, name, key))
    click.secho(f"  ok: {name} at {base_url} answers", fg="green")
    if room:
        click.echo(f"  it reads slowly here, so it gets no more than {room:,} tokens of passages (context_tokens)")
    return name, room
