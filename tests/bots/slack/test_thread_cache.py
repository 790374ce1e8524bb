"""Pictures in Slack's threads: a question in a thread is also about the picture that the thread began with."""

from __future__ import annotations

from pathlib import Path

from bots.slack.adapter import SlackAdapter
from tests.support import slack_helpers
from tests.support.image_helpers import open_harness
from tests.support.images import png
from tests.support.peers.slack import SlackPeer


async def test_a_question_in_a_thread_is_about_the_picture_that_it_began_with(tmp_path: Path) -> None:
    async with SlackPeer() as peer:
        settings = slack_helpers.settings(peer, tmp_path)
        adapter = SlackAdapter(settings, slack_helpers.Threads().answered_in, slack_helpers.PACE)
        async with open_harness(tmp_path, adapter) as harness:
            share = {"subtype": "file_share"}
            started_at = peer.say("C1", "It broke", files=[peer.add_attachment("F1", png())], **share)
            await harness.wait_until_finished(1)
            peer.say("C1", "<@UBOT> what is this?", thread=started_at, user="U2")
            await peer.wait_for_reply("C1", 30, containing="Install")
            assert peer.fetched == ["F1"]
            # A picture of its own comes first; what cannot be looked at, or is gone, is not brought up again.
            other = peer.say("C1", "Me too", files=[peer.add_attachment("F2", png())], **share)
            own_files = [peer.add_attachment("F3", png())]
            peer.say("C1", "<@UBOT> and this?", thread=other, user="U2", files=own_files, **share)
            await peer.wait_for_reply("C1", 30, count=2, containing="Install")
            log = peer.say("C1", "A log", files=[peer.add_attachment("F4", b"", "audio/ogg")], **share)
            deleted_message = peer.say("C1", "Not this", files=[peer.add_attachment("F5", png())], **share)
            peer.delete("C1", deleted_message)
            for number, thread in ((3, log), (4, deleted_message)):
                peer.say("C1", "<@UBOT> How do I install it?", thread=thread, user="U2")
                await peer.wait_for_reply("C1", 30, count=number, containing="Install")
            assert peer.fetched == ["F1", "F3"]


async def test_a_mention_alone_below_a_picture_asks_about_it(tmp_path: Path) -> None:
    async with SlackPeer() as peer:
        settings = slack_helpers.settings(peer, tmp_path)
        adapter = SlackAdapter(settings, slack_helpers.Threads().answered_in, slack_helpers.PACE)
        async with open_harness(tmp_path, adapter):
            started_at = peer.say("C1", "", files=[peer.add_attachment("F1", png())], subtype="file_share")
            peer.say("C1", "<@UBOT>", thread=started_at, user="U2")
            await peer.wait_for_reply("C1", 30, containing="Install")
            assert peer.fetched == ["F1"]
