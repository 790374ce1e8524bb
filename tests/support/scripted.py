"""A language model peer that knows which agent asks: replies, hangs, fails and calls tools by agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from core.llm.role_models import RoleChatModel
from core.settings import ModelsSettings
from tests.support.peers.language_model import BODY, LanguageModelPeer, Refusal

Body = dict[str, Any]
REPAIR = ("Your reply could not be read", "Your reply names a value that is not allowed")
# By words of their instructions.
AGENTS = {
    "You choose how to search": "choose",
    "You split a question": "split",
    "You plan how to find": "plan",
    "You decide which passages": "filter",
    "You judge what a search": "decide",
    "You gather evidence": "react",
    "You shorten passages": "compress",
    "You rewrite the last question": "rewrite",
    "You put passages in order": "rerank",
    "You prepare a conversation": "context",
    "You rephrase a question": "rewrite_prompt",
    "You improve a search query": "rewrite_retrieval",
    "You pick the key terms": "rewrite_keyword",
    "You write a short passage": "rewrite_hyde",
    "You translate a question": "rewrite_translation",
    "You take a question apart": "rewrite_decompose",
    "You put pictures into words": "see",
    "You judge whether a bot": "second_opinion",
    "机器人是否应该": "second_opinion",
    "does not say which": "look_back",
    "Nothing was searched": "talk",
    "因此没有检索": "talk",
}
LIGHT = ("repair", *(name for name in AGENTS.values() if name != "talk"))


def get_agent(body: Body) -> str:
    """Return who sent a request."""
    messages = body["messages"]
    # What stands in the evidence is nobody's instructions: a document may say what a prompt says.
    if str(messages[-1]["content"]).startswith(REPAIR):
        return "repair"
    return next((name for words, name in AGENTS.items() if words in str(messages[0]["content"])), "write")


class ScriptedPeer(LanguageModelPeer):
    """Replies by agent: a text, or a function of the request. `calls` names an agent's tool call arguments."""

    def __init__(self, **replies: str | Callable[[Body], str]) -> None:
        super().__init__(reply=self._scripted)
        self.replies: dict[str, str | Callable[[Body], str]] = {"write": "Yes [p1].", "look_back": "1: p1", **replies}
        self.hanging: set[str] = set()
        self.failing: set[str] = set()
        self.refuses: set[str] = set()
        self.tool_calls: dict[str, Callable[[Body], str | None]] = {}

    @property
    def agents(self) -> list[str]:
        """Who asked, in order."""
        return [get_agent(body) for body in self.requests if "messages" in body]

    def sent(self, agent: str) -> list[Body]:
        return [body for body in self.requests if "messages" in body and get_agent(body) == agent]

    def _scripted(self, body: Body) -> str:
        reply = self.replies.get(get_agent(body), "I do not know what you mean, sorry.")
        return reply(body) if callable(reply) else reply

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Body = request[BODY]
        agent = get_agent(body)
        if agent in self.hanging:
            await asyncio.Event().wait()
        if agent in self.failing:
            raise Refusal(500, "This agent was told to fail.")
        for field in self.refuses & body.keys():
            raise Refusal(400, f"'{field}' is not supported by this model.", field)
        arguments = self.tool_calls[agent](body) if agent in self.tool_calls and "tools" in body else None
        if arguments is None:
            return await super()._chat(request)
        name = body["tools"][0]["function"]["name"]
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        head = {"id": "chatcmpl-1", "created": 0, "model": body["model"], "object": "chat.completion"}
        return web.json_response({**head, "choices": [choice], "usage": usage})


def models(peer: LanguageModelPeer, **changes: object) -> RoleChatModel:
    main = {"base_url": peer.base_url, "model": "test-model", **changes}
    chat_model = RoleChatModel.open(ModelsSettings.model_validate({"main": main}))
    assert chat_model is not None
    return chat_model


def flat(replies: Mapping[str, str]) -> Callable[[Body], str]:
    """Return a reply by what the request's last message contains; the last entry is for everything else."""

    def reply(body: Body) -> str:
        content = body["messages"][-1]["content"]
        return next((text for words, text in replies.items() if words in content), list(replies.values())[-1])

    return reply


def left_behind() -> list[str]:
    """Return the tasks that run code of ours; the peer's own are not meant."""
    tasks = [task for task in asyncio.all_tasks() if not task.done() and task is not asyncio.current_task()]
    files = [(task, getattr(getattr(task.get_coro(), "cr_code", None), "co_filename", "")) for task in tasks]
    return [repr(task) for task, file in files if "/core/" in file and "/tests/" not in file]
