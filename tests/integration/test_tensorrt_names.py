"""Every TensorRT name that our code uses exists in the real bindings of every release that we support."""

from functools import reduce
from operator import or_
from pathlib import Path

import enginery_builder
import enginery_tensorrt
import pytest
from enginery_builder.tensorrt import config, precisions
from support.tensorrt_bindings import RTX, WHEELS, bindings
from support.tensorrt_names import Known, Use, known_of, uses_in

ROOTS = [Path(enginery_builder.__file__).parent / "tensorrt", Path(enginery_tensorrt.__file__).parent]
FILES = [file for root in ROOTS for file in sorted(root.glob("*.py"))]
RELEASES = [*WHEELS, RTX]

NOT_EVERYWHERE = {
    "IProgressMonitor": "since 10; asked for with hasattr",
    "progress_monitor": "since 10; set only where IProgressMonitor is",
    "node_operator": "since 10; asked for with hasattr",
    "node_name": "since 10; asked for with hasattr",
    "get_tensor_profile_values": "since 10; asked for with member",
    "get_profile_shape_input": "8.6, where get_tensor_profile_values is not",
    "device_memory_size": "to 10, where device_memory_size_v2 is not",
    "create_execution_context_without_device_memory": "8.6, where ExecutionContextAllocationStrategy is not",
    "set_device_memory": "since 10; asked for with hasattr",
    "device_memory": "8.6, where set_device_memory is not",
}
"""Names used plainly behind a test of them or of another name."""

MISSPELT = """
def build(library: Library, network: "trt.INetworkDefinition", layers: "Sequence[trt.ILayer]") -> None:
    trt = library.trt
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.builder_optimisation_level = 3
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILLED
    member(trt.BuilderFlag, "FP61")
    trt.OnnxPaser(network, log)
    for layer in layers:
        layer.numb_inputs
        layer.get_input(0).dtyp
"""


def uses(release: str) -> list[Use]:
    """Of all files that this release is for: what imports RTX's module is for RTX alone."""
    sources = {file.name: file.read_text() for file in FILES}
    known = reduce(or_, map(known_of, sources.values()))
    return [
        use
        for file, source in sources.items()
        if release == RTX or "import tensorrt_rtx as trt" not in source
        for use in uses_in(source, file, known, bindings(release))
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_every_name_exists(release: str) -> None:
    offered = bindings(release)
    absent = [
        use
        for use in uses(release)
        if not use.guarded and use.name not in NOT_EVERYWHERE and not offered.has(use.owner, use.name)
    ]

    assert not absent, f"not in TensorRT {release}: {', '.join(map(str, absent))}"


def test_names_that_only_some_releases_have_exist_in_one() -> None:
    offered = [bindings(release) for release in RELEASES]
    asked = {use for release in RELEASES for use in uses(release) if use.guarded or use.name in NOT_EVERYWHERE}

    assert asked
    assert [str(use) for use in asked if not any(one.has(use.owner, use.name) for one in offered)] == []


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        ("BuilderFlag", {flag for flags in config._WEAK_FLAGS.values() for flag in flags}),
        ("HardwareCompatibilityLevel", set(config._COMPATIBILITY.values())),
        ("DataType", set(precisions._DTYPES.values())),
        ("LayerType", set(precisions._MOVING)),
    ],
)
def test_names_in_tables_exist_in_one_release(owner: str, names: set[str]) -> None:
    assert {name for name in names if not any(bindings(release).has(owner, name) for release in RELEASES)} == set()


def test_what_the_code_does_is_seen() -> None:
    seen = {(use.owner, use.name) for use in uses("10.14")}

    assert {
        ("", "Builder"),
        ("Builder", "build_serialized_network"),
        ("OnnxParser", "parse_from_file"),
        ("ParserError", "node_name"),
        ("IOptimizationProfile", "set_shape_input"),
        ("IBuilderConfig", "create_timing_cache"),
        ("ITimingCache", "serialize"),
        ("ILayer", "num_inputs"),
        ("ITensor", "dtype"),
        ("ProfilingVerbosity", "DETAILED"),
        ("IBuilderConfig", "get_timing_cache"),
        ("ICudaEngine", "num_io_tensors"),
        ("IExecutionContext", "execute_async_v3"),
    } <= seen


def test_rtx_is_held_to_its_own_bindings() -> None:
    seen = {(use.owner, use.name) for use in uses(RTX)} - {(use.owner, use.name) for use in uses("11.4")}

    assert ("IBuilderConfig", "set_compute_capability") in seen


@pytest.mark.parametrize("release", RELEASES)
def test_misspelt_names_are_found(release: str) -> None:
    found = uses_in(MISSPELT, "misspelt.py", Known(), bindings(release))

    assert {use.name for use in found if not bindings(release).has(use.owner, use.name)} == {
        "builder_optimisation_level",
        "DETAILLED",
        "FP61",
        "OnnxPaser",
        "numb_inputs",
        "dtyp",
    }
