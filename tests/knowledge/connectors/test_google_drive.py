"""Google Drive: kinds of files, folders in folders, keys, what is trashed or shared no longer, limits of exports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from core.errors import SourceError
from knowledge.connectors.google_drive import NOT_SHARED
from knowledge.ports import Store
from knowledge.sources.plugin import PluginSource
from tests.support.connectors import OpenSource, Update, read_documents
from tests.support.office import paragraph, word_document
from tests.support.pdf_documents import write_pdf
from tests.support.peers.google_drive import GOOGLE, USER, DriveFile, GoogleDrivePeer, make_pem

OpenDrive = Callable[..., PluginSource]
DOCUMENT = f"{GOOGLE}document"


@pytest.fixture
async def drive() -> AsyncIterator[GoogleDrivePeer]:
    async with GoogleDrivePeer() as peer:
        peer.files["folder-a"] = DriveFile("Handbook", "root-1")
        yield peer


@pytest.fixture
def open_drive(
    drive: GoogleDrivePeer, open_connector: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., PluginSource]:
    def open_source(*folders: str, key: str = "") -> PluginSource:
        monkeypatch.setenv("SERVICE_TOKEN", key or drive.make_key())
        return open_connector("google_drive", drive.url(), token="SERVICE_TOKEN", folders=folders or ["folder-a"])

    return open_source


def add(drive: GoogleDrivePeer, number: str, text: str, parent: str = "folder-a", kind: str = DOCUMENT) -> DriveFile:
    drive.files[number] = DriveFile(f"File {number}", parent, kind, text.encode())
    return drive.files[number]


async def test_files_of_all_kinds_are_read(drive: GoogleDrivePeer, open_drive: OpenDrive) -> None:
    picture = "\n\n![][image1]\n\n[image1]: <data:image/png;base64,iVBORw0KGgo>\n"
    add(drive, "doc-1", f"# Rotation\n\nUse `rotate`.{picture}")
    add(drive, "slides-1", "Slide one\nKeep calm", kind=f"{GOOGLE}presentation")
    add(drive, "table-1", "name,port\nweb,8080\n", kind="text/csv")
    add(drive, "note-1", "Plain words.", kind="text/plain")
    office = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    drive.files["word-1"] = DriveFile("Word", "folder-a", office, word_document(paragraph("From Word.")))
    drive.files["paper-1"] = DriveFile("Paper.pdf", "folder-a", "application/pdf", write_pdf("From a PDF."))
    add(drive, "photo-1", "x", kind="image/png")
    add(drive, "link-1", "x", kind=f"{GOOGLE}shortcut")
    documents = await read_documents(open_drive())
    texts = {path.removeprefix("files/"): document.text for path, document in documents.items()}
    assert set(texts) == {"doc-1", "slides-1", "table-1", "note-1", "word-1", "paper-1"}
    assert texts["doc-1"] == "# Rotation\n\nUse `rotate`."
    assert "port: 8080" in texts["table-1"]
    for number, words in (("slides-1", "Keep calm"), ("word-1", "From Word."), ("paper-1", "From a PDF.")):
        assert words in texts[number]
    document = documents["files/doc-1"]
    assert (document.title, document.url) == ("File doc-1", "https://docs.google.com/document/d/doc-1/edit")


async def test_folders_in_folders_and_shared_drives_are_read_once(
    drive: GoogleDrivePeer, open_drive: OpenDrive, update: Update
) -> None:
    drive.page_size = 3
    for number in range(30):
        drive.files[f"inner-{number}"] = DriveFile("Inner", "folder-a" if number < 25 else "inner-0")
        add(drive, f"doc-{number}", f"words {number}", f"inner-{number}").in_shared_drive = number % 2 == 0
    drive.files["inner-0"].in_shared_drive = True
    assert (await update(open_drive("folder-a", "inner-3"))).added == 30
    drive.paths()
    add(drive, "doc-7", "new words", "inner-7").modified = "2026-02-02T00:00:00.000Z"
    report = await update(open_drive("folder-a", "inner-3"))
    assert (report.updated, report.unchanged) == (1, 29)
    assert [path for path in drive.paths() if "doc-" in path] == [
        "/drive/v3/files/doc-7",
        "/drive/v3/files/doc-7/export",
    ]


async def test_what_is_trashed_moved_or_shared_no_longer_is_forgotten(
    drive: GoogleDrivePeer, open_drive: OpenDrive, update: Update, store: Store
) -> None:
    drive.files["folder-b"] = DriveFile("Inner", "folder-a")
    files = [add(drive, f"doc-{number}", f"zebra {number}") for number in range(5)]
    add(drive, "doc-5", "zebra 5", "folder-b")
    assert (await update(open_drive())).added == 6
    files[0].trashed = True
    files[1].is_shared = False
    files[2].parent = "elsewhere"
    files[3].can_download = False
    drive.files["folder-b"].trashed = True
    report = await update(open_drive())
    assert report.unreadable == {"files/doc-3": "its owner does not let readers download it"}
    assert report.stale == ""
    assert {row.path for row in await store.search("zebra", None, ["docs"], 9)} == {"files/doc-4"}


@pytest.mark.parametrize("how", ["trashed", "unshared"])
async def test_a_folder_that_its_owner_withdraws_is_forgotten(
    drive: GoogleDrivePeer, open_drive: OpenDrive, update: Update, store: Store, how: str
) -> None:
    add(drive, "doc-1", "zebra")
    await update(open_drive())
    if how == "trashed":
        drive.files["folder-a"].trashed = True
    else:
        drive.files["folder-a"].is_shared = False
    report = await update(open_drive())
    assert (report.unreadable, report.stale) == ({"folders/folder-a": NOT_SHARED}, "")
    assert await store.search("zebra", None, ["docs"], 9) == []


async def test_an_outage_loses_nothing(drive: GoogleDrivePeer, open_drive: OpenDrive, update: Update) -> None:
    add(drive, "doc-1", "zebra")
    await update(open_drive())
    drive.broken = {"/token": 400}
    report = await update(open_drive())
    assert "gives no token, with status 400" in report.stale
    assert report.unchanged == 1
    drive.broken = {}
    drive.is_incomplete = True
    del drive.files["doc-1"]
    assert "without the whole list" in (await update(open_drive())).stale
    for status in (401, 403, 500):
        drive.status = status
        report = await update(open_drive())
        assert f"status {status}" in report.stale
        assert report.unchanged == 1


async def test_an_export_that_is_too_large_loses_only_itself(drive: GoogleDrivePeer, open_drive: OpenDrive) -> None:
    drive.max_export = 100
    add(drive, "doc-1", "long " * 100)
    for number in range(2, 8):
        add(drive, f"doc-{number}", "long " * 100 if number < 6 else "short")
    documents = await read_documents(open_drive())
    assert documents["files/doc-1"].unreadable_reason == "Google exports documents up to 10 MB alone"
    assert documents["files/doc-7"].text == "short"


async def test_files_that_may_not_be_exported_lose_only_themselves(
    drive: GoogleDrivePeer, open_drive: OpenDrive, update: Update
) -> None:
    add(drive, "doc-9", "zebra")
    await update(open_drive())
    for number in range(1, 6):
        add(drive, f"doc-{number}", "secret")
        drive.files[f"doc-{number}"].may_export = False
    # Nothing else is new: that many refusals say nothing of the token.
    report = await update(open_drive())
    assert (report.stale, report.unchanged) == ("", 1)
    reason = "Google does not let this account export or download it"
    assert report.unreadable == {f"files/doc-{number}": reason for number in range(1, 6)}


async def test_a_user_who_agreed_lets_it_in_as_well(drive: GoogleDrivePeer, open_drive: OpenDrive) -> None:
    add(drive, "doc-1", "zebra")
    assert set(await read_documents(open_drive(key=drive.make_user_key()))) == {"files/doc-1"}
    assert USER["refresh_token"] in drive.forms[0]
    secrets = [USER["client_secret"], USER["refresh_token"], "client-1"]
    assert not [request for request in drive.requests if any(secret in str(request.url) for secret in secrets)]


async def test_check_says_what_is_wrong(drive: GoogleDrivePeer, open_drive: OpenDrive) -> None:
    add(drive, "doc-1", "zebra")
    assert await open_drive().probe() == "Google Drive: answers for 1 folder"
    with pytest.raises(SourceError, match=f"folder folder-z: {NOT_SHARED}"):
        await open_drive("folder-a", "folder-z").probe()
    with pytest.raises(SourceError, match="folder doc-1: it is no folder"):
        await open_drive("doc-1").probe()
    with pytest.raises(SourceError, match=r"folders\.0"):
        await open_drive("a' or 'b").probe()
    with pytest.raises(SourceError, match="is the key still valid"):
        await open_drive(key=drive.make_key(client_email="other@example.org")).probe()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"private_key": "-----BEGIN nothing"}, "its private_key cannot sign"),
        ({"client_email": ""}, "no JSON as Google gives it"),
        ({"token_uri": "http://tokens.example.org/"}, "needs an https address"),
    ],
)
async def test_a_key_that_is_none_is_named(
    drive: GoogleDrivePeer, open_drive: OpenDrive, fields: dict[str, str], reason: str
) -> None:
    with pytest.raises(SourceError, match=reason) as error_info:
        await open_drive(key=drive.make_key(**fields)).probe()
    assert make_pem()[40:80] not in str(error_info.value)
    with pytest.raises(SourceError, match="no JSON as Google gives it"):
        await open_drive(key="ya29.a-token").probe()
