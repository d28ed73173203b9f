"""What makes a revision, a request and an engine another one, and what does not: properties over many specs."""

import copy
import random
import re
from typing import Any

import pytest
from enginery_operator import keys
from enginery_operator.api.v1alpha1 import InferenceModel
from support.api_objects import AModel, a_model, a_tenant, defaulted
from support.installation import a_node, some_offers, some_settings
from support.observed import FINGERPRINT, PREPARED

SETTINGS = some_settings()
PREFIX = "s3://enginery/tenants/team-a/"
CPU = some_offers()[0]
GPU = some_offers(a_node().with_gpu("NVIDIA-H200"))[1]
FULL = (
    a_model()
    .with_gate()
    .with_profile()
    .having("spec.serving.batching", {"maxBatchSize": 8, "maxQueueDelayMicroseconds": 500})
    .having("spec.serving.resources", {"requests": {"cpu": "2", "memory": "4Gi"}})
    .having("spec.build.timeoutSeconds", 900)
)


def request_key(model: InferenceModel, fingerprint: str = FINGERPRINT, prefix: str = PREFIX) -> str:
    return keys.request_key(model, fingerprint, prefix, keys.precision_ref(model, model.spec.precision.type))


def three(model: AModel, fingerprint: str = FINGERPRINT) -> tuple[str, str, str]:
    """(hash of the revision, request key, engine key)."""
    parsed = model.build()
    revision = keys.revision_name(parsed, fingerprint).removeprefix(parsed.name)
    return (
        revision,
        request_key(parsed, fingerprint),
        keys.engine_key(parsed, PREPARED, CPU, SETTINGS),
    )


