"""What TensorRT says when a build fails, and what that means: the table behind `errors`. Pure data.

The texts were recorded with TensorRT-RTX 1.7.1, which shares TensorRT 11's sources, or quoted by users of 8.x to 11.x.
The first rule that matches decides, so special causes stand above what also matches their consequences. What it says
of engines that it does not load is told apart where they are loaded, in `enginery_tensorrt.engine`.
"""

import re
from typing import NamedTuple

from enginery_store.reasons import Reason


class Rule(NamedTuple):
    """One known failure."""

    pattern: re.Pattern[str]
    reason: Reason
    message: str
    """What is wrong and what to do. `{0}`, `{1}`: groups of the pattern; `{where}`: operator and node, where known."""


def _rules(reason: Reason, *pairs: tuple[str, str]) -> list[Rule]:
    return [Rule(re.compile(pattern, re.DOTALL), reason, message) for pattern, message in pairs]


_SOURCE = _rules(
    Reason.SOURCE_INVALID,
    (
        r"MODEL_DESERIALIZE_FAILED|Failed to parse the ONNX model",
        "the ONNX file is cut off, damaged or no ONNX file; upload it again and compare its sha256",
    ),
    (
        r"Network must have at least one output",
        "the ONNX file has no outputs, as an empty file or a stored error page has none; look at what was uploaded",
    ),
    (
        r"Failed to open file: (?:\S*/)?(\S+)",
        "the model keeps weights in {0}, which is not there; upload it beside the .onnx file",
    ),
    (
        r"external weights offset/length out of range for file:? (?:\S*/)?(\S+)",
        "weights file {0} is shorter than the model says; upload it again",
    ),
    (
        r"Relative paths to parent|[Aa]bsolute path.*external weights",
        "the model names weights outside its own folder; export it again with the weights beside the .onnx file",
    ),
)

_OPERATORS = _rules(
    Reason.UNSUPPORTED_OPERATOR,
    (
        r"\bcheck(?:ConvInteger|DynamicQuantizeLinear|MatMulInteger|QLinear\w+)|(?:^| )QLinear\w+ ",
        (
            "{where} belongs to the quantized-operator format, which TensorRT does not support; quantize again in the"
            " Q/DQ format"
        ),
    ),
    (
        r"Plugin not found, are the plugin name",
        "{where} is unknown to TensorRT; export with standard ONNX operators, or choose spec.build.backend ONNXRuntime",
    ),
    (
        r"plugin (?:creator version \d+ )?was not found in (?:the )?plugin registry",
        "{where} needs a plugin that this builder does not have; move it out of the model",
    ),
    (
        r"Assertion !layerImpls.empty\(\) failed. (\S+) has no runners",
        "layer {0} has no kernel for this target; move the operator out of the model",
    ),
    (r"(?i)training.?mode", "{where} is in training mode; export the model after model.eval()"),
    (r"Antialiasing is not supported", "{where} uses antialias=1, which TensorRT does not support; export it with 0"),
    (r"fmod attribute is set to 0", "{where} works on floating-point numbers and needs fmod=1; export it so"),
    (
        r"Failed to convert ONNX date type",
        (
            "an input has a datatype that TensorRT cannot take (such as string, uint16 or uint32); cast it outside the"
            " model"
        ),
    ),
    (
        r"unsupported datatype \((\d+)\) when importing initializer: (\S+)",
        "constant {1} has ONNX datatype {0}, which TensorRT does not support; use INT8, INT32, INT64 or a float type",
    ),
    (
        r"Failed to convert ONNX dimensions",
        "an input has more than 8 dimensions, the most that TensorRT allows; export the model with fewer",
    ),
    (
        r"(?:ITopKLayer )?([^\s:]+): (?:\S+: )?K exceeds the maximum value allowed \((\d+)\)",
        "TopK (node {0}) asks for more than {1} elements, the most that TensorRT allows; use a smaller k",
    ),
    (r"UNSUPPORTED_NODE_ATTR", "{where} has an attribute that TensorRT does not support; export it without"),
)

_QUANTIZATION = _rules(
    Reason.SOURCE_INVALID,
    (
        r"Non-zero zero point is not supported",
        "{where} has a zero point other than 0; quantize again with signed INT8 and ActivationSymmetric=True",
    ),
    (
        r"([^\s(]+): input has type Int32 but must have type FP8",
        "{0}: a bias is quantized to INT32, which TensorRT refuses; quantize again with QuantizeBias=False",
    ),
    (
        r"Scale coefficients must all be positive",
        (
            "{where} has a scale that is not positive, as calibration never saw this tensor move; calibrate with other"
            " data, or leave the node out"
        ),
    ),
    (
        r"must have same input types. But they are of types (\w+) and (\w+)",
        "{where} mixes {0} and {1}, and TensorRT converts nothing by itself; add a Cast",
    ),
)

_HARDWARE = _rules(
    Reason.PRECISION_NOT_SUPPORTED_BY_HARDWARE,
    (
        r"HW-specific datatypes: (\S+?)\.(?:\s|$)",
        "the target has no {0}; write another spec.precision.type, or take a later GPU",
    ),
    (
        r"Cannot compile operation '([^']+)' for Turing",
        "operation {0} has no FP32 kernel on compute capability 7.5; write spec.precision.type FP16",
    ),
)

