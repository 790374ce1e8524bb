"""A parser of inline Markdown that finds emphasis where those of the world write it, besides where CommonMark does."""

from __future__ import annotations

import unicodedata

from markdown_it import MarkdownIt
from markdown_it.common.utils import isMdAsciiPunct, isPunctChar, isWhiteSpace
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import EnvType

# What ends words that are emphasised, as in `**Note:**text`.
_ENDS = frozenset(".,:;!?)]}%…")


class WideInlineParser(ParserInline):
    """Finds emphasis beside full-width characters, where no spaces are written, and before letters without a space."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        """Add the tokens of a text."""
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


class _State(StateInline):
    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:
        end = start
        while end < self.posMax and self.src[end] == self.src[start]:
            end += 1
        previous_character = self.src[start - 1] if start else " "
        next_character = self.src[end] if end < self.posMax else " "
        can_stand_before = (
            _is_space(previous_character) or _is_punctuation(previous_character) or _is_wide(previous_character)
        )
        can_stand_after = _is_space(next_character) or _is_punctuation(next_character) or _is_wide(next_character)
        is_left = not (
            _is_space(next_character)
            or (_is_punctuation(next_character) and not _is_wide(next_character) and not can_stand_before)
        )
        is_right = not (
            _is_space(previous_character)
            or (_is_punctuation(previous_character) and not _is_wide(previous_character) and not can_stand_after)
        ) or (end - start == 2 and previous_character in _ENDS)
        return Scanned(
            is_left and (canSplitWord or not is_right or _is_punctuation(previous_character)),
            is_right and (canSplitWord or not is_left or _is_punctuation(next_character)),
            end - start,
        )


def _is_space(character: str) -> bool:
    return bool(isWhiteSpace(ord(character)))


def _is_punctuation(character: str) -> bool:
    return bool(isMdAsciiPunct(ord(character)) or isPunctChar(character))


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"
