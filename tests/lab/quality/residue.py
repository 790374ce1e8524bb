"""What reading a repository loses, adds or leaves in its passages: words, languages of code, and marks.

python -m tests.lab.quality.residue REPOSITORY [--include GLOB ...] [--examples N]   counts by kind, with examples
python -m tests.lab.quality.residue REPOSITORY --draw N [--seed N]    passages to be read by eye
python -m tests.lab.quality.residue REPOSITORY --dump FILE            all passages, to compare two versions

The repository is read as a source of kind `git` reads it. What is counted is a hint and no judgement: a menu that a
reader leaves out is a lost line, and a guide to templates shows their tags. Look at the examples.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path

from core.settings import GitSource
from knowledge.chunking import chunk
from knowledge.ports import Chunk, Document
from knowledge.sources.git.source import GitRepository

TOKENS = 200
KINDS = ("asciidoc", "markdown", "rst")
# Of a line, so much may be missing: a link leaves no trace, and marks may stand between two words.
MISSING_SHARE = 0.6
MIN_PAIRS = 2
# Of a passage, so many of its words may stand outside of its lines, as a head does that is repeated.
MAX_ELSEWHERE = 0.5
MAX_SHOWN_CHARS = 160
MAX_CODE_LINES = 14

_WORD = re.compile(r"[^\W_]+")
_FRONT_MATTER = re.compile(r"\A\s*(---|\+\+\+)[ \t]*\n.*?\n(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_COMMENTS = {
    "markdown": re.compile(r"<!--.*?-->|\{/\*.*?\*/\}|^%[ \t].*$", re.DOTALL | re.MULTILINE),
    "asciidoc": re.compile(r"^/{4,}$.*?^/{4,}$|^//(?!/).*$|^:!?[\w-]+!?:.*$", re.DOTALL | re.MULTILINE),
    "rst": re.compile(r"^[ \t]*\.\.(?:[ ]+(?!\[|.*::)\S.*(?:\n[ \t]+\S.*)*)?$", re.MULTILINE),
}
# Where something leads, and how it looks, is no text.
_MARKUP = re.compile(
    r"https?://[^\s)\]>\"']+|\]\([^()\n]*\)|</?[A-Za-z][^<>\n]*>|\{[^{}\n]*\}|`[^`\n]*<[^<>\n]*>`_?"
    r"|(?:xref|link|image):\S*"
)
_NO_TEXT_LINE = re.compile(
    r"[ \t]*(?::[\w-]+:|\.\.[ ]|import[ ]|export[ ]|\[.*\]$|(?:image|include|ifdef|ifndef|endif)::|\[[^\]\n]+\]:"
    r"|!\[[^\]\n]*\]\(|(?:`{3,}|~{3,})|# // |\w[\w-]*:)"
)
_OPENING = re.compile(
    r"[ \t>]*(?:[-*+\d.]+[ \t]+)?(?:(?:`{3,}|~{3,})[ \t]*(?:\{(?:code-block|code|sourcecode|code-cell)\}[ \t]*|\{\.)?"
    r"([A-Za-z][\w+#-]*)|\.\.[ ]+(?:code-block|code|sourcecode)::[ \t]+([\w+#-]+)"
    r"|\[(?:source[^,\]\n]{0,20})?,[ ]*([\w+#-]+)(?=[,\]])"
    r"|\{[%{<]-?[ ]*highlight[ ]+([\w+#-]+))"
)
_FENCE = re.compile(
    r"^[ \t>]*(?:[-*\d.]+[ \t]+)?(`{3,})([^\s`]*)[ \t]*\n(.*?)(?:^[ \t>]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_LINK_TARGET = re.compile(r"\]\([^()\s]*\)")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_MARKS = {
    "value in braces": r"\{\{|\}\}",
    "tag of a template": r"\{%|%\}",
    "colons": r"(?<!:):::(?!:)",
    "row of AsciiDoc": r"\|===",
    "attribute list": r"\{:|\{[.#][\w-]+|(?<=\S)\{[a-z-]+=|^\[[^\]\n]*(?:=|%|source|,)[^\]\n]*\]$",
    "tag": r"(?<![\\\w])</?[A-Za-z][\w.:-]*[ />]",
    "link": r"\]\((?!https?:|mailto:)|\]\[(?!\])|(?<!\[)\[\[[^\[\]\n]+\]\](?!\()",
    "escape": r"\\(?![<*_`|\[\]~#>&.)\\+=-])[!-/:-@\[-`{-~]",
    "escaped pipe": r"^(?!\|).*\\\|",
    "entity": r"&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,5});",
    "footnote": r"\[\^|\^\[",
    "pluses": r"\+{3}|(?<![\w+])\+\+(?=\w)",
    "directive": r"^[ \t]*\.\. |::$|(?<!\w):[a-z][\w:-]+:`|^!!!|^\?\?\?|^===|^:[a-z-]+:(?:\s|$)|^@[a-z]+\b",
    "comment": r"<!--|-->|\{/\*|\*/\}|^//\s",
    "macro of AsciiDoc": r"(?<!\w)(?:xref|link|image|kbd|btn|menu|icon|pass|footnote|include|ifdef|endif):{1,2}\S*\["
    r"|<<[^\s<>]+>>",
    "alert": r"\[![A-Z]+\]",
    "statement of a module": r"^(?:import .* from |export (?:const|default) )",
    "formula": r"\$\$|\\begin\{|\\\(",
    "short code": r"(?<![\w:]):[a-z][a-z0-9_]+:(?![\w:])",
    "bar of a table": r"^(?![ >-]*\|).*\|[ ]*-{3,}|^\+-{3,}",
    "open emphasis": r"^(?:[^*\n\\]|\\.|(?<!\*)\*(?!\*)|(?<!\*)\*\*(?!\*)(?:[^*\n\\]|\\.|(?<!\*)\*(?!\*))*\*\*(?!\*))*"
    r"\*\*(?!\*)(?:[^*\n\\]|\\.|(?<!\*)\*(?!\*))*$",
    "reference": r"(?<![\w`])\|\w[\w-]*\|(?![\w`])",
}
_PATTERNS = {name: re.compile(pattern, re.MULTILINE) for name, pattern in _MARKS.items()}
_CLOSING = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*$")
_LONG_LINE = re.compile(r".{9}")
_NO_LANGUAGES = ("text", "none", "default")
# Those that the product adds: titles of parts that are left out, and versions.
_OWN_WORDS = ("more", "Added", "Changed", "Deprecated", "since", "Note", "Returns", "Raises")
_DRAWING = re.compile(
    r"^([ \t]*)(?:(`{3,})(?:\{?mermaid\}?).*?^[ \t]*\2|\.\. mermaid::.*?(?=^\1\S|\Z))", re.DOTALL | re.MULTILINE
)
_DOUBLED = re.compile(r"\b((?:[^\W\d_]+[ ]){3,8})\1")


@dataclass(slots=True)
class Findings:
    """How often each kind was found, with its examples as `path: text`."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, path: str, text: str) -> None:
        self.counts[kind] += 1
        self.examples[kind].append(f"{path}: {' '.join(text.split())[:MAX_SHOWN_CHARS]}")


