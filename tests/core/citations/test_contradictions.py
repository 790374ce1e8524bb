"""What contradicts a passage for certain: numbers, names in code, commands and opposites, rule by rule."""

from __future__ import annotations

import pytest

from core.citations.contradictions import ClaimFacts, Facts, PromptFacts, _get_facts, describe_passage
from core.citations.support import SupportIndex, _read_lines
from core.language.facts import extract_numbers, has_number
from core.markup.statements import read_statements
from core.types import Passage
from tests.support.fixtures import passage
from tests.support.growth import FACTOR, MAX_RATIO, measure

SERVER = (
    "The server listens on port 8000 and keeps sessions for 2 hours. It does not compress replies. Set `max_peers`."
)


def find_contradictions(claim: str, text: str = SERVER, known: str = "") -> set[str]:
    facts = describe_passage(passage("x", text))
    claim_facts = ClaimFacts(claim, Facts(known))
    return {*claim_facts.find_invented(facts), *(["opposite"] if claim_facts.has_opposite_in(facts) else [])}


@pytest.mark.parametrize(
    ("claim", "kinds"),
    [
        ("The server listens on port 8000", set()),
        ("The server keeps sessions for 120 minutes", set()),
        ("The server keeps sessions for two hours", set()),
        ("The server does not compress its replies", set()),
        ("The server listens on port 8,000 for all sessions", set()),
        ("The server listens on port 9000", {"number"}),
        ("The server keeps sessions for 3 hours", {"number"}),
        ("The server keeps sessions for 2 days", {"number"}),
        ("It compresses replies", {"opposite"}),
        ("Set `max_children` for the server", {"name"}),
        ("Pass --max-children to the server", {"name"}),
        ("服务器监听 9000 端口", {"number"}),
        ("服务器会压缩回复", set()),
    ],
)
def test_a_claim_contradicts_in_kinds(claim: str, kinds: set[str]) -> None:
    assert find_contradictions(claim) == kinds


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("Requests time out after 30 s, sessions after 30 days.", "Requests time out after 30 seconds"),
        ("Requests time out after 30 s, sessions after 30 days.", "Sessions time out after 30 days"),
        ("Requests: timeout_s = 30", "Requests time out after 30 seconds"),
        ("Requests take TIMEOUT_30 for their time", "Requests time out after 30 seconds"),
        ("Requests time out after 5 to 10 minutes.", "Requests time out after 5 minutes"),
        ("Requests time out after 90 s.", "Requests time out after 1.5 minutes"),
    ],
)
def test_a_number_with_its_unit_or_without_any_supports(text: str, claim: str) -> None:
    assert not find_contradictions(claim, text)


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("The default is `timeout = 300`, in seconds.", "The server gives up after 5 minutes"),
        ("Uploads may have 1 GiB.", "Uploads may have 1024 MiB"),
        ("Uploads may have 33554432 bytes.", "Uploads may have 32 MiB"),
        ("默认情况下，上传请求在 10 秒后超时。", "默认情况下，上传请求在 10000 毫秒后超时"),
        ("默认情况下，上传请求在 120 秒后超时。", "默认情况下，上传请求在两分钟后超时"),
        ("Call `connect(host)` with the name of the host.", 'Call `connect("example.org")` with the name'),
        ("The method is `Ring.rotate(key=None)`.", "The method is called as `ring.rotate(key=<new key>)`"),
        ("Run `tarn serve --port 80` to listen.", "Run `tarn serve --port ${PORT}` to listen"),
        ("It sends up to 4,000 tokens and writes up to 1,024 tokens.", "It sends 4000 tokens and writes 1,024 tokens"),
        ("Set `LIMIT=8` for eight workers at most.", "Set `LIMIT=32` to change the number of workers"),
        (
            "If you set `load_from`, not `resume`, weights are loaded.",
            "If you set `load_from`, weights are loaded",
        ),
    ],
)
def test_conversions_literals_and_placeholders_contradict_nothing(text: str, claim: str) -> None:
    assert not find_contradictions(claim, text)


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("The default is `timeout = 300`, in seconds.", "The server gives up after 4 minutes"),
        ("默认情况下，上传请求在 10 秒后超时。", "默认情况下，上传请求在 10 分钟后超时"),
        ("Call `connect(host)` with the name of the host.", "Call `connect(address=host)` with the name of the host"),
        ("The method is `Ring.rotate(key=None)`.", "The method is `ring.renew_all(key=None)`"),
        ("Run `tarn serve --port 80` to listen.", "Run `tarn serve --listen-on 80` to listen"),
        ("Needs python3.10 or newer.", "It needs python3.7 or newer"),
        ("```{note}\nTokens are renewed at every start.\n```", "Tokens are not renewed at every start"),
    ],
)
def test_other_amounts_names_and_arguments_contradict(text: str, claim: str) -> None:
    assert find_contradictions(claim, text)


