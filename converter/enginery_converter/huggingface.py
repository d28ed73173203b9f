"""Hugging Face directory to ONNX, by transformers and torch.onnx. Called by `convert`.

Inputs and outputs have transformers' names. Batch and sequence are free; so is an image's size where the architecture
takes every size, and else it is the one the model was made for. Profiles have no say: one source is prepared once.
"""

import inspect
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.requests import PrepareRequest
from enginery_store.wording import listed, quoted

from enginery_converter import hf_directory
from enginery_converter.hf_directory import FEATURES, Directory
from enginery_converter.pytorch import forbid_pickles, write_onnx
from enginery_converter.wording import ELSEWHERE, framework_text

LOG = logging.getLogger(__name__)

_TASKS = {
    FEATURES: ("AutoModel", ("last_hidden_state", "pooler_output")),
    "TextClassification": ("AutoModelForSequenceClassification", ("logits",)),
    "TokenClassification": ("AutoModelForTokenClassification", ("logits",)),
    "ImageClassification": ("AutoModelForImageClassification", ("logits",)),
    "ObjectDetection": ("AutoModelForObjectDetection", ("logits", "pred_boxes")),
}
"""Class that loads a model for a task, and the outputs that are served as far as it has them."""

_SEGMENTS = "token_type_ids"
_TEXT = ("input_ids", "attention_mask", _SEGMENTS)
_IMAGE = "pixel_values"

_EXAMPLE_BATCH = 2
_EXAMPLE_SEQUENCE = 8
"""Sizes that torch.export traces with; it takes 0 and 1 for fixed ones."""

_DEFAULT_EDGE = 224
"""Pixels, where neither model nor preprocessor says."""

_SMALLEST_EDGE = 64
"""Pixels: at the usual stride of 32 a feature map then has more than one, which torch.export tells apart from one."""

_POOLER = "pooler."
"""Weights that only some checkpoints of an encoder have."""


def export(source: Path, model: Path, request: PrepareRequest) -> list[str]:
    """Write the ONNX model of the task, weights in one file beside it; returns warnings. Raises FinalError."""
    directory = hf_directory.read(source, request.source.task)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    forbid_pickles()
    net, warnings = _load(directory)
    examples = _examples(net, directory)
    outputs = _outputs(net, examples, directory.task)
    write_onnx(_program(net, examples, outputs), model, input_names=list(examples), output_names=outputs)
    return warnings


def _load(directory: Directory) -> tuple[Any, list[str]]:
    """The model in FP32, all of its weights from the checkpoint; an encoder without its pooler where that has none."""
    net, missing = _from_pretrained(directory)
    warnings = []
    if missing and directory.task == FEATURES and all(name.startswith(_POOLER) for name in missing):
        net, missing = _from_pretrained(directory, add_pooling_layer=False)
        warnings.append("the checkpoint has no pooler; the model answers last_hidden_state only")
    if missing:
        raise FinalError(
            f"the checkpoint lacks weights that {type(net).__name__} needs for {directory.task} ({listed(missing)});"
            " set spec.source.task to what it was trained for, or upload the trained model",
            reason=Reason.SOURCE_INVALID,
        )
    return net.eval(), warnings


def _from_pretrained(directory: Directory, **options: Any) -> tuple[Any, list[str]]:
    import torch
    import transformers

    kind, _ = _TASKS[directory.task]
    try:
        net, info = getattr(transformers, kind).from_pretrained(
            directory.folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False,
            local_files_only=True, attn_implementation="eager", output_loading_info=True, **options,
        )  # fmt: skip
    except MemoryError:
        raise
    except Exception as error:
        LOG.exception("transformers failed")
        family = quoted(str(directory.config.get("model_type")))
        raise FinalError(
            f"transformers {transformers.__version__} cannot load this directory (model_type {family}) for"
            f" {directory.task}: {framework_text(error)}; correct it, or convert the model to ONNX where it was"
            " trained",
            reason=Reason.SOURCE_INVALID,
        ) from error
    return net, sorted(info["missing_keys"])


