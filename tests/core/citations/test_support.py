"""Which citations an answer may keep: rules one by one, the labelled set as a whole, and the line around it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from bots.evaluation.citations import CITATION_CASE_FORMAT, CitationCase, evaluate_citations, parse_citation_case
from bots.evaluation.datasets import read_cases
from core.answering.pipeline import answer
from core.citations.check import find_unsupported
from core.citations.layout import (
    affirms_what_is_denied,
    allows_what_is_forbidden,
    gives_other_cell,
    gives_other_unit,
)
from core.citations.markers import extract_claims, find_markers, resolve_markers
from core.citations.shell_commands import unfold_code_spans
from core.citations.support import (
    PassageFeatures,
    SupportVerdict,
    check_support,
    find_support_by_overlap,
    get_idf_weights,
)
from core.evidence.rendering import passage_ref
from core.language.facts import extract_identifiers, extract_numbers, has_number
from core.language.prose import split_sentences
from core.settings import Settings
from core.types import Passage, Question, Reply
from knowledge.chunking import chunk
from knowledge.embedding.local import LocalEmbedder
from knowledge.ports import Document
from tests.support.fixtures import INSTALL, MEMORY, InMemoryLibrary, MemorySink, parts, passage, settings
from tests.support.growth import FACTOR, MAX_RATIO, measure
from tests.support.scripted import ScriptedPeer, models

ROOT = Path(__file__).parents[3]
DATA = Path(__file__).parents[1] / "data" / "citations.jsonl"


class Vectors(InMemoryLibrary):
    """A library whose similarity is that of the built-in model."""

    def __init__(self, embedder: LocalEmbedder) -> None:
        super().__init__()
        self.embedder = embedder

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        vectors = await self.embedder.embed([query, *texts])
        similarities: list[float] = (vectors[1:] @ vectors[0]).tolist()
        return similarities


@pytest.fixture
async def vectors(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Vectors]:
    embedder = await LocalEmbedder.open(tmp_path_factory.getbasetemp() / "models")
    yield Vectors(embedder)
    await embedder.close()


# The rules

SERVER = (
    "The server listens on port 8000 and keeps sessions for 2 hours. It does not compress replies. Set `max_peers`."
)


def check_claim(claim: str, text: str = SERVER, question: str = "") -> SupportVerdict:
    features = PassageFeatures(passage("x", text))
    return check_support(claim, features, get_idf_weights([features, PassageFeatures(MEMORY)]), question)


@pytest.mark.parametrize(
    "claim",
    [
        "The server listens on port 8000",
        "The server keeps sessions for 120 minutes",
        "The server keeps sessions for two hours",
        "The server does not compress its replies",
        "The server listens on port 8,000 for all sessions",
    ],
)
def test_words_support(claim: str) -> None:
    assert check_claim(claim) == "yes"


@pytest.mark.parametrize(
    "claim",
    [
        "The server listens on port 9000",
        "The server keeps sessions for 3 hours",
        "The server keeps sessions for 200 minutes",
        "It compresses all replies",
        "The server does not listen on port 8000",
        "Set `max_children` for the server",
        "The server keeps sessions for 2 days",
    ],
)
def test_words_refuse(claim: str) -> None:
    assert check_claim(claim) == "no"


@pytest.mark.parametrize(
    "claim",
    [
        "Anybody may connect to it from outside by default",
        "See below",
        "The sources do not mention what happens when port 9000 is taken",
        "Der Server merkt sich Anmeldungen zwei Stunden lang und beantwortet danach keine Anfragen mehr",
        "服务器保留会话一段时间",
        "服务器监听 9000 端口",
    ],
)
def test_words_leave_open_what_they_cannot_tell(claim: str) -> None:
    assert check_claim(claim) == "unsure"


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
    assert check_claim(claim, text) != "no"


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
    assert check_claim(claim, text) != "no"


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
    assert check_claim(claim, text) == "no"


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
    assert check_claim(claim, text) == "no"


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
    assert check_claim(claim, text) != "no"


DEFAULTS = """\
| Name | Type | Default | Description |
|------|------|---------|-------------|
| `mode` | string | `strict` | Either `strict` or `open`. |
| gzip | boolean | false | Compresses the log; `true` needs tar. |
| retries | integer | | How often to try, 3 at most. |
"""


@pytest.mark.parametrize(
    ("claim", "contradicts"),
    [
        ("The default `mode` is `open`", True),
        ("By default `gzip` is enabled for the log", True),
        ("`gzip` 默认是开启的", False),
        ("The default `mode` is `strict`", False),
        ("`gzip` is `false` by default", False),
        ("`gzip` is not enabled by default", False),
        ("Set `mode` to `open`, the default is stricter", False),
        ("The default of `retries` is `3`", False),
        ("`mode` and `gzip` have defaults", False),
    ],
)
def test_a_default_is_that_of_its_row(claim: str, contradicts: bool) -> None:
    assert (check_claim(claim, DEFAULTS) == "no") == contradicts


def test_a_command_of_the_question_needs_no_support() -> None:
    assert check_claim("`rocket keys rotate` replaces a key", KEYS, "Does rocket keys rotate replace a key?") != "no"


def test_a_number_of_another_unit_does_not_support() -> None:
    assert check_claim("Requests time out after 30 minutes", "Requests time out after 30 seconds.") == "no"
    assert check_claim("Uploads may have 512 MB", "Uploads may have 512 GB.") == "no"


def test_what_the_asker_said_needs_no_support() -> None:
    claim = "With your 64 GB the server listens on port 8000"
    assert check_claim(claim) == "no"
    assert check_claim(claim, question="I have 64 GB, which port?") == "yes"


def test_numbers_and_names_are_read_in_one_spelling() -> None:
    assert extract_numbers("1. First v2.3.1, 10,000 of 08, utf8, step 4") == {"2.3.1", "10000", "8"}
    assert has_number("3.11", {"3.11.4"})
    assert has_number("2.0", {"2"})
    assert not has_number("2.1", {"2"})
    assert extract_identifiers("Use `max_peers`, --dry-run or HttpServer, e.g. run.") == {
        "max_peers",
        "--dry-run",
        "HttpServer",
    }


def hard_passage(share: float) -> Passage:
    words = ("word ", 20_000), ("1.1.", 5_000), ("a_", 5_000), ("\\`", 5_000), ("\n", 20_000), ("1,", 10_000)
    return passage("x", "".join(word * int(share * count) for word, count in words) + "[p1" + ", 1" * 50)


def hard_claims(share: float) -> str:
    words = ("very ", 2_000), ("plain `word ", 1), ("- $ ", 2_000), ("x` `word ", 1), ("a", 2_000), ("`", 1)
    return "The word 1.1 and a_a are " + "".join(word * max(1, int(share * count)) for word, count in words)


def check_hard_text(passage: Passage, claims: str) -> None:
    features = PassageFeatures(passage)
    check_support(claims, features, get_idf_weights([features]))


@pytest.mark.parametrize(("passage_share", "claims_share"), [(1 / FACTOR, 1), (1, 1 / FACTOR)])
def test_reading_is_linear(passage_share: float, claims_share: float) -> None:
    def check(share: float) -> None:
        check_hard_text(hard_passage(max(passage_share, share)), hard_claims(max(claims_share, share)))

    pairs = [(measure(check, 1.0), measure(check, 1 / FACTOR)) for _ in range(3)]
    whole_s, part_s = (min(seconds) for seconds in zip(*pairs, strict=True))
    assert whole_s < MAX_RATIO * part_s


# What a mark stands behind


@pytest.mark.parametrize(
    ("text", "claim_texts"),
    [
        ("Apples grow slowly [p1]. Pears grow fast [p2].", ["Apples grow slowly", "Pears grow fast"]),
        ("One thing happens. [p1] Another follows. [p2]", ["One thing happens.", "Another follows."]),
        ("Apples grow slowly [p1], while pears grow fast [p2].", ["Apples grow slowly", ", while pears grow fast"]),
        ("No. Feeds are read-only [p1], and bins keep things [p2].", ["Feeds are read-only", ", and bins keep things"]),
        ("Apples grow slowly everywhere [p1][p2].", ["Apples grow slowly everywhere"] * 2),
        ("Apples grow slowly [p1], [p2].", ["Apples grow slowly", "Apples grow slowly ,"]),
        ("Apples grow slowly.\n\n\n[p1] Pears grow fast.", ["Pears grow fast."]),
        ("| port | 8000 [p1] |", ["port 8000"]),
        ("- Apples grow slowly [p1]\n- Pears grow fast [p2]", ["- Apples grow slowly", "- Pears grow fast"]),
        ("苹果长得慢【p1】。梨长得快【p2】。", ["苹果长得慢", "梨长得快"]),
        ("[p1] says that apples grow slowly.", ["says that apples grow slowly."]),
        ("```\ncode\n```\n[p1]", []),
        ("`x[p1]` is code.", []),
    ],
)
def test_a_mark_stands_behind_the_words_before_it(text: str, claim_texts: list[str]) -> None:
    assert [claim.texts[0] for claim in extract_claims(text)] == claim_texts


def test_a_mark_at_the_end_stands_for_the_sentences_before_it_too() -> None:
    [claim] = extract_claims("The server listens on port 8000. It keeps sessions. That is all [p1].")
    assert claim.context[-1].startswith("The server listens")


# The labelled set


@pytest.fixture(scope="module")
def cases() -> list[CitationCase]:
    return read_cases(DATA, parse_citation_case, CITATION_CASE_FORMAT)


@pytest.mark.parametrize(
    ("split", "size", "precision", "recall", "looked_back"),
    [("choose", 108, 0.97, 0.95, 0.8), ("confirm", 57, 0.97, 0.95, 0.75), ("last", 32, 0.78, 0.4, 0.5)],
)
async def test_the_labelled_set_keeps_its_figures(
    cases: list[CitationCase],
    vectors: Vectors,
    split: str,
    size: int,
    precision: float,
    recall: float,
    looked_back: float,
) -> None:
    start = {"choose": "", "confirm": "b-", "last": "c-"}
    own_cases = [case for case in cases if (case.id[:2] if case.id[1] == "-" else "") == start[split]]
    assert len(own_cases) == size
    measurement = await evaluate_citations(own_cases, parts(vectors))
    checked = measurement.citations["checked"]
    assert checked.precision.value is not None
    assert checked.recall.value is not None
    assert measurement.removals.precision.value is not None
    assert measurement.removals.recall.value is not None
    assert checked.precision.value >= precision
    assert checked.recall.value >= 0.97
    assert measurement.removals.precision.value >= 0.97, "a wrong removal is worse than a miss"
    assert measurement.removals.recall.value >= recall
    scores = measurement.look_back["words"]
    assert scores.precision.value is not None
    assert scores.precision.value >= 0.8
    assert scores.f1.value is not None
    assert scores.f1.value >= looked_back


async def test_without_vectors_nothing_true_is_lost(cases: list[CitationCase]) -> None:
    measurement = await evaluate_citations(cases, parts(InMemoryLibrary()))
    assert measurement.removals.counts.false_positives == 0
    assert measurement.citations["checked"].counts.false_negatives == 0


async def test_code_that_a_passage_breaks_into_lines_is_one_command() -> None:
    passage = Passage("1", "docs", "a.md", "Usage", "These count: `kimas ask`, `kimas\n  chat` and\n``kimas\ncheck``.")
    for command, is_supported in (("kimas chat", True), ("kimas check", True), ("kimas run", False)):
        check = await find_unsupported(f"`kimas ask` and `{command}` count [p1].", [passage], None)
        assert (check.rejections == frozenset()) is is_supported


@pytest.mark.parametrize("text", ["- `a\n- b`", "`a\n\nb`", "| `a\n| b`", "```\nx=`date\ny`\n```", "`a` b\nc `d`"])
def test_other_lines_stay_apart(text: str) -> None:
    assert unfold_code_spans(text) == text


async def test_what_is_quoted_word_for_word_is_never_refused() -> None:
    """Every sentence of our own guide, cited to its passage among its neighbours."""
    quoted = 0
    for page in sorted((ROOT / "docs").glob("*.md")):
        pieces = chunk(Document(page.name, page.read_text("utf-8"), "markdown", "", ""))
        passages = [Passage(str(at), "docs", page.name, piece.title, piece.text) for at, piece in enumerate(pieces)]
        for at, message in enumerate(passages):
            neighbours = passages[max(0, at - 2) : at + 3]
            paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n|\n\s*(?=[-|#]|\d+\.)", message.text)]
            sentences = [sentence for part in paragraphs for sentence in split_sentences(part) if "[" not in sentence]
            text = "\n\n".join(
                f"{sentence.rstrip('.')} [{passage_ref(neighbours.index(message))}]." for sentence in sentences[:5]
            )
            check = await find_unsupported(text, neighbours, None)
            assert check.rejections == frozenset(), (page.name, text)
            quoted += len(sentences[:5])
    assert quoted > 200


# In the line


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer() as model_peer:
        yield model_peer


async def ask(
    peer: ScriptedPeer, library: InMemoryLibrary | None = None, configuration: Settings | None = None
) -> Reply:
    model = models(peer)
    try:
        question = Question("How do I install the package with pip in a virtual environment for memory?")
        return await answer(question, MemorySink(), parts(library, model, configuration))
    finally:
        await model.close()


async def test_an_unsupported_sentence_loses_its_citation_and_numbers_close_up(peer: ScriptedPeer) -> None:
    peer.replies["write"] = "Install the package with pip 77 [p1]. Long-term memory needs a vector database [p2]."
    reply = await ask(peer)
    assert reply.text == "Install the package with pip 77. Long-term memory needs a vector database [1]."
    assert [citation.passage_id for citation in reply.citations] == [reply.passages[1].id]
    assert reply.trace.dropped_citations == 1
    assert "look_back" not in peer.agents


async def test_the_best_passages_are_at_both_ends_and_ids_follow_the_order(peer: ScriptedPeer) -> None:
    passages = [
        passage(f"pip{rank}", f"pip {'install package virtual environment'.rsplit(' ', rank)[0]} fact{rank}")
        for rank in range(4)
    ]
    peer.replies["write"] = "All of it is about pip install package [p4]."
    reply = await ask(peer, InMemoryLibrary(passages))
    assert [item.id for item in reply.passages] == ["pip0", "pip2", "pip3", "pip1"]
    assert [citation.passage_id for citation in reply.citations] == ["pip1"]
    prompt = peer.sent("write")[0]["messages"][-1]["content"]
    assert [prompt.index(f"fact{rank}") for rank in (0, 2, 3, 1)] == sorted(
        prompt.index(f"fact{rank}") for rank in range(4)
    )


async def test_a_weight_brings_a_source_forward(peer: ScriptedPeer) -> None:
    passages = [passage("docs", "Install the package with pip"), passage("forum", "pip fact", source="forum")]
    configuration = settings(
        sources={name: {"kind": "faq", "path": "faq.yaml"} for name in ("docs", "forum")},
        evidence={"weights": {"forum": 9.0}},
    )
    reply = await ask(peer, InMemoryLibrary(passages), configuration)
    assert [item.id for item in reply.passages] == ["forum", "docs"]


async def test_switched_off_everything_stays(peer: ScriptedPeer) -> None:
    peer.replies["write"] = "Install the package with pip 77 [p1]."
    reply = await ask(peer, configuration=settings(evidence={"support_check": "none"}))
    assert reply.text == "Install the package with pip 77 [1]."


async def test_when_all_citations_are_gone_they_are_looked_back_for(peer: ScriptedPeer) -> None:
    peer.replies["write"] = "Matrix [7] aside, it costs 99 coins [p1]. Long-term memory needs a vector database."
    peer.replies["look_back"] = "1: p1\n2: p2"
    reply = await ask(peer, InMemoryLibrary([INSTALL, MEMORY]))
    # The model's second try, 99 coins, is refused like its first.
    assert [item.id for item in reply.passages] == ["install", "memory"]
    assert "look_back" in peer.agents
    assert reply.text == "Matrix [7] aside, it costs 99 coins. Long-term memory needs a vector database [1]."
    assert [citation.passage_id for citation in reply.citations] == ["memory"]


async def test_meaning_decides_what_words_leave_open(vectors: Vectors) -> None:
    text = "Bank transfers are accepted within two weeks of the purchase [p1]. The setup happens through pip [p1]."
    check = await find_unsupported(text, [INSTALL], vectors)
    assert check.rejections == {(0, 0)}
    assert not check.has_overrun


async def test_out_of_time_citations_are_kept() -> None:
    class Slow(InMemoryLibrary):
        async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
            await asyncio.sleep(30)
            return []

    text = "Bank transfers are accepted in the shop of the house [p1]. It costs 99 coins [p1]."
    check = await find_unsupported(text, [INSTALL], Slow(), 0.05)
    assert check.rejections == {(1, 0)}
    assert check.has_overrun


def test_refused_marks_leave_no_gap() -> None:
    text = "A [p1, p2] and B [p2]."
    assert [marker.positions for marker in find_markers(text)] == [(0, 1), (1,)]
    cited_answer = resolve_markers(text, [INSTALL, MEMORY], {(0, 0), (1, 1)})
    assert (cited_answer.text, cited_answer.dropped_count) == ("A [1] and B.", 2)
    assert [citation.passage_id for citation in cited_answer.citations] == ["memory"]


def test_looking_back_by_words_refuses_other_numbers() -> None:
    text = "The memory module stores messages. The memory module stores 500 messages."
    assert find_support_by_overlap(text, [INSTALL, MEMORY]) == {0: [1]}


def test_a_chinese_sentence_is_found_by_its_names_and_numbers() -> None:
    passages = [INSTALL, Passage("p", "docs", "a", "", "Tern 3.2 listens on port 8123.")]
    assert find_support_by_overlap("Tern 默认监听 8123 端口。", passages) == {0: [1]}


MEMORY_TABLE = """\
| Method (`estimated`) | Bits | 7B   | 14B   |
|----------------------|------|------|-------|
| Full                 | 32   | 60GB | 120GB |
| Freeze/LoRA          | 16   | 16GB | 32GB  |
| QLoRA                | 8    | 10GB | 20GB  |
| QLoRA                | 4    | 6GB  | 12GB  |
"""


@pytest.mark.parametrize(
    ("claim", "contradicts"),
    [
        ("LoRA of a 7B model takes 32GB.", True),
        ("LoRA of a 7B model takes 16GB.", False),
        ("QLoRA of a 7B model takes 12GB.", False),
        ("LoRA takes 16GB for 7B and 32GB for 14B.", False),
        ("Full training takes 60GB.", False),
        ("LoRA works for 7B models.", False),
        ("LoRA of a 7B model takes less than 20GB.", False),
    ],
)
def test_a_value_is_that_of_its_row_and_column(claim: str, contradicts: bool) -> None:
    assert gives_other_cell(claim, MEMORY_TABLE) == contradicts
    assert gives_other_cell(claim, f"First.\n\n{MEMORY_TABLE}\nLast.\n\n| a | b |\n|---|---|\n") == contradicts


@pytest.mark.parametrize(
    ("claim", "text", "contradicts"),
    [
        ("`KEEP_TTL` is the number of hours.", "ttl: ${KEEP_TTL:3} # Unit is day", True),
        ("`KEEP_TTL` is the number of days.", "ttl: ${KEEP_TTL:3} # Unit is day", False),
        ("`KEEP_TTL` is in hours.", "ttl: ${KEEP_TTL:3}\nage: 3 # in days", False),
        ("`ttl` 的单位是秒。", "| `ttl` | 单位：毫秒 |", True),
        ("`ttl` is in seconds.", "`ttl` (in seconds), `age` (in days)", False),
        ("`ttl` and `age` are in hours.", "ttl # in days", False),
    ],
)
def test_a_unit_is_that_of_the_line(claim: str, text: str, contradicts: bool) -> None:
    assert gives_other_unit(claim, text) == contradicts


@pytest.mark.parametrize(
    ("claim", "text", "contradicts"),
    [
        ("合并时可以加上 `bits` 参数。", "注：请勿使用 `bits` 参数来合并。", True),
        ("合并时不可以加上 `bits` 参数。", "注：请勿使用 `bits` 参数来合并。", False),
        ("You can set `bits` to train.", "Do not set `bits` to merge. Set `bits` to train.", False),
        ("The name is `bits`.", "Do not set `bits` to merge.", False),
    ],
)
def test_what_is_forbidden_cannot_be_done(claim: str, text: str, contradicts: bool) -> None:
    assert allows_what_is_forbidden(claim, text) == contradicts


@pytest.mark.parametrize(
    ("claim", "text", "contradicts"),
    [
        ("You can use tokens instead of TLS.", "### Can I use tokens instead of TLS?\n\nNo, you shouldn't.", True),
        ("You cannot use tokens instead of TLS.", "### Can I use tokens instead of TLS?\n\nNo, you shouldn't.", False),
        ("You can use tokens instead of TLS.", "### Can I use tokens instead of TLS?\n\nYes, you can.", False),
        ("You can use tokens.", "### Can I use tokens instead of TLS?\n\nNo, you shouldn't.", False),
        ("Tokens are used instead of TLS.", "### Why use tokens instead of TLS?\n\nNo reason.", False),
        ("支持用令牌代替证书。", "## 支持用令牌代替证书吗？\n\n不支持。", True),
    ],
)
def test_a_question_answered_with_no_is_denied(claim: str, text: str, contradicts: bool) -> None:
    assert affirms_what_is_denied(claim, text) == contradicts