KEYS = "Run `rocket keys revoke` to withdraw a key.\n\n```sh\n$ rocket keys list --all\nrocket push <target>\n```"


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (KEYS, "`rocket keys rotate` replaces a key"),
        (KEYS, "Withdraw a key with `rocket revoke keys`"),
        (KEYS, "`rocket run` withdraws a key"),
        ("用 `rocket keys revoke` 撤销密钥，不再使用它。", "用 `rocket keys rotate` 更换密钥"),
        ("Install it: `pip install rocket-cli`.", "Install it with `conda install rocket-cli --yes rocket`"),
        ("```sh\ncd rocket\npip install -e .\n```", "Install it with `conda install -e .`"),
        ("To remove it, run `pip uninstall rocket`.", "To remove it, run `pip remove rocket`"),
        (
            "Low orders are closer to the engine, high ones are closer to the user.",
            "High orders are closer to the engine",
        ),
        ("The cache is enabled by default.", "The cache is disabled by default"),
        ("The hook runs before the server is closed.", "The hook runs after the server is closed"),
        ("`size` 表示一个序列的最大长度。", "`size` 表示一个序列的最小长度"),
        ("一般，批次越大吞吐量越高。", "一般，批次越大吞吐量越低"),
        ("注：合并权重时请勿使用压缩后的模型。", "合并权重时使用压缩后的模型"),
    ],
)
def test_other_commands_and_opposites_contradict(text: str, claim: str) -> None:
    assert find_contradictions(claim, text)


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("Install it: `pip install rocket-cli`.", "Install it with `python -m pip install rocket-cli`"),
        ("```sh\npip install rocket\n```\n\nOr use conda.", "Install it with `conda install rocket`"),
        (KEYS, "`rocket keys revoke <key>` withdraws a key"),
        (KEYS, "`sudo rocket keys list` lists the keys"),
        (KEYS, "`rocket push production` pushes to a target"),
        (KEYS, "`rocket push ./my/target -v` pushes to a target"),
        ("The command `revoke` withdraws a key.", "`rocket revoke` withdraws a key"),
        ("Keys are revoked on the command line.", "`rocket revoke` withdraws a key"),
        ("```\npython -m rocket check_env\n```", "Check it with `python3 -m rocket check_env`"),
        ("You haven't installed the compiled package. Do so.", "Install the compiled package"),
        ("Download it with `rocket get coco2017`.", "This downloads COCO 2017"),
        ("The cache is enabled by default.", "The cache is not disabled by default"),
        ("Set it before or after the start of the server.", "Set it after the start of the server"),
        ("一般，批次越大吞吐量越高。", "一般，批次越小吞吐量越低"),
        ("注：合并权重时请勿使用压缩后的模型。", "合并权重时不要使用压缩后的模型"),
    ],
)
def test_options_values_and_double_opposites_contradict_nothing(text: str, claim: str) -> None:
    assert not find_contradictions(claim, text)


def test_a_command_of_the_question_needs_no_support() -> None:
    assert not find_contradictions(
        "`rocket keys rotate` replaces a key", KEYS, "Does rocket keys rotate replace a key?"
    )


def test_a_number_of_another_unit_does_not_support() -> None:
    assert find_contradictions("Requests time out after 30 minutes", "Requests time out after 30 seconds.")
    assert find_contradictions("Uploads may have 512 MB", "Uploads may have 512 GB.")


def test_what_the_asker_said_needs_no_support() -> None:
    claim = "With your 64 GB the server listens on port 8000"
    assert find_contradictions(claim)
    assert not find_contradictions(claim, known="I have 64 GB, which port?")


def test_numbers_and_names_are_read_in_one_spelling() -> None:
    assert extract_numbers("1. First v2.3.1, 10,000 of 08, utf8, step 4") == {"2.3.1", "10000", "8"}
    assert has_number("3.11", {"3.11.4"})
    assert has_number("2.0", {"2"})
    assert not has_number("2.1", {"2"})


def hard_passage(share: float) -> Passage:
    words = ("word ", 20_000), ("1.1.", 5_000), ("a_", 5_000), ("\\`", 5_000), ("\n", 20_000), ("1,", 10_000)
    return passage("x", "".join(word * int(share * count) for word, count in words) + "[p1" + ", 1" * 50)


def test_the_facts_of_a_prompt_are_those_of_its_passages() -> None:
    texts = (SERVER, "Version 3.11 waits 30 seconds: `git remote add`, 2017.", "等待三十秒，最多 5 GB。")
    passages = [describe_passage(passage(str(number), text)) for number, text in enumerate(texts)]
    whole_text = "\n\n".join(facts.text for facts in passages)
    prompt = PromptFacts(whole_text, passages=passages)
    for name in ("key", "numbers", "unitless_numbers", "quantities", "commands", "is_wide"):
        assert getattr(prompt, name) == getattr(Facts(whole_text), name), name


def hard_claims(share: float) -> str:
    words = ("very ", 2_000), ("plain `word ", 1), ("- $ ", 2_000), ("x` `word ", 1), ("a", 2_000), ("`", 1)
    return "The word 1.1 and a_a are " + "".join(word * max(1, int(share * count)) for word, count in words)


def check_hard_text(passage: Passage, claims: str) -> None:
    for kept in (_get_facts, _read_lines, read_statements):
        kept.cache_clear()
    facts = describe_passage(passage)
    list(ClaimFacts(claims, Facts("")).find_invented(facts))
    ClaimFacts(claims, Facts("")).has_opposite_in(facts)
    SupportIndex([passage]).rate(claims)


@pytest.mark.parametrize(("passage_share", "claims_share"), [(1 / FACTOR, 1), (1, 1 / FACTOR)])
def test_reading_is_linear(passage_share: float, claims_share: float) -> None:
    def check(share: float) -> None:
        check_hard_text(hard_passage(max(passage_share, share)), hard_claims(max(claims_share, share)))

    pairs = [(measure(check, 1.0), measure(check, 1 / FACTOR)) for _ in range(3)]
    whole_s, part_s = (min(seconds) for seconds in zip(*pairs, strict=True))
    assert whole_s < MAX_RATIO * part_s
