"""A service that answers, over a database of usage."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from bots.daemon.bootstrap import make_answer_service, make_live_settings
from core.answering.service import AnswerService
from core.llm.role_models import RoleChatModel
from core.storage.engine import Database
from core.types import ConversationKey
from tests.support.fixtures import parts, settings

GROUP = ConversationKey("telegram", "-100")
OTHER = ConversationKey("telegram", "-200")


def today() -> date:
    return datetime.now().astimezone().date()


async def no_versions(_sources: object, _oldest_s: float) -> dict[str, str]:
    return {}


def answering(database: Database, model: RoleChatModel | None, **changes: Any) -> AnswerService:
    configuration = settings(**changes)
    deps = parts(model=model, configuration=configuration)
    return make_answer_service(deps, no_versions, database, make_live_settings(configuration, database))
