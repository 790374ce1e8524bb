"""What `kimas check --live` finds wrong with bots, models and web sites, on servers that speak their protocols."""

from __future__ import annotations

import io
import re
import wave
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from bots.cli.check import check, run_check
from bots.cli.console import Finding
from bots.cli.probes import make_probes
from bots.common.open_storage import open_database
from bots.discord.diagnosis import compute_permissions
from bots.slack.diagnosis import REQUIRED_SCOPES, USEFUL_SCOPES
from core.errors import ModelError
from core.runtime.budget import Budget
from core.settings import Settings
from core.storage.usage import UsageRepository
from tests.support.deployment import ROOT
from tests.support.peers.discord import MESSAGE_CONTENT, DiscordPeer
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.reranker import RerankPeer
from tests.support.peers.slack import SlackPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.peers.transcription import TranscriptionPeer
from tests.support.peers.web import Page, WebPeer

GROUP = -1001234567890
PAGES = {
    "website": "<html><p>Hello</p></html>",
    "feed": '<?xml version="1.0"?>\n<rss version="2.0"><channel><title>News</title></channel></rss>',
}


def secret(folder: Path, name: str, value: str) -> dict[str, str]:
    (folder / name).write_text(value, "utf-8")
    return {"file": str(folder / name)}


async def run_live(folder: Path, subject: str, **parts: Any) -> list[Finding]:
    """Return what is found about a subject besides that it is there and configured."""
    settings = Settings.model_validate({"data_dir": folder / "data", **parts})
    findings = await check(settings, live=True, probes=make_probes(settings), probe_timeout_s=20)
    return [finding for finding in findings if finding.subject == subject]


class TestTelegram:
    async def check(
        self, peer: TelegramPeer, folder: Path, auto_chats: Sequence[str] = (), **gate: Any
    ) -> list[Finding]:
        section = {"api_url": peer.api_url, "token": secret(folder, "token", peer.token)}
        chats = {chat: {"mode": "auto"} for chat in auto_chats}
        return await run_live(folder, "telegram", telegram=section, gate=gate, chats=chats)

    async def test_all_is_well(self, tmp_path: Path) -> None:
        async with TelegramPeer() as peer:
            peer.chat(GROUP)
            findings = await self.check(peer, tmp_path, chats=[f"telegram:{GROUP}"])
            assert findings == [Finding("ok", "telegram", "the token belongs to @kimas_bot, member of -1001234567890")]
            assert {call.method for call in peer.calls} == {"getMe", "getChatMember"}, "nothing is changed"

    async def test_privacy_mode_and_unasked_answers(self, tmp_path: Path) -> None:
        async with TelegramPeer() as peer:
            peer.chat(GROUP)
            _, finding = await self.check(peer, tmp_path, mode="auto")
            assert finding.level == "warning"
            assert "privacy mode is on" in finding.text
            assert "/setprivacy" in finding.text
            assert "remove the bot from the group and add it again" in finding.text
            peer.reads_all = True
            assert len(await self.check(peer, tmp_path, mode="auto")) == 1

    async def test_an_administrator_reads_all(self, tmp_path: Path) -> None:
        async with TelegramPeer() as peer:
            auto_chats = [f"telegram:{GROUP}"]
            peer.chat(GROUP)
            assert len(await self.check(peer, tmp_path, auto_chats)) == 2
            peer.chat(GROUP).administrators.append(peer.bot)
            assert len(await self.check(peer, tmp_path, auto_chats)) == 1

    async def test_a_group_that_the_bot_is_not_in(self, tmp_path: Path) -> None:
        async with TelegramPeer() as peer:
            peer.chat(GROUP).kicked = True
            _, kicked, unknown = await self.check(peer, tmp_path, chats=[f"telegram:{GROUP}", "telegram:-5"])
            assert (kicked.level, unknown.level) == ("error", "error")
            assert "bot was kicked" in kicked.text
            assert "chat not found" in unknown.text
            assert "https://t.me/kimas_bot?startgroup=true" in unknown.text

    async def test_a_wrong_token(self, tmp_path: Path) -> None:
        async with TelegramPeer() as peer:
            section = {"api_url": peer.api_url, "token": secret(tmp_path, "token", "43:wrong")}
            (finding,) = await run_live(tmp_path, "telegram", telegram=section)
            assert (finding.level, "telegram.token was refused" in finding.text) == ("error", True)