CHANGES: dict[str, tuple[str, Any, str]] = {
    # sentence: (path, value, which of (v)revision, (r)equest, (e)ngine keys change)
    "another name": ("metadata.name", "other", ""),
    "another namespace": ("metadata.namespace", "team-b", ""),
    "labels": ("metadata.labels", {"a": "b"}, ""),
    "annotations": ("metadata.annotations", {"a": "b"}, ""),
    "replicas": ("spec.serving.replicas", 5, ""),
    "state": ("spec.state", "Stopped", ""),
    "rollout": ("spec.rollout.progressDeadlineSeconds", 60, ""),
    "objective": ("spec.objective", {"latencyMilliseconds": {"value": "10"}}, ""),
    "another source": ("spec.source.uri", "s3://models/team-a/other.onnx", "vr"),
    "a pinned digest": ("spec.source.digest", f"sha256:{'9' * 64}", "vr"),
    "other credentials": ("spec.source.credentialsSecretRef", {"name": "mine"}, "vr"),
    "another precision": ("spec.precision.type", "FP16", "vr"),
    "other shapes": (
        "spec.shapes.profiles", [{"name": "default", "inputs": [{"name": "x", "min": [1, 4], "opt": [4, 4],
                                                                 "max": [9, 4]}]}], "vre"),
    "another name of a profile": (
        "spec.shapes.profiles", [{"name": "other", "inputs": [{"name": "x", "min": [1, 4], "opt": [4, 4],
                                                               "max": [8, 4]}]}], "vre"),
    "other evaluation data": ("spec.precision.accuracyGate.uri", "s3://models/team-a/other/", "ve"),
    "another metric": ("spec.precision.accuracyGate.metric", "Top5", "ve"),
    "more samples": ("spec.precision.accuracyGate.samples", 2000, "ve"),
    "another tolerance needs no new build": ("spec.precision.accuracyGate.maxDegradation", "0.5", "v"),
    "batching": ("spec.serving.batching.maxQueueDelayMicroseconds", 900, "v"),
    "warm-up": ("spec.serving.warmup.requests", 99, "v"),
    "protocols": ("spec.serving.protocols", ["REST"], "v"),
    "resources": ("spec.serving.resources.requests.cpu", "3", "v"),
    "time-outs of builds": ("spec.build.timeoutSeconds", 901, "v"),
    "TensorRT's options do not split ONNX Runtime's engines": ("spec.build.optimizationLevel", 5, "v"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CHANGES)
def test_a_change_of_the_spec_changes_exactly_the_keys_it_should(sentence: str) -> None:
    path, value, want = CHANGES[sentence]
    before, after = three(FULL), three(FULL.having(path, value))
    changed = "".join(name for name, one, two in zip("vre", before, after, strict=True) if one != two)
    assert changed == want


def test_another_listing_of_the_source_is_another_revision_and_request() -> None:
    before, after = three(FULL), three(FULL, f"sha256:{'0' * 64}")
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_outcomes_never_cross_tenants_and_engines_do() -> None:
    model = FULL.build()
    assert request_key(model) != request_key(model, prefix="s3://enginery/b/")
    assert PREFIX not in keys.engine_key(model, PREPARED, CPU, SETTINGS)


def test_the_order_of_fields_changes_nothing() -> None:
    generator = random.Random(7)  # noqa: S311 - a seed, so that a failure comes again

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            names = list(value)
            generator.shuffle(names)
            return {name: shuffled(value[name]) for name in names}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    want = three(FULL)
    for _ in range(50):
        assert three(AModel(shuffled(FULL.body()))) == want


def test_writing_out_a_default_changes_nothing() -> None:
    """A tenant who applies what `kubectl get -o yaml` shows gets no new revision."""
    assert three(AModel(defaulted(FULL.body(), "inferencemodels"))) == three(FULL)


GPU_CHANGES: dict[str, tuple[str, Any, bool]] = {
    "optimization level": ("spec.build.optimizationLevel", 5, True),
    "workspace": ("spec.build.workspaceMiB", 512, True),
    "hardware compatibility": ("spec.build.hardwareCompatibility", "AmperePlus", True),
    "back-off": ("spec.build.backoffLimit", 7, False),
    "tolerations of the tenant": ("metadata.labels", {"x": "y"}, False),
}


@pytest.mark.parametrize("sentence", GPU_CHANGES)
def test_builder_options_of_tensorrt_are_in_its_engine_keys(sentence: str) -> None:
    path, value, want = GPU_CHANGES[sentence]
    model = a_model().with_gpu()
    before, after = (
        keys.engine_key(item.build(), PREPARED, GPU, SETTINGS) for item in (model, model.having(path, value))
    )
    assert (before != after) is want


def test_every_fact_of_the_target_and_its_backend_splits_engines() -> None:
    fleet = [
        a_node().with_gpu("NVIDIA-H200"),
        a_node().with_gpu("NVIDIA-H100-80GB-HBM3"),
        a_node().with_gpu("NVIDIA-H200", capability="9.1"),
        a_node().with_mig("NVIDIA-H200", {"1g.18gb": 1}),
        a_node().with_mig("NVIDIA-H200", {"2g.35gb": 1}),
        a_node().label("kubernetes.io/arch", "arm64"),
    ]
    model = a_model().with_gpu().build()
    found = {keys.engine_key(model, PREPARED, offer, SETTINGS) for offer in some_offers(*fleet)}
    assert len(found) == 7  # two CPUs, five kinds of slices
    newer = some_settings(tensorrt_version="10.15.0")
    assert keys.engine_key(model, PREPARED, GPU, newer) not in found
    assert keys.engine_key(model, "c" * 64, GPU, SETTINGS) not in found


def test_mig_strategies_share_an_engine() -> None:
    single = some_offers(a_node().with_gpu("NVIDIA-H200-MIG-1g.18gb", 4))[1]
    mixed = some_offers(a_node().with_mig("NVIDIA-H200", {"1g.18gb": 4}))[1]
    model = a_model().with_mig("1g.18gb").build()
    assert single.resource != mixed.resource
    assert keys.engine_key(model, PREPARED, single, SETTINGS) == keys.engine_key(model, PREPARED, mixed, SETTINGS)


CALIBRATION = {"uri": "s3://models/team-a/calibration/", "samples": 500}
PRECISIONS: dict[str, tuple[AModel, str, dict[str, Any]]] = {
    # sentence: (model, precision asked for, what the builder is told beside the type)
    "FP32 needs nothing": (a_model(), "FP32", {}),
    "FP32 with a gate needs nothing before the build": (a_model().with_gate(), "FP32", {}),
    "FP16 without data": (a_model().with_gpu(), "FP16", {}),
    "FP16 looks for overflow on the gate's data": (
        a_model().with_gpu().with_gate(), "FP16",
        {"calibration": {"uri": "s3://models/team-a/evaluation/", "samples": 128}}),
    "FP16 on a gate with few samples": (
        a_model().with_gpu().with_gate().having("spec.precision.accuracyGate.samples", 20), "FP16",
        {"calibration": {"uri": "s3://models/team-a/evaluation/", "samples": 20}}),
    "BF16 has the range of FP32": (a_model().with_gpu().with_gate(), "BF16", {}),
    "INT8 on a GPU: the rest is FP16": (
        a_model().with_gpu().with_gate().having("spec.precision.calibration", CALIBRATION), "INT8",
        {"rest": "FP16", "calibration": CALIBRATION | {"evaluationUri": "s3://models/team-a/evaluation/"}}),
    "INT8 on a CPU: the rest is FP32": (
        a_model().with_gate().having("spec.precision.calibration", CALIBRATION), "INT8",
        {"calibration": CALIBRATION | {"evaluationUri": "s3://models/team-a/evaluation/"}}),
    "a prequantized model is not calibrated": (
        a_model().with_gpu().with_gate().having("spec.precision.quantization", "Prequantized"), "FP8",
        {"rest": "FP16", "prequantized": True}),
}  # fmt: skip


@pytest.mark.parametrize("sentence", PRECISIONS)
def test_the_builder_is_told_what_to_make_and_on_which_data(sentence: str) -> None:
    model, precision, want = PRECISIONS[sentence]
    found = keys.precision_ref(model.build(), precision)
    assert found.model_dump(by_alias=True, exclude_defaults=True) | {"type": precision} == {"type": precision} | want


def test_each_step_of_auto_is_a_request_of_its_own_and_shared_with_models_that_ask_for_it_alone() -> None:
    auto = FULL.having("spec.precision.type", "Auto").having("spec.precision.calibration", CALIBRATION).build()
    steps = {
        name: keys.request_key(auto, FINGERPRINT, PREFIX, keys.precision_ref(auto, name)) for name in ("FP32", "INT8")
    }
    assert steps["FP32"] != steps["INT8"]
    assert steps["FP32"] == request_key(FULL.build())


def test_an_objective_makes_another_revision_only_where_it_decides_what_serves() -> None:
    objective = {"latencyMilliseconds": {"value": "10"}}
    auto = FULL.having("spec.precision.type", "Auto").having("spec.objective", objective)
    slower = auto.having("spec.objective.latencyMilliseconds.value", "20")
    names = [keys.revision_name(model.build(), FINGERPRINT) for model in (auto, slower)]
    assert names[0] != names[1]


VERSIONS = {"ONNXRuntime": "1.32.0", "TensorRT": "10.14.1", "TensorRTRTX": "1.7.1"}


@pytest.mark.parametrize("backend", VERSIONS)
def test_engine_keys_hold_the_version_of_their_own_backend(backend: str) -> None:
    model = a_model().with_gpu().having("spec.build.backend", backend).build()
    assert keys.backend_version(model, SETTINGS) == VERSIONS[backend]
    changed = {"ONNXRuntime": "onnxruntime_version", "TensorRT": "tensorrt_version"}.get(
        backend, "tensorrt_rtx_version"
    )
    other = keys.engine_key(model, PREPARED, GPU, some_settings(**{changed: "9.9.9"}))
    assert other != keys.engine_key(model, PREPARED, GPU, SETTINGS)


LONGEST = "a" * 39


def names(name: str, attempt: int = 1) -> list[str]:
    model = a_model().named(name).build()
    key = request_key(model)
    return [
        keys.revision_name(model, FINGERPRINT),
        keys.job_name(model, "prepare", key, attempt),
        keys.job_name(model, "build", key, attempt),
    ]


@pytest.mark.parametrize("attempt", [1, 2, 99, 100, 9_999, 1_000_000])
def test_names_of_children_are_labels_for_the_longest_model(attempt: int) -> None:
    for name in names(f"{LONGEST}a", attempt):
        assert len(name) <= 63
        assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name)


def test_names_of_attempts_differ_and_come_again() -> None:
    found = [names(f"{LONGEST}a", attempt)[1] for attempt in range(1, 300)]
    assert len(set(found)) == len(found)
    assert found == [names(f"{LONGEST}a", attempt)[1] for attempt in range(1, 300)]


def test_two_models_that_differ_in_the_last_letter_have_children_of_their_own() -> None:
    assert not set(names(f"{LONGEST}a")) & set(names(f"{LONGEST}b"))


def test_a_tenants_store_settings_win_over_the_installations() -> None:
    tenant = a_tenant().having("spec.store.region", "eu-west-1").having("spec.store.addressing", "Virtual").build()
    found = keys.store_access(tenant, SETTINGS)
    assert (found.region, found.addressing, found.checksums) == ("eu-west-1", "Virtual", "WhenRequired")


def test_nothing_here_changes_its_input() -> None:
    body = FULL.body()
    kept = copy.deepcopy(body)
    keys.revision_name(InferenceModel.model_validate(body), FINGERPRINT)
    assert body == kept
