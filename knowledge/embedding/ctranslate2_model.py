"""The built-in model's layers in int8 through CTranslate2, the extra `kimas[fast]`.

The only module that knows ctranslate2, which is imported when the model is opened or converted.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knowledge.embedding.batches import WORKERS
from knowledge.ports import Vectors

if TYPE_CHECKING:
    from ctranslate2 import Encoder


class CTranslate2Model:
    """A `TokenEncoder` over CTranslate2. Calls may run in parallel."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def encode(self, token_ids: Sequence[Sequence[int]]) -> Vectors:
        """Return the mean of each text's last hidden states, shape (len(token_ids), 384). No text may be empty."""
        hidden = np.asarray(self._encoder.forward_batch([list(ids) for ids in token_ids]).last_hidden_state)
        return np.stack([row[: len(ids)].mean(axis=0) for row, ids in zip(hidden, token_ids, strict=True)])

    def close(self) -> None:
        """Free the model. Idempotent."""
        self._encoder.unload_model()


def get_format() -> str:
    """Return the name of the format, which belongs to the library's version."""
    return f"ctranslate2-{importlib.metadata.version('ctranslate2')}"


def load(model_dir: Path) -> CTranslate2Model:
    """Load what `convert` wrote. Raises an exception of any kind for a damaged file."""
    from ctranslate2 import Encoder

    return CTranslate2Model(Encoder(str(model_dir), "cpu", inter_threads=WORKERS, intra_threads=1))


def convert(package_dir: Path, model_dir: Path) -> None:
    """Write the weights in int8 into a folder that exists, 24 MB."""
    _make_model_spec(package_dir).save(str(model_dir))


def _make_model_spec(package_dir: Path) -> Any:
    """Describe the weights to CTranslate2 as an int8 encoder."""
    from ctranslate2.specs import TransformerEncoderModelSpec, TransformerEncoderSpec, common_spec
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    weights = load_file(package_dir / "model.safetensors")
    gelu = common_spec.Activation.GELU
    encoder = TransformerEncoderSpec(6, 12, pre_norm=False, activation=gelu, layernorm_embedding=True)
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = weights["embeddings.word_embeddings.weight"]
    # Every token is of the first type, so that type's vector is a constant part of each position.
    first_type = weights["embeddings.token_type_embeddings.weight"][0]
    encoder.position_encodings.encodings = weights["embeddings.position_embeddings.weight"] + first_type
    _copy_weights(weights, encoder.layernorm_embedding, "embeddings.LayerNorm")
    for number, layer in enumerate(encoder.layer):
        prefix = f"encoder.layer.{number}"
        inputs = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        _copy_weights(weights, layer.self_attention.linear[0], *inputs)
        _copy_weights(weights, layer.self_attention.linear[1], f"{prefix}.attention.output.dense")
        _copy_weights(weights, layer.self_attention.layer_norm, f"{prefix}.attention.output.LayerNorm")
        _copy_weights(weights, layer.ffn.linear_0, f"{prefix}.intermediate.dense")
        _copy_weights(weights, layer.ffn.linear_1, f"{prefix}.output.dense")
        _copy_weights(weights, layer.ffn.layer_norm, f"{prefix}.output.LayerNorm")
    model = TransformerEncoderModelSpec(encoder)
    model.config.unk_token = "[UNK]"  # noqa: S105
    model.config.layer_norm_epsilon = 1e-12
    vocabulary = Tokenizer.from_file(str(package_dir / "tokenizer.json")).get_vocab()
    model.register_vocabulary(sorted(vocabulary, key=vocabulary.__getitem__))
    model.validate()
    model.optimize(quantization="int8")
    return model


def _copy_weights(weights: Mapping[str, Vectors], target: Any, *prefixes: str) -> None:
    """Copy a linear layer (several are fused into one) or a layer normalisation."""
    weight_attribute, bias_attribute = ("gamma", "beta") if hasattr(target, "gamma") else ("weight", "bias")
    setattr(target, weight_attribute, np.concatenate([weights[f"{prefix}.weight"] for prefix in prefixes]))
    setattr(target, bias_attribute, np.concatenate([weights[f"{prefix}.bias"] for prefix in prefixes]))
