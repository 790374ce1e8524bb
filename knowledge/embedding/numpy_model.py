"""The built-in model's layers in NumPy, where the extra `kimas[fast]` is not installed.

The texts of a batch stand below each other, without padding: linear layers take all tokens in one product, attention
takes each text alone. It computes in float32, as the model was published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from knowledge.ports import Vectors

LAYERS = 6
HEADS = 12
WIDTH = 384
EPSILON = 1e-12
# Rows of the widest layer that are activated together, so that they stay in the processor's cache.
ACTIVATED_ROWS = 64


class NumpyModel:
    """A `TokenEncoder` of `weights`, as `convert` writes them. Calls may run in parallel."""

    def __init__(self, weights: Mapping[str, Vectors]) -> None:
        # Only rows of it are used, so it stays as it is stored: half the memory.
        self._words = weights["words"]
        self._weights = {name: array.astype(np.float32) for name, array in weights.items() if name != "words"}

    def encode(self, token_ids: Sequence[Sequence[int]]) -> Vectors:
        """Return the mean of each text's last hidden states, shape (len(token_ids), 384). No text may be empty."""
        lengths = [len(ids) for ids in token_ids]
        starts = list(accumulate(lengths[:-1], initial=0))
        spans = [slice(start, start + length) for start, length in zip(starts, lengths, strict=True)]
        states = self._words[np.concatenate(token_ids)].astype(np.float32)
        for span, length in zip(spans, lengths, strict=True):
            states[span] += self._weights["positions"][:length]
        self._normalize(states, "embeddings")
        context = np.empty_like(states)
        for number in range(LAYERS):
            inputs = self._apply_linear(states, f"{number}.inputs")
            for span in spans:
                _attend(inputs[span], context[span])
            states += self._apply_linear(context, f"{number}.attention")
            self._normalize(states, f"{number}.attention")
            wide_states = self._apply_linear(states, f"{number}.wide")
            for start in range(0, len(wide_states), ACTIVATED_ROWS):
                _activate(wide_states[start : start + ACTIVATED_ROWS])
            states += self._apply_linear(wide_states, f"{number}.output")
            self._normalize(states, f"{number}.output")
        sums: Vectors = np.add.reduceat(states, starts)
        sums /= np.array(lengths, np.float32)[:, None]
        return sums

    def close(self) -> None:
        """Free the weights. Idempotent."""
        self._words = np.empty((0, WIDTH), np.float16)
        self._weights = {}

    def _apply_linear(self, states: Vectors, name: str) -> Vectors:
        result: Vectors = states @ self._weights[f"{name}.weight"]
        result += self._weights[f"{name}.bias"]
        return result

    def _normalize(self, states: Vectors, name: str) -> None:
        states -= states.mean(axis=1, keepdims=True)
        variances = np.einsum("ij,ij->i", states, states) / WIDTH
        states /= np.sqrt(variances + EPSILON)[:, None]
        states *= self._weights[f"{name}.gamma"]
        states += self._weights[f"{name}.beta"]


def _attend(inputs: Vectors, context: Vectors) -> None:
    """Write the attention of one text into `context` (tokens, 384); `inputs` are query, key and value side by side."""
    shape = len(inputs), HEADS, WIDTH // HEADS
    query, key, value = (part.reshape(shape).transpose(1, 0, 2) for part in np.split(inputs, 3, axis=1))
    scores = query @ key.transpose(0, 2, 1)
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    sums = scores.sum(axis=2, keepdims=True)
    context.reshape(shape)[:] = (scores @ value / sums).transpose(1, 0, 2)


def _activate(states: Vectors) -> None:
    """Apply GELU in place. By its tangent: NumPy has no error function, and a vector's cosine changes by 0.000004."""
    inner = states * states
    inner *= 0.044715
    inner += 1
    inner *= states
    inner *= np.sqrt(2 / np.pi, dtype=np.float32)
    np.tanh(inner, out=inner)
    inner += 1
    inner *= 0.5
    states *= inner


def get_format() -> str:
    """Return the name of the format: with another number, the model is converted again."""
    return "numpy-1"


def load(model_dir: Path) -> NumpyModel:
    """Load what `convert` wrote. Raises an exception of any kind for a damaged file."""
    from safetensors.numpy import load_file

    return NumpyModel(load_file(model_dir / "weights.safetensors"))


def convert(package_dir: Path, model_dir: Path) -> None:
    """Write the weights as `NumpyModel` uses them into a folder that exists, 45 MB in float16."""
    from safetensors.numpy import load_file, save_file

    source = load_file(package_dir / "model.safetensors")
    # Every token is of the first type, so that type's vector is a constant part of each position.
    first_type = source["embeddings.token_type_embeddings.weight"][0]
    weights = {
        "words": source["embeddings.word_embeddings.weight"],
        "positions": source["embeddings.position_embeddings.weight"] + first_type,
        "embeddings.gamma": source["embeddings.LayerNorm.weight"],
        "embeddings.beta": source["embeddings.LayerNorm.bias"],
    }
    for number in range(LAYERS):
        prefix = f"encoder.layer.{number}"
        inputs = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        # The scale of the products of query and key is part of the query.
        scale = np.repeat(np.array([(WIDTH // HEADS) ** -0.5, 1, 1], np.float32), WIDTH)
        weights[f"{number}.inputs.weight"] = np.concatenate([source[f"{name}.weight"] for name in inputs]).T * scale
        weights[f"{number}.inputs.bias"] = np.concatenate([source[f"{name}.bias"] for name in inputs]) * scale
        for name, part in (("attention", "attention.output"), ("output", "output")):
            weights[f"{number}.{name}.gamma"] = source[f"{prefix}.{part}.LayerNorm.weight"]
            weights[f"{number}.{name}.beta"] = source[f"{prefix}.{part}.LayerNorm.bias"]
        linear_parts = ("attention", "attention.output"), ("wide", "intermediate"), ("output", "output")
        for name, part in linear_parts:
            weights[f"{number}.{name}.weight"] = source[f"{prefix}.{part}.dense.weight"].T
            weights[f"{number}.{name}.bias"] = source[f"{prefix}.{part}.dense.bias"]
    halves = {name: np.ascontiguousarray(array, np.float16) for name, array in weights.items()}
    save_file(halves, model_dir / "weights.safetensors")
