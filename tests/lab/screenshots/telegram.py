"""The guide's pictures of a chat: a real exchange of the daemon with the Telegram peer, drawn as a chat window.

    python -m tests.lab.screenshots

asks this repository's own guide, without a language model, and draws what the peer received: the text and the entities
that Telegram would show, and the buttons below. Nothing is written by hand but the question. Those of
Discord, Slack and the terminal are made in `clients`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tests.support.deployment import ROOT, Deployment
from tests.support.peers.telegram import Author, Chat, TelegramPeer
from tests.support.peers.telegram_text import Entity, units

PICTURES = ROOT / "docs" / "images"
QUESTION = "What happens if the bot crashes while it answers?"
GROUP = -1001000000001
YOU = Author(1001, "You", "you")
PATIENCE_S = 60

WIDTH = 680
MARGIN = 14
BUBBLE = 560
INSIDE = 14
LINE = 20
GAP = 10
BLANK = 8
BUTTON = 34
BASELINE = 14
NARROW = "iljtfrI.,:;'!|()[]` "
WIDE = "mwMW@%—…"
STYLE = """
text{font:14px system-ui,sans-serif;fill:#1f2328}.page{fill:#dfe7ee}.theirs{fill:#fff}.mine{fill:#e1fbd0}
.name{font-weight:600;fill:#0969da}.link{fill:#0969da}.bold{font-weight:600}.italic{font-style:italic}
.code{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#953800}.bar{fill:#2f81f7}.dim{fill:#59636e}
.button{fill:#fff;fill-opacity:.75}.sign{fill:#e3a008}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0e1621}.theirs{fill:#182533}.mine{fill:#2b5278}
.name,.link{fill:#6cb6ff}.code{fill:#ffa657}.dim{fill:#9da7b1}.button{fill:#3b4a5c}}"""
# Drawn, in a square of 20: not every machine has a font with these.
SIGNS = {
    "👍": '<path class="sign" d="{}"/>',
    "👎": '<path class="sign" transform="matrix(1 0 0 -1 0 20)" d="{}"/>',
}
THUMB = "M1 9h4v9H1zM6.5 9l4-7.5q3 0 2.3 3.7L12.2 8H17q2.2 0 1.8 2.2l-1.2 6q-.4 1.8-2.4 1.8H6.5z"
CLASSES = {"text_link": "link", "mention": "link", "url": "link", "bold": "bold", "italic": "italic", "code": "code"}


@dataclass(frozen=True, slots=True)
class Run:
    """Text of one look: what Telegram's entities say of it."""

    text: str
    kinds: frozenset[str] = frozenset()

    @property
    def width(self) -> float:
        """Return about how wide it is drawn, in pixels, rather too much than too little."""
        return sum(_width(sign, "code" in self.kinds) for sign in self.text)


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message: who wrote it, its text as it is shown, what it replies to, and the buttons below it by row."""

    name: str
    text: str
    entities: Sequence[Entity] = ()
    mine: bool = False
    reply_to: tuple[str, str] | None = None
    buttons: Sequence[Sequence[str]] = ()


def bubbles(chat: Chat) -> list[Bubble]:
    """Return a chat of the peer as it is shown now."""
    output = []
    for message in chat.messages.values():
        replied = chat.messages.get(message.reply_to or 0)
        rows = [[str(button["text"]) for button in row] for row in message.buttons]
        reply_to = (replied.author.first_name, replied.text) if replied else None
        is_own = not message.from_bot
        output.append(Bubble(message.author.first_name, message.text, message.entities, is_own, reply_to, rows))
    return output


def runs_in(text: str, entities: Sequence[Entity]) -> list[Run]:
    """Cut a text where its look changes. Entities count in UTF-16 units, as Telegram does."""
    runs: list[Run] = []
    at = 0
    for sign in text:
        kinds = frozenset(
            entity["type"] for entity in entities if entity["offset"] <= at < entity["offset"] + entity["length"]
        )
        if runs and runs[-1].kinds == kinds:
            runs[-1] = Run(runs[-1].text + sign, kinds)
        else:
            runs.append(Run(sign, kinds))
        at += units(sign)
    return runs


def to_lines(runs: Sequence[Run], width: float) -> list[list[Run]]:
    """Break runs into lines no wider than this, at blanks; an empty line is an empty list."""
    lines: list[list[Run]] = [[]]
    for run in runs:
        for number, part in enumerate(run.text.split("\n")):
            if number:
                lines.append([])
            for word in _words(part):
                piece = Run(word, run.kinds)
                if lines[-1] and sum(item.width for item in lines[-1]) + Run(word.rstrip(), run.kinds).width > width:
                    lines.append(_pop_last_word(lines[-1]))
                    piece = Run(word.lstrip(), run.kinds)
                lines[-1].append(piece)
    return lines


def _pop_last_word(line: list[Run]) -> list[Run]:
    """Take away from a line, and return, the word at its end that goes on in another look."""
    start = len(line)
    while start > 1 and not line[start - 1].text.endswith(" "):
        start -= 1
    moved_words, line[start:] = (line[start:], []) if line[start - 1].text.endswith(" ") else ([], line[start:])
    return moved_words


def draw(chat: Sequence[Bubble], description: str) -> str:
    """Return the chat as an SVG document that can be read on light and on dark pages; `about` says what it shows."""
    y = MARGIN
    body = []
    for bubble in chat:
        bubble_lines, height = _draw_bubble(bubble, y)
        body += bubble_lines
        y += height + GAP
    height = y - GAP + MARGIN
    title = escape(description)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="{title}">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="12"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _draw_bubble(bubble: Bubble, top: int) -> tuple[list[str], int]:
    """Return the marks of a message, and how high it is with its buttons."""
    lines = to_lines(runs_in(bubble.text, bubble.entities), BUBBLE - 2 * INSIDE - 12)
    width = min(BUBBLE, max(sum(run.width for run in line) for line in lines) + 2 * INSIDE + 12)
    width = BUBBLE if bubble.buttons or bubble.reply_to else max(width, 120)
    left = WIDTH - MARGIN - width if bubble.mine else MARGIN
    x = left + INSIDE
    y = top + 8
    marks = []
    if not bubble.mine:
        marks.append(written(x, y, [Run(bubble.name, frozenset({"name"}))]))
        y += LINE
    if bubble.reply_to:
        name, quoted = bubble.reply_to
        marks.append(f'<rect class="bar" x="{x:.0f}" y="{y}" width="3" height="{2 * LINE - 2}" rx="1.5"/>')
        marks.append(written(x + 12, y, [Run(name, frozenset({"name"}))]))
        marks.append(written(x + 12, y + LINE - 2, [Run(quoted, frozenset({"dim"}))]))
        y += 2 * LINE + 6
    for line in lines:
        if line and any("blockquote" in run.kinds for run in line):
            marks.append(f'<rect class="bar" x="{x:.0f}" y="{y}" width="3" height="{LINE}"/>')
        if line:
            indent = 12 if "blockquote" in line[0].kinds else 0
            marks.append(written(x + indent, y, line))
        y += LINE if line else BLANK
    kind = "mine" if bubble.mine else "theirs"
    box = f'<rect class="{kind}" x="{left:.0f}" y="{top}" width="{width:.0f}" height="{y + 6 - top}" rx="12"/>'
    y += 6
    for row in bubble.buttons:
        marks += _buttons(row, left, y + 4, width)
        y += BUTTON + 4
    return [box, *marks], y - top


def _buttons(row: Sequence[str], left: float, y: int, width: float) -> Iterator[str]:
    button_width = (width - 4 * (len(row) - 1)) / len(row)
    for number, label in enumerate(row):
        x = left + number * (button_width + 4)
        yield f'<rect class="button" x="{x:.1f}" y="{y}" width="{button_width:.1f}" height="{BUTTON}" rx="8"/>'
        if label in SIGNS:
            sign = SIGNS[label].format(THUMB)
            yield f'<g transform="translate({x + button_width / 2 - 10:.1f} {y + 7})"><title>{label}</title>{sign}</g>'
            continue
        yield f'<text x="{x + button_width / 2:.1f}" y="{y + 22}" text-anchor="middle">{escape(label)}</text>'


def written(x: float, y: float, line: Sequence[Run]) -> str:
    """Return one line of runs as text that begins there."""
    spans = []
    for run in line:
        names = " ".join(sorted({CLASSES.get(kind, kind) for kind in run.kinds - {"blockquote"}}))
        spans.append(f'<tspan class="{names}">{escape(run.text)}</tspan>' if names else escape(run.text))
    return f'<text x="{x:.0f}" y="{y + BASELINE:.0f}" xml:space="preserve">{"".join(spans)}</text>'


def _words(text: str) -> list[str]:
    """Cut a text behind its blanks."""
    words = text.split(" ")
    return [word for word in [*(f"{word} " for word in words[:-1]), words[-1]] if word]


def _width(sign: str, code: bool) -> float:
    if units(sign) > 1 or ord(sign) > 0x2E80:
        return 18
    if code:
        return 7.9
    if sign in NARROW:
        return 4.8
    return 12.5 if sign in WIDE else 9.6 if sign.isupper() else 8


async def exchange(deployment: Deployment) -> dict[str, str]:
    """Ask in a group, press thumbs down below the answer, and return the pictures by name."""
    async with TelegramPeer() as peer:
        deployment.settings["telegram"] = {"token": {"env": "BOT_TOKEN"}, "api_url": peer.api_url}
        deployment.environment["BOT_TOKEN"] = peer.token
        async with deployment.daemon():
            peer.say(GROUP, f"@{peer.username} {QUESTION}", author=YOU)
            await peer.wait_until(lambda: any(message.buttons for message in peer.messages(GROUP)), PATIENCE_S)
            answer = peer.messages(GROUP)[-1]
            question = draw(bubbles(peer.chat(GROUP)), "A question in a Telegram group, and the bot's answer")
            rows = len(answer.buttons)
            buttons = answer.buttons
            peer.press(GROUP, answer.id, buttons[0][1]["callback_data"], author=YOU)
            await peer.wait_until(lambda: len(peer.messages(GROUP)[-1].buttons) > rows, PATIENCE_S)
            pressed_drawing = draw(
                bubbles(peer.chat(GROUP))[1:], "The bot's answer after thumbs down: buttons that ask why"
            )
    return {"group": question, "feedback": pressed_drawing}
