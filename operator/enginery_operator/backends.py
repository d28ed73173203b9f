"""What each backend compiles for, and which images it takes. Pure; called by `decide`, `keys`, `observe`, `render`."""

from collections.abc import Iterable

from enginery_store.manifest import Target

from enginery_operator.api.v1alpha1 import InferenceModel
from enginery_operator.settings import Images
from enginery_operator.targets import Offer

TENSORRT, RTX, ONNXRUNTIME = "TensorRT", "TensorRTRTX", "ONNXRuntime"

RTX_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""What TensorRT-RTX 1.7 compiles for ahead of time; H100, H200 (9.0) and B200 (10.0) are not among them."""

RTX_BUILDER = Offer("cpu", Target(accelerator="CPU", architecture="amd64"), (("kubernetes.io/arch", "amd64"),))
"""Where an engine for an RTX GPU is compiled: on any node that can run the builder image; no GPU is taken."""

QUANTIZED = frozenset({"INT8", "FP8"})
"""Precisions that need scales, measured on calibration data or brought along."""

_CPU_PRECISIONS = frozenset({"FP32", "INT8"})
"""What ONNX Runtime computes on CPUs; it would compute FP16 and BF16 in FP32."""

_LEAST_CAPABILITY = {"FP32": (0, 0), "FP16": (7, 5), "INT8": (7, 5), "BF16": (8, 0), "FP8": (8, 9)}
"""The first compute capability with units for a precision, among those that TensorRT 10 and 11 take (7.5 and up)."""

_CONVERTERS = {
    "TensorFlowSavedModel": "images.converters.tensorFlow",
    "PyTorchExport": "images.converters.pyTorch",
    "HuggingFace": "images.converters.pyTorch",
}
"""Chart value of the image that converts a source format."""


def backend_of(model: InferenceModel) -> str:
    """The compiler: Auto is TensorRT on GPUs, ONNX Runtime on CPUs."""
    chosen = model.spec.build.backend
    if chosen != "Auto":
        return chosen
    return ONNXRUNTIME if model.spec.accelerator.mode == "CPU" else TENSORRT


def computes(target: Target, precision: str) -> bool:
    """Whether a device has units for a precision. Auto begins with what every device has."""
    if target.accelerator == "CPU":
        return precision in {*_CPU_PRECISIONS, "Auto"}
    numbers = target.compute_capability.split(".")
    capability = tuple(int(number) for number in numbers if number.isdecimal())  # labels hold what people write
    return capability >= _LEAST_CAPABILITY["FP16" if precision == "Auto" else precision]


def compiles_for(backend: str, target: Target) -> bool:
    """Whether a backend makes engines for a device."""
    return backend != RTX or target.compute_capability in RTX_CAPABILITIES


def fitting(model: InferenceModel, offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Those offers that the model's backend compiles for and that compute its precision."""
    backend, precision = backend_of(model), model.spec.precision.type
    return tuple(offer for offer in offers if compiles_for(backend, offer.target) and computes(offer.target, precision))


def builder_image(backend: str, images: Images) -> str:
    """The image that compiles."""
    return images.builder_tensorrt if backend == TENSORRT else images.builder


def runtime_image(backend: str, images: Images) -> str:
    """The image that serves."""
    return {TENSORRT: images.runtime_tensorrt, RTX: images.runtime_tensorrt_rtx}.get(backend, images.runtime)


def converter_image(source_format: str, images: Images) -> str:
    """The framework image that converts a format other than ONNX."""
    return images.converters.tensorflow if source_format == "TensorFlowSavedModel" else images.converters.pytorch


def missing_images(model: InferenceModel, images: Images) -> tuple[str, ...]:
    """Chart values of the images that a model needs and that are not set."""
    backend, source_format = backend_of(model), model.spec.source.format
    needed = {}
    if source_format in _CONVERTERS:
        needed[_CONVERTERS[source_format]] = converter_image(source_format, images)
    if backend != ONNXRUNTIME:
        needed[f"images.runtime{backend}"] = runtime_image(backend, images)
    if backend == TENSORRT:
        needed["images.builderTensorRT"] = images.builder_tensorrt
    return tuple(name for name, image in needed.items() if not image)
