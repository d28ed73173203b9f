"""Small ONNX sources that each bring out one way a build ends, and how `prepare` must end for them.

Families of makers (`good`, `files`, `operators`, `datatypes`, `shapes`, `graphs`, `quantized`, `half`) meet one table
of expectations (`expected`). The same name always gives the same bytes.
"""

from support.onnx_cases import datatypes, files, good, graphs, half, operators, quantized, shapes
from support.onnx_cases.case import Case, Maker
from support.onnx_cases.expected import EXPECTED

_OF_OTHER_BACKENDS: dict[str, Maker] = {
    "onnxruntime_without_profile": shapes.MODELS["prof_none"],
    "onnxruntime_string_input": operators.MODELS["op_string_input_identity"],
    "onnxruntime_qoperator": quantized.MODELS["quant_qoperator"],
    "onnxruntime_top_k": operators.MODELS["op_topk_big"],
    "tensorrt_nonzero": operators.MODELS["op_nonzero_dds"],
}

MAKERS: dict[str, Maker] = (
    good.MODELS
    | files.MODELS
    | operators.MODELS
    | datatypes.MODELS
    | shapes.MODELS
    | graphs.MODELS
    | quantized.MODELS
    | half.MODELS
    | _OF_OTHER_BACKENDS
)

CASES: dict[str, Case] = {
    name: Case(
        name,
        MAKERS[name],
        row.backend,
        row.profiles,
        row.precision,
        row.verdict,
        row.reason,
        row.words,
    )
    for name, row in EXPECTED.items()
}

__all__ = ["CASES", "MAKERS", "Case"]
