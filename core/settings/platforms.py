"""The platforms, and where and when the bot may speak."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat

from core.settings.base import Secret, Section

GateMode = Literal["off", "mention", "auto"]
ChatName = Annotated[str, Field(pattern=r"^[a-z]+:\S+$")]
Chance = Annotated[float, Field(ge=0, le=1)]


class TelegramSettings(Section):
    """One Telegram bot."""

    token: Secret = Field(description="From @BotFather")
    api_url: str = Field("https://api.telegram.org", description="Another Bot API server, for a local one")


class GateWeightSettings(Section):
    """What the signs of a question for the bot weigh (logistic regression). `kimas eval gate --fit` finds others."""

    base: float = Field(-2.5, description="Where the sum begins")
    personal: float = Field(-2.0, description="1 where it is about people, plans or opinions")
    match: float = Field(16.5, description="Cosine of the best passage times the share of the words that it has")
    foreign: float = Field(-5.5, description="Share of the names in it that the nearest passages do not know")


class GateSettings(Section):
    """Where and when the bot may speak. Elsewhere it is silent, and the journal says why."""

    private: bool = Field(True, description="Answer in private chats")
    chats: tuple[str, ...] = Field((), description="Groups where the bot answers, as platform:chat; none means all")
    mode: GateMode = Field("mention", description="In groups: off, when mentioned, or also unasked (auto)")
    modes: dict[ChatName, GateMode] = Field(default_factory=dict, description="Another mode by platform:chat")
    threshold: Chance = Field(0.5, description="For auto: how sure it must be that it can help")
    thresholds: dict[ChatName, Chance] = Field(default_factory=dict, description="Another threshold by platform:chat")
    grey: Literal["silent", "suggest", "clarify"] = Field(
        "silent", description="For auto: just below the threshold, be silent, offer an answer, or ask for details"
    )
    grey_width: Chance = Field(0.15, description="How far below the threshold that reaches")
    wait_s: float = Field(15, ge=0, le=600, description="For auto: how long people have to answer first, seconds")
    cooldown_s: NonNegativeFloat = Field(60, description="For auto: time between two answers in one chat, seconds")
    repeated: Literal["silent", "point"] = Field(
        "silent", description="For auto: when it was answered in the chat before, be silent or point there"
    )
    repeated_hours: NonNegativeFloat = Field(24, description="How long ago that may be; 0: never")
    follow_up_minutes: NonNegativeFloat = Field(
        30, description="In a thread: how long after an answer a question needs no mention; 0: always needs one"
    )
    answers_in_10_min: int = Field(20, ge=1, le=200, description="Answers to one account in one chat; more is a loop")
    weights: GateWeightSettings = GateWeightSettings()

    def mode_of(self, chat: str, *, private: bool) -> GateMode:
        """Return the mode of a chat (`platform:chat`); a private one is off only where it is named."""
        return self.modes.get(chat, "mention" if private else self.mode)

    def threshold_of(self, chat: str) -> float:
        """Return the threshold of a chat (`platform:chat`)."""
        return self.thresholds.get(chat, self.threshold)
