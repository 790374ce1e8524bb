"""Files in folders of Google Drive, and what Google keeps as documents, sheets and slides of its own.

https://developers.google.com/workspace/drive/api/reference/rest/v3: `files.list` lists folders, `files.export` and
`alt=media` give what a file holds. A key (of a service account, or of a user who agreed) gets a token for an hour.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import jwt

from core.errors import SourceError
from core.settings.connectors import GoogleDriveOptions, is_private_enough
from knowledge.connectors.api import TIMEOUT_S, ConnectorApi, open_api
from knowledge.connectors.source import GONE_STATUSES, Content, Item, ItemPage
from knowledge.formats.google_drive import write_file
from knowledge.parsing.limits import FormatError
from knowledge.sources.forge.api import StatusError, to_url
from knowledge.web.addresses import redact_url
from knowledge.web.client import Request, WebClient, read_json
from knowledge.web.refusals import REFUSED_STATUSES
from knowledge.web.values import as_mappings, dig, to_line

SCOPE = "https://www.googleapis.com/auth/drive.readonly"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105
PROOF_S = 3600
MAX_TOKEN_KB = 64
FILES_PER_REQUEST = 200
# Asked for at once; a query that is longer is refused.
FOLDERS_PER_REQUEST = 20
MAX_FOLDERS = 5000
FIELDS = "id,name,mimeType,modifiedTime,md5Checksum,webViewLink,trashed,capabilities/canDownload"
SHARED_DRIVES = {"supportsAllDrives": "true"}
GOOGLE = "application/vnd.google-apps."
OFFICE = "application/vnd.openxmlformats-officedocument."
FOLDER = f"{GOOGLE}folder"
WORKBOOK = f"{OFFICE}spreadsheetml.sheet"
# As what Google's own documents are asked for. As CSV a spreadsheet would be its first sheet.
EXPORTS = {
    f"{GOOGLE}document": "text/markdown",
    f"{GOOGLE}spreadsheet": WORKBOOK,
    f"{GOOGLE}presentation": "text/plain",
}
KINDS = {
    "application/pdf": "pdf",
    f"{OFFICE}wordprocessingml.document": "docx",
    f"{OFFICE}presentationml.presentation": "pptx",
    WORKBOOK: "xlsx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/plain": "text",
}
READ_KINDS = frozenset((*EXPORTS, *KINDS))
NOT_SHARED = "the folder is not shared with the account, or it is in the trash"
# Refusals of one file, whatever else the account may read.
OF_FILE_REASONS = ("cannotExportFile", "cannotDownload", "cannot be exported", "cannot be downloaded")
KEY_HINT = "is the key still valid, and the clock of this machine right?"
_ID = re.compile(r"[A-Za-z0-9_-]{5,100}")


class GoogleDrive:
    """Implements `Service` for some folders."""

    # Each change of a file has a time of its own.
    max_age_s = 0.0
    says_what_is_gone = True

    def __init__(self, options: GoogleDriveOptions) -> None:
        self._options = options

    @property
    def display_name(self) -> str:
        """The service as messages may show it."""
        return "Google Drive"

    @asynccontextmanager
    async def open(self, seconds: float) -> AsyncIterator[ConnectorApi]:
        """Yield the API with a new token, which lasts longer than a refresh. Raises `SourceError`."""
        headers = {"Authorization": f"Bearer {await self._fetch_token()}"}
        async with open_api(self._options, f"{self._options.base}/drive/v3", headers, seconds) as api:
            yield api

    async def list_page(self, api: ConnectorApi, cursor: str) -> ItemPage:
        """Return a part of the files.

        The cursor is JSON: the folders so far, from which to which they are asked for, and Google's own.
        """
        items: list[Item] = []
        if cursor:
            folders, start, end, page_token = json.loads(cursor)
        else:
            reasons = {folder: await self._find_skip_reason(api, folder) for folder in self._options.folders}
            items = [Item(f"folders/{folder}", "", reason) for folder, reason in reasons.items() if reason]
            folders = [folder for folder, reason in reasons.items() if not reason]
            start, end, page_token = 0, FOLDERS_PER_REQUEST, ""
        if not folders:
            return ItemPage(items)
        # While it goes on by a token, a list is asked for with the same folders.
        end = min(end, len(folders))
        reply = await api.get("/files", _make_query(folders[start:end], page_token))
        if not isinstance(dig(reply, "files"), list) or dig(reply, "incompleteSearch") is True:
            raise SourceError(f"{self.display_name} answered without the whole list of files")
        files = [file for file in as_mappings(reply["files"]) if _ID.fullmatch(to_line(file.get("id")))]
        items += [_to_item(file) for file in files if to_line(file.get("mimeType")) in READ_KINDS]
        found = dict.fromkeys(to_line(file["id"]) for file in files if file.get("mimeType") == FOLDER)
        folders = list(dict.fromkeys([*folders, *found]))
        if len(folders) > MAX_FOLDERS:
            raise SourceError(f"{self.display_name} has more than {MAX_FOLDERS} folders there: name others")
        page_token = to_line(reply.get("nextPageToken"), 2000)
        if not page_token:
            start, end = end, end + FOLDERS_PER_REQUEST
        return ItemPage(items, json.dumps([folders, start, end, page_token]) if start < len(folders) else "")

    async def read(self, api: ConnectorApi, item: Item) -> Content:
        """Return a file, as it is named now."""
        path = f"/{item.path}"
        file = await api.get(path, {"fields": FIELDS, **SHARED_DRIVES})
        if dig(file, "trashed") is not False:
            raise StatusError("it was moved to the trash", 404, "")
        kind = to_line(file.get("mimeType"))
        export = EXPORTS.get(kind, "")
        try:
            if export:
                data = await api.get_content(f"{path}/export", {"mimeType": export})
            else:
                data = await api.get_content(path, {"alt": "media", **SHARED_DRIVES})
        except StatusError as error:
            if "exportSizeLimitExceeded" in error.reason or "too large to be exported" in error.reason:
                raise FormatError("Google exports documents up to 10 MB alone") from error
            if any(words in error.reason for words in OF_FILE_REASONS):
                raise FormatError("Google does not let this account export or download it") from error
            raise
        name = to_line(file.get("name")) or "Untitled"
        return Content(name, to_url(file.get("webViewLink")), write_file, (KINDS.get(export or kind, "text"), data))

    async def probe(self, api: ConnectorApi) -> str:
        """Return how many folders can be read. Raises `SourceError` for one that cannot."""
        for folder in self._options.folders:
            if reason := await self._find_skip_reason(api, folder):
                raise SourceError(f"folder {folder}: {reason}")
            await api.get("/files", _make_query([folder], ""))
        count = len(self._options.folders)
        return f"answers for {count} {'folder' if count == 1 else 'folders'}"

    async def _find_skip_reason(self, api: ConnectorApi, folder: str) -> str:
        """Return why a folder is not read: its owner ended that, or it is none."""
        try:
            file = await api.get(f"/files/{folder}", {"fields": "mimeType,trashed", **SHARED_DRIVES})
        except StatusError as error:
            if error.status in GONE_STATUSES:
                return NOT_SHARED
            raise
        if dig(file, "trashed") is True:
            return NOT_SHARED
        return "" if dig(file, "mimeType") == FOLDER else "it is no folder"

    async def _fetch_token(self) -> str:
        """Return a token for an hour. Raises `SourceError`."""
        key = _parse_key(self._options.token)
        url = key["token_uri"]
        form = await asyncio.to_thread(_make_form, key)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        request = Request(url, "POST", headers=headers, body=form, timeout_s=TIMEOUT_S, max_kb=MAX_TOKEN_KB)
        async with WebClient(self._options.allow_private) as client:
            response = await client.fetch(request)
        token = to_line(dig(await read_json(response), "access_token"), 4000) if response.status == 200 else ""
        if not token:
            reason = f"{redact_url(url)} gives no token, with status {response.status}: {KEY_HINT}"
            # Google says so of a key that was deleted, and of a person who has withdrawn it.
            raise SourceError(reason, is_refused=response.status in {400, *REFUSED_STATUSES})
        return token


def _parse_key(text: str) -> dict[str, str]:
    """Return the key in a file of Google's. Raises `SourceError`."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    key = {name: value for name, value in values.items() if isinstance(value, str)} if isinstance(values, dict) else {}
    key.setdefault("token_uri", TOKEN_URL)
    needed = (
        ("client_email", "private_key") if "private_key" in key else ("client_id", "client_secret", "refresh_token")
    )
    if not all(key.get(name) for name in needed):
        raise SourceError(
            "token: it is no JSON as Google gives it, with client_email and private_key of a service account, or with "
            "client_id, client_secret and refresh_token of a user"
        )
    if not is_private_enough(key["token_uri"]):
        raise SourceError("token: its token_uri needs an https address, so that it travels encrypted")
    return key


