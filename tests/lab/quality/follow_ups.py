"""Follow-ups without a model: which questions need the conversation, and what the rules add to them.

`follow_ups.jsonl` holds pairs of our own, of many domains, half of them Chinese; the rules were tuned on the half
`tune` alone. Foreign data: the conversations of TREC CAsT 2020 with what people made of each question, and the Chinese
dialogues of Su et al. (2019, "Improving Multi-turn Dialogue Modelling with Utterance ReWriter"); the rules were tuned
on CAsT 2019 and on other dialogues.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from core.language.follow_ups import depends_on_history, expand_with_history
from core.language.keywords import content_words
from core.language.tokens import stem
from core.types import Turn
from tests.lab.quality.figures import Figure

CAST = "daltonj/treccastweb"
DIALOGUES = "chin-gyou/dialogue-utterance-rewriter"
REPOSITORIES = (CAST, DIALOGUES)
PAIRS = Path(__file__).with_name("follow_ups.jsonl")
HAN = re.compile("[\u4e00-\u9fff]")
QUESTION = re.compile(r"怎么|如何|什么|哪|谁|多少|几|吗|为何|[?？]")


@dataclass(frozen=True, slots=True)
class Pair:
    """A question after a conversation (texts of the asker and of the bot in turn), and what completes it.

    `needed` are the words that the query has to get, `optional` those that do no harm; any other is wrong.
    """

    half: str
    language: str
    history: tuple[str, ...]
    question: str
    leans: bool
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()

    def turns(self) -> tuple[Turn, ...]:
        """Return the conversation."""
        return tuple(Turn("assistant" if number % 2 else "user", text) for number, text in enumerate(self.history))


def build(mirror: Path, data: Path) -> None:
    """Write the pairs of the foreign sets: `tune` and `held out`."""
    years = {
        "tune": "2019/data/evaluation/evaluation_topics_v1.0.json",
        "held out": "2020/2020_manual_evaluation_topics_v1.0.json",
    }
    resolved = dict(
        line.split("\t", 1)
        for line in _read(
            mirror, CAST, "2019/data/evaluation/evaluation_topics_annotated_resolved_v1.0.tsv"
        ).splitlines()
        if "\t" in line
    )
    pairs = [
        pair
        for half, path in years.items()
        for topic in json.loads(_read(mirror, CAST, path))
        for pair in _topic_pairs(half, topic, resolved)
    ]
    _write(data / "cast.jsonl", pairs)
    dialogues = [line.split("\t\t") for line in _read(mirror, DIALOGUES, "corpus.txt").splitlines()]
    _write(data / "dialogues.jsonl", list(_dialogue_pairs([dialogue for dialogue in dialogues if len(dialogue) == 4])))


def _topic_pairs(half: str, topic: dict, resolved: dict[str, str]) -> Iterable[Pair]:  # type: ignore[type-arg]
    texts: list[str] = []
    for turn in topic["turn"]:
        question = turn["raw_utterance"].strip()
        complete = turn.get("manual_rewritten_utterance") or resolved.get(
            f"{topic['number']}_{turn['number']}", question
        )
        if texts:
            needed_stems = tuple(sorted(_stems(complete) - _stems(question)))
            yield Pair(
                half,
                "en",
                tuple(text for earlier_text in texts for text in (earlier_text, "")),
                question,
                bool(needed_stems),
                needed_stems,
            )
        texts.append(question)


def _dialogue_pairs(dialogues: Sequence[list[str]]) -> Iterable[Pair]:
    for number, (first, second, question, complete) in enumerate(dialogues):
        half = {0: "tune", 20: "held out"}.get(number % 40)
        if half is None:
            continue
        if QUESTION.search(question):
            needed_stems = tuple(sorted(set(HAN.findall(complete)) - set(HAN.findall(question))))
            yield Pair(half, "zh", (first, second), question, bool(needed_stems), needed_stems)
        if QUESTION.search(first) and len(HAN.findall(first)) > 6:
            yield Pair(half, "zh", ("今天天气怎么样", "不错"), first, False, ())


def measure(data: Path) -> list[Figure]:
    """Return the figures of our own pairs and of those foreign sets that are built, on the halves held out."""
    return [figure for name, pairs in _sets(data).items() for figure in _figures(name, pairs, "held out")]


def _sets(data: Path) -> dict[str, list[Pair]]:
    own_pairs = _load(PAIRS)
    sets = {f"own {language}": [pair for pair in own_pairs if pair.language == language] for language in ("en", "zh")}
    names = {"CAsT en": data / "cast.jsonl", "dialogues zh": data / "dialogues.jsonl"}
    return sets | {name: _load(path) for name, path in names.items() if path.exists()}


def _figures(name: str, pairs: Sequence[Pair], half: str) -> list[Figure]:
    selected_pairs = [pair for pair in pairs if pair.half == half]
    is_own = name.startswith("own")
    predicted = [pair for pair in selected_pairs if depends_on_history(pair.question)]
    leaning = [pair for pair in selected_pairs if pair.leans]
    right = sum(pair.leans for pair in predicted)
    coverage = [_coverage(pair) for pair in leaning]
    figures = [
        Figure(f"{name}: precision", right / max(1, len(predicted)), goal=0.9 if is_own else None),
        Figure(f"{name}: recall", right / max(1, len(leaning)), goal=0.8 if is_own else None),
        Figure(
            f"{name}: left alone of what stands alone",
            1 - (len(predicted) - right) / max(1, len(selected_pairs) - len(leaning)),
        ),
        Figure(f"{name}: needed words in the query", sum(coverage) / max(1, len(coverage))),
    ]
    if is_own:
        clean = [pair for pair in selected_pairs if not _wrong_words(pair)]
        figures.append(
            Figure(f"{name}: no other words in the query", len(clean) / max(1, len(selected_pairs)), goal=0.9)
        )
    return figures


def _coverage(pair: Pair) -> float:
    """Return which share of the needed words the completed query has."""
    query = expand_with_history(pair.question, pair.turns()).lower()
    stems = _stems(query)
    hits = [word.lower() in query or (bool(_stems(word)) and _stems(word) <= stems) for word in pair.needed]
    return sum(hits) / max(1, len(hits))


def _wrong_words(pair: Pair) -> set[str]:
    """Return the added words that are neither needed nor optional."""
    added = expand_with_history(pair.question, pair.turns()).removeprefix(pair.question)
    for word in sorted((*pair.needed, *pair.optional), key=len, reverse=True):
        added = re.sub(re.escape(word), " ", added, flags=re.IGNORECASE)
    allowed_stems = _stems(" ".join((*pair.needed, *pair.optional)))
    return {word for word in added.lower().split() if stem(word) not in allowed_stems}


def _stems(text: str) -> set[str]:
    return {stem(word) for word in content_words(text.replace("'s", " "))}


def _read(mirror: Path, repository: str, path: str) -> str:
    folder = mirror / repository.replace("/", "+") / "repo"
    command = ["git", "-C", str(folder), "show", f"HEAD:{path}"]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode()


def _write(path: Path, pairs: Sequence[Pair]) -> None:
    path.write_text("".join(json.dumps(asdict(pair), ensure_ascii=False) + "\n" for pair in pairs), "utf-8")


def _load(path: Path) -> list[Pair]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    fields = ("history", "needed", "optional")
    return [Pair(**row | {name: tuple(row[name]) for name in fields}) for row in rows]