def _examples(net: Any, directory: Directory) -> dict[str, Any]:
    """Inputs to trace with, by name, in the order of the ONNX model's inputs."""
    import torch

    if net.main_input_name == _IMAGE:
        channels = int(getattr(net.config, "num_channels", None) or 3)
        return {_IMAGE: torch.zeros(_EXAMPLE_BATCH, channels, *image_size(directory))}
    if net.main_input_name != _TEXT[0]:
        raise _failed(f"{type(net).__name__} takes {quoted(net.main_input_name)}; text and images are converted")
    taken = inspect.signature(net.forward).parameters
    names = [name for name in _TEXT if name in taken]
    if getattr(net.config, "type_vocab_size", 0) <= 1 and _SEGMENTS in names:
        names.remove(_SEGMENTS)
    ones = torch.ones(_EXAMPLE_BATCH, _EXAMPLE_SEQUENCE, dtype=torch.int64)
    return {name: torch.zeros_like(ones) if name == _SEGMENTS else ones.clone() for name in names}


def _outputs(net: Any, examples: Mapping[str, Any], task: str) -> list[str]:
    """The outputs of the task that this model has."""
    import torch

    _, wanted = _TASKS[task]
    try:
        with torch.no_grad():
            answer = net(**examples, return_dict=True)
    except MemoryError:
        raise
    except Exception as error:
        LOG.exception("the model does not run")
        raise _failed(f"{type(net).__name__} does not run: {framework_text(error)}") from error
    outputs = [name for name in wanted if isinstance(answer.get(name), torch.Tensor)]
    if not outputs:
        raise _failed(f"{type(net).__name__} has none of the outputs {listed(wanted)}")
    return outputs


def image_size(directory: Directory) -> tuple[int, int]:
    """Height and width in pixels that the model was made for."""
    sizes = (directory.config.get("image_size"), *(directory.image.get(key) for key in ("crop_size", "size")))
    return next((edges for size in sizes if (edges := _edges(size))), (_DEFAULT_EDGE, _DEFAULT_EDGE))


def _edges(size: Any) -> tuple[int, int] | None:
    """The ways in which configurations write a size."""
    if isinstance(size, Mapping):
        size = [size.get("height", size.get("shortest_edge")), size.get("width", size.get("shortest_edge"))]
    pair = size if isinstance(size, list) else [size, size]
    if len(pair) == 2 and all(isinstance(edge, int) and edge > 1 for edge in pair):  # noqa: PLR2004 - height, width
        return pair[0], pair[1]
    return None


def _program(net: Any, examples: Mapping[str, Any], outputs: Sequence[str]) -> Any:
    """The exported program: positional inputs in the order of `examples`, a tuple of outputs."""
    import torch

    class Named(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, *tensors: Any) -> tuple[Any, ...]:
            answer = self.net(**dict(zip(examples, tensors, strict=True)), return_dict=True)
            return tuple(answer[name] for name in outputs)

    *others, last = _free_dimensions(net, examples)
    for sizes in others:
        try:
            return _traced(Named(), examples, sizes)
        except Exception as error:  # noqa: BLE001 - whatever it is, the fixed size decides
            LOG.info("size is fixed", extra={"dimensions": list(sizes), "because": framework_text(error)})
    try:
        return _traced(Named(), examples, last)
    except MemoryError:
        raise
    except Exception as error:
        LOG.exception("torch.export failed")
        raise _failed(f"torch.export cannot trace {type(net).__name__}: {framework_text(error)}") from error


def _free_dimensions(net: Any, examples: Mapping[str, Any]) -> list[dict[int, Any]]:
    """Which dimensions of every input are free, in order of preference. A named size must hold for every value, or
    torch.export refuses; so an image's size is free only where the architecture takes every size.
    """
    from torch.export import Dim

    batch = Dim("batch", min=1)
    if _IMAGE in examples:
        return [{0: batch, 2: Dim("height", min=_SMALLEST_EDGE), 3: Dim("width", min=_SMALLEST_EDGE)}, {0: batch}]
    return [{0: batch, 1: Dim("sequence", min=1, max=getattr(net.config, "max_position_embeddings", None))}]


def _traced(module: Any, examples: Mapping[str, Any], sizes: Mapping[int, Any]) -> Any:
    import torch

    with torch.no_grad():
        shapes = (tuple(dict(sizes) for _ in examples),)
        return torch.export.export(module, tuple(examples.values()), dynamic_shapes=shapes)


def _failed(text: str) -> FinalError:
    return FinalError(f"{text}; {ELSEWHERE}", reason=Reason.CONVERSION_FAILED)
