"""What the gate records in English as a part of a reason to be silent: the features that decided, what was attached."""

from __future__ import annotations

SKIP_PHRASES = (
    "it shares many words with the documents",
    "it shares few words with the documents",
    "it has words that the documents often use",
    "it has few words that the documents often use",
    "several passages have its words",
    "few passages have its words",
    "its words are rare",
    "its words are common",
    "it is worded like questions to answer",
    "it is worded like messages to leave alone",
    "a picture",
    "a voice message",
    "a video",
    "a file",
    "a sticker",
    "something that is no text",
)