def _make_form(key: Mapping[str, str]) -> bytes:
    """Return what asks for a token. Raises `SourceError` for a key that cannot sign."""
    if "private_key" not in key:
        names = ("client_id", "client_secret", "refresh_token")
        return urlencode({"grant_type": "refresh_token", **{name: key[name] for name in names}}).encode()
    now = int(time.time())
    claims = {"iss": key["client_email"], "scope": SCOPE, "aud": key["token_uri"], "iat": now, "exp": now + PROOF_S}
    headers = {"kid": key["private_key_id"]} if "private_key_id" in key else None
    try:
        proof = jwt.encode(claims, key["private_key"], "RS256", headers)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise SourceError("token: its private_key cannot sign") from error
    return urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": proof}).encode()


def _make_query(folders: list[str], page_token: str) -> dict[str, str]:
    parents = " or ".join(f"'{folder}' in parents" for folder in folders)
    params = {
        "q": f"({parents}) and trashed = false",
        "fields": f"nextPageToken,incompleteSearch,files({FIELDS})",
        "pageSize": str(FILES_PER_REQUEST),
        "includeItemsFromAllDrives": "true",
        **SHARED_DRIVES,
    }
    return {**params, "pageToken": page_token} if page_token else params


def _to_item(file: Mapping[str, Any]) -> Item:
    # Who uploads a file may set its time.
    mark = " ".join(to_line(file.get(key)) for key in ("modifiedTime", "md5Checksum", "mimeType", "name"))
    is_open = dig(file, "capabilities", "canDownload") is True
    return Item(f"files/{file['id']}", mark, "" if is_open else "its owner does not let readers download it")
