"""A patch with a place for the answer to each question that lacks one: for the FAQ file, or as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from core.formatting import format_link
from core.messaging.gaps import Gap
from core.observability.logs import get_logger
from core.settings import FaqSource, Settings
from knowledge.formats.question_pairs import read_entries
from knowledge.parsing.limits import FormatError

_log = get_logger(__name__)

Clean = Callable[[str], str]

CONTEXT_LINES = 3
MAX_VARIANTS = 5
MAX_FAQ_BYTES = 4 << 20
NO_END_OF_LINE = "\\ No newline at end of file"
_ITEM = re.compile(r"^( *)- ", re.MULTILINE)


def make_patch(gaps: Sequence[Gap], settings: Settings, days: int, clean: Clean) -> tuple[str, str]:
    """Return the name and the text of a file to download. `clean` makes what strangers wrote fit to be shown.

    It is a unified diff of the first FAQ in YAML that can take further entries, else sections in Markdown. An entry
    counts as incomplete, and is passed over, until somebody has written its answer.
    """
    for source in settings.sources.values():
        if isinstance(source, FaqSource) and (diff := _make_diff(source.path.expanduser(), gaps, clean)):
            return "gaps.patch", diff
    return "gaps.md", "\n".join(_make_section(gap, days, clean) for gap in gaps)


def _make_diff(path: Path, gaps: Sequence[Gap], clean: Clean) -> str:
    """Return the diff that appends the entries to a list of entries; "" where that is not possible."""
    if path.suffix.lower() not in (".yaml", ".yml") or not gaps:
        return ""
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_FAQ_BYTES else b""
        old_text = data.decode()
        item = _ITEM.search(old_text)
        new_lines = [line for gap in gaps for line in _make_entry(gap, item[1] if item else "", clean)]
        new_text = "\n".join((old_text.rstrip("\n"), *new_lines, ""))
        entries, incomplete_count = read_entries(str(path), data)
        # What the reader takes is right; anything else has another form, and gets a file of its own.
        if not entries or read_entries(str(path), new_text.encode()) != (entries, incomplete_count + len(gaps)):
            return ""
    except (OSError, ValueError, FormatError) as error:
        _log.warning("gap_patch.without_faq", error=str(error))
        return ""
    # A name with a blank ends at a tab: without it, `patch` takes the first word for the name.
    name = f"{path.name}\t" if " " in path.name else path.name
    return "\n".join((f"--- a/{name}", f"+++ b/{name}", *_make_hunk(old_text, new_lines), ""))


def _make_hunk(old_text: str, new_lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the only hunk: the entries follow the last line that is not empty."""
    lines = old_text.rstrip("\n").split("\n")
    empty_count = old_text.count("\n", len(old_text.rstrip("\n"))) - 1
    kept = lines[-CONTEXT_LINES:]
    start = len(lines) - len(kept) + 1
    old_count = len(kept) + max(0, empty_count)
    yield f"@@ -{start},{old_count} +{start},{len(kept) + len(new_lines)} @@"
    has_end = empty_count >= 0
    yield from (f" {line}" for line in (kept if has_end else kept[:-1]))
    if not has_end:
        yield from (f"-{kept[-1]}", NO_END_OF_LINE, f"+{kept[-1]}")
    yield from ["-"] * max(0, empty_count)
    yield from (f"+{line}" for line in new_lines)


def _make_entry(gap: Gap, indentation: str, clean: Clean) -> Iterator[str]:
    """Yield the lines of an entry without an answer. JSON's texts are YAML's."""
    texts = _get_texts(gap, clean)
    yield f"{indentation}- question: {json.dumps(texts[0], ensure_ascii=False)}"
    yield from (f"{indentation}  # {text}" for text in texts[1:])
    if gap.page:
        yield f"{indentation}  # nearest page: {' '.join(clean(gap.page.url or gap.page.path).split())}"
    yield f'{indentation}  answer: ""'


def _make_section(gap: Gap, days: int, clean: Clean) -> str:
    texts = _get_texts(gap, clean)
    page = f" Nearest page: {format_link(gap.page.title or gap.page.path, gap.page.url)}." if gap.page else ""
    variants = "".join(f"- {format_link(text, '')}\n" for text in texts[1:])
    asked = f"*Asked {len(gap.questions)} times in {days} days.*{page}"
    return f"## {format_link(texts[0], '')}\n\n{asked}\n{variants and chr(10)}{variants}\nTODO\n"


def _get_texts(gap: Gap, clean: Clean) -> Sequence[str]:
    """Return the most typical question and others of its meaning, each in one line and once."""
    questions = [gap.typical, *gap.questions]
    return list(dict.fromkeys(" ".join(clean(question.text).split()) for question in questions))[: MAX_VARIANTS + 1]
