"""The command line: every command with its options. Results go to standard output, logs and errors to standard error.

A command's function only names what does the work, so that it loads when the command runs and not before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bots.cli.options import (
    NO_MODEL_SECTIONS,
    PLATFORM_SECTIONS,
    as_json_lines_option,
    as_json_option,
    config_options,
    days_option,
    find_only_file,
    find_trial_source,
    import_by_path,
    make_settings_reloader,
    open_missing_streams,
    run,
    run_command,
    source_option,
)
from core.runtime.tuning import limit_blas_threads

Command = Callable[..., None]
_path = click.Path(path_type=Path)

SET_PAUSED = "cli.sources:set_paused"
NAME = click.argument("name")
PAUSE_HELP = """Stop the scheduled refreshes of a source.

Its knowledge stays in use. A running daemon notices within a minute."""
RESUME_HELP = "Resume the scheduled refreshes of a source; missed ones run once."
REVIEW = "cli.records:review_answer"
NUMBER = click.argument("number", type=click.IntRange(1))
APPROVE_HELP = "Make an answer knowledge, from the next refresh on."
REJECT_HELP = "Keep an answer from becoming knowledge, or take it out again."


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@config_options
@click.version_option(package_name="kimas")
@click.pass_context
def main(context: click.Context, files: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    """Answer questions in group chats from your knowledge, with citations.

    --config and --set may come before or after the command.
    """
    open_missing_streams()
    context.obj = (files, overrides)
    if context.invoked_subcommand != "init":
        # What members wrote, and private knowledge, is for this account only. A configuration may be meant for another.
        os.umask(0o077)
    limit_blas_threads()


@main.command()
@config_options
@as_json_option
@source_option
@click.argument("question")
def ask(question: str, files: tuple[Path, ...], source: str, **options: Any) -> None:
    """Answer one question, with citations. QUESTION may be - for standard input.

    Without a configuration the answer comes from --source, or from KIMAs' own guide.
    """
    if question == "-":
        _require_stdin()
    trial_source = find_trial_source(files, source)
    is_trial = trial_source is not None
    run_command("cli.ask:ask", files, question=question, trial_source=trial_source, is_trial=is_trial, **options)


@main.command()
@config_options
@source_option
@click.option("--group", is_flag=True, help="Simulate a group: 'Ben: text' is Ben's message, @kimas means the bot.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="With --group: keep the messages in this folder, and continue from them.",
)
def chat(group: bool, keep: Path | None, files: tuple[Path, ...], source: str, **options: Any) -> None:
    """Hold a conversation in the terminal.

    Without a configuration the answers come from --source, or from KIMAs' own guide.
    """
    if keep and not group:
        raise click.UsageError("--keep belongs to --group")
    _require_stdin()
    if group and source:
        raise click.UsageError("--source and --group exclude each other: give one of them")
    if group:
        run_command("cli.group:run_group_chat", files, folder=keep, **options)
    trial_source = find_trial_source(files, source)
    run_command("cli.chat:chat", files, trial_source=trial_source, is_trial=trial_source is not None, **options)


@main.command()
@config_options
@source_option
def mcp(files: tuple[Path, ...], source: str, **options: Any) -> None:
    """Serve the knowledge over MCP, on standard input.

    Without a configuration it comes from --source, or from KIMAs' own guide.
    """
    _require_stdin()
    trial_source = find_trial_source(files, source)
    run_command("cli.mcp:serve_mcp", files, trial_source=trial_source, is_trial=trial_source is not None, **options)


def _add_command(
    group: click.Group,
    path: str,
    help_text: str,
    *parameters: Callable[[Command], Command],
    name: str = "",
    as_json: bool = True,
    **fixed_options: Any,
) -> None:
    """Add a command that runs the function at `path`, after whose name it is called unless `name` says another."""
    fixed_options.setdefault("unused_sections", PLATFORM_SECTIONS if group.name == "eval" else NO_MODEL_SECTIONS)

    def run_function(**options: Any) -> None:
        run_command(path, **options, **fixed_options)

    command: Command = run_function
    decorators: list[Callable[[Command], Command]] = [config_options, *([as_json_option] if as_json else [])]
    for add_parameter in reversed([*decorators, *parameters]):
        command = add_parameter(command)
    group.command(name or path.rpartition(":")[2], help=help_text)(command)


_add_command(
    main,
    "cli.ask:search",
    "Retrieve passages, without a language model.",
    click.option("--agent", default="", metavar="NAME", help="Search this agent's sources only."),
    click.option("--top-k", default=8, show_default=True, type=click.IntRange(1, 1000), help="Passages to show."),
    click.option("--explain", is_flag=True, help="Show every score, of all agents and of each passage."),
    click.argument("query"),
)
_add_command(
    main,
    "cli.ask:ingest",
    "Read what is new in all sources, or in the named ones.",
    click.option("--rebuild", is_flag=True, help="Empty the store first: for a new embedding model or a broken store."),
    click.argument("names", metavar="[SOURCES]...", nargs=-1),
)
_add_command(
    main,
    "cli.check:run_check",
    "Check the configuration, its secrets and its sources.",
    click.option("--live", is_flag=True, help="Also contact sources, models and platforms."),
    name="check",
    unused_sections=(),
)
_add_command(
    main,
    "cli.records:usage",
    "Show the tokens and the cost of answers, by day and by agent.",
    days_option,
)
_add_command(
    main,
    "cli.records:audit",
    "Show who changed what with commands.\n\nThe newest entries first, including refused commands.",
    click.option(
        "--entries", "limit", default=20, show_default=True, type=click.IntRange(1, 100_000), help="How many to show."
    ),
)


@main.command()
@click.option("--non-interactive", is_flag=True, help="Ask nothing, write a template: the default without a terminal.")
@click.option("--browser", is_flag=True, help="Ask in the browser of this machine, and run the bot there at once.")
@click.option("--api-url", default="", metavar="URL", help="The platform's API, if it is not the public one.")
@click.argument("path", default="kimas.yaml", type=_path)
def init(path: Path, non_interactive: bool, browser: bool, api_url: str) -> None:
    """Write a configuration.

    In a terminal it asks questions and checks each answer at once; elsewhere it writes a template.
    """
    is_terminal = bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())
    is_asking = is_terminal and not non_interactive
    if browser and non_interactive:
        raise click.UsageError("--browser and --non-interactive exclude each other: give one of them")
    import_by_path("cli.init_template:check_api_url")(api_url, is_asking=is_asking or browser)
    if browser:
        import_by_path("cli.init_browser:init_in_browser")(path, api_url)
    if is_asking:
        answers = import_by_path("cli.init_wizard:ask_all")(path, api_url)
    else:
        answers = import_by_path("cli.init_template:Answers")()
    run(import_by_path("cli.init_template:init")(path, answers))


@main.command("run")
@config_options
@click.option("--dry-run", is_flag=True, help="Read and decide as usual, but only log the replies: post nothing.")
def run_daemon(files: tuple[Path, ...], overrides: tuple[str, ...], **options: Any) -> None:
    """Run the daemon: answer on all platforms, keep knowledge fresh."""
    options["reload_settings"] = make_settings_reloader(files, overrides)
    if file := find_only_file(files):
        all_overrides = (*click.get_current_context().find_root().obj[1], *overrides)
        # It loads where there is a page.
        options["make_setup"] = lambda: import_by_path("cli.browser_setup:BrowserSetup")(file, overrides=all_overrides)
    run_command("daemon.runner:run", files, overrides, is_daemon=True, **options)


_add_command(
    main,
    "cli.backup:backup",
    "Save the data and the configuration without secrets in one file.\n\nA daemon may run meanwhile. FILE is by "
    "default kimas-DATE.zip.",
    click.argument("target", metavar="[FILE]", required=False, type=click.Path(dir_okay=False, path_type=Path)),
)
_add_command(
    main,
    "cli.backup:restore",
    "Put a backup into the empty data directory. No daemon may run.",
    click.argument("source", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path)),
)


@main.group()
def store() -> None:
    """Copy the passages between stores."""


_add_command(
    store,
    "cli.store:copy_knowledge",
    "Copy knowledge into the other store, with its vectors.",
    click.option("--to", "target", required=True, type=click.Choice(["weaviate", "sqlite"]), help="The store to fill."),
    name="copy",
)


@main.group()
def journal() -> None:
    """Copy the journal, or erase a person from it."""


_add_command(
    journal,
    "cli.journal:copy_journal",
    "Copy the journal to PostgreSQL, or back.\n\nThe target must be empty, and no daemon may run.",
    click.option(
        "--to", "target_kind", required=True, type=click.Choice(["postgresql", "sqlite"]), help="The journal to fill."
    ),
    name="copy",
)
_add_command(
    journal,
    "cli.journal:forget",
    "Erase what a person said, in all chats.\n\nUSER is platform:user id, for example telegram:12345.",
    click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask first."),
    click.argument("user"),
)


@main.group(invoke_without_command=True)
@config_options
@as_json_option
@click.pass_context
def sources(context: click.Context, files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool) -> None:
    """Show the state of every source.

    What is stored, the last and the next refresh, and what went wrong.
    """
    if context.invoked_subcommand is None:
        run_command("cli.sources:sources", files, overrides, as_json=as_json, unused_sections=NO_MODEL_SECTIONS)
    # Options between the two names count for the second.
    root = context.find_root()
    root.obj = ((*root.obj[0], *files), (*root.obj[1], *overrides))


_add_command(sources, SET_PAUSED, PAUSE_HELP, NAME, name="pause", as_json=False, paused=True)
_add_command(sources, SET_PAUSED, RESUME_HELP, NAME, name="resume", as_json=False, paused=False)


@main.command()
@config_options
@as_json_option
@days_option
@click.option("--labels", is_flag=True, help="Print the rated questions as labelled lines for `kimas eval gate`.")
@click.option("--calibrate", is_flag=True, help="Fit the chat's threshold to its rated questions, and show it.")
@click.option("--apply", is_flag=True, help="With --calibrate: set the threshold if it does better.")
@click.option("--chat", default="", metavar="PLATFORM:CHAT", help="With --labels or --calibrate: only this chat.")
def feedback(days: int, labels: bool, calibrate: bool, apply: bool, **options: Any) -> None:
    """Show how people rated answers, by day."""
    if apply and not calibrate:
        raise click.UsageError("--apply needs --calibrate: it sets the threshold that --calibrate finds")
    if calibrate and labels:
        raise click.UsageError("--labels and --calibrate exclude each other: give one of them")
    if calibrate:
        run_command("evaluation.gate:calibrate", apply=apply, **options)
    run_command("cli.records:feedback", days=days, labels=labels, **options)


@main.group()
def faq() -> None:
    """Review the answers that people gave.

    Approved ones become knowledge, by a source of the kind learned.
    """


@faq.command("list")
@config_options
@as_json_option
@click.option(
    "--state", default="pending", show_default=True, type=click.Choice(["pending", "approved", "rejected", "all"])
)
def list_answers(state: str, **options: Any) -> None:
    """Show answers, by default those that wait for a review."""
    run_command("cli.records:list_answers", state=None if state == "all" else state, **options)


_add_command(faq, REVIEW, APPROVE_HELP, NUMBER, name="approve", state="approved")
_add_command(faq, REVIEW, REJECT_HELP, NUMBER, name="reject", state="rejected")
_add_command(
    faq,
    "cli.records:release_answers",
    "Say who may be told these answers.\n\nEverybody, or who sees what a chat sees. An answer that was taught "
    "where closed sources can be seen, or by an earlier version, is not used elsewhere without this.",
    click.option("--all", "all_unknown", is_flag=True, help="All answers of which nobody knows who may see them."),
    click.option("--chat", default="", metavar="PLATFORM:CHAT", help="Only for who sees all that this chat sees."),
    click.argument("numbers", metavar="[NUMBERS]...", nargs=-1, type=click.IntRange(1)),
    name="release",
)
_add_command(
    faq,
    "cli.records:export_answers",
    "Print the approved answers as JSON Lines.\n\nA source of the kind faq reads them.",
    name="export",
    as_json=False,
)


@main.group("eval")
def evaluate() -> None:
    """Measure how well KIMAs does on labelled data (JSON Lines)."""


def _add_measurement(
    name: str,
    help_text: str,
    fit_help: str = "",
    *decorators: Callable[[Command], Command],
    has_corpus: bool = True,
    needs_data: bool = True,
) -> None:
    """Add a measurement; `fit_help` says what --fit fits, if it can, and `decorators` add its own parameters."""
    path_type = click.Path(path_type=Path)
    corpus_help = "Documents (JSON Lines) instead of the sources."
    parameters: list[Callable[[Command], Command]] = [
        *([click.option("--corpus", type=path_type, metavar="FILE", help=corpus_help)] if has_corpus else []),
        click.option("--plot", type=path_type, metavar="F.png", help="Also draw it, as PNG."),
        *([click.option("--fit", is_flag=True, help=f"Also fit {fit_help} as YAML.")] if fit_help else []),
        *decorators,
        click.argument("data", type=path_type, required=needs_data),
    ]
    _add_command(evaluate, f"evaluation.{name}:{name}", help_text, *parameters)


_add_measurement(
    "citations",
    "Measure how well citations are found and false ones removed.\n\nIt measures the look-back and the citation check.",
    has_corpus=False,
)
_add_measurement(
    "retrieval",
    "Measure how well questions find their documents.\n\n"
    "Each as asked, rewritten by rules, and rewritten by the light model.",
    "the weight of meaning against words, and print it",
)
_add_measurement(
    "routing",
    "Measure how well questions find their agents.\n\nIt also shows how many searches that saves.",
    "mix, scales and threshold, and print them",
)
_add_measurement(
    "gate",
    "Measure how well the bot knows when to speak unprompted.\n\nWithout DATA, it uses rated questions.",
    "a model and a threshold, and print the settings",
    click.option("--explain", is_flag=True, help="Show for every message how sure the gate is, and why."),
    needs_data=False,
)
_add_measurement(
    "answers",
    "Measure whole answers: words, citations, times.\n\n"
    "Every question is answered as by `kimas ask`, and costs as much.",
    "",
    click.option("--judge", "with_judge", is_flag=True, help="Let the model models.judge check every sentence."),
)
_add_command(
    evaluate,
    "evaluation.comparison.command:compare",
    "Let a judge compare strategies on the same questions.\n\n"
    "Every question is answered by every system and judged twice (models.judge). An interrupted run can continue.",
    click.option("--corpus", type=_path, metavar="FILE", help="Documents (JSON Lines) instead of the sources."),
    click.option("--plot", type=_path, metavar="F.png", help="Also draw it, as PNG."),
    click.option("--systems", default="", metavar="A,B", help="Compare these: router, single, simple, react, ..."),
    click.option("--fresh", "is_fresh", is_flag=True, help="Delete the results of earlier runs and start over."),
    click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask before calls that may cost money."),
    click.argument("data", type=_path),
)
_add_command(
    evaluate,
    "evaluation.make:make",
    "Propose labelled lines, and append those that you accept to DATA.\n\n"
    "Questions come from the knowledge (a model writes them), from liked answers and from unanswered questions; lines "
    "for the gate from a chat's messages.",
    click.option(
        "--from",
        "origins",
        multiple=True,
        type=click.Choice(["knowledge", "ratings", "unanswered"]),
        help="Where questions come from; repeatable, default: all.",
    ),
    click.option("--chat", default="", metavar="PLATFORM:CHAT", help="Only messages of this chat."),
    click.option("--count", default=20, show_default=True, type=click.IntRange(1, 1000), help="Proposals per origin."),
    as_json_lines_option,
    click.argument("kind", type=click.Choice(["questions", "gate"])),
    click.argument("data", type=_path),
    as_json=False,
)
_add_command(
    evaluate,
    "evaluation.export:export",
    "Print lines to train a model for the router with, as JSON Lines.\n\n"
    "From the journal and its ratings: the question, its conversation, and the strategy that was chosen or preferred.",
    click.option("--chat", default="", metavar="PLATFORM:CHAT", help="Only questions of this chat."),
    click.option(
        "--judged",
        type=(_path, _path),
        default=None,
        metavar="RESULT DATA",
        help="Also what a judge preferred: the output of `kimas eval compare --json`, and its data.",
    ),
    as_json=False,
)


def _require_stdin() -> None:
    # Python has none where whoever started it closed it.
    if sys.stdin is None:
        raise click.UsageError("there is no standard input to read from")


if __name__ == "__main__":
    main()