class TestDiscord:
    async def check(self, peer: DiscordPeer, folder: Path, section: Mapping[str, Any], **gate: Any) -> list[Finding]:
        token = secret(folder, "token", peer.token)
        whole_section = {"api_url": peer.api_url, "token": token, **section}
        return await run_live(folder, "discord", discord=whole_section, gate=gate)

    async def test_permissions_in_a_channel(self, tmp_path: Path) -> None:
        async with DiscordPeer() as peer:
            channel_id = peer.channel()
            hidden_channel = peer.channel()
            chats = [f"discord:{channel_id}", f"discord:{hidden_channel}", "discord:99"]
            peer.channels[hidden_channel].lacking = {"view"}
            peer.channels[channel_id].lacking = {"send", "history"}
            _, some, none, unknown = await self.check(peer, tmp_path, {}, chats=chats)
            assert {some.level, none.level, unknown.level} == {"error"}
            assert f"channel {channel_id}: the bot lacks Send Messages, Read Message History" in some.text
            assert f"channel {hidden_channel}: the bot lacks View Channels" in none.text
            assert f"client_id={peer.application}&scope=bot+applications.commands" in some.text
            assert "channel 99" in unknown.text
            peer.channels[channel_id].lacking.clear()
            assert len(await self.check(peer, tmp_path, {}, chats=chats[:1])) == 1

    @pytest.mark.parametrize(("section", "gate", "expected_text"), [
        ({}, {}, "follow-ups without a mention in threads need it"),
        ({"follow_threads": False}, {"mode": "auto"}, "gate.mode or auto_comment need it"),
        ({"follow_threads": False}, {}, ""),
    ])  # fmt: skip
    async def test_the_intent(
        self, tmp_path: Path, section: Mapping[str, Any], gate: Mapping[str, Any], expected_text: str
    ) -> None:
        async with DiscordPeer() as peer:
            peer.gateway.granted &= ~MESSAGE_CONTENT
            findings = await self.check(peer, tmp_path, section, **gate)
            assert [expected_text in finding.text for finding in findings[1:]] == ([True] if expected_text else [])
            if expected_text:
                page = f"https://discord.com/developers/applications/{peer.application}/bot"
                assert (findings[1].level, page in findings[1].text) == ("warning", True)

    async def test_commands_that_go_elsewhere(self, tmp_path: Path) -> None:
        async with DiscordPeer() as peer:
            peer.interactions_endpoint = "https://example.org/hook"
            _, finding = await self.check(peer, tmp_path, {})
            assert (finding.level, "Interactions Endpoint URL" in finding.text) == ("error", True)


def test_permissions_are_computed_as_by_discord() -> None:
    """The order counts: everyone, roles together, the member; an administrator needs nothing."""
    guild = {"id": "1", "roles": [{"id": "1", "permissions": "3"}, {"id": "2", "permissions": "4"}]}
    member = {"user": {"id": "9"}, "roles": ["2"]}
    overwrites = [
        {"id": "1", "allow": "0", "deny": "7"},
        {"id": "2", "allow": "2", "deny": "0"},
        {"id": "9", "allow": "1", "deny": "2"},
    ]
    assert compute_permissions(guild, member, {}) == 7
    assert compute_permissions(guild, member, {"permission_overwrites": overwrites[:1]}) == 0
    assert compute_permissions(guild, member, {"permission_overwrites": overwrites[:2]}) == 2
    assert compute_permissions(guild, member, {"permission_overwrites": overwrites}) == 1
    admin = {"id": "1", "roles": [{"id": "1", "permissions": "8"}]}
    assert compute_permissions(admin, member, {"permission_overwrites": overwrites}) & (1 << 11)


