"""Settings of what the bot may not say: words and patterns, and a moderation endpoint."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat, StringConstraints

from core.settings.base import Secret, Section, WebAddress
from core.settings.messaging import Platform

# Where an answer can leave: platforms, programs that ask, the terminal.
Exit = Platform | Literal["api", "console"]
# What a bot says there, strangers read: it cannot be called back.
SOCIAL_NETWORKS: tuple[Exit, ...] = ("mastodon", "bluesky", "http")
MAX_WORDS = 5000
MAX_PATTERNS = 100


def _check_word(word: str) -> str:
    from core.language.word_filter import fold_word

    fold_word(word)
    return word


def _check_pattern(pattern: str) -> str:
    from core.language.word_filter import compile_pattern

    compile_pattern(pattern)
    return pattern


Word = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_check_word)]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_check_pattern)]


class ModerationSettings(Section):
    """An OpenAI-compatible moderation endpoint (`POST /moderations`) that judges answers before they leave."""

    base_url: WebAddress | None = Field(
        None, description="the endpoint, for example `https://api.openai.com/v1`; without it nothing is sent anywhere"
    )
    model: str = Field("", description="the model's name there; empty: the endpoint's own choice")
    api_key: Secret | None = Field(None, description="a secret; leave it out where the endpoint asks for none")
    timeout_s: PositiveFloat = Field(5, description="longest wait for a judgement, seconds")
    platforms: tuple[Exit, ...] = Field(
        SOCIAL_NETWORKS,
        description="where answers are judged, also `api` (programs and the page) and `console`. They appear there as "
        "a whole, not while they are written",
    )
    on_failure: Literal["auto", "pass", "withhold"] = Field(
        "auto",
        description="what becomes of an answer that could not be judged; `auto`: it is withheld on social networks "
        "(`mastodon`, `bluesky`, `http`), and passes elsewhere",
    )

    def withholds_unjudged(self, platform: str) -> bool:
        """Return whether an answer that could not be judged stays unsaid there."""
        return self.on_failure == "withhold" or (self.on_failure == "auto" and platform in SOCIAL_NETWORKS)


class OutgoingSettings(Section):
    """Words that never leave (docs/security.md#words-that-never-leave)."""

    words: tuple[Word, ...] = Field(
        (),
        max_length=MAX_WORDS,
        description="an answer with one of these words or phrases is withheld: whole words in any case, however they "
        "are spelled or split by invisible characters",
    )
    patterns: tuple[Pattern, ...] = Field(
        (),
        max_length=MAX_PATTERNS,
        description="so is one that one of these regular expressions matches, of at most 500 characters each",
    )
    platforms: tuple[Exit, ...] = Field(
        (), description="where words and patterns apply, also `api` and `console`; none: everywhere"
    )
    replacement: str = Field(
        "", max_length=500, description="what the asker reads instead; empty: KIMAs says that it may not answer this"
    )
    moderation: ModerationSettings = ModerationSettings()
