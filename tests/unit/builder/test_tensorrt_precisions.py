"""Layers are counted by the precision they compute in, and an engine of another precision is refused."""

import json
from typing import Any

import pytest
from enginery_builder.tensorrt.precisions import OPAQUE, engine_layers, require_engine_precision
from enginery_store.errors import FinalError


def tensor(kind: str, key: str = "Format/Datatype") -> dict[str, Any]:
    return {"Name": "t", "Location": "Device", "Dimensions": [1, 64], key: kind}


def layer(kind: str, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], name: str = "l") -> dict[str, Any]:
    return {"Name": name, "LayerType": kind, "Inputs": inputs, "Outputs": outputs, "TacticValue": "0x0"}


def counted(*layers: Any) -> dict[str, int]:
    return engine_layers(json.dumps({"Layers": layers, "Bindings": ["x", "y"]}))


def test_words_of_8_6_and_of_later_releases_are_understood() -> None:
    assert counted(
        layer("CaskConvolution", [tensor("Channel major FP16 format where channel % 8 == 0")], [tensor("Half")]),
        layer("gemm", [tensor("Half")], [tensor("Float")]),
        layer(
            "CaskConvolution", [tensor("Thirty-two wide channel vectorized row major Int8 format")], [tensor("Half")]
        ),
        layer("kgen", [tensor("Float", "DataType"), tensor("Row major linear", "Format")], [tensor("Float")]),
        layer("gemm", [tensor("BFloat16")], [tensor("BFloat16")]),
        layer("gemm", [tensor("FP8")], [tensor("Half")]),
    ) == {"FP16": 2, "INT8": 1, "FP32": 1, "BF16": 1, "FP8": 1}


def test_layer_that_only_moves_data_counts_for_nothing() -> None:
    assert (
        counted(
            layer("Reformat", [tensor("Half")], [tensor("Float")]),
            layer("Constant", [], [tensor("Int8")]),
            layer("Shuffle", [tensor("Half")], [tensor("Half")]),
        )
        == {}
    )


def test_layer_that_reads_indices_computes_in_what_it_writes() -> None:
    assert counted(layer("kgen", [tensor("Int32")], [tensor("Half")])) == {"FP16": 1}


def test_graph_compiled_as_one_layer_is_told_as_opaque() -> None:
    node = layer("Myelin", [tensor("Int32")], [tensor("Float")], "{ForeignNode[Gather_1...Add_9]}")

    assert counted(node) == {OPAQUE: 1}


def test_engine_built_without_details_tells_nothing() -> None:
    assert counted("conv1", "conv2") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_words_that_are_not_understood_tell_nothing(text: str) -> None:
    assert engine_layers(text) == {}


@pytest.mark.parametrize("precision", ["FP16", "BF16", "INT8", "FP8"])
def test_engine_without_a_layer_of_the_precision_is_refused(precision: str) -> None:
    with pytest.raises(FinalError, match=rf"{precision} was asked for.*\(12 in FP32\)") as caught:
        require_engine_precision({"FP32": 12}, precision)
    assert caught.value.reason == "BuildFailed"


@pytest.mark.parametrize(
    ("layers", "precision"),
    [
        ({"FP32": 12}, "FP32"),
        ({"FP16": 1, "FP32": 11}, "FP16"),
        ({"INT8": 3, "FP16": 9}, "INT8"),
        ({OPAQUE: 1}, "FP16"),
        ({}, "FP16"),
    ],
)
def test_engine_that_holds_it_or_does_not_tell_is_taken(layers: dict[str, int], precision: str) -> None:
    require_engine_precision(layers, precision)