class TestSlack:
    async def check(self, peer: SlackPeer, folder: Path, **gate: Any) -> list[Finding]:
        section = {
            "api_url": peer.api_url,
            "bot_token": secret(folder, "bot", peer.bot_token),
            "app_token": secret(folder, "app", peer.app_token),
        }
        return await run_live(folder, "slack", slack=section, gate=gate)

    async def test_scopes_and_membership(self, tmp_path: Path) -> None:
        async with SlackPeer() as peer:
            peer.say("C1", "Hello")
            peer.say("C2", "Hello")
            findings = await self.check(peer, tmp_path, chats=["slack:C1"])
            assert findings == [Finding("ok", "slack", "the tokens belong to kimas in Rocket")]
            peer.scopes -= {"chat:write", "files:read"}
            peer.not_in.add("C2")
            _, channel, write, files = await self.check(peer, tmp_path, chats=["slack:C2"])
            assert (channel.level, write.level, files.level) == ("error", "error", "warning")
            assert channel.text == (
                "channel C2: the bot is not in the channel; write /invite @kimas there (Slack: not_in_channel)"
            )
            assert "the scope chat:write is missing, so the bot cannot answer" in write.text
            assert "Reinstall to Workspace" in files.text

    async def test_a_wrong_app_token(self, tmp_path: Path) -> None:
        async with SlackPeer() as peer:
            tokens = {
                "bot_token": secret(tmp_path, "bot", peer.bot_token),
                "app_token": secret(tmp_path, "app", "xapp"),
            }
            (finding,) = await run_live(tmp_path, "slack", slack={"api_url": peer.api_url, **tokens})
            assert (finding.level, "slack.app_token was refused" in finding.text) == ("error", True)

    def test_the_scopes_are_those_of_the_manifest(self) -> None:
        manifest = re.search(r"bot:\n((?: +- [\w:]+\n)+)", (ROOT / "docs/slack.md").read_text("utf-8"))
        assert manifest
        assert {*REQUIRED_SCOPES, *USEFUL_SCOPES} <= set(re.findall(r"- ([\w:]+)", manifest[1]))


async def test_a_model_that_does_not_exist(tmp_path: Path) -> None:
    async with LanguageModelPeer() as peer:
        peer.models = ("qwen3:8b", "llama3.2")
        model = {"base_url": peer.base_url, "model": "qwen3:7b"}
        findings = await run_live(tmp_path, "models.main", models={"main": model})
        assert [finding.level for finding in findings] == ["error"]
        assert "has no model qwen3:7b; it has qwen3:8b" in findings[0].text
        assert ".." not in findings[0].text


async def test_what_the_calls_of_models_take_is_recorded(tmp_path: Path) -> None:
    async with LanguageModelPeer() as peer:
        prices = {"price_prompt": 1.0, "price_completion": 2.0}
        models = {name: {"base_url": peer.base_url, "model": name, **prices} for name in ("main", "light")}
        settings = Settings.model_validate({"data_dir": tmp_path, "models": models})
        assert await run_check(settings, live=True, as_json=True) == 0
        assert not (tmp_path / "journal.db").exists(), "a check creates no journal"
        database = await open_database(settings)
        try:
            assert await run_check(settings, live=False, as_json=True) == 0
            assert await run_check(settings, live=True, as_json=True) == 0
            repository = UsageRepository(database)
            (day,) = await repository.get_daily_usage(date.min)
            rows = await repository.get_usage_by_model(date.min)
        finally:
            await database.close()
        assert (day.answers, day.probes, day.usage.estimated_tokens) == (0, 2, 0)
        assert day.usage.prompt_tokens > 0 < day.usage.cost
        assert {row.values[1:] for row in rows} == {("check", "main"), ("check", "light")}


async def test_a_refused_call_takes_nothing(tmp_path: Path) -> None:
    async with LanguageModelPeer() as peer:
        peer.models = ("other",)
        model = {"base_url": peer.base_url, "model": "unknown"}
        settings = Settings.model_validate({"data_dir": tmp_path, "models": {"main": model}})
        budgets: list[Budget] = []
        (probe,) = make_probes(settings, budgets)
        with pytest.raises(ModelError):
            await probe.run()
        assert [budget.tokens for budget in budgets] == [{}]


