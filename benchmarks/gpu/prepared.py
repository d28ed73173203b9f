"""The builder's precision step on the exported models, without a store. Called by engine_cells."""

import os
from pathlib import Path

import numpy as np
from enginery_builder.precision import convert_file
from enginery_store.requests import PrecisionRef
from enginery_tensorrt.library import load
from matrix import Model


def prepared_model(model: Model, precision: str, work: Path, folder: Path) -> Path:
    """The ONNX file that compilation starts from.

    Without strong typing (TensorRT 8.6) what is not quantized stays FP32 in the graph, and the compiler is free to take
    FP16 for it.
    """
    exported = work / f"{model.name}.onnx"
    if precision == "FP32":
        return exported
    source = folder / "source" / exported.name
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        os.link(exported, source)  # the step moves its source
    rest = "FP16" if load("TensorRT").strongly_typed else "FP32"
    with np.load(work / f"{model.name}.npz") as data:
        samples = {model.input: data["samples"]}
    made = convert_file(source, PrecisionRef(type=precision, rest=rest), samples, folder / "prepared")
    print("kept in FP32:", len(made.kept_nodes), "notes:", made.notes, flush=True)
    return made.files[0]
