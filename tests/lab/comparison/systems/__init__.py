"""The compared systems, by name: the module that has each, its environment, and what tables call it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from tests.lab.comparison.contract import System, SystemConfig

OWN = "own"


@dataclass(frozen=True, slots=True)
class Entry:
    """One system. `environment` is a file of pins in `requirements`, or `OWN` for that of KIMAs."""

    title: str
    module: str
    environment: str
    option: str = ""
    # Whether an answer may begin before it is certain what it is written from.
    has_head_starts: bool = False

    def open(self, config: SystemConfig) -> System:
        """Import the module and open the system; only in its environment."""
        module = importlib.import_module(f"{__name__}.{self.module}")
        system: System = module.open_system(config, self.option)
        return system


SYSTEMS = {
    "kimas": Entry("KIMAs", "kimas_app", OWN, has_head_starts=True),
    "kimas_local": Entry("KIMAs (own embedder)", "kimas_app", OWN, "local", has_head_starts=True),
    "bare": Entry("bare loop", "bare_loop", OWN),
    "llama_index": Entry("LlamaIndex", "llama_index_engine", "llama_index"),
    "langchain": Entry("LangChain", "langchain_chain", "langchain"),
    "haystack": Entry("Haystack", "haystack_pipeline", "haystack"),
    "agentscope_static": Entry("AgentScope (static)", "agentscope_agent", "agentscope", "static"),
    "agentscope_agentic": Entry("AgentScope (agentic)", "agentscope_agent", "agentscope", "agentic"),
}
