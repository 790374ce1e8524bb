"""Commands of several words: `git remote add` is something else than `git remote remove`.

The words of a command have no synonyms. Its options, paths, placeholders and values are examples.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from core.language.prose import CODE_SPAN
from core.language.tokens import stem
from core.markup.statements import read_statements

# Code in a line, whose backticks reStructuredText doubles, may be broken into lines like any text, but not by the next
# paragraph, item or row. Code blocks come first.
_BROKEN_SPAN = re.compile(r"`{3,}.*?(?:`{3,}|\Z)|(?<!`)(`{1,2})(?!`)[^`]{1,200}?(?<!`)\1(?!`)", re.DOTALL)
_BLOCK_BREAK = re.compile(r"\n[ \t]*(?:\n|[-*+|>#]|\d+[.)])")
# What may precede the name of a program: a prompt, variables, and programs that only start others.
_LAUNCHERS = (
    r"[ \t]*+(?>(?:[$>!%#*-][ \t]*+)*)(?>(?:[A-Za-z_]\w*+=\S*+[ \t]++)*)"
    r"(?>(?:(?:sudo|srun|npx|uvx|uv[ \t]run|poetry[ \t]run|python[\d.]*+[ \t]++-m)[ \t]++(?>(?:\$\S++[ \t]++)*))*)"
)
_LAUNCHER = re.compile(_LAUNCHERS)
# As opposed to a file, an address, a version, a placeholder or a number.
_COMMAND_WORD = re.compile(r"[a-z][a-z_-]*+\d?[a-z_-]*+")
_EXAMPLE = re.compile(r"(?:my|your|some|foo|bar|example)(?>(?:[_-]?[a-z]+)*)")
# What follows the first words are values.
_MAX_WORDS = 4


def unfold_code_spans(text: str) -> str:
    """Return a text in which each code span is on one line.

    >>> unfold_code_spans("Try `kimas\\nchat` first.")
    'Try `kimas chat` first.'
    """
    return _BROKEN_SPAN.sub(_unfold, text)


def _unfold(match: re.Match[str]) -> str:
    span = match[0]
    return span if not match[1] or _BLOCK_BREAK.search(span) else " ".join(map(str.strip, span.split("\n")))


def extract_commands(text: str) -> list[tuple[str, ...]]:
    """Return the commands of two words or more in the code of a text, without launchers, options and values.

    >>> extract_commands("Run `git remote add -f <name>` or `sudo apt install ./package.deb`.")
    [('git', 'remote', 'add'), ('apt', 'install')]
    """
    commands = (_split_command(span) for span in CODE_SPAN.findall(text))
    return [words for words in commands if len(words) > 1]


def has_command(words: Sequence[str], text: str, stems: Collection[str]) -> bool:
    """Return whether a text may mean a command: it spells it, or says its words in another way.

    `stems` are the stems of the text. A text that spells other commands of the same program would spell this one, too:
    in its sentences, the word after the program may mean anything. So would a text that does the same with another
    program: who reads `pip install` is not told to run `conda install`.
    """
    if _is_of_other_program(words, text):
        return False
    for count in range(1, len(words)):
        word = words[count]
        following_words = set(_iter_following(words[:count], text))
        if word in following_words:
            continue
        # A value may differ, and an argument may follow where the text has none.
        if any(not _COMMAND_WORD.fullmatch(other) for other in following_words) or (count > 1 and not following_words):
            return True
        is_stated = _stands_in_code(word, text) if following_words and count == 1 else _has_word(word, stems)
        if not is_stated and not _EXAMPLE.fullmatch(word):
            return False
    return True


def _is_of_other_program(words: Sequence[str], text: str) -> bool:
    """Return whether a text never names the program of a command, but runs another one with the same word behind it."""
    # pip3 and apt-get are the same programs as pip and apt.
    program = re.match(r"[a-z]*+", words[0])[0]  # type: ignore[index]
    if _EXAMPLE.fullmatch(words[0]) or re.search(rf"(?<![a-z]){program}(?![a-z])", text, re.IGNORECASE):
        return False
    blocks = (block.text for block in read_statements(text) if block.kind == "code")
    in_blocks = (_split_command(line) for code in blocks for line in code.split("\n"))
    return any(command[1:2] == (words[1],) for command in [*extract_commands(text), *in_blocks])


def _split_command(code: str) -> tuple[str, ...]:
    """Return the words of a command up to its first option, placeholder or value; none where it is no command."""
    words: list[str] = []
    for word in code[_LAUNCHER.match(code).end() :].split()[:_MAX_WORDS]:  # type: ignore[union-attr]
        if not _COMMAND_WORD.fullmatch(word):
            break
        words.append(word)
    return tuple(words)


def _iter_following(words: Sequence[str], text: str) -> Iterator[str]:
    """Yield what follows the first words of a command in the code of a text, options left out."""
    command = r"[ \t]++(?>(?:-\S*+[ \t]++)*)".join(map(re.escape, words))
    begin = rf"(?:^{_LAUNCHERS}|`{_LAUNCHERS}|[;&|][ \t]*+)"
    for match in re.finditer(rf"{begin}{command}[ \t]++(?>(?:-[^\s`]*+[ \t]*+)*)([^\s`]++)", text, re.MULTILINE):
        yield match[1]


def _stands_in_code(word: str, text: str) -> bool:
    """Return whether a text has a word as code of its own, or as a heading."""
    return bool(re.search(rf"`{re.escape(word)}`|^[# \t]*+{re.escape(word)}[ \t]*+$", text, re.MULTILINE))


def _has_word(word: str, stems: Collection[str]) -> bool:
    return all(stem(part) in stems for part in re.findall(r"[a-z]{2,}", word))