async def read_documents(repository: Path, include: Sequence[str]) -> list[Document]:
    """Return the documents of a repository in its last commit, as they are cut into passages."""
    settings = GitSource(kind="git", url=str(repository), include=tuple(include))
    with tempfile.TemporaryDirectory() as directory:
        source = GitRepository("repository", settings, Path(directory))
        listing = await source.listing()
        documents = [each async for each in source.documents(listing, listing.fingerprints.keys())]
    return sorted(documents, key=lambda each: each.path)


def cut(documents: Iterable[Document]) -> Iterator[tuple[Document, list[Chunk]]]:
    """Yield the documents that are markup, with their passages."""
    for document in documents:
        if document.kind in KINDS and (passages := chunk(document, TOKENS)):
            yield document, passages


def get_lines(document: Document, passage: Chunk) -> tuple[int, int]:
    """Return the lines of the file that a passage is cited with: what a page includes is at the line that does."""
    return document.get_line(passage.start_line), document.get_line(passage.end_line)


def examine(document: Document, passages: Sequence[Chunk], findings: Findings) -> None:
    """Add what is found in the passages of one document."""
    source = document.text.replace("\r\n", "\n")
    shown = "\n".join(f"{passage.title}\n{passage.text}" for passage in passages)
    known = " ".join([shown, *document.names.values(), document.path])
    _compare_words(document, source, shown, known, findings)
    _compare_code(document.path, source, shown, findings)
    _compare_lines(document, passages, findings)
    for passage in passages:
        prose = _CODE.sub("`x`", _FENCE.sub("", passage.text))
        for kind, pattern in _PATTERNS.items():
            for text, place in ((prose, kind), (passage.title, f"title: {kind}")):
                if match := pattern.search(text):
                    start = max(0, match.start() - 40)
                    findings.add(place, f"{document.path}:{passage.start_line}", text[start : match.end() + 60])
        if doubled := _DOUBLED.search(prose):
            findings.add("doubled words", f"{document.path}:{passage.start_line}", doubled[0])
        if passage.title.rpartition(" / ")[2].endswith((".md", ".mdx", ".rst", ".adoc", "(untitled)")):
            findings.add("title is a file", document.path, passage.title)


