"""Hugging Face directories: which are taken, for which task, and which are refused before transformers sees them."""

import json
from pathlib import Path
from typing import Any

import pytest
from enginery_converter.hf_directory import read, tasks_of
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

BERT = {"model_type": "bert", "architectures": ["BertModel"]}
INDEX = "model.safetensors.index.json"


def directory(folder: Path, config: Any = BERT, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    named = files or {"model.safetensors": ""}
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name, text in named.items():
        (folder / name).write_text(text)
    return folder


def test_task_of_the_architecture_stands_in_for_none(tmp_path: Path) -> None:
    config = {"architectures": ["BertForSequenceClassification"]}

    assert read(directory(tmp_path, config), "").task == "TextClassification"
    assert read(directory(tmp_path, config), "FeatureExtraction").task == "FeatureExtraction"


@pytest.mark.parametrize(
    ("architecture", "tasks"),
    [
        ("BertModel", ["FeatureExtraction"]),
        ("BertForMaskedLM", ["FeatureExtraction"]),
        ("DistilBertForTokenClassification", ["TokenClassification", "FeatureExtraction"]),
        ("ViTForImageClassification", ["ImageClassification", "FeatureExtraction"]),
        ("YolosForObjectDetection", ["ObjectDetection"]),
        ("GPT2LMHeadModel", ["TextGeneration"]),
        ("LlamaForCausalLM", ["TextGeneration"]),
    ],
)
def test_architecture_tells_its_tasks(architecture: str, tasks: list[str]) -> None:
    assert tasks_of([architecture]) == tasks


def test_wrong_task_is_answered_with_the_right_ones(tmp_path: Path) -> None:
    folder = directory(tmp_path, {"architectures": ["BertForTokenClassification"]})

    with pytest.raises(FinalError) as caught:
        read(folder, "ImageClassification")
    assert caught.value.reason == Reason.INVALID_SPEC
    assert caught.value.message == (
        "BertForTokenClassification is made for TokenClassification or FeatureExtraction, not for ImageClassification;"
        " set spec.source.task to TokenClassification or FeatureExtraction, or upload a model with a head for"
        " ImageClassification"
    )


def test_directory_may_lie_in_a_folder_of_the_source(tmp_path: Path) -> None:
    directory(tmp_path / "minilm")

    assert read(tmp_path, "").folder.name == "minilm"


def test_shards_are_taken_with_their_index(tmp_path: Path) -> None:
    shard = "model-00001-of-00001.safetensors"
    files = {INDEX: json.dumps({"weight_map": {"w": shard}}), shard: ""}

    assert read(directory(tmp_path, BERT, **files), "").task == "FeatureExtraction"


def index(shard: Any) -> dict[str, str]:
    return {INDEX: json.dumps({"weight_map": {"w": shard}})}


REFUSED: dict[str, tuple[Any, dict[str, str], str, Reason, str]] = {
    "code of its own": (
        BERT | {"auto_map": {"AutoModel": "modeling_evil.Model"}}, {"model.safetensors": "", "modeling_evil.py": ""},
        "", Reason.UNSUPPORTED_FORMAT, "auto_map",
    ),
    "a pickle": (BERT, {"pytorch_model.bin": ""}, "", Reason.UNSUPPORTED_FORMAT, "Python pickle (pytorch_model.bin)"),
    "a pickle by another name": (BERT, {"weights.pth": ""}, "", Reason.UNSUPPORTED_FORMAT, "weights.pth"),
    "an adapter": (
        BERT, {"adapter_config.json": "{}", "adapter_model.safetensors": ""}, "", Reason.UNSUPPORTED_FORMAT,
        "merge it into its base",
    ),
    "quantized weights": (
        BERT | {"quantization_config": {"quant_method": "gptq"}}, {}, "", Reason.UNSUPPORTED_FORMAT,
        "the checkpoint is quantized (quantization_config)",
    ),
    "no weights": (BERT, {"tokenizer.json": "{}"}, "", Reason.SOURCE_INVALID, "no model.safetensors"),
    "a missing shard": (BERT, index("model-2.safetensors"), "", Reason.SOURCE_INVALID, "model-2.safetensors"),
    "a shard elsewhere": (BERT, index("../other/model.safetensors"), "", Reason.SOURCE_INVALID, "../other"),
    "a shard that is a pickle": (
        BERT, index("pytorch_model.bin") | {"pytorch_model.bin": ""}, "", Reason.SOURCE_INVALID, "no .safetensors file",
    ),
    "an index of numbers": (BERT, index(7), "", Reason.SOURCE_INVALID, "weight_map"),
    "a page for a configuration": ("<html>", {}, "", Reason.SOURCE_INVALID, "config.json is no JSON object"),
    "a list for a configuration": ("[]", {}, "", Reason.SOURCE_INVALID, "config.json is no JSON object"),
    "no architecture and no task": ({"model_type": "bert"}, {}, "", Reason.INVALID_SPEC, "set spec.source.task"),
    "architectures of numbers": ({"architectures": 7}, {}, "", Reason.INVALID_SPEC, "set spec.source.task"),
    "text generation": (
        {"architectures": ["GPT2LMHeadModel"]}, {}, "", Reason.INVALID_SPEC, "set spec.serving.server to VLLM",
    ),
    "an encoder to generate text": (
        BERT, {}, "TextGeneration", Reason.INVALID_SPEC, "FeatureExtraction, not for TextGeneration",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_directory_is_refused_in_words(tmp_path: Path, case: tuple[Any, dict[str, str], str, Reason, str]) -> None:
    config, files, task, reason, text = case

    with pytest.raises(FinalError) as caught:
        read(directory(tmp_path, config, **files), task)
    assert caught.value.reason == reason
    assert text in caught.value.message


def test_source_without_a_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()

    with pytest.raises(FinalError, match=r"no config\.json at its top \(it has model\.onnx\)"):
        read(tmp_path, "")
