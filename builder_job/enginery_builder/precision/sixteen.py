"""The story of FP16 and BF16: what may overflow is found and stays in FP32, the rest is cast. Called by `precision`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from enginery_store.wording import listed

from enginery_builder.precision.half import LEAST_OPSET, Sixteen, to_half
from enginery_builder.precision.overflow import (
    LARGEST_HALF,
    overflowing_nodes,
    same_outputs,
    saturate_stand_ins,
)
from enginery_builder.precision.ranges import Ranges, measure_ranges
from enginery_builder.precision.samples import Samples
from enginery_builder.precision.sessions import Session, tensor_types
from enginery_builder.precision.weights import Workbench, with_opset


@dataclass(frozen=True)
class Lowered:
    """A model in half precision."""

    model: onnx.ModelProto
    kept_nodes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def lowered(bench: Workbench, model: onnx.ModelProto, kind: Sixteen, samples: Samples | None) -> Lowered:
    """The model in half precision. FP16 looks for overflow on `samples`; BF16 has FP32's range and needs none.

    Raises FinalError (ConversionFailed) where the opset cannot be raised, EngineryError (CalibrationFailed).
    """
    model = with_opset(model, LEAST_OPSET[kind], kind)
    if kind == "BF16" or samples is None:
        return Lowered(to_half(bench, model, tensor_types(bench, model), (), kind))
    model = near(bench, model, samples)
    types = tensor_types(bench, model)
    ranges = measure_ranges(bench, model, types, samples.batches()) if samples.runs else Ranges()
    return fp16(bench, model, types, ranges, samples)


def near(bench: Workbench, model: onnx.ModelProto, samples: Samples) -> onnx.ModelProto:
    """The model with stand-ins for infinity within FP16's range, if its outputs are the same with them."""
    saturated = saturate_stand_ins(bench, model)
    feeds = next(iter(samples.batches()), None)
    if saturated is None or feeds is None:
        return model
    sessions = [Session(bench.save(one, f"near{number}.onnx")) for number, one in enumerate((model, saturated))]
    names = [value.name for value in model.graph.output]
    return saturated if same_outputs(sessions[0], sessions[1], names, feeds) else model


def fp16(
    bench: Workbench, model: onnx.ModelProto, types: Mapping[str, str], ranges: Ranges, samples: Samples
) -> Lowered:
    """The model in FP16 but for nodes that could overflow, by measured ranges."""
    kept = overflowing_nodes(bench, model, types, ranges)
    made = to_half(bench, model, types, kept, "FP16")
    names = tuple(called(model.graph.node[index]) for index in kept)
    return Lowered(made, names, tuple(_notes(names, list(kept.values()), samples)))


def called(node: onnx.NodeProto) -> str:
    """How people find a node: its name, or what it writes."""
    return node.name or node.output[0]


def _notes(names: Sequence[str], magnitudes: Sequence[float], samples: Samples) -> list[str]:
    notes = []
    if not samples.runs:
        notes.append(
            "overflow in FP16 was not looked for, as the model takes no generated input; give an accuracyGate, whose"
            " data are used"
        )
    elif samples.generated:
        notes.append(
            "no data were given, so overflow in FP16 was looked for on generated inputs only; an accuracyGate gives"
            " real ones"
        )
    if names:
        notes.append(
            f"{len(names)} nodes stay in FP32, as their values reach {max(magnitudes):.4g} and FP16 ends at"
            f" {LARGEST_HALF:.0f}: {listed(names)}"
        )
    return notes