def _compare_words(document: Document, source: str, shown: str, known: str, findings: Findings) -> None:
    """Compare words and pairs of them: lines of the source of which most is gone, and words that it does not have."""
    bare = _COMMENTS.get(document.kind, _COMMENTS["markdown"]).sub(" ", _FRONT_MATTER.sub("", _DRAWING.sub("", source)))
    shown_pairs = set(_pair(_WORD.findall(shown.lower())))
    for line in bare.split("\n"):
        pairs = list(_pair(_WORD.findall(_MARKUP.sub(" \n ", line).lower())))
        missing = [pair for pair in pairs if pair not in shown_pairs]
        if len(pairs) >= MIN_PAIRS and len(missing) > MISSING_SHARE * len(pairs) and not _NO_TEXT_LINE.match(line):
            findings.add("line lost", document.path, line)
    words = set(_WORD.findall(source.lower())) | set(_WORD.findall(known.lower())) - set(_WORD.findall(shown.lower()))
    words |= set(_WORD.findall(" ".join([*document.names.values(), document.path]).lower()))
    for word in dict.fromkeys(_WORD.findall(shown)):
        if word.lower() not in words and len(word) > 2 and word not in _OWN_WORDS:
            place = shown.find(word)
            findings.add("word added", document.path, f"{word} — {shown[max(0, place - 40) : place + 60]}")


def _pair(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    return pairwise(words)


def _compare_lines(document: Document, passages: Sequence[Chunk], findings: Findings) -> None:
    """Look for the words of each passage that its page has, but not in the lines that it is cited with."""
    words_by_line: dict[int, set[str]] = defaultdict(set)
    for number, line in enumerate(document.text.split("\n"), 1):
        words_by_line[document.get_line(number)].update(_WORD.findall(line.lower()))
    all_words = set().union(*words_by_line.values())
    for passage in passages:
        start, end = get_lines(document, passage)
        cited = set().union(*(words_by_line[number] for number in range(start, end + 1)))
        # A head that is repeated, and where something leads, stand elsewhere.
        words = [word for word in _WORD.findall(_LINK_TARGET.sub("]", passage.text).lower()) if len(word) > 2]
        elsewhere = [word for word in words if word in all_words and word not in cited]
        if len(elsewhere) > MAX_ELSEWHERE * len(words):
            findings.add("cited elsewhere", f"{document.path}:{start}-{end}", passage.text)


def _compare_code(path: str, source: str, shown: str, findings: Findings) -> None:
    """Look for the lines of code below each line that names a language, among those of the passages."""
    languages: dict[str, set[str]] = defaultdict(set)
    for fence in _FENCE.finditer(shown):
        for line in fence[3].split("\n"):
            languages[_squeeze(line)].add(fence[2])
    lines = source.split("\n")
    all_shown = " ".join(map(_squeeze, shown.split("\n")))
    for number, line in enumerate(lines):
        if opening := _OPENING.match(line):
            rest = lines[number + 1 : number + MAX_CODE_LINES]
            body = list(
                filter(_LONG_LINE.search, map(_squeeze, takewhile(lambda each: not _CLOSING.match(each), rest)))
            )
            found = [each for each in body if each in languages]
            if found and languages[found[0]] == {""} and next(filter(None, opening.groups())) not in _NO_LANGUAGES:
                findings.add("language lost", path, f"{line.strip()} ⏎ {found[0]}")
            # In a cell it stands between ticks; a value may be filled in.
            if body and not found and not any(f"`{each}" in all_shown or "{" in each for each in body):
                kind = "code is prose" if any(each in all_shown for each in body) else "code lost"
                findings.add(kind, path, " ⏎ ".join(lines[number : number + 4]))


def _squeeze(line: str) -> str:
    return " ".join(line.strip("> \t").split())


def write(document: Document, passage: Chunk) -> str:
    """Return a passage below its path, its lines and its title."""
    start, end = get_lines(document, passage)
    return f"=== {document.path}:{start}-{end}\nTITLE {passage.title}\n{passage.text}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--include", nargs="*", default=[])
    parser.add_argument("--examples", type=int, default=5)
    parser.add_argument("--kinds", nargs="*", help="show these kinds only")
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dump", type=Path)
    options = parser.parse_args()
    documents = list(cut(asyncio.run(read_documents(options.repository, options.include))))
    written = [write(document, passage) for document, passages in documents for passage in passages]
    count = len(written)
    if options.dump:
        options.dump.write_text("".join(written), "utf-8")
    elif options.draw:
        print("\n".join(random.Random(options.seed).sample(written, min(options.draw, count))))
    else:
        findings = Findings()
        for document, passages in documents:
            examine(document, passages, findings)
        print(f"{len(documents)} documents, {count} passages")
        for kind, number in findings.counts.most_common():
            if not options.kinds or kind in options.kinds:
                found = findings.examples[kind]
                print(
                    f"\n## {kind}: {number}", *random.Random(0).sample(found, min(options.examples, number)), sep="\n  "
                )


if __name__ == "__main__":
    main()
