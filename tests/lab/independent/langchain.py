"""LangChain on `/v1/chat/completions`; `kimas ask` says the same.

See `tests/lab/independent/README.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import urllib.error

from tests.lab.independent.steps import QUESTION, Bot, Json, call, is_cited, run_bot, wait_for
from tests.support.free_ports import free_port

TOKEN = "a-token-of-this-script-alone"
SECTION = """
api:
  port: {port}
  clients:
    chain:
      token:
        file: {{token}}
"""
# It runs in the environment that has LangChain.
CLIENT = """
import json, os, sys
from langchain_openai import ChatOpenAI

question = sys.argv[1]
place = {"base_url": os.environ["BASE_URL"], "api_key": os.environ["TOKEN"]}
chat = ChatOpenAI(model="kimas", max_retries=0, stream_usage=True, **place)
whole = chat.invoke([("system", "Answer in French."), ("human", question)])
chunks = list(chat.stream(question))
batch = chat.batch([question, "How do I revoke a key?"])
result = {
    "invoke": whole.content,
    "has_usage": bool(whole.usage_metadata),
    "stream": "".join(chunk.content for chunk in chunks),
    "usage_chunks": sum(bool(chunk.usage_metadata) for chunk in chunks),
    "chunks": len(chunks),
    "batch": [message.content for message in batch],
}
print(json.dumps(result))
"""


def require(holds: bool, step: str) -> None:
    """Print a step. Raises `SystemExit` where it does not hold."""
    if not holds:
        raise SystemExit(f"failed: {step}")
    print(f"ok   {step}", flush=True)


def ask_with_langchain(python: str, base_url: str) -> Json:
    """Return what LangChain got from the endpoint. Raises `CalledProcessError`."""
    environment = {**os.environ, "BASE_URL": base_url, "TOKEN": TOKEN}
    command = [python, "-c", CLIENT, QUESTION]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    result: Json = json.loads(output)
    return result


def check_langchain(result: Json) -> None:
    """Check what LangChain got."""
    require(is_cited(result["invoke"]) and result["has_usage"], "LangChain: invoke has citations and the usage")
    require(result["stream"] == result["invoke"], f"LangChain: stream is the same, in {result['chunks']} chunks")
    require(result["usage_chunks"] == 1, "LangChain: stream has the usage once")
    first, second = result["batch"]
    require(first == result["invoke"] and "losing.md" in second, "LangChain: batch answers each question")


def check_command(bot: Bot, address: str, text: str) -> None:
    """Check that `kimas ask`, `POST /ask` and the endpoint give the same answer."""
    of_command = json.loads(bot.run("ask", "--json", QUESTION))
    of_endpoint = call(f"{address}/ask", {"question": QUESTION}, headers={"Authorization": f"Bearer {TOKEN}"})
    names = ("answer", "citations")
    require(
        [of_command[name] for name in names] == [of_endpoint[name] for name in names], "kimas ask says what /ask says"
    )
    require(text.startswith(of_command["answer"]), "and what /v1/chat/completions says")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("python", help="the Python of an environment that has langchain-openai")
    python = parser.parse_args().python
    port = free_port()
    address = f"http://127.0.0.1:{port}"

    def is_listening() -> bool:
        try:
            call(f"{address}/v1/models")
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return False

    with run_bot(SECTION.format(port=port), {"token": TOKEN}) as bot:
        wait_for(is_listening, "the endpoint listens")
        result = ask_with_langchain(python, f"{address}/v1")
        check_langchain(result)
        check_command(bot, address, result["invoke"])


if __name__ == "__main__":
    main()
