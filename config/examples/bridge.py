"""A bridge between KIMAs and a network that it has no adapter for. Copy it, and write `Network` for your network.

    KIMAS_HTTP_SECRET=... NETWORK_URL=https://... NETWORK_TOKEN=... python3 bridge.py

It gives every new post of the network to KIMAs as a signed event, and shows every signed reply as a comment below its
post. Its database makes each post one event and each reply one comment, whatever is restarted when. It needs Python
3.11 and nothing else. docs/http.md describes both directions, docs/auto-comment.md when KIMAs comments.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CHAT = "posts"
POLL_INTERVAL_S = float(os.environ.get("POLL_INTERVAL_S", "2"))
MAX_CLOCK_DIFFERENCE_S = 300
MAX_BODY_BYTES = 1 << 20
TIMEOUT_S = 10
# Events that KIMAs will not take at another time either.
REFUSED = (400, 413, 415, 422)
# From this status on, nobody knows what became of a request.
SERVER_FAULT = 500
ALREADY_THERE = 409


@dataclass(frozen=True)
class Post:
    """A post of the network; `sent_at` is such as `2026-08-01T20:15:00Z`."""

    id: str
    author_id: str
    author: str
    text: str
    sent_at: str


class Network:
    """The network's own API. These three methods are all that differs from one network to the other.

    The ones below speak to a network with three requests: posts after another one, comments below a post, and a new
    comment, which a key makes only once. On Weibo they are the home timeline, the comments of a status, and a new
    comment, and each needs the access token of your application.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}

    def list_posts(self, after: str) -> list[Post]:
        """Return the posts that are newer than the one with this id, oldest first."""
        names = [field.name for field in fields(Post)]
        posts = self._request(f"/posts?after={after}")
        return [Post(**{name: post[name] for name in names}) for post in posts]

    def count_bot_comments(self, post_id: str) -> int:
        """Return how many comments of bots stand below a post."""
        return sum(comment["is_bot"] for comment in self._request(f"/posts/{post_id}/comments"))

    def comment(self, post_id: str, text: str, key: str) -> str:
        """Write a comment once for each key, and return its id."""
        comment = self._request(f"/posts/{post_id}/comments", {"text": text}, {"Idempotency-Key": key})
        return str(comment["id"])

    def _request(self, path: str, value: object = None, headers: Mapping[str, str] | None = None) -> Any:
        body = None if value is None else json.dumps(value).encode()
        return send(self._url + path, body, {**self._headers, **(headers or {})})


def send(url: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
    """Return the JSON that a server answers. Raises `OSError`, as `HTTPError` for any other status than 2xx."""
    all_headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, body, all_headers)  # noqa: S310 - the owner's own addresses
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            return json.loads(response.read() or b"null")
    except (ValueError, http.client.HTTPException) as error:
        raise OSError(f"{url} gave no readable answer: {error!r}") from error


