"""The interfaces that core needs from outside. Core owns them.

Every implementation passes the contract suite of its interface (`tests/contracts`).
"""

from __future__ import annotations

from core.ports.delivery import AnswerFunction as AnswerFunction, Delivery as Delivery, Sink as Sink
from core.ports.files import FileReader as FileReader
from core.ports.library import Library as Library, WordMatch as WordMatch
from core.ports.models import ChatModel as ChatModel, ModelRole as ModelRole, RequestBudget as RequestBudget
from core.ports.platforms import (
    NOT_CONNECTED as NOT_CONNECTED,
    Adapter as Adapter,
    ConnectionStatus as ConnectionStatus,
    MessageHandler as MessageHandler,
)
from core.ports.refresh import SourceRefresher as SourceRefresher
from core.ports.reranking import Reranker as Reranker
