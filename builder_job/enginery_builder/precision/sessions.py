"""ONNX Runtime as the passes of `precision` use it: models exactly as their nodes say, on the CPU."""

from pathlib import Path

import onnx
import onnxruntime as ort
from enginery_store.reasons import Reason

from enginery_builder.backend import Array, Tensors
from enginery_builder.device import usable_cpus
from enginery_builder.onnx_files import every_graph, parse_model
from enginery_builder.onnxruntime_errors import converted
from enginery_builder.precision.weights import LARGE_BYTES, Workbench

FLOAT = "tensor(float)"
"""FP32."""


class Session:
    """One model, loaded."""

    def __init__(self, model: Path) -> None:
        """Raises EngineryError (CalibrationFailed for what has no better reason)."""
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = usable_cpus()
        options.log_severity_level = 4  # errors come as exceptions; its own lines would break our log format
        # Probes run right behind what they look at, and memory goes back at once: six times less than by default.
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
        options.enable_cpu_mem_arena = False
        try:
            self._session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 - the library raises many types with no common base
            raise converted(error, Reason.CALIBRATION_FAILED) from None

    @property
    def types(self) -> dict[str, str]:
        """Of every output, as the library writes types: tensor(float), seq(tensor(int64))."""
        return {output.name: output.type for output in self._session.get_outputs()}

    def run(self, names: list[str], feeds: Tensors) -> list[Array]:
        """The outputs of these names. Raises EngineryError (CalibrationFailed for what has no better reason)."""
        try:
            return list(self._session.run(names, dict(feeds)))
        except Exception as error:  # noqa: BLE001 - the library raises many types with no common base
            raise converted(error, Reason.CALIBRATION_FAILED) from None


def tensor_types(bench: Workbench, model: onnx.ModelProto) -> dict[str, str]:
    """Types of everything in the main graph (inputs, weights, what nodes write), as ONNX Runtime writes them.

    It knows every operator that it can run; onnx's own inference knows only ONNX's.
    """
    open_everywhere = onnx.ModelProto()
    open_everywhere.CopyFrom(model)
    known = {value.name for value in model.graph.output}
    written = [name for node in model.graph.node for name in node.output if name and name not in known]
    open_everywhere.graph.output.extend(onnx.ValueInfoProto(name=name) for name in written)
    types = Session(bench.save(open_everywhere, "types.onnx")).types
    for value in model.graph.input:
        types[value.name] = _written(value.type.tensor_type.elem_type)
    for tensor in model.graph.initializer:
        types[tensor.name] = _written(tensor.data_type)
    return types


def simplified(bench: Workbench, model: onnx.ModelProto) -> onnx.ModelProto:
    """The model after ONNX Runtime's basic optimisations: constants folded, batch normalisation folded into Conv, as
    quantization needs it. MatMul and Add stay two nodes, which compilers know as a layer.
    """
    path, weights = bench.folder / "simplified.onnx", "simplified.data"
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = usable_cpus()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(path)
    for key, value in (("file_name", weights), ("min_size_in_bytes", str(LARGE_BYTES))):
        options.add_session_config_entry(f"session.optimized_model_external_initializers_{key}", value)
    try:
        ort.InferenceSession(
            str(bench.save(model, "original.onnx")),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["MatMulAddFusion"],
        )
    except Exception as error:  # noqa: BLE001 - the library raises many types with no common base
        raise converted(error, Reason.CALIBRATION_FAILED) from None
    made = parse_model(path.read_bytes())
    used = {node.domain for graph in every_graph(made) for node in graph.node} | {""}
    if not used <= {node.domain for graph in every_graph(model) for node in graph.node} | {""}:
        return model  # its own operators are nothing for other compilers
    imports = [entry for entry in made.opset_import if entry.domain in used]
    del made.opset_import[:]
    made.opset_import.extend(imports)
    return made


def _written(element_type: int) -> str:
    """Only FP32 matters to the passes; every other type is as good as its number."""
    return FLOAT if element_type == onnx.TensorProto.FLOAT else f"tensor({element_type})"
