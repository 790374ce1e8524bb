"""More of the guide's pictures: the same exchange in Discord and in Slack, and the demo in a terminal.

`python -m tests.lab.screenshots` makes them too. What the peers received is drawn as these clients show it; the
terminal is drawn by what prints there.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from bots.console.render import ConsoleSink
from core.types import Citation, Reply
from tests.lab.screenshots.telegram import (
    GAP,
    LINE,
    MARGIN,
    PATIENCE_S,
    QUESTION,
    SIGNS,
    THUMB,
    WIDTH,
    Run,
    to_lines,
    written,
)
from tests.support.deployment import ROOT, Deployment
from tests.support.peers.discord import Author, DiscordPeer
from tests.support.peers.slack import SlackPeer

YOU = Author("1001", "you", "You")
CHANNEL = "C1"
AVATAR = 36
BESIDE = 50
SMALL = 9
HIGH = 28
BROAD = 44
COLUMNS = 100
DEMO = "How do I check that the configuration works?"
BLOCK = re.compile(r"(?<=so the answer consists of quotes:\n\n````text\n).*?(?=````)", re.S)
FONT = "ui-monospace, Menlo, Consolas, monospace"

SHARED = """
text{{font:14px system-ui,sans-serif;fill:{text}}}.page{{fill:{page}}}
.name,.bold,.app{{font-weight:600}}.name{{fill:{name}}}
.link,.mention{{fill:{link}}}.italic{{font-style:italic}}
.code{{font:13px ui-monospace,Menlo,Consolas,monospace;fill:{code}}}
.bar{{fill:{bar}}}.dim{{fill:{dim}}}.button{{fill:{button};stroke:{edge}}}.sign{{fill:#e3a008}}.face{{fill:{face}}}
.tag{{fill:{tag}}}.app{{font-size:10px;fill:{app}}}"""


@dataclass(frozen=True, slots=True)
class Theme:
    """How a client looks: its colours by day and by night, and how round its faces and buttons are."""

    day: Mapping[str, str]
    night: Mapping[str, str]
    face: int
    button: int

    @property
    def style(self) -> str:
        """Return the style sheet."""
        return SHARED.format(**self.day) + "\n@media(prefers-color-scheme:dark){" + SHARED.format(**self.night) + "}"


def _colours(**colours: str) -> Mapping[str, str]:
    return colours


DISCORD = Theme(
    _colours(
        text="#313338",
        page="#fff",
        name="#060607",
        link="#006ce7",
        code="#313338",
        bar="#c4c9ce",
        dim="#5c5e66",
        button="#e3e5e8",
        edge="none",
        face="#5865f2",
        tag="#5865f2",
        app="#fff",
    ),
    _colours(
        text="#dbdee1",
        page="#313338",
        name="#f2f3f5",
        link="#00a8fc",
        code="#c9cdfb",
        bar="#4e5058",
        dim="#949ba4",
        button="#4e5058",
        edge="none",
        face="#5865f2",
        tag="#5865f2",
        app="#fff",
    ),
    face=AVATAR // 2,
    button=4,
)
SLACK = Theme(
    _colours(
        text="#1d1c1d",
        page="#fff",
        name="#1d1c1d",
        link="#1264a3",
        code="#c01343",
        bar="#ddd",
        dim="#616061",
        button="#fff",
        edge="#bbb",
        face="#4a154b",
        tag="#e8e8e8",
        app="#616061",
    ),
    _colours(
        text="#d1d2d3",
        page="#1a1d21",
        name="#d1d2d3",
        link="#1d9bd1",
        code="#e8912d",
        bar="#565856",
        dim="#ababad",
        button="#1a1d21",
        edge="#565856",
        face="#4a154b",
        tag="#3a3b3f",
        app="#ababad",
    ),
    face=6,
    button=4,
)


@dataclass(frozen=True, slots=True)
class Post:
    """One message: who wrote it, its text, what it replies to, whether by an app, in a thread, and its buttons."""

    name: str
    runs: Sequence[Run]
    app: bool = False
    inset: bool = False
    reply_to: tuple[str, str] | None = None
    buttons: Sequence[str] = ()


# What a mark in the text of each platform stands for: by the name of the group that matches it.
IN_DISCORD = re.compile(
    r"\\(?P<plain>[^\w\s])|`(?P<code>[^`]+)`|\[(?P<link>\[\d+\]|[^]]*)\]\(<?[^)>]*>?\)|<@!?(?P<mention>\d+)>"
    r"|\*\*(?P<bold>.+?)\*\*|\*(?P<italic>[^*]+)\*"
)
IN_SLACK = re.compile(
    r"`(?P<code>[^`]+)`|<[^@|>]*\|(?P<link>[^>]*)>|<@(?P<mention>\w+)>|(?<!\w)\*(?P<bold>[^*\n]+)\*(?!\w)"
    r"|(?<!\w)_(?P<italic>[^_\n]+)_(?!\w)"
)


def to_runs(text: str, marks: re.Pattern[str], read_run: Callable[[str], str] = str) -> list[Run]:
    """Return the text of a message as runs; lines that begin with > are quotations, `read` undoes escapes."""
    runs: list[Run] = []
    for number, line in enumerate(text.split("\n")):
        quoted = frozenset({"blockquote"}) if line.startswith("> ") else frozenset()
        if number:
            runs.append(Run("\n"))
        runs += _line(line.removeprefix("> "), marks, read_run, quoted)
    return [run for run in runs if run.text]


def _line(line: str, marks: re.Pattern[str], read_run: Callable[[str], str], quoted: frozenset[str]) -> list[Run]:
    runs = []
    at = 0
    for results in marks.finditer(line):
        kind = str(results.lastgroup)
        text = f"@{'KIMAs' if kind == 'mention' else ''}" if kind == "mention" else read_run(results[kind])
        kinds = quoted if kind == "plain" else quoted | {kind}
        runs += [Run(read_run(line[at : results.start()]), quoted), Run(text, kinds)]
        at = results.end()
    return [*runs, Run(read_run(line[at:]), quoted)]


def drawn(posts: Sequence[Post], theme: Theme, description: str) -> str:
    """Return messages as an SVG document that can be read on light and on dark pages; `about` says what it shows."""
    y = MARGIN
    body = []
    for post in posts:
        marks, height = _post(post, theme, y)
        body += marks
        y += height + GAP
    height = y - GAP + MARGIN
    title = escape(description)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="{title}">\n<title>{title}</title>\n<style>{theme.style}</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="12"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _post(post: Post, theme: Theme, top: int) -> tuple[list[str], int]:
    """Return the marks of a message, and how high it is with its buttons."""
    left = MARGIN + (BESIDE if post.inset else 0)
    x = left + BESIDE
    y = top
    marks = []
    if post.reply_to:
        name, quoted = post.reply_to
        curve = f"M{left + AVATAR / 2:.0f} {y + 16}v-5q0-4 4-4h{BESIDE - AVATAR / 2 - 12:.0f}"
        marks.append(f'<path d="{curve}" fill="none" stroke="#80848e" stroke-width="2"/>')
        marks.append(written(x, y - 4, [Run(f"@{name} ", frozenset({"name"})), Run(quoted, frozenset({"dim"}))]))
        y += LINE
    face = f'<rect class="face" x="{left}" y="{y}" width="{AVATAR}" height="{AVATAR}" rx="{theme.face}"/>'
    initial = f'<text x="{left + AVATAR / 2:.0f}" y="{y + 23}" text-anchor="middle" fill="#fff" style="fill:#fff">'
    marks += [face, f"{initial}{escape(post.name[0])}</text>", written(x, y, [Run(post.name, frozenset({"name"}))])]
    if post.app:
        tag = x + 1.1 * Run(post.name).width + 8
        marks.append(f'<rect class="tag" x="{tag:.0f}" y="{y + 3}" width="28" height="14" rx="3"/>')
        marks.append(f'<text class="app" x="{tag + 14:.0f}" y="{y + 14}" text-anchor="middle">APP</text>')
    y += LINE
    for line in to_lines(post.runs, WIDTH - x - MARGIN - 40):
        quoted = bool(line) and any("blockquote" in run.kinds for run in line)
        if quoted:
            marks.append(f'<rect class="bar" x="{x}" y="{y}" width="4" height="{LINE}"/>')
        if line:
            marks.append(written(x + (14 if quoted else 0), y, line))
        y += LINE if line else SMALL
    if post.buttons:
        y += 6
        for number, label in enumerate(post.buttons):
            marks += _button(label, x + number * (BROAD + 8), y, theme)
        y += HIGH
    return marks, y - top


def _button(label: str, x: float, y: float, theme: Theme) -> list[str]:
    sign = SIGNS[label].format(THUMB)
    return [
        f'<rect class="button" x="{x}" y="{y}" width="{BROAD}" height="{HIGH}" rx="{theme.button}"/>',
        f'<g transform="translate({x + BROAD / 2 - 8} {y + 6}) scale(.8)"><title>{label}</title>{sign}</g>',
    ]


async def discord(deployment: Deployment) -> str:
    """Ask in a channel of Discord, and return the picture of that."""
    async with DiscordPeer() as peer:
        deployment.settings["discord"] = {"token": {"env": "DISCORD_TOKEN"}, "api_url": peer.api_url}
        deployment.environment["DISCORD_TOKEN"] = peer.token
        async with deployment.daemon():
            await peer.connected(PATIENCE_S)
            channel_id = peer.channel()
            await peer.say(channel_id, f"<@{peer.me.id}> {QUESTION}", author=YOU)
            await peer.wait_until(lambda: any(item.components for item in peer.messages(channel_id)), PATIENCE_S)
        messages = peer.channels[channel_id].messages
    del deployment.settings["discord"]
    posts = []
    for message in messages.values():
        replied = messages.get(message.reply_to)
        quoted = "".join(run.text for run in to_runs(replied.content, IN_DISCORD)) if replied else ""
        buttons = [button["label"] for row in message.components for button in row["components"]]
        name = "KIMAs" if message.author.bot else "You"
        reply_to = ("You", quoted) if replied else None
        posts.append(
            Post(name, to_runs(message.content, IN_DISCORD), message.author.bot, reply_to=reply_to, buttons=buttons)
        )
    return drawn(posts, DISCORD, "A question in a channel of Discord, and the bot's answer")


async def slack(deployment: Deployment) -> str:
    """Ask in a channel of Slack, and return the picture of that and of the thread below it."""
    async with SlackPeer() as peer:
        tokens = {"bot_token": {"env": "SLACK_BOT"}, "app_token": {"env": "SLACK_APP"}}
        deployment.settings["slack"] = {**tokens, "api_url": peer.api_url}
        deployment.environment |= {"SLACK_BOT": peer.bot_token, "SLACK_APP": peer.app_token}
        async with deployment.daemon():
            await peer.wait_until(lambda: bool(peer.deliveries.connections), PATIENCE_S)
            query = peer.say(CHANNEL, f"<@{peer.bot}> {QUESTION}")
            await peer.wait_until(lambda: any(message.buttons() for message in peer.messages(CHANNEL)), PATIENCE_S)
        question = peer.message(CHANNEL, query)
        answers = peer.messages(CHANNEL)
    del deployment.settings["slack"]
    posts = [Post("You", to_runs(question.text, IN_SLACK, unescape))]
    for answer in answers:
        buttons = [button["text"]["text"] for button in answer.buttons()]
        posts.append(
            Post("KIMAs", to_runs(answer.text, IN_SLACK, unescape), True, bool(answer.thread_ts), buttons=buttons)
        )
    return drawn(posts, SLACK, "A question in a channel of Slack, and the bot's answer in the thread below it")


def demo(folder: Path) -> tuple[str, str]:
    """Do what `make demo` does for the first time; return the picture of its answer, and what it prints into a file."""
    configured = ["--config", str(ROOT / "config" / "demo.yaml"), "--set", f"data_dir={folder}"]
    kimas = [sys.executable, "-m", "bots.cli.main", *configured]
    result = subprocess.run([*kimas, "ask", DEMO, "--json"], check=True, capture_output=True, text=True, cwd=ROOT)
    data = json.loads(result.stdout)
    reply = Reply(data["answer"], tuple(Citation(**citation) for citation in data["citations"]), (), data["extractive"])
    return terminal(DEMO, reply), printed(reply)


def terminal(question: str, reply: Reply) -> str:
    """Return the picture of a terminal in which a question was answered."""
    console = Console(record=True, file=StringIO(), force_terminal=True, width=COLUMNS, highlight=False)
    console.print(f'[bold green]$[/] kimas ask "{question}"')
    console.print()
    asyncio.run(ConsoleSink(console).finish(reply))
    # Nothing from elsewhere: the fonts of the reader.
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code, monospace", FONT)
    return re.sub(r"<!--.*?-->", "", console.export_svg(title="kimas ask", code_format=form, unique_id="kimas"))


def printed(reply: Reply) -> str:
    """Return what an answer looks like in a file, in lines that a page takes."""
    output = StringIO()
    asyncio.run(ConsoleSink(Console(file=output, width=COLUMNS)).finish(reply))
    lines = (textwrap.wrap(line, 120, break_on_hyphens=False) or [""] for line in output.getvalue().splitlines())
    return "\n".join(piece for line in lines for piece in line) + "\n"


def with_transcript(page: str, transcript: str) -> str:
    """Return a page with another transcript of the demo."""
    return BLOCK.sub(lambda _: transcript, page)
