"""The values that cross the boundaries between packages. All are immutable."""

from __future__ import annotations

from core.types.messages import (
    ASK_COMMANDS as ASK_COMMANDS,
    DOWN as DOWN,
    DROP as DROP,
    FOR_ASKER as FOR_ASKER,
    HANDOFF_COMMAND as HANDOFF_COMMAND,
    NOTICE_PURPOSES as NOTICE_PURPOSES,
    PAGE_PURPOSES as PAGE_PURPOSES,
    POST as POST,
    QUOTED_QUESTIONS as QUOTED_QUESTIONS,
    RATING_COMMAND as RATING_COMMAND,
    RETELLING_COMMANDS as RETELLING_COMMANDS,
    RETRY as RETRY,
    STOP as STOP,
    UP as UP,
    AttachedFile as AttachedFile,
    Attachment as Attachment,
    AttachmentKind as AttachmentKind,
    Button as Button,
    ConversationKey as ConversationKey,
    FeedEntry as FeedEntry,
    FileExcerpt as FileExcerpt,
    Image as Image,
    ImageLoader as ImageLoader,
    Message as Message,
    MessagePurpose as MessagePurpose,
    MessageRole as MessageRole,
    Origin as Origin,
    Question as Question,
    ReplyOptions as ReplyOptions,
    ResponseSchema as ResponseSchema,
    Speech as Speech,
    SpeechProblem as SpeechProblem,
    ThreadState as ThreadState,
    ToolCall as ToolCall,
    Turn as Turn,
)
from core.types.names import (
    FORGES as FORGES,
    NAMESPACED_CHAT_PLATFORMS as NAMESPACED_CHAT_PLATFORMS,
    NETWORK_PLATFORM as NETWORK_PLATFORM,
    PlatformName as PlatformName,
)
from core.types.replies import AgentScore as AgentScore, Citation as Citation, Passage as Passage, Reply as Reply
from core.types.skips import Skip as Skip, SkipReason as SkipReason, skip as skip
from core.types.sources import SourceState as SourceState
