"""Operators that TensorRT lacks or limits, by node. Called by `tensorrt_limits`.

The names were read from TensorRT-RTX 1.7.1, which shares TensorRT 11's parser (`supports_operator`); limits are those
on which its builds ended. What stands here is refused for certain; what does not may still be refused by a compiler.
"""

import onnx
from enginery_store.wording import quoted

from enginery_builder.check.structure import Structure
from enginery_builder.onnx_files import DEFAULT_DOMAINS

UNSUPPORTED = frozenset(
    {
        "AffineGrid", "Bernoulli", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
        "BitwiseXor", "CenterCropPad", "Col2Im", "Compress", "ConcatFromSequence", "ConvInteger", "CumProd",
        "DFT", "DeformConv", "Det", "DynamicQuantizeLinear", "ImageDecoder", "MatMulInteger", "MaxRoiPool",
        "MaxUnpool", "MelWeightMatrix", "Multinomial", "NegativeLogLikelihoodLoss", "Optional",
        "OptionalGetElement", "OptionalHasElement", "QLinearConv", "QLinearMatMul", "RegexFullMatch",
        "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
        "SequenceLength", "SequenceMap", "SoftmaxCrossEntropyLoss", "SplitToSequence", "StringConcat",
        "StringNormalizer", "StringSplit", "SwiGLU", "TfIdfVectorizer", "Unique",
    }
)  # fmt: skip
"""Operators of ONNX's own domain that no TensorRT of today has."""

WITHOUT_KERNEL = {"TensorRTRTX": frozenset({"NonMaxSuppression", "NonZero"})}
"""By backend: the parser knows them, and the build ends for want of a kernel or a plugin."""

LARGEST_K = 3840
"""The most elements TopK gives."""

_QUANTIZED = frozenset({"ConvInteger", "DynamicQuantizeLinear", "MatMulInteger", "QGemm"})
_ELSEWHERE = "compute it outside the model, or choose spec.build.backend ONNXRuntime"


def fault(node: onnx.NodeProto, backend: str, structure: Structure, local: frozenset[tuple[str, str]]) -> str:
    """Why this backend refuses the node, and what to do; empty when nothing is known against it.

    `local` are the model's own functions, by domain and name.
    """
    if (node.domain, node.op_type) in local:
        return ""
    full = node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"
    where = f"operator {quoted(full)} (node {quoted(node.name)})"
    if node.op_type in _QUANTIZED or node.op_type.startswith("QLinear"):
        return f"{where} belongs to the QOperator format, which TensorRT does not support; quantize again in QDQ format"
    if not _known(node):
        return f"{where} is not supported by TensorRT; {_ELSEWHERE}"
    if node.op_type in WITHOUT_KERNEL.get(backend, ()):
        return f"{where} has no kernel in TensorRT-RTX; {_ELSEWHERE}"
    return _limit(node, where, structure)


def _known(node: onnx.NodeProto) -> bool:
    """TensorRT's parser looks at the name alone: com.microsoft's Gelu is ONNX's Gelu to it."""
    return node.op_type not in UNSUPPORTED and onnx.defs.has(node.op_type, "")


def _limit(node: onnx.NodeProto, where: str, structure: Structure) -> str:
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type == "Resize" and attributes.get("antialias"):
        return f"{where} uses antialias=1, which TensorRT does not support; export with antialias=0"
    if node.op_type == "TopK" and (k := _k_of(node, attributes, structure)) > LARGEST_K:
        return f"{where} asks for {k} elements, TensorRT gives {LARGEST_K} at most; use a smaller k"
    return ""


def _k_of(node: onnx.NodeProto, attributes: dict[str, int], structure: Structure) -> int:
    given = structure.constants.get(node.input[1]) if len(node.input) > 1 else None
    return attributes.get("k", 0) if given is None or not given.size else int(given.max())
