"""A git server over HTTP: git's own http-backend behind one that may demand a login. All requests are on record."""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


@dataclass(frozen=True, slots=True)
class GitRequest:
    """One request: its path, what it said of who asks, and its body, unpacked."""

    path: str
    authorization: str
    body: bytes


@dataclass
class GitServer:
    """Serves the bare repositories below `root`. With `token` only to those who give it as a password."""

    root: Path
    token: str = ""
    username: str = "git"
    redirect_to: str = ""
    moved: dict[str, str] = field(default_factory=dict)
    requests: list[GitRequest] = field(default_factory=list)
    port: int = 0

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    @property
    def transfers(self) -> list[GitRequest]:
        """Return the requests that asked for objects."""
        return [command for command in self.requests if b"command=fetch" in command.body and b"want " in command.body]

    @property
    def tokens(self) -> list[str]:
        """Return whatever logins were given."""
        return [command.authorization for command in self.requests if command.authorization]

    def allowed(self, authorization: str) -> bool:
        login = base64.b64encode(f"{self.username}:{self.token}".encode()).decode()
        return not self.token or authorization == f"Basic {login}"

    @contextmanager
    def running(self) -> Iterator[GitServer]:
        peer = self

        class Handler(_Handler):
            server_state = peer

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_port
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server_state: GitServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the requests are on record."""

    def _answer(self) -> None:
        peer = self.server_state
        authorization = self.headers.get("Authorization", "")
        body = self._body()
        request_body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        peer.requests.append(GitRequest(self.path, authorization, request_body))
        if peer.redirect_to:
            # Git repeats such words to whoever runs it.
            self._reply(302, {"Location": peer.redirect_to + self.path, "Content-Type": "text/plain"}, b"Found")
        elif text := next((old_path for old_path in peer.moved if self.path.startswith(old_path)), ""):
            self._reply(301, {"Location": self.path.replace(text, peer.moved[text])}, b"")
        elif peer.allowed(authorization):
            self._run(body)
        else:
            self._reply(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"no")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = b""
        while size := int(self.rfile.readline(), 16):
            pieces += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return pieces

    def _run(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server_state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        result = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environment, check=False)
        head, _, content = result.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self._reply(int(headers.pop("Status", "200").split()[0]), headers, content)

    def _reply(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
