"""The language models by role."""

from __future__ import annotations

from typing import Any

from pydantic import Field, PositiveFloat, PositiveInt

from core.settings.base import Secret, Section


class ModelSettings(Section):
    """One OpenAI-compatible chat endpoint."""

    base_url: str = Field(min_length=1, description="The endpoint, for example http://localhost:11434/v1")
    model: str = Field(min_length=1, description="The model's name there")
    api_key: Secret | None = Field(None, description="Leave out where the endpoint asks for none")
    temperature: float | None = Field(None, ge=0, le=2, description="null leaves it to the endpoint")
    max_tokens: PositiveInt = Field(1024, description="Length of a reply at most")
    timeout_s: PositiveFloat = Field(60, description="Longest time for one whole call, seconds")
    context_tokens: PositiveInt = Field(4000, description="Room for evidence in the prompt")
    json_schema: bool = Field(False, description="The endpoint can be told a reply's JSON Schema")
    tools: bool = Field(False, description="The endpoint and the model know tool calling")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="Sent as is, for what only this server knows")


class ModelsSettings(Section):
    """Language models by role. None at all: answers are extractive and nothing leaves the machine."""

    main: ModelSettings | None = Field(None, description="Writes the answers")
    light: ModelSettings | None = Field(
        None, description="For rewriting and look-back; main is used when this is empty"
    )
