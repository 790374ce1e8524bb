"""Google Drive over real HTTP: tokens for keys, lists by query in parts, exports and downloads."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.peers.service import TOKEN, ServicePeer, find_unknown, match, reply

SCOPE = "https://www.googleapis.com/auth/drive.readonly"
GOOGLE = "application/vnd.google-apps."
FOLDER = f"{GOOGLE}folder"
EMAIL = "reader@project.iam.example.org"
USER = {"client_id": "client-1", "client_secret": "client-secret", "refresh_token": "refresh-secret"}
EXPORTS = {
    f"{GOOGLE}document": {"text/markdown", "text/html", "text/plain", "application/pdf"},
    f"{GOOGLE}spreadsheet": {"text/csv", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    f"{GOOGLE}presentation": {"text/plain", "application/pdf"},
}
LIST = ("q", "fields", "pageSize", "pageToken", "includeItemsFromAllDrives", "supportsAllDrives")


@dataclass
class DriveFile:
    """A file or folder. `is_shared`: the account sees it."""

    name: str
    parent: str
    kind: str = FOLDER
    data: bytes = b""
    modified: str = "2026-01-02T03:04:05.678Z"
    trashed: bool = False
    is_shared: bool = True
    can_download: bool = True
    may_export: bool = True
    in_shared_drive: bool = False


class GoogleDrivePeer(ServicePeer):
    """`files` by id. `page_size` caps the parts of lists; `max_export` the bytes of an export."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, DriveFile] = {}
        self.page_size = 1000
        self.max_export = 10 * 2**20
        self.forms: list[str] = []
        self.is_incomplete = False

    def make_key(self, **fields: str) -> str:
        """Return the JSON of a service account."""
        names = {"type": "service_account", "client_email": EMAIL, "private_key_id": "k1", "private_key": make_pem()}
        return json.dumps({**names, "token_uri": self.url("/token"), **fields})

    def make_user_key(self) -> str:
        """Return the JSON of a user who agreed."""
        return json.dumps({"type": "authorized_user", **USER, "token_uri": self.url("/token")})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path != "/token":
            return await super()._answer(request)
        self.requests.append(request)
        self.forms.append(await request.text())
        if request.method != "POST" or request.content_type != "application/x-www-form-urlencoded":
            return reply({"error": "invalid_request"}, 400)
        if self.broken.get("/token"):
            return reply({"error": "invalid_grant", "error_description": "Token revoked."}, 400)
        form = dict(await request.post())
        kind = form.pop("grant_type", "")
        if kind == "refresh_token" and form == USER:
            return reply({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"})
        if kind == "urn:ietf:params:oauth:grant-type:jwt-bearer" and self._is_signed(str(form["assertion"])):
            return reply({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"})
        return reply({"error": "invalid_grant"}, 400)

    def _is_signed(self, proof: str) -> bool:
        public_key = serialization.load_pem_private_key(make_pem().encode(), None).public_key()
        assert isinstance(public_key, rsa.RSAPublicKey)
        claims = jwt.decode(proof, public_key, ["RS256"], audience=self.url("/token"), issuer=EMAIL)
        return claims["scope"] == SCOPE and claims["exp"] - claims["iat"] <= 3600 and claims["exp"] > time.time()

    def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return fail(401, "authError", "Invalid Credentials")
        if request.path == "/drive/v3/files":
            return self._list(request)
        found = match(r"/drive/v3/files/([\w-]+)(/export)?", request)
        file = self._find(found[0], request) if found else None
        if not found or not file:
            return fail(404, "notFound", "File not found.")
        if found[1]:
            if find_unknown(request, "mimeType"):
                return fail(400, "badRequest", "Unknown parameter")
            if request.query.get("mimeType") not in EXPORTS.get(file.kind, set()):
                return fail(400, "badRequest", "The requested conversion is not supported.")
            if not file.may_export:
                return fail(403, "cannotExportFile", "This file cannot be exported by the user.")
            if len(file.data) > self.max_export:
                return fail(403, "exportSizeLimitExceeded", "This file is too large to be exported.")
            return web.Response(body=file.data)
        if find_unknown(request, "fields", "alt", "supportsAllDrives"):
            return fail(400, "badRequest", "Unknown parameter")
        if request.query.get("alt") != "media":
            return reply(show(found[0], file))
        if file.kind.startswith(GOOGLE):
            return fail(403, "fileNotDownloadable", "Only files with binary content can be downloaded.")
        return web.Response(body=file.data) if file.can_download else fail(403, "cannotDownloadFile", "Not allowed.")

    def _find(self, number: str, request: web.Request) -> DriveFile | None:
        file = self.files.get(number)
        hides_drives = request.query.get("supportsAllDrives") != "true" and not request.path.endswith("/export")
        if file is None or not file.is_shared or (file.in_shared_drive and hides_drives):
            return None
        return file

    def _list(self, request: web.Request) -> web.Response:
        query = re.fullmatch(r"\(([^()]+)\) and trashed = false", request.query.get("q", ""))
        if find_unknown(request, *LIST) or not query or not 1 <= int(request.query["pageSize"]) <= 1000:
            return fail(400, "invalid", "Invalid Value")
        parents = re.findall(r"'([\w-]+)' in parents", query[1])
        if " or ".join(f"'{parent}' in parents" for parent in parents) != query[1]:
            return fail(400, "invalid", "Invalid Value")
        if not all(self._find(parent, request) for parent in parents):
            return fail(404, "notFound", "File not found: .")
        takes_drives = request.query.get("includeItemsFromAllDrives") == "true"
        files = [
            show(number, file)
            for number, file in self.files.items()
            if file.parent in parents and file.is_shared and not file.trashed
            if takes_drives or not file.in_shared_drive
        ]
        token = request.query.get("pageToken", "~0")
        if not re.fullmatch(r"~\d+", token):
            return fail(400, "invalid", "Invalid Value")
        start, size = int(token[1:]), min(int(request.query["pageSize"]), self.page_size)
        more = {"nextPageToken": f"~{start + size}"} if start + size < len(files) else {}
        return reply({"files": files[start : start + size], "incompleteSearch": self.is_incomplete, **more})


@cache
def make_pem() -> str:
    key = rsa.generate_private_key(65537, 2048)
    private = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()).decode()


def show(number: str, file: DriveFile) -> dict[str, Any]:
    fields = {"id": number, "name": file.name, "mimeType": file.kind, "modifiedTime": file.modified}
    link = {"webViewLink": f"https://docs.google.com/document/d/{number}/edit", "trashed": file.trashed}
    checksum = {} if file.kind.startswith(GOOGLE) else {"md5Checksum": f"{hash(file.data):x}"}
    return {**fields, **link, **checksum, "capabilities": {"canDownload": file.can_download}}


def fail(status: int, reason: str, message: str) -> web.Response:
    errors = [{"message": message, "domain": "global", "reason": reason}]
    return reply({"error": {"code": status, "message": message, "errors": errors}}, status)
