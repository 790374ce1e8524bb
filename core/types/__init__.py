"""The values that cross the boundaries between packages. All are immutable."""

from __future__ import annotations

from core.types.conversation import (
    Image as Image,
    ImageLoader as ImageLoader,
    MessageRole as MessageRole,
    Question as Question,
    ResponseSchema as ResponseSchema,
    ToolCall as ToolCall,
    Turn as Turn,
)
from core.types.messages import (
    DOWN as DOWN,
    ESCALATION_COMMAND as ESCALATION_COMMAND,
    RATING_COMMAND as RATING_COMMAND,
    RETRY as RETRY,
    UP as UP,
    Attachment as Attachment,
    AttachmentKind as AttachmentKind,
    Button as Button,
    ConversationKey as ConversationKey,
    FeedEntry as FeedEntry,
    Message as Message,
    MessagePurpose as MessagePurpose,
    ReplyOptions as ReplyOptions,
)
from core.types.passages import (
    AgentScore as AgentScore,
    Citation as Citation,
    Passage as Passage,
    SourceState as SourceState,
)
from core.types.replies import (
    Reply as Reply,
)
from core.types.skips import (
    Skip as Skip,
    SkipReason as SkipReason,
    skip as skip,
)
