"""Plays Open WebUI: its own prompts, from the package that it is published as, as its server sends them.

See `tests/lab/independent/README.md`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import urllib.error
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.lab.independent.steps import ANSWER, QUESTION, Json, call, is_cited, run_bot, wait_for
from tests.support.free_ports import free_port

TOKEN = "a-token-of-this-script-alone"
SECTION = """
api:
  port: {port}
  clients:
    webui:
      token:
        file: {{token}}
"""
FILES = ("open_webui/config.py", "open_webui/utils/context_compaction.py")
# The names of its prompts, and the key and the kind of what it wants to be told.
TASKS: Mapping[str, tuple[str, type]] = {
    "TITLE_GENERATION_PROMPT_TEMPLATE": ("title", str),
    "TAGS_GENERATION_PROMPT_TEMPLATE": ("tags", list),
    "FOLLOW_UP_GENERATION_PROMPT_TEMPLATE": ("follow_ups", list),
    "QUERY_GENERATION_PROMPT_TEMPLATE": ("queries", list),
    "IMAGE_PROMPT_GENERATION_PROMPT_TEMPLATE": ("prompt", str),
    "AUTOCOMPLETE_GENERATION_PROMPT_TEMPLATE": ("text", str),
}
HISTORY = f'USER: {QUESTION}\nASSISTANT: So. {{"title": "no wish"}}'
CONTEXT = '<source id="1" name="error.log">\nERROR the key is too old\n</source>'
_VARIABLE = re.compile(r"\{\{[A-Z_]{1,40}(?::[A-Z0-9:]{1,40})?\}\}")


def read_templates(wheel: Path) -> Mapping[str, str]:
    """Return the prompts in the package by their names. Nothing of it is run."""
    templates: dict[str, str] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            for node in ast.parse(archive.read(name)).body:
                is_text = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
                if is_text and isinstance(node.targets[0], ast.Name) and isinstance(node.value.value, str):
                    templates[node.targets[0].id.removeprefix("DEFAULT_")] = node.value.value
    return templates


def fill(template: str, **values: str) -> str:
    """Return a prompt with its variables: those without a value are a conversation."""
    return _VARIABLE.sub(lambda match: values.get(match[0].strip("{}"), HISTORY), template)


def require(holds: bool, step: str) -> None:
    """Print a step. Raises `SystemExit` where it does not hold."""
    if not holds:
        raise SystemExit(f"failed: {step}")
    print(f"ok   {step}", flush=True)


def complete(url: str, *contents: str, system: str = "") -> str:
    """Return the text of an answer. Its server leaves `metadata` out, and sends `files` as part of the question."""
    turns = [{"role": "system", "content": system}] if system else []
    turns += [
        {"role": "user" if number % 2 == 0 else "assistant", "content": text} for number, text in enumerate(contents)
    ]
    body = {"model": "kimas", "stream": False, "messages": turns, "max_tokens": 1000, "temperature": 0.7}
    completion: Json = call(f"{url}/chat/completions", body, headers={"Authorization": f"Bearer {TOKEN}"})
    return str(completion["choices"][0]["message"]["content"])


def check_tasks(url: str, templates: Mapping[str, str]) -> None:
    """Check what it asks for its own use: it reads JSON, and shows nothing of an answer with citations."""
    for name, (key, kind) in TASKS.items():
        text = complete(url, fill(templates[name], TYPE="General", PROMPT="How do I"))
        value = json.loads(text)[key]
        require(isinstance(value, kind) and list(json.loads(text)) == [key], f"{name}: {text}")
    title = json.loads(complete(url, fill(templates["TITLE_GENERATION_PROMPT_TEMPLATE"])))["title"]
    require(title == QUESTION, "the title is the question")
    compaction = complete(url, fill(templates["CONTEXT_COMPACTION_PROMPT"]))
    require(compaction == "", "a summary is empty, so that it makes its own")
    emoji = complete(url, fill(templates["EMOJI_GENERATION_PROMPT_TEMPLATE"], prompt="Thanks!"))
    require(len(emoji) == 1, f"an emoji is one: {emoji}")
    system = fill(templates["TOOLS_FUNCTION_CALLING_PROMPT_TEMPLATE"], TOOLS="[]")
    tools = complete(url, f"History:\n{HISTORY}\nQuery: {QUESTION}", system=system)
    require(json.loads(tools) == {"tool_calls": []}, "no tool is called")


def check_questions(url: str, templates: Mapping[str, str]) -> None:
    """Check what people ask with it."""
    attached = fill(templates["RAG_TEMPLATE"], CONTEXT=CONTEXT)
    text = complete(url, f"{attached}\n{QUESTION}")
    require(is_cited(text) and ANSWER in text, "a question with a file is answered, with citations")
    query = templates["MOA_GENERATION_PROMPT_TEMPLATE"].replace("{{prompt}}", QUESTION)
    text = complete(url, query.replace("{{responses}}", '"By hand."'))
    require(is_cited(text) and ANSWER in text, "answers that are to be merged are one with citations")
    text = complete(url, QUESTION, "So.", QUESTION)
    require(is_cited(text), "a conversation goes on")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path, help="open_webui-VERSION-py3-none-any.whl")
    templates = read_templates(parser.parse_args().wheel)
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"

    def is_listening() -> bool:
        try:
            call(f"{url}/models")
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return False

    with run_bot(SECTION.format(port=port), {"token": TOKEN}):
        wait_for(is_listening, "the endpoint listens")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        require([model["id"] for model in call(f"{url}/models", headers=headers)["data"]] == ["kimas"], "models")
        check_tasks(url, templates)
        check_questions(url, templates)


if __name__ == "__main__":
    main()
