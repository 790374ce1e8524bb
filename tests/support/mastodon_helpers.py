"""What the tests of the Mastodon adapter share: settings for a peer, and short pauses."""

from __future__ import annotations

from pathlib import Path

from bots.mastodon.connection import MastodonIntervals
from core.settings import MastodonSettings, Secret
from tests.support.peers.mastodon import MastodonPeer

PACE = MastodonIntervals(retry_s=0.02, max_retry_s=0.1, retry_timeout_s=5, silence_s=5, read_s=30, timeout_s=10)


def settings(peer: MastodonPeer, folder: Path, **changes: int) -> MastodonSettings:
    """Return settings for an account on a peer."""
    (folder / "mastodon-token").write_text(peer.token + "\n")
    return MastodonSettings(url=peer.url, token=Secret(file=folder / "mastodon-token"), **changes)