async def test_an_endpoint_for_voice_messages_is_sent_a_second_of_sound(tmp_path: Path) -> None:
    async with TranscriptionPeer(api_key="right", models=("whisper",)) as peer:
        key = secret(tmp_path, "key", "right")
        section = peer.configuration(api_key=key)
        subject = "models.transcription"
        (finding,) = await run_live(tmp_path, subject, models={"transcription": section})
        assert finding == Finding("ok", subject, f"whisper at {peer.base_url} took a second of sound")
        (upload,) = peer.uploads
        with wave.open(io.BytesIO(upload.content)) as recording:
            assert recording.getnframes() == recording.getframerate()
        assert any(upload.content[100:])
        for change, words in (
            ({"model": "wisper"}, f"{peer.base_url} has no model wisper; it has whisper"),
            ({"api_key": secret(tmp_path, "wrong", "wrong-key")}, "the API key was refused"),
            ({"api_key": None}, "it wants an API key"),
            ({"base_url": peer.base_url.removesuffix("/v1")}, "base_url should probably be that"),
            ({"base_url": f"{peer.base_url}/audio/transcriptions"}, "leave out /audio/transcriptions"),
        ):
            findings = await run_live(tmp_path, subject, models={"transcription": {**section, **change}})
            errors = [finding.text for finding in findings if finding.level == "error"]
            assert any(words in text for text in errors), findings
            assert "wrong-key" not in str(findings)
        path = "models.sets.team.transcription"
        sets = {"team": {"transcription": {**section, "model": "other"}}}
        (finding,) = await run_live(tmp_path, path, models={"sets": sets}, chats={"telegram:1": {"models": "team"}})
        assert (finding.level, "has no model other" in finding.text) == ("error", True)


async def test_an_address_without_http(tmp_path: Path) -> None:
    model = {"base_url": "localhost:1234", "model": "m"}
    findings = await run_live(tmp_path, "models.main", models={"main": model})
    assert findings[0].level == "error"
    assert "for example http://localhost:1234" in findings[0].text


@pytest.mark.parametrize(("status", "level"), [(200, "ok"), (404, "error"), (500, "error")])
@pytest.mark.parametrize("kind", ["website", "feed"])
async def test_a_site_that_answers_with_an_error(tmp_path: Path, kind: str, status: int, level: str) -> None:
    async with WebPeer() as web:
        web.pages["/start"] = Page(PAGES[kind], status=status)
        source = {"kind": kind, "url": web.url("/start"), "allow_private": ["127.0.0.1"]}
        findings = await run_live(tmp_path, "sources.site", sources={"site": source})
        assert findings[-1].level == level
        assert ("status 500: its server has a fault" in findings[-1].text) == (status == 500)


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [("website", "feed", "is a feed: `kind: feed` reads it"), ("feed", "website", "is no feed (RSS or Atom)")],
)
async def test_a_feed_is_no_site_and_a_site_no_feed(tmp_path: Path, kind: str, content: str, reason: str) -> None:
    async with WebPeer() as web:
        web.pages["/start"] = Page(PAGES[content])
        source = {"kind": kind, "url": web.url("/start"), "allow_private": ["127.0.0.1"]}
        findings = await run_live(tmp_path, "sources.site", sources={"site": source})
        assert (findings[-1].level, findings[-1].text) == ("error", f"{web.url('/start')} {reason}")


async def test_servers_that_cannot_be_reached(tmp_path: Path) -> None:
    knowledge = {
        "store": {"provider": "weaviate", "weaviate": {"host": "127.0.0.1", "http_port": 9, "grpc_port": 10}},
        "search": {"rerank": "api", "reranker": {"url": "http://127.0.0.1:9/rerank"}},
    }
    for subject in ("knowledge.store", "knowledge.search.reranker"):
        (finding,) = await run_live(tmp_path, subject, knowledge=knowledge)
        assert (finding.level, "127.0.0.1:9" in finding.text) == ("error", True)


async def test_a_reranker_that_answers(tmp_path: Path) -> None:
    async with RerankPeer(score=lambda query, text: 0.5) as peer:
        search = {"rerank": "api", "reranker": {"url": peer.address("tei"), "texts_key": "texts"}}
        (finding,) = await run_live(tmp_path, "knowledge.search.reranker", knowledge={"search": search})
        assert (finding.level, finding.text) == ("ok", f"{peer.address('tei')} answers")


async def test_a_site_that_cannot_be_reached(tmp_path: Path) -> None:
    source = {"kind": "website", "url": "http://127.0.0.1:9/", "allow_private": ["127.0.0.1"]}
    findings = await run_live(tmp_path, "sources.site", sources={"site": source})
    assert findings[-1].level == "error"
