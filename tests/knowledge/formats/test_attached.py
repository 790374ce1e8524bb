"""Files of questions: the lines that matter are chosen, secrets are masked, and what cannot be read says why."""

from __future__ import annotations

import io

import pypdf
import pytest

from core.settings import ParsingSettings
from core.types import FileExcerpt
from knowledge.formats.attached import AttachedFileReader, read_attached
from knowledge.parsing.pool import WorkerPool
from tests.support.pdf_documents import write_pdf

QUESTION = "Why does the proxy refuse the certificate?"
SERVED = [f"2026-11-01 08:00:00 INFO worker {number} served request {number}" for number in range(40_000)]
TRACEBACK = ["Traceback (most recent call last):", '  File "app.py", line 3, in <module>', "ValueError: bad port"]


def read(text: str | list[str] | bytes, question: str = QUESTION, name: str = "error.log") -> FileExcerpt:
    data = "\n".join(text) if isinstance(text, list) else text
    return read_attached(name, data if isinstance(data, bytes) else data.encode(), question, 4000)


def locked_pdf() -> bytes:
    writer = pypdf.PdfWriter(io.BytesIO(write_pdf("Secret words of a contract.")))
    writer.encrypt("password")
    data = io.BytesIO()
    writer.write(data)
    return data.getvalue()


@pytest.mark.parametrize("position", [0, 20_000, 40_000])
def test_an_error_is_found_wherever_it_is(position: int) -> None:
    excerpt = read([*SERVED[:position], *TRACEBACK, *SERVED[position:]])
    assert f"{position + 3}: ValueError: bad port" in excerpt.text
    assert f"{position + 1}: Traceback" in excerpt.text, "with the lines around it"
    assert "\n1: " in excerpt.text, "and both ends"
    assert "\n40003: " in excerpt.text
    assert len(excerpt.text) < 4600
    assert excerpt.text.startswith(f"File error.log, {excerpt.shown_lines} of 40,003 lines\n")
    assert excerpt.text.count("\n") - excerpt.text.count("\n…") == excerpt.shown_lines
    assert excerpt.key_line == "ValueError: bad port"


def test_words_of_the_question_count() -> None:
    lines = [*SERVED[:5000], "proxy: the certificate of the peer has expired", *SERVED[5000:]]
    assert "5001: proxy: the certificate" in read(lines).text
    assert "certificate" not in read(lines, "How are sessions kept?").text


def test_what_is_repeated_hides_nothing() -> None:
    again = [f"2026-11-01 08:00:00 ERROR cannot reach the mirror, try {number}" for number in range(20_000)]
    excerpt = read([*again[:10_000], "FATAL: the disk is full", *again[10_000:]])
    assert "10001: FATAL: the disk is full" in excerpt.text
    assert "1: 2026-11-01 08:00:00 ERROR cannot reach the mirror, try 0" in excerpt.text


def test_a_short_file_is_whole() -> None:
    excerpt = read("[server]\r\nport = 80\r\n\r\nhost = x\r\n")
    assert excerpt.text.split("\n") == [
        "File error.log, 4 of 4 lines",
        "1: [server]",
        "2: port = 80",
        "3: ",
        "4: host = x",
    ]
    assert excerpt.key_line == "", "nothing stands out"
    assert (excerpt.shown_lines, excerpt.total_lines, excerpt.problem) == (4, 4, "")


def test_colours_and_control_characters_are_left_out() -> None:
    excerpt = read("\x1b[31mERROR\x1b[0m \x1b(Bbad\x07 port\x00".replace("\x00", ""))
    assert excerpt.text.endswith("1: ERROR bad port")


def test_secrets_are_masked_also_at_the_end_of_a_long_line_and_in_the_name() -> None:
    line = "x " * 190 + "password=hunter22 " + "y" * 6000
    excerpt = read(f"{line}\ntoken: abc123", name="/home/ann/ann@example.org.log")
    assert "hunter" not in excerpt.text
    assert "abc123" not in excerpt.text
    assert "ann" not in excerpt.text.partition("\n")[0]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"PK\x03\x04" + bytes(range(256)), "binary"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "binary"),
        (b"", "no_text"),
        (b" \n\n", "no_text"),
        (b"\x1b[0m\n", "no_text"),
        (write_pdf(""), "no_text"),
        (locked_pdf(), "locked"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, problem: str) -> None:
    assert read(data) == FileExcerpt(problem=problem)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (write_pdf("The certificate has expired."), "The certificate has expired."),
        (b"<html><body>The certificate</body></html>", "The certificate"),
        ("Das Zertifikat läuft ab".encode("utf-16"), "Zertifikat läuft"),
        ("证书已过期，连接被拒绝。代理服务器返回错误。".encode("gb18030"), "证书已过期"),
    ],
)
def test_the_content_says_what_it_is(data: bytes, words: str) -> None:
    assert words in read(data, name="a.pdf").text


async def test_a_crafted_file_costs_its_worker_alone() -> None:
    async with WorkerPool(ParsingSettings(workers=1, memory_mb=128, cpu_s=2, wall_s=20)) as pool:
        reader = AttachedFileReader(pool)
        page = b"%PDF-1.4\n" + b"<< /A " * 200_000
        stream = b"%PDF-1.4\n1 0 obj<</Length 9>>stream\nBI /W 1 ID " + b"x" * 300_000
        for data in (page, stream, b"%PDF-" + bytes(50_000)):
            excerpt = await reader.read("a.pdf", data, QUESTION, 4000)
            assert excerpt.problem in ("failed", "no_text")
        assert "bad port" in (await reader.read("error.log", b"ValueError: bad port", QUESTION, 4000)).text