def sign(timestamp: str, body: bytes, secret: str) -> str:
    """Return the signature of a request between KIMAs and the bridge."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class Memory:
    """What the bridge has done, in a file: the last post that KIMAs has, and the comment of each key."""

    def __init__(self, path: str) -> None:
        # Only under the lock.
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("CREATE TABLE IF NOT EXISTS done (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        self.lock = threading.Lock()

    def get(self, key: str) -> str:
        """Return what is known of a key, or an empty string."""
        row = self._database.execute("SELECT value FROM done WHERE key = ?", (key,)).fetchone()
        return row[0] if row else ""

    def put(self, key: str, value: str) -> None:
        """Remember something of a key, over a kill of the bridge too."""
        self._database.execute("INSERT OR REPLACE INTO done VALUES (?, ?)", (key, value))


class Bridge:
    """Both directions: `run` carries posts to KIMAs, `take_reply` what KIMAs says of them."""

    def __init__(self, network: Network, memory: Memory, kimas_url: str, secret: str) -> None:
        self._network = network
        self._memory = memory
        self._events_url = kimas_url.rstrip("/") + "/v1/events"
        self.secret = secret

    def run(self) -> None:
        """Carry posts to KIMAs until the process ends."""
        while True:
            try:
                for post in self._network.list_posts(self._get_last_post()):
                    self._give(post)
            except OSError as error:
                # Whichever side it was, the next round begins with the same post.
                print(f"bridge: {error}; trying again", flush=True)  # noqa: T201
            time.sleep(POLL_INTERVAL_S)

    def _get_last_post(self) -> str:
        with self._memory.lock:
            return self._memory.get("last post")

    def _give(self, post: Post) -> None:
        event = {
            "id": post.id,
            "chat": CHAT,
            "kind": "post",
            "author": {"id": post.author_id, "name": post.author},
            "text": post.text,
            "sent_at": post.sent_at,
        }
        body = json.dumps(event).encode()
        timestamp = str(int(time.time()))
        headers = {"X-Kimas-Timestamp": timestamp, "X-Kimas-Signature": sign(timestamp, body, self.secret)}
        try:
            send(self._events_url, body, headers)
        except urllib.error.HTTPError as error:
            # KIMAs has the event of this id already.
            is_known = error.code == 409
            if not is_known and error.code not in REFUSED:
                raise
            if not is_known:
                print(f"bridge: post {post.id} is left out: {error.read().decode()}", flush=True)  # noqa: T201
        with self._memory.lock:
            self._memory.put("last post", post.id)

    def take_reply(self, key: str, reply: Mapping[str, Any]) -> tuple[int, Mapping[str, str]]:
        """Show a final reply below its post, once for each key; return the status and what KIMAs is told."""
        if not key:
            return 400, {"error": "no idempotency_key in the body: this KIMAs is older than this bridge, update it"}
        if reply["state"] != "final":
            return 200, {}
        post_id = reply["event_id"]
        # One after the other, so that the bots below a post are counted with all of ours.
        with self._memory.lock:
            comment_id = self._memory.get(key)
            if not comment_id:
                limit = reply.get("bot_replies_below")
                # A comment whose response was lost may be below the post already: it would be counted.
                was_tried = self._memory.get(f"tried {key}")
                if not was_tried and limit is not None and self._network.count_bot_comments(post_id) >= limit:
                    return 412, {"error": "enough bots are below this post"}
                self._memory.put(f"tried {key}", "yes")
                comment_id = self._comment(post_id, reply, key)
                self._memory.put(key, comment_id)
        return 200, {"id": comment_id}

    def _comment(self, post_id: str, reply: Mapping[str, Any], key: str) -> str:
        try:
            return self._network.comment(post_id, write_comment(reply), key)
        except urllib.error.HTTPError as error:
            # Refused, so it is not below the post, and the bots there have to be counted again.
            if error.code < SERVER_FAULT and error.code != ALREADY_THERE:
                self._memory.put(f"tried {key}", "")
            raise


def write_comment(reply: Mapping[str, Any]) -> str:
    """Return a reply with its citations below it, as plain text."""
    links = [f"[{citation['n']}] {citation['url']}" for citation in reply["citations"] if citation["url"]]
    return "\n".join([reply["text"], *links])


def make_handler(bridge: Bridge) -> type[BaseHTTPRequestHandler]:
    """Return what handles the callbacks of KIMAs."""

    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S

        def do_POST(self) -> None:
            """Take one callback; what is not signed is not read."""
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() else MAX_BODY_BYTES + 1
            if size > MAX_BODY_BYTES:
                self._answer(413, {"error": "too large, or of no known length"})
                return
            body = self.rfile.read(size)
            timestamp = self.headers.get("X-Kimas-Timestamp", "")
            signature = self.headers.get("X-Kimas-Signature", "")
            is_recent = timestamp.isdecimal() and abs(time.time() - int(timestamp)) <= MAX_CLOCK_DIFFERENCE_S
            if not is_recent or not hmac.compare_digest(
                signature.encode(), sign(timestamp, body, bridge.secret).encode()
            ):
                self._answer(401, {"error": "not signed by KIMAs, or a clock is wrong"})
                return
            try:
                # The header of the same name is not signed: who recorded a request could write another one.
                reply = json.loads(body)
                status, answer = bridge.take_reply(reply.get("idempotency_key", ""), reply)
            except urllib.error.HTTPError as error:
                # A post that is gone needs no reply; for everything else KIMAs tries again.
                status, answer = (410, {"error": "the post is gone"}) if error.code in (404, 410) else (503, {})
            except OSError as error:
                status, answer = 503, {"error": str(error)}
            self._answer(status, answer)

        def _answer(self, status: int, value: Mapping[str, str]) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing: KIMAs has a log of its callbacks."""

    return Handler


def main() -> None:
    """Read the environment, listen for callbacks, and carry posts."""
    environment = os.environ
    bridge = Bridge(
        Network(environment["NETWORK_URL"], environment["NETWORK_TOKEN"]),
        Memory(environment.get("BRIDGE_DATABASE", "bridge.db")),
        environment.get("KIMAS_URL", "http://127.0.0.1:8088"),
        environment["KIMAS_HTTP_SECRET"],
    )
    server = ThreadingHTTPServer(("127.0.0.1", int(environment.get("BRIDGE_PORT", "8092"))), make_handler(bridge))
    print(f"bridge: callbacks at http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bridge.run()


if __name__ == "__main__":
    main()