_WIRING = _rules(
    Reason.SOURCE_INVALID,
    (r"toposort", "the graph has a cycle, or two operators write one tensor; export it again"),
    (r"Node input was not registered", "{where} reads a tensor that nothing produces; export it again"),
    (r"Trying to access weights or a null tensor", "a declared output is produced by no operator; export it again"),
    (
        r"(\S+)_OutputLayer: Must have inputs with equal ranks",
        "the branches of If (node {0}) give different numbers of dimensions; make them equal",
    ),
    (
        r"([^\s(]+): last dimension of input0 = (\d+) and second to last dimension of input1 = (\d+)",
        "the shapes of MatMul (node {0}) do not fit: {1} against {2}; export the model with the right input shape",
    ),
    (
        r"Kernel weight dimension failed to broadcast",
        "the input channels of {where} do not fit its weights, as when NHWC is fed to NCHW; transpose the input",
    ),
)

_SHAPES = _rules(
    Reason.INVALID_SHAPES,
    (
        r"(?:input tensors (\S+), )?please ensure that the optimization profiles satisfy MIN<=OPT<=MAX",
        "spec.shapes.profiles: input {0} needs min <= opt <= max in every dimension",
    ),
    (
        r"no optimization profile has been defined",
        "the model has free dimensions; write spec.shapes.profiles with min, opt and max for them",
    ),
    (
        r"input tensor (\S+) has (\d+) dimensions but profile \d+ has (\d+)",
        "spec.shapes.profiles: input {0} has {1} dimensions, the profile gives {2}; give one number for each",
    ),
    (
        (
            r"Dimension mismatch for tensor (\S+) and profile \d+\. At dimension axis (\d+), "
            r"profile has min=(\d+).*?but tensor has (\d+)"
        ),
        "spec.shapes.profiles: input {0}, dimension {1} is fixed to {3} in the model, the profile says {2}; write {3}",
    ),
    (
        r"input tensor (\S+) is missing dimensions in profile",
        "spec.shapes.profiles: a profile has no entry for input {0}; add one",
    ),
    (
        r"Input tensor (\S+) has static dimensions .*?Input dimensions are (\S+) but profile dimensions are (\S+?)\.",
        (
            "spec.shapes.profiles: input {0} has the fixed shape {1} in the model, the profile says {2}; write the"
            " shape of the model, or export it with a free batch"
        ),
    ),
    (
        r"elements in shape tensor (\S+) to be \d+\. This doesn't match product of tensor dimensions (\S+?)\.",
        "spec.shapes.profiles: input {0} holds {1} values that are a shape; give one number for each of them",
    ),
    (
        r"missing values for shape input tensor (\S+?)\.",
        "spec.shapes.profiles: the values of input {0} are a shape; give min, opt and max of its values",
    ),
    (
        r"condition: std::all_of\(dims\.d|inconsistent with other shapes",
        "spec.shapes.profiles: sizes of a profile must be 0 or more and of one rank; write such sizes",
    ),
    (
        r"reshape would change volume|violate shape constraints",
        (
            "the model has a fixed size built in (a Reshape to constant numbers) that the profile contradicts; export"
            " it with free dimensions"
        ),
    ),
)

_MEMORY = _rules(
    Reason.BUILD_OUT_OF_MEMORY,
    (
        r"within workspace limit|Could not find any implementation for node|insufficient (?:workspace|memory)",
        (
            "no kernel fits into the workspace or the free device memory; raise spec.build.workspaceMiB, lower the"
            " profiles' max, or take a larger slice"
        ),
    ),
    (
        r"(?i)out of memory|OutOfMemory|MEM_ALLOC_FAILED|Requested amount of GPU memory|bad_alloc|cudaErrorMemory",
        "the device or the builder ran out of memory; lower the profiles' max, or take a larger slice",
    ),
)

_INSTALLATION = _rules(
    Reason.CONFIG_ERROR,
    (
        r"libnvinfer_lean",
        "version-compatible engines need libnvinfer_lean, which this image lacks; take a builder image that has it",
    ),
    (r"graph_jit\.cpp", "this build option needs a GPU in the builder; choose spec.build.backend TensorRT"),
)

_DEVICE = _rules(
    Reason.DEVICE_UNAVAILABLE,
    (
        r"cudaError 35|CUDA driver version is insufficient|CUDA initialization failure|no CUDA-capable device",
        "no usable GPU in this pod: none was given to it, or the node's driver is too old for this image",
    ),
)

_UNNAMED_OPERATORS = _rules(
    Reason.UNSUPPORTED_OPERATOR,
    (r"UNSUPPORTED_(?:NODE|GRAPH)", "{where} is not supported by TensorRT; use another operator, datatype or opset"),
)

RULES = (
    *_SOURCE,
    *_OPERATORS,
    *_QUANTIZATION,
    *_HARDWARE,
    *_WIRING,
    *_SHAPES,
    *_MEMORY,
    *_INSTALLATION,
    *_DEVICE,
    *_UNNAMED_OPERATORS,
)
"""In the order of asking."""

NOISE = re.compile(
    r"catchCudaError|While parsing node number|--- Begin node|--- End node|^Node name: |^Invalid Node - "
    r"|Make sure (?:in|out)put .* has Int64 binding|In function importInitializers"
)
"""Lines that name no cause, even where a rule would match them."""
