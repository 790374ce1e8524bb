"""What is certain to be secret or personal is masked in technical text, and nothing else."""

from __future__ import annotations

import pytest

from core.language.secrets import mask_secrets


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("03/22 08:51:06 INFO read_netif: 9.22.22.222", "03/22 08:51:06 INFO read_netif: [address 1]"),
        ("connect 2a00:1450:4001:81b::200e failed", "connect [address 1] failed"),
        ("mail to Ann.Lee+x@mail.example.org.", "mail to [email 1]."),
        ("call +49 (30) 1234-5678 now", "call [phone 1] now"),
        ("card 4111 1111 1111 1111 was declined", "card [card 1] was declined"),
        ("DB_PASSWORD=hunter22", "DB_PASSWORD=[secret 1]"),
        ('"api_key": "abc-def", "x": 1', '"api_key": "[secret 1]", "x": 1'),
        ("Authorization: Bearer abc.def.ghi_123", "Authorization: Bearer [secret 1]"),
        ("curl -H 'X: bearer abcdefghij123'", "curl -H 'X: bearer [secret 1]'"),
        ("postgresql://kimas:s3cret@db.internal/kimas", "postgresql://kimas:[secret 1]@db.internal/kimas"),
        ("export X=ghp_abcdefghijklmnopqrstuvwxyz0123456789", "export X=[key 1]"),
        ("AKIAIOSFODNN7EXAMPLE and sk-proj-abcdefghijklmnop", "[key 1] and [key 2]"),
        ("bot 1234567890:AAF1-abcdefghijklmnopqrstuvwxyz01234 up", "bot [key 1] up"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "[key 1]"),
        ("my token: tok_live_12, my password: sesame", "my token: [secret 1], my password: [secret 2]"),
        ("token=ghp_abcdefghijklmnopqrstuvwxyz0123456789", "token=[key 1]"),
        ("我的邮箱ann@example.org收不到邮件", "我的邮箱[email 1]收不到邮件"),
        ("密钥sk-abcdef1234567890XYZ用不了", "密钥[key 1]用不了"),
        ("地址9.9.9.9连不上", "地址[address 1]连不上"),
        ("电话+8613812345678找我", "电话[phone 1]找我"),
        ("密码：hunter22，怎么重置？", "密码：[secret 1]，怎么重置？"),
        ("我的密码是hunter22怎么办", "我的密码是[secret 1]怎么办"),
        ("password=hunter22，怎么重置？", "password=[secret 1]，怎么重置？"),
        ("mail to jürgen@müller.de", "mail to [email 1]"),
    ],
)
def test_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
    assert mask_secrets(masked) == masked, "marks stay as they are"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T08:51:06.123Z ERROR kimas.core.llm.failover: 3 of 7",
        "Python 3.11.7, numpy 2.1.0, release 1.2.3.4-rc1, v10.0.0.1.2",
        "commit 79f3c1b2aa0d4e5f6a7b8c9d0e1f2a3b4c5d6e7f, uuid 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "listening on 127.0.0.1:8090 and 0.0.0.0, peer 10.0.0.7, ::1",
        "1763626266123456789 ns, 4111111111111112, 0x7ffd1234",
        "max_tokens: 4096, tokenizer: bpe, password: null, token: ${TOKEN}, secret: [secret 1]",
        'react@18.2.0 and @types/node, File "/usr/lib/python3.11/site-packages/a.py", line 3',
        "at 08:51:06 +0200",
        "version 1.2.3.4, ESP-IDF v 4.4.1.2, Firmware: 2.14.0.7, 版本 1.2.3.4, 版本号：1.2.3.4",
        "git clone git@github.com:espressif/esp-idf.git",
        "密码: 怎么重置？密码是什么？",
        "SyntaxError: Unexpected token: string; invalid token: end.",
        "api_key={env: KEY}, password: <yours>",
        "ModuleNotFoundError: No module named 'kimas'",
    ],
)
def test_what_is_technical_stays(text: str) -> None:
    assert mask_secrets(text) == text


def test_one_value_has_one_mark_in_one_text() -> None:
    text = "ann@example.org wrote to bob@example.org, ann@example.org waited"
    assert mask_secrets(text) == "[email 1] wrote to [email 2], [email 1] waited"
    assert mask_secrets("bob@example.org") == "[email 1]", "a mark means nothing elsewhere"


@pytest.mark.parametrize("end", ["-----END RSA PRIVATE KEY-----\nafter", ""])
def test_a_private_key_is_left_out_whole(end: str) -> None:
    body = "\n".join(["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,AB12", "", "MIIEowIBAAKCAQEA7", "bW9yZQ=="])
    masked = mask_secrets(f"before\nkey: -----BEGIN RSA PRIVATE KEY-----\n{body}\n{end}")
    assert "MIIE" not in masked
    assert "bW9y" not in masked
    assert masked.startswith("before\nkey: [private key]\n")
    assert masked.endswith("after" if end else "")
