"""The features of a message for the gate: how many of its words the knowledge has, and its characters.

BM25 scores grow with the logarithm of the number of passages. In units of the weight of a word that one passage has,
those of a small and of a large collection compare, and so do those of all stores. Where a store cannot count words, the
features that need their weights are unknown (NaN) and say nothing.
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from core.language.prose import LINK
from core.language.tokens import CJK_CHARACTER, query_words, simplify, weigh_words
from core.ports import WordMatch

# The passages whose mean score says most about how much the knowledge has to say. A small collection has one passage
# about most matters: so many passages are there for each one that counts.
BEST_PASSAGES = 5
PASSAGES_FOR_EACH = 20
UNKNOWN = math.nan
# Each script has its own half of the buckets, so that a fit in one language is no noise in another.
NGRAM_BUCKETS = 4096
# Most Chinese words have two characters; four letters tell most stems apart.
_MAX_NGRAM = 4
_MAX_CJK_NGRAM = 2
_MAX_CHARS = 300
_DIGIT = re.compile(r"[0-9]")

# In the order of fitted models.
FEATURE_NAMES = ("match", "match_share", "topic_words", "mean_weight")
# They mean something else in each group: what is fitted on several of them, for further ones, does without.
OWN_GROUP_FEATURES = frozenset({"mean_weight"})


@dataclass(frozen=True, slots=True)
class GateFeatures:
    """The features of a message in the order of `FEATURE_NAMES`, and its character n-grams by bucket, of unit length.

    A value may be `UNKNOWN`.
    """

    values: tuple[float, ...]
    ngrams: Mapping[int, float]


def extract_features(text: str, match: WordMatch) -> GateFeatures:
    """Return the features of a message. Takes some tenths of a millisecond."""
    values = _match_features(text, match)
    return GateFeatures(tuple(values[name] for name in FEATURE_NAMES), hash_ngrams(text))


def _match_features(text: str, match: WordMatch) -> Mapping[str, float]:
    words = query_words(match.translation or text)
    scores = [passage.lexical for passage in match.passages[:BEST_PASSAGES]]
    # The weight of an unknown word is ln(1 + (n + 0.5) / 0.5) among n passages.
    passage_count = math.expm1(match.unknown_weight) / 2
    mean_count = max(1, min(BEST_PASSAGES, round(passage_count / PASSAGES_FOR_EACH)))
    mean = sum(scores[:mean_count]) / mean_count
    # In units of a word that is in one passage.
    scale = math.log1p((passage_count - 0.5) / 1.5) if passage_count >= 1 else 1.0
    if not match.weights:
        return {"match": mean / scale, "match_share": UNKNOWN, "topic_words": UNKNOWN, "mean_weight": UNKNOWN}
    weights = weigh_words(words, match.weights, match.unknown_weight)
    shares = [weight / scale for weight in weights if weight < match.unknown_weight]
    return {
        "match": mean / scale,
        "match_share": mean / (sum(weights) or 1.0),
        # A word that is in hardly any passage says little of what the knowledge is about, as does one that is in most.
        "topic_words": sum(share * (1 - share) for share in shares),
        "mean_weight": sum(weights) / max(1, len(weights)) / scale,
    }


def hash_ngrams(text: str) -> Mapping[int, float]:
    """Return the character n-grams of a text by bucket, up to four letters or two CJK characters; of unit length.

    The text is folded, and each digit is a zero.

    >>> hash_ngrams("How?") == hash_ngrams("  HOW?")
    True
    """
    folded_text = simplify(unicodedata.normalize("NFKC", LINK.sub(" ", text[:_MAX_CHARS]))).lower()
    padded_text = f" {' '.join(_DIGIT.sub('0', folded_text).split())} "
    is_cjk = "".join("1" if match else "0" for match in map(CJK_CHARACTER.match, padded_text))
    # Four bytes each.
    encoded = padded_text.encode("utf-32-le", "surrogatepass")
    half = NGRAM_BUCKETS // 2
    counts: Counter[int] = Counter()
    for size in range(1, _MAX_NGRAM + 1):
        buckets = [
            zlib.crc32(encoded[start : start + 4 * size]) % half for start in range(0, len(encoded) - 4 * size + 4, 4)
        ]
        if "1" in is_cjk:
            buckets = [
                bucket + half * has_cjk
                for start, bucket in enumerate(buckets)
                if not (has_cjk := "1" in is_cjk[start : start + size]) or size <= _MAX_CJK_NGRAM
            ]
        counts.update(buckets)
    values = {bucket: 1 + math.log(count) for bucket, count in counts.items()}
    norm = math.sqrt(sum(value * value for value in values.values()))
    return {bucket: value / norm for bucket, value in values.items()}
