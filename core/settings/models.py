"""The language models by role."""

from __future__ import annotations

from typing import Any

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Fraction, Name, Secret, Section


class FallbackSettings(Section):
    """One OpenAI-compatible chat endpoint."""

    base_url: str = Field(min_length=1, description="The endpoint, for example http://localhost:11434/v1")
    model: str = Field(min_length=1, description="The model's name there")
    api_key: Secret | None = Field(None, description="Leave out where the endpoint asks for none")
    temperature: float | None = Field(None, ge=0, le=2, description="null leaves it to the endpoint")
    max_tokens: PositiveInt = Field(1024, description="Length of a reply at most")
    timeout_s: PositiveFloat = Field(60, description="Longest time for one whole call, seconds")
    json_schema: bool = Field(False, description="The endpoint can be told a reply's JSON Schema")
    tools: bool = Field(False, description="The endpoint and the model know tool calling")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="Sent as is, for what only this server knows")
    price_prompt: NonNegativeFloat | None = Field(
        None, description="Price of a million tokens sent, in a currency of your choice; null when unknown"
    )
    price_completion: NonNegativeFloat | None = Field(
        None, description="Price of a million tokens received, in the same currency"
    )


class ModelSettings(FallbackSettings):
    """The endpoint of a role, what takes its place when it fails, and how patient to be with all of them."""

    context_tokens: PositiveInt = Field(
        4000, description="Room for evidence in its prompts, tokens; the fallbacks need as much; not for vision"
    )
    fallbacks: dict[Name, FallbackSettings] = Field(
        default_factory=dict, description="Other endpoints by name, tried in this order when this one fails"
    )
    first_token_s: PositiveFloat = Field(
        8, description="Longest wait for the first token while another endpoint is left to try, seconds"
    )
    whole_s: PositiveFloat = Field(
        10, description="The same for replies that are not streamed: longest wait for the whole, seconds"
    )
    stall_s: PositiveFloat = Field(20, description="Longest silence between two tokens of a reply, seconds")
    hedge_after_s: PositiveFloat | None = Field(
        None, description="After this wait ask a second endpoint too and take the faster, seconds; null: never"
    )
    hedge_share: Fraction = Field(
        0.1, description="Share of the calls that may be asked twice, so that load stays bounded"
    )
    images: bool = Field(False, description="For main: it can look at pictures itself, no vision model is needed")


class CircuitSettings(Section):
    """When a failing endpoint is left alone."""

    failures: PositiveInt = Field(3, description="Failures in a row after which an endpoint is left alone")
    rest_s: PositiveFloat = Field(30, description="How long it is left alone before one call tries it again, seconds")


class ModelsSettings(Section):
    """Language models by role. None at all: answers are extractive and nothing leaves the machine."""

    main: ModelSettings | None = Field(None, description="Writes the answers")
    light: ModelSettings | None = Field(
        None, description="For rewriting and look-back; main is used when this is empty"
    )
    vision: ModelSettings | None = Field(
        None, description="Puts attached screenshots into words; none, and no images of main: the bot says it sees none"
    )
    circuit: CircuitSettings = CircuitSettings()

    @model_validator(mode="after")
    def _check_vision_has_writer(self) -> ModelsSettings:
        if self.vision and not (self.main or self.light):
            raise ValueError("vision needs main or light beside it: a picture in words is still to be answered")
        return self

    def get_vision_model(self) -> ModelSettings | None:
        """Return the model that looks at pictures, or None where there is none."""
        writing_model = self.main or self.light
        return self.vision or (writing_model if writing_model and writing_model.images else None)
