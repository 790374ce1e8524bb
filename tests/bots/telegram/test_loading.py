"""aiogram is loaded with the models that are used complete, and the others left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

FRESH = """
import sys
from bots.telegram import adapter
assert not {"aiogram", "aiohttp", "markdown_it"} & set(sys.modules), "importing the adapter loads too much"
from bots.telegram.adapter import load_client
from pydantic import BaseModel, create_model
original = BaseModel.__dict__["model_rebuild"]
client = load_client().connect("42:x", "http://127.0.0.1:1")
assert BaseModel.__dict__["model_rebuild"] is original
from aiogram import methods, types
complete = [name for name in types.__all__ if getattr(getattr(types, name), "__pydantic_complete__", True)]
assert len(complete) < len(types.__all__) / 2, "every model was completed"
chat = {"id": 1, "type": "private"}
inner = {"message_id": 1, "date": 1, "chat": chat, "from": {"id": 2, "is_bot": False, "first_name": "A"}}
update = client.parse_update({"update_id": 1, "message": {**inner, "text": "x", "reply_to_message": inner}})
assert type(update.message.reply_to_message.from_user) is types.User
"""


def test_a_fresh_process_completes_only_what_is_used() -> None:
    command = [sys.executable, "-W", "error", "-c", FRESH]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr
