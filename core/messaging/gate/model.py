"""The gate's model: a logistic regression over the features of a message, small enough to be read.

The shipped one, `model.json`, was fitted on several groups. `kimas eval gate --fit` writes one for your own group.
"""

from __future__ import annotations

import base64
import json
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.errors import ConfigurationError
from core.evidence.ranking import logistic
from core.messaging.gate.features import FEATURE_NAMES, NGRAM_BUCKETS, GateFeatures

FORMAT = 1
SHIPPED = Path(__file__).with_name("model.json")
# How many features an explanation names.
_NAMED_FEATURES = 3
# The meaning of each feature above and below its mean.
MEANINGS: Mapping[str, tuple[str, str]] = {
    "match": ("it shares many words with the documents", "it shares few words with the documents"),
    "match_share": ("several passages have its words", "few passages have its words"),
    "topic_words": ("it has words that the documents often use", "it has few words that the documents often use"),
    "mean_weight": ("its words are rare", "its words are common"),
    "ngrams": ("it is worded like questions to answer", "it is worded like messages to leave alone"),
}


@dataclass(frozen=True, slots=True)
class FittedOn:
    """A set of labelled messages that a model was fitted on, and how many of them deserved an answer."""

    name: str
    messages: int
    to_answer: int


@dataclass(frozen=True, slots=True)
class GateModel:
    """Weights by the order of `FEATURE_NAMES`, for values from which `means` are taken, in units of `scales`.

    `ngram_weights` has a weight for each bucket, in steps of `ngram_step`. `date` is the day of the fit.
    """

    date: str
    fitted_on: tuple[FittedOn, ...]
    intercept: float
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    ngram_step: float
    ngram_weights: Sequence[int]

    def contributions(self, features: GateFeatures) -> Mapping[str, float]:
        """Return what each feature adds to the log-odds; `ngrams` is one of them, an unknown value adds nothing."""
        rows = zip(FEATURE_NAMES, features.values, self.means, self.scales, self.weights, strict=True)
        contributions = {
            name: 0.0 if math.isnan(value) else weight * (value - mean) / scale
            for name, value, mean, scale, weight in rows
        }
        weights = self.ngram_weights
        ngrams = self.ngram_step * sum(weights[bucket] * value for bucket, value in features.ngrams.items())
        return contributions | {"ngrams": ngrams}

    def log_odds(self, features: GateFeatures) -> float:
        """Return the log-odds that the message should be answered."""
        return self.intercept + sum(self.contributions(features).values())

    def probability(self, features: GateFeatures) -> float:
        """Return how sure it is that the bot should answer, from 0 to 1."""
        return logistic(self.log_odds(features))

    def explain(self, features: GateFeatures) -> str:
        """Return the features that say most, strongest first: `+` for an answer, `-` against it."""
        strongest = sorted(self.contributions(features).items(), key=lambda item: -abs(item[1]))[:_NAMED_FEATURES]
        values = dict(zip(FEATURE_NAMES, features.values, strict=True))
        means = dict(zip(FEATURE_NAMES, self.means, strict=True))
        reasons = []
        for name, contribution in strongest:
            is_high = contribution > 0 if name == "ngrams" else values[name] > means[name]
            reasons.append(f"{'+' if contribution > 0 else '-'} {MEANINGS[name][not is_high]}")
        return ", ".join(reasons)

    def describe(self) -> str:
        """Return when and on what the model was fitted."""
        sets = ", ".join(
            f"{item.name} ({item.messages} messages, {item.to_answer} to answer)" for item in self.fitted_on
        )
        return f"{self.date} on {sets}"

    def to_json(self) -> str:
        """Return the model as the content of its file."""
        features = {
            name: [round(value, 5) for value in values]
            for name, *values in zip(FEATURE_NAMES, self.means, self.scales, self.weights, strict=True)
        }
        content = {
            "format": FORMAT,
            "date": self.date,
            "fitted_on": [
                {"name": item.name, "messages": item.messages, "to_answer": item.to_answer} for item in self.fitted_on
            ],
            "intercept": round(self.intercept, 5),
            "features (mean, scale, weight)": features,
            "ngram_step": round(self.ngram_step, 8),
            "ngrams": base64.b64encode(array("b", self.ngram_weights).tobytes()).decode(),
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def load_model(path: Path = SHIPPED) -> GateModel:
    """Read a model, blocking; one that was read before is read again only if its file has changed.

    Raises `ConfigurationError` for a file that is no model, or one of another version of KIMAs.
    """
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            [f"gate.model: {path} is no model of this version ({error}); `kimas eval gate DATA.jsonl --fit` writes one"]
        ) from error


@lru_cache(maxsize=4)
def _read(path: Path, modified_ns: int) -> GateModel:
    return _parse(json.loads(path.read_text("utf-8")))


def _parse(content: Mapping[str, object]) -> GateModel:
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']}, not {FORMAT}")
    features = content["features (mean, scale, weight)"]
    if not isinstance(features, dict) or tuple(features) != FEATURE_NAMES:
        raise ValueError("other features")
    means, scales, weights = zip(*features.values(), strict=True)
    ngrams = array("b", base64.b64decode(str(content["ngrams"])))
    if len(ngrams) != NGRAM_BUCKETS:
        raise ValueError(f"{len(ngrams)} n-grams, not {NGRAM_BUCKETS}")
    fitted_on = content["fitted_on"]
    if not isinstance(fitted_on, list):
        raise TypeError("fitted_on is no list")
    return GateModel(
        str(content["date"]),
        tuple(FittedOn(**item) for item in fitted_on),
        float(str(content["intercept"])),
        means,
        scales,
        weights,
        float(str(content["ngram_step"])),
        ngrams,
    )
