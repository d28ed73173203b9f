"""A Hugging Face directory, judged before transformers reads it. Called by `huggingface`; needs neither it nor torch.

Only weights in safetensors and architectures that transformers itself defines: the other ways to store either can run
code of the uploader.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import listed, quoted

_CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_SAVE = "save it with model.save_pretrained(DIR, safe_serialization=True) and upload the directory"
_ADAPTER = "adapter_config.json"

_HEADS = {
    "ForSequenceClassification": "TextClassification",
    "ForTokenClassification": "TokenClassification",
    "ForImageClassification": "ImageClassification",
    "ForObjectDetection": "ObjectDetection",
    "ForCausalLM": "TextGeneration",
    "LMHeadModel": "TextGeneration",
    "ForConditionalGeneration": "TextGeneration",
}
"""Ending of an architecture's name, and the task that its head is made for."""

FEATURES = "FeatureExtraction"
GENERATION = "TextGeneration"
_WITHOUT_FEATURES = frozenset({"ObjectDetection", GENERATION})
"""Tasks whose models have no encoder that answers by itself."""


@dataclass(frozen=True)
class Directory:
    """What will be loaded, and for which task."""

    folder: Path
    task: str
    config: dict[str, Any]
    image: dict[str, Any]
    """preprocessor_config.json; empty where there is none."""


def read(source: Path, task: str) -> Directory:
    """Judge the directory; `task` is spec.source.task, or empty for that of the architecture.

    Raises FinalError (SourceInvalid, UnsupportedFormat, InvalidSpec).
    """
    folder = _folder(source)
    config = _document(folder / _CONFIG)
    _require_no_code(config)
    _require_safetensors(folder)
    image = folder / "preprocessor_config.json"
    return Directory(
        folder, _task(config.get("architectures"), task), config, _document(image) if image.is_file() else {}
    )


def _folder(source: Path) -> Path:
    found = [source] if (source / _CONFIG).is_file() else sorted(path.parent for path in source.glob(f"*/{_CONFIG}"))
    if len(found) != 1:
        names = listed(path.relative_to(source).as_posix() for path in sorted(source.rglob("*")) if path.is_file())
        raise _invalid(f"the source has no {_CONFIG} at its top (it has {names}); {_SAVE}")
    return found[0]


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _invalid(f"{path.name} is no JSON object; {_SAVE}")
    return document


def _require_no_code(config: dict[str, Any]) -> None:
    if config.get("auto_map") or config.get("custom_pipelines"):
        raise _unsupported(
            "config.json names Python code of its own (auto_map), which is never run here; use an architecture that"
            " transformers defines, or convert the model to ONNX where it was trained"
        )
    if config.get("quantization_config"):
        raise _unsupported(
            "the checkpoint is quantized (quantization_config); upload the full-precision one and set"
            " spec.precision.type"
        )


def _require_safetensors(folder: Path) -> None:
    names = {path.name for path in folder.iterdir() if path.is_file()}
    if _ADAPTER in names:
        raise _unsupported(
            f"the directory is an adapter ({_ADAPTER}), not a model; merge it into its base (merge_and_unload)"
            f" and {_SAVE}"
        )
    if _INDEX in names:
        _require_shards(_document(folder / _INDEX), names)
    elif "model.safetensors" not in names:
        pickles = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt", ".pkl")))
        if pickles:
            raise _unsupported(
                f"the weights are a Python pickle ({listed(pickles)}), which can run code when it is loaded and is"
                f" never loaded here; {_SAVE}"
            )
        raise _invalid(f"the directory has no model.safetensors (it has {listed(sorted(names))}); {_SAVE}")


def _require_shards(index: dict[str, Any], names: set[str]) -> None:
    shards = index.get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise _invalid(f"{_INDEX} has no weight_map; {_SAVE}")
    for shard in sorted(set(shards.values())):
        if not shard.endswith(".safetensors") or shard not in names:
            raise _invalid(f"{_INDEX} names {quoted(shard)}, which is no .safetensors file of the directory; {_SAVE}")


def _task(architectures: Any, asked: str) -> str:
    named = [name for name in architectures or () if isinstance(name, str)] if isinstance(architectures, list) else []
    fitting = tasks_of(named)
    task = asked or (fitting[0] if fitting else "")
    if not task:
        raise _spec(f"{_CONFIG} names no architecture; set spec.source.task to what the model was made for")
    if fitting and task not in fitting:
        raise _spec(
            f"{listed(named)} is made for {' or '.join(fitting)}, not for {task}; set spec.source.task to"
            f" {' or '.join(fitting)}, or upload a model with a head for {task}"
        )
    if task == GENERATION:
        raise _spec(
            "models of TextGeneration are not compiled from ONNX; set spec.serving.server to VLLM, or spec.source.task"
            " to a task of an encoder"
        )
    return task


def tasks_of(architectures: Sequence[str]) -> list[str]:
    """Tasks that fit these architectures, the one that the head is made for first; empty when none is named."""
    heads = [task for name in architectures for ending, task in _HEADS.items() if name.endswith(ending)]
    features = [FEATURES] if architectures and not _WITHOUT_FEATURES.intersection(heads) else []
    return list(dict.fromkeys([*heads, *features]))


def _invalid(text: str) -> FinalError:
    return FinalError(text, reason=Reason.SOURCE_INVALID)


def _unsupported(text: str) -> FinalError:
    return FinalError(text, reason=Reason.UNSUPPORTED_FORMAT)


def _spec(text: str) -> FinalError:
    return FinalError(text, reason=Reason.INVALID_SPEC)
