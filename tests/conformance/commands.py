"""Commands of an owner, the same on every platform."""

from __future__ import annotations

from core.messaging.policy.command_table import get_command
from tests.conformance.bot import Bot
from tests.conformance.platforms import ANN, Channel, until
from tests.support.peers import bluesky

# Ann gives the commands: every driver's `command` is hers.
OWNERS = [
    "telegram:1001",
    "discord:1001",
    "slack:U1ANN",
    "slack:U1001",
    "mastodon:person1@social.example",
    f"bluesky:{bluesky.make_account(f'person1.{bluesky.HOST}').did}",
    "github:Ann",
    "gitlab:Ann",
    "console:ann",
]


async def owned(bot: Bot, **changes: object) -> None:
    """Start the bot anew with Ann as its owner."""
    await bot.stop()
    bot.changes = {"administration": {"owners": OWNERS}, **changes}
    await bot.start()


async def run_command(bot: Bot, channel: Channel, name: str, arguments: str = "") -> str:
    """Let Ann give a command, and return what she sees."""
    count = len(bot.messages(channel))
    if bot.platform == "discord":
        command = get_command(name)
        assert command is not None
        options = dict(zip([argument.name for argument in command.arguments], arguments.split(), strict=False))
        number = (await bot.driver.peer.command(channel.id, name, bot.driver._author(ANN), **options)).id  # type: ignore[attr-defined]
    else:
        number = await bot.driver.command(channel, name, arguments)
    await bot.wait_until_finished(channel, number)
    await until(lambda: len(bot.messages(channel)) > count and bool(bot.texts(channel)[-1]), f"an answer to /{name}")
    # A long answer, as that to /help, continues in further messages.
    return "\n".join(bot.texts(channel)[count:])
