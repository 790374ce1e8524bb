"""Files in other encodings than UTF-8: read where they say so or where it is sure, else left with gaps."""

from __future__ import annotations

import random

import pytest

from knowledge.formats import read_document
from knowledge.formats.encoding import decode, unusable_reason

JAPANESE = "スケジューラは優先度の順にジョブを配置します。"
CHINESE = "名称,端口\n网关,8443\n监控,9100\n"
TAIWANESE = "排程器會先依照優先順序，再依照等待時間安排工作，因此舊的工作不會一直等待。"
KOREAN = "스케줄러는 우선순위에 따라 작업을 배치하며, 오래된 작업도 계속 기다리지는 않습니다."
RUSSIAN = "Планировщик запускает задания по приоритету, затем по возрасту."
GERMAN = "Die Größe des Speichers ändert sich für jede Übertragung. Prüfen Sie zunächst die Einstellungen."
POLISH = "Zażółć gęślą jaźń. Usługa nasłuchuje na porcie, a dzienniki są przechowywane przez trzydzieści dni."
ENGLISH = "The “scheduler” costs 5 € – café jobs run first, and old jobs are never starved by newer ones."
GREEK = "Ο προγραμματιστής εκτελεί τις εργασίες κατά προτεραιότητα και έπειτα κατά ηλικία."
ARABIC = "يقوم المجدول بتشغيل المهام حسب الأولوية ثم حسب العمر حتى لا تنتظر المهمة القديمة إلى الأبد."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        (CHINESE, "gbk"),
        (TAIWANESE, "big5"),
        (KOREAN, "euc_kr"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (GERMAN, "cp1252"),
        (POLISH, "cp1250"),
        (ENGLISH, "cp1252"),
        (GREEK, "cp1253"),
        (ARABIC, "cp1256"),
        *((text, f"utf_16_{order}") for text in (JAPANESE, CHINESE, KOREAN, RUSSIAN, GERMAN) for order in ("le", "be")),
    ],
)
def test_the_encoding_of_a_file_is_found(text: str, encoding: str) -> None:
    content = f"{text}\n{text} 8443\n"
    data = content.encode(encoding)
    assert unusable_reason(data) == ""
    assert decode(data) == content


def test_lines_of_ascii_do_not_hide_what_the_others_say() -> None:
    header = "Jahr;Kinotheater;Kinosäle;Sitzplätze;Besucher in 1000;Vorhandene Plätze je 1000 Einwohner\n"
    table = header + "1981;10;20;4000;1200;7\n" * 200
    assert decode(table.encode("cp1252")) == table


@pytest.mark.parametrize(
    "head",
    [
        "# -*- coding: latin2 -*-",
        '#!/bin/sh\n# vim: fileencoding="iso-8859-2"',
        '<?xml version="1.0" encoding="ISO-8859-2"?>',
    ],
)
def test_what_a_file_says_of_its_encoding_is_heeded(head: str) -> None:
    text = f"{head}\nprint('žluťoučký')\n"
    assert decode(text.encode("latin2")) == text
    assert "luťou" not in decode(f"\n\n{text}".encode("latin2"))


@pytest.mark.parametrize("code", ["\x1b[32mok\x1b[0m", "\x1b[1m\x1b[94mok\x1b[m", "\x1b[38;5;206mok"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_the_colours_of_a_terminal_are_no_text(code: str, encoding: str) -> None:
    assert decode(f"[PASS] {code} [1m".encode(encoding)) == "[PASS] ok [1m"


def test_damaged_utf_8_stays_utf_8() -> None:
    data = f"{GERMAN} {GERMAN}".encode()
    assert decode(data + b"\xff") == f"{GERMAN} {GERMAN}\ufffd"
    assert decode(b"\xff" + RUSSIAN.encode()) == f"\ufffd{RUSSIAN}"


@pytest.mark.parametrize(
    "data", [b"Contact: Jos\xe9 N\xfa\xf1ez", bytes(range(128, 256)), b"# coding: no-such-one\n\xe9\xff"]
)
def test_what_is_not_sure_keeps_its_gaps(data: bytes) -> None:
    assert "\ufffd" in decode(data)


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\0\0\0\0\0\x03\0>\0", b"PK\x03\x04\x14\0\0\0", b"a\0b\0", b"\0" * 64]
)
def test_binary_content_is_no_text_in_utf_16(data: bytes) -> None:
    assert unusable_reason(data) == "binary"


def test_keys_and_signatures_are_no_text() -> None:
    assert unusable_reason(b"\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBF\n") == "binary"


def test_random_bytes_are_no_text() -> None:
    chance = random.Random(7)
    for _ in range(200):
        data = chance.randbytes(400) + b"\0\0"
        assert unusable_reason(data) == "binary"


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "utf-8", "utf-16"])
def test_a_page_is_read_in_the_encoding_that_it_names(encoding: str) -> None:
    page = f'<html><head><meta charset="{encoding}"><title>Очередь</title></head><body><p>{RUSSIAN}</p></body></html>'
    text, _ = read_document("page.html", "html", page.encode(encoding))
    assert text == f"# Очередь\n\n{RUSSIAN}"


def test_a_table_in_another_encoding_is_read() -> None:
    text, _ = read_document("table.csv", "csv", CHINESE.encode("gbk"))
    assert text == "名称: 网关  \n端口: 8443\n\n名称: 监控  \n端口: 9100"
