"""Runs `kimas run` against the AT Protocol's own servers, and says of each step whether it worked.

See `tests/lab/independent/README.md`. Usage: `python -m tests.lab.independent.bluesky http://localhost:2583`
"""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime
from urllib.error import HTTPError

from bots.bluesky.client import BlueskyClient
from bots.bluesky.connection import BlueskyIntervals
from bots.bluesky.session import SessionFile
from bots.bluesky.sink import make_key
from tests.lab.independent import steps
from tests.lab.independent.steps import Bot, Json, call, wait_for

POSTS = "app.bsky.feed.post"
SECTION = """
bluesky:
  url: {server}
  handle: {handle}
  app_password:
    file: {{password}}
  comment_below: [followers]
auto_comment:
  chats: ["bluesky:home"]
  deadline_s: 60
"""


class Person:
    """An account on the server, made anew."""

    def __init__(self, server: str, name: str) -> None:
        self._server = server
        self.handle = f"{name}-{secrets.token_hex(3)}.test"
        account = {"handle": self.handle, "email": f"{self.handle}@example.org", "password": secrets.token_hex()}
        session = call(f"{server}/xrpc/com.atproto.server.createAccount", account)
        self.did = str(session["did"])
        self._headers = {"Authorization": f"Bearer {session['accessJwt']}"}

    def call(self, name: str, body: object = None) -> Json:
        """Make one call as this person."""
        result: Json = call(f"{self._server}/xrpc/{name}", body, headers=self._headers)
        return result

    def create(self, collection: str, **record: object) -> Json:
        """Store a record, and return its address and hash."""
        values = {"$type": collection, "createdAt": _now(), **record}
        ref = self.call("com.atproto.repo.createRecord", {"repo": self.did, "collection": collection, "record": values})
        return {"uri": ref["uri"], "cid": ref["cid"]}

    def ask(self, bot: Person, text: str) -> Json:
        """Post something that mentions the bot."""
        return self.create(POSTS, **_mention(bot, text))

    def ask_closed(self, bot: Person, text: str) -> Json:
        """Post something that mentions the bot, in a thread that is closed to replies from the beginning."""
        key = make_key(secrets.token_hex())
        uri = f"at://{self.did}/{POSTS}/{key}"
        records = {POSTS: _mention(bot, text), "app.bsky.feed.threadgate": {"post": uri, "allow": []}}
        writes = [
            {
                "$type": "com.atproto.repo.applyWrites#create",
                "collection": collection,
                "rkey": key,
                "value": {"$type": collection, "createdAt": _now(), **record},
            }
            for collection, record in records.items()
        ]
        self.call("com.atproto.repo.applyWrites", {"repo": self.did, "writes": writes})
        return {"uri": uri}

    def find(self, bot: Person, question: Json, text: str) -> Json | None:
        """Return the bot's reply to a post that holds a text."""
        try:
            thread = self.call(f"app.bsky.feed.getPostThread?uri={question['uri']}")["thread"]
        except HTTPError:
            # What is stored is shown a moment later.
            return None
        for reply in thread.get("replies") or ():
            if reply["post"]["author"]["did"] == bot.did and text in reply["post"]["record"]["text"]:
                candidate: Json = reply
                return candidate
        return None


def _mention(bot: Person, text: str) -> Json:
    mention = f"@{bot.handle}"
    feature = {"$type": "app.bsky.richtext.facet#mention", "did": bot.did}
    facet = {"index": {"byteStart": 0, "byteEnd": len(mention)}, "features": [feature]}
    return {"text": f"{mention} {text}", "facets": [facet]}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def converse(account: Person, ada: Person, ben: Person, bot: Bot) -> None:
    """Mention the bot, follow up, give a command, like an answer, and write posts that may be commented on."""
    question = ada.ask(account, steps.QUESTION)
    reply = wait_for(lambda: ada.find(account, question, steps.ANSWER), "a mention is answered")
    wait_for(lambda: steps.is_cited(_read_thread(ada, account, question)), "with citations")
    parent = {"uri": reply["post"]["uri"], "cid": reply["post"]["cid"]}
    follow_up = ada.create(POSTS, text=steps.FOLLOW_UP, reply={"root": question, "parent": parent})
    wait_for(lambda: ada.find(account, follow_up, steps.SECOND_ANSWER), "so is a reply to the answer")
    command = ada.ask(account, "/help")
    wait_for(lambda: ada.find(account, command, "sources"), "a command is answered")
    ada.create("app.bsky.feed.like", subject=parent)
    wait_for(lambda: bot.count_ratings() == (1, 0), "a like is counted")
    closed = ada.ask_closed(account, steps.QUESTION)
    post = ada.create(POSTS, text=f"Today we learn this: {steps.QUESTION}")
    other = ben.create(POSTS, text=f"Today we learn this: {steps.QUESTION}")
    wait_for(lambda: ada.find(account, post, "keys"), "a follower's post gets a comment")
    wait_for(lambda: bot.has_logged("post.commented"), "and no other one")
    if ben.find(account, other, "") or ada.find(account, closed, ""):
        raise SystemExit("failed: nobody is answered who did not agree, or in a closed thread")


def _read_thread(reader: Person, bot: Person, question: Json) -> str:
    """Return the text of the bot's posts below a question."""
    texts = []
    node = reader.find(bot, question, "")
    while node:
        texts.append(str(node["post"]["record"]["text"]))
        node = next(iter(node.get("replies") or ()), None)
    return "\n".join(texts)


async def post_twice(server: str, account: Person, password: str) -> bool:
    """Return whether a second post under a key is the first one."""
    client = BlueskyClient(server, account.handle, password, SessionFile(None), BlueskyIntervals())
    try:
        key = make_key("twice", secrets.token_hex())
        first = await client.post(key, {"$type": POSTS, "text": "Once.", "createdAt": _now()})
        second = await client.post(key, {"$type": POSTS, "text": "Twice.", "createdAt": _now()})
        return first == second == await client.find_post(key)
    finally:
        await client.close()


def main() -> None:
    """Run a bot with two documents, and talk to it."""
    arguments = steps.parse_arguments("the dev-env of atproto", "http://localhost:2583")
    server = arguments.server
    account, ada, ben = (Person(server, name) for name in ("kimas", "ada", "ben"))
    label = {"$type": "com.atproto.label.defs#selfLabels", "values": [{"val": "bot"}]}
    profile = {"$type": "app.bsky.actor.profile", "displayName": "KIMAs", "labels": label}
    body = {"repo": account.did, "collection": "app.bsky.actor.profile", "rkey": "self", "record": profile}
    account.call("com.atproto.repo.putRecord", body)
    for person in (ada, ben):
        account.create("app.bsky.graph.follow", subject=person.did)
    ada.create("app.bsky.graph.follow", subject=account.did)
    password = str(account.call("com.atproto.server.createAppPassword", {"name": "kimas"})["password"])
    wait_for(lambda: asyncio.run(post_twice(server, account, password)), "what is posted twice is there once")
    section = SECTION.format(server=server, handle=account.handle)
    with steps.run_bot(section, {"password": password}, arguments.model) as bot:
        wait_for(lambda: bot.has_logged("bluesky.open"), "and is connected")
        print(bot.run("check", "--live"))
        converse(account, ada, ben, bot)


if __name__ == "__main__":
    main()
