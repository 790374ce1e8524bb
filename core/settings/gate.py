"""Settings of when the bot speaks, and of what is different in one chat."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat

from core.settings.base import Name, Section
from core.settings.chats import Chat

GateMode = Literal["off", "mention", "auto", "draft"]
# Where an answer in a group can be shown to one person alone.
ASKER_PLATFORMS = ("slack", "discord")
# Those in which the bot also answers what nobody asked it.
UNPROMPTED_MODES: tuple[GateMode, ...] = ("auto", "draft")
Probability = Annotated[float, Field(ge=0, le=1)]


class GateSettings(Section):
    """Where and when the bot may speak (docs/groups.md). Otherwise it is silent, and the journal has the reason."""

    private: bool = Field(True, description="answer in private chats")
    chats: tuple[Chat, ...] = Field(
        (), description="groups where the bot answers, as `platform:chat` (`telegram:-1001234567890`); none: all"
    )
    mode: GateMode = Field(
        "mention",
        description="in groups: `off`; `mention`: answer people who address the bot; `auto`: also answer others' "
        "questions; `draft`: as `auto`, once a team has agreed (docs/groups.md#drafts)",
    )
    drafts_to: Chat | None = Field(
        None, description="for `draft`: the chat of the team that decides about the answers, as `platform:chat`"
    )
    threshold: Probability = Field(0.5, description="for `auto`: how sure the bot must be that it can help")
    grey: Literal["silent", "suggest", "clarify"] = Field(
        "silent",
        description="for `auto`, just below the threshold: `silent`; `suggest`: offer an answer; `clarify`: ask for "
        "details",
    )
    wait_s: float = Field(
        15, ge=0, le=600, description="for `auto`: how long the bot waits for people to answer first, seconds"
    )
    cooldown_s: NonNegativeFloat = Field(
        60, description="for `auto`: time between two answers in one chat, on a forge below one issue, seconds"
    )
    repeated: Literal["silent", "point"] = Field(
        "silent",
        description="for `auto`, if the same question was answered in the chat before: `silent`; `point`: say so, and "
        "quote how the answer began",
    )
    repeated_hours: NonNegativeFloat = Field(24, description="how long ago that may be, hours; `0`: never")
    follow_up_minutes: NonNegativeFloat = Field(
        30,
        description="in a thread: how many minutes after an answer a follow-up needs no mention "
        "(docs/groups.md#modes); `0`: always needs one",
    )
    answers_in_10_min: int = Field(
        20,
        ge=1,
        le=200,
        description="answers to one account in one chat within ten minutes; more counts as a loop with another bot",
    )
    model: Path | None = Field(
        None, description="the file of a model that `kimas eval gate --fit` wrote; null: the one that comes with KIMAs"
    )


class ChatSettings(Section):
    """What is different in one chat (docs/groups.md#one-chat-unlike-the-others)."""

    mode: GateMode | None = Field(None, description="when the bot speaks there; null: as `gate.mode` says")
    threshold: Probability | None = Field(
        None, description="for `auto`: how sure the bot must be there; null: as `gate.threshold` says"
    )
    drafts_to: Chat | None = Field(
        None, description="for `draft`: the chat of the team that decides; null: as `gate.drafts_to` says"
    )
    persona: str = Field("", description="in place of `answer.persona` and `answer.personas`")
    language: str = Field(
        "",
        description="in which language answers are written there, as a code or a name (`de`, `German`); empty: in that "
        "of the question",
    )
    sources: tuple[Name, ...] = Field(
        (),
        description="only these are searched there, of those that the chat may see anyway (`audience`); none: all of "
        "these",
    )
    answers: Literal["everyone", "asker"] = Field(
        "everyone",
        description="on Slack and Discord, who sees answers there: `everyone`, or the `asker` alone "
        "(docs/groups.md#answers-that-only-the-asker-sees)",
    )
    models: Name | None = Field(
        None,
        description="a set of `models.sets` (docs/models.md#other-models-in-some-chats): its models alone read what is "
        "written there; null: the general models",
    )
