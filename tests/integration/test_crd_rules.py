"""Every rule of both custom resources, decided by the real API server: good and bad cases, and the advice in words."""

from typing import Any

import pytest
from support.api_objects import AModel, AnObject, ATenant, a_model, a_tenant, schema_of
from support.api_server import ApiServer

pytestmark = pytest.mark.cluster

GATE = {"uri": "s3://models/team-a/evaluation/", "metric": "Top1", "maxDegradation": "0.010"}
CALIBRATION = {"uri": "s3://models/team-a/calibration/"}
OBJECTIVE = {"latencyMilliseconds": {"percentile": 99, "value": "10"}, "batchSize": 8}
KEY = "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n"


def model(**spec: Any) -> AModel:
    """A model in the default namespace; dry runs leave nothing there. Dots in paths are written as __."""
    found = a_model().named("resnet50", "default").having("metadata.uid", None).having("metadata.generation", None)
    for path, value in spec.items():
        found = found.having(f"spec.{path.replace('__', '.')}", value)
    return found


def tenant(**spec: Any) -> ATenant:
    found = a_tenant("team-x")
    for name in ("uid", "generation", "resourceVersion", "creationTimestamp"):
        found = found.having(f"metadata.{name}", None)
    for path, value in spec.items():
        found = found.having(f"spec.{path.replace('__', '.')}", value)
    return found


def quantized(**precision: Any) -> AModel:
    return model(precision={"type": "INT8", "accuracyGate": GATE, "calibration": CALIBRATION} | precision)


def shaped(*profiles: tuple[str, dict[str, tuple[list[int], list[int], list[int]]]]) -> AModel:
    return model(shapes__profiles=[
        {"name": name, "inputs": [
            {"name": entry, "min": low, "opt": best, "max": high} for entry, (low, best, high) in inputs.items()]}
        for name, inputs in profiles])  # fmt: skip


def batched(size: int, *highs: int) -> AModel:
    profiles = [(f"p{high}", {"x": ([1, 4], [1, 4], [high, 4])}) for high in highs]
    return shaped(*profiles).having("spec.serving.batching.maxBatchSize", size)


def canary(*weights: int) -> AModel:
    return model(rollout={"strategy": "Canary", "steps": [{"weight": weight} for weight in weights]})


def scaled(low: int, high: int) -> dict[str, Any]:
    return {"minReplicas": low, "maxReplicas": high, "metrics": [{"type": "QueueDepth", "target": 8}]}


GOOD_RANGE = {"x": ([1, 3], [8, 3], [32, 3])}
LLM = {"source__format": "HuggingFace", "source__task": "TextGeneration", "serving__server": "VLLM"}

RULES: dict[str, tuple[list[AnObject], list[AnObject], str]] = {
    # rule: (good, bad, what the refusal advises)
    "a name is a label of at most 40 characters that starts with a letter": (
        [model().named("a", "default"), model().named("a" * 40, "default"), model().named("a-9", "default")],
        [model().named("a" * 41, "default"), model().named("a" * 63, "default"), model().named("9model", "default"),
         model().named(".".join(["a" * 62] * 4), "default"), model().named("a.b", "default"),
         model().named("a.b.c", "default")],
        "metadata.name must be a DNS label that starts with a letter, at most 40 characters"),
    "a source is s3:// or pvc://": (
        [model(source__uri="s3://bucket/key"), model(source__uri="pvc://claim/path")],
        [model(source__uri="https://example.com/model.onnx"), model(source__uri="/local/model.onnx"),
         model(source__uri="S3://bucket/key")],
        "write s3://BUCKET/PATH or pvc://CLAIM/PATH"),
    "a URI names no host and no user": (
        [model(source__uri="s3://bucket/a:b@c")],
        [model(source__uri="s3://minio:9000/bucket/key"), model(source__uri="s3://user:secret@bucket/key")],
        "set AWS_ENDPOINT_URL_S3 in the credentials Secret"),
    "a signature is in S3": (
        [model(source__signature={"uri": "s3://b/model.sig", "keyName": "key"})],
        [model(source__signature={"uri": "pvc://b/model.sig", "keyName": "key"})],
        "write s3://BUCKET/PATH"),
    "a task is for HuggingFace": (
        [model(source__format="HuggingFace", source__task="TextClassification")],
        [model(source__task="TextClassification")],
        "remove task or set format: HuggingFace"),
    "calibration is for INT8, FP8 and Auto": (
        [quantized(), quantized(type="FP8"), quantized(type="Auto").having("spec.objective", OBJECTIVE)],
        [quantized(type="FP16"), quantized(type="FP32")],
        "remove calibration or change type"),
    "quantization is for INT8, FP8 and Auto": (
        [quantized(quantization="Calibrate"),
         quantized(type="Auto", quantization="Calibrate").having("spec.objective", OBJECTIVE)],
        [model(precision={"type": "FP16", "quantization": "Prequantized"}),
         model(precision={"type": "Auto", "accuracyGate": GATE, "quantization": "Prequantized"}).having(
             "spec.objective", OBJECTIVE)],
        "remove quantization or change type"),
    "INT8 and FP8 need exactly one of calibration and Prequantized": (
        [quantized(), model(precision={"type": "INT8", "accuracyGate": GATE, "quantization": "Prequantized"})],
        [model(precision={"type": "INT8", "accuracyGate": GATE}),
         model(precision={"type": "FP8", "accuracyGate": GATE, "quantization": "Calibrate"}),
         quantized(quantization="Prequantized")],
        "exactly one of calibration and quantization: Prequantized"),
    "INT8 and FP8 need an accuracy gate": (
        [quantized()],
        [model(precision={"type": "INT8", "calibration": CALIBRATION}),
         model(precision={"type": "FP8", "calibration": CALIBRATION})],
        "INT8 and FP8 need accuracyGate"),
    "calibration data come from one place": (
        [quantized(), quantized(calibration={"capture": {"samples": 300, "percent": 1}})],
        [quantized(calibration={"samples": 300}),
         quantized(calibration=CALIBRATION | {"capture": {"samples": 300}})],
        "exactly one of calibration.uri and calibration.capture"),
    "calibration data are in S3": (
        [quantized()], [quantized(calibration={"uri": "pvc://claim/samples"})], "write s3://BUCKET/PATH"),
    "evaluation data are in S3": (
        [quantized()], [quantized(accuracyGate=GATE | {"uri": "https://x/evaluation"})], "write s3://BUCKET/PATH"),
    "Auto needs an objective": (
        [model(precision={"type": "Auto"}, objective=OBJECTIVE)],
        [model(precision={"type": "Auto"})],
        "precision type Auto needs spec.objective"),
    "ranges have one number of dimensions": (
        [shaped(("p", GOOD_RANGE))],
        [shaped(("p", {"x": ([1], [8, 3], [32, 3])})), shaped(("p", {"x": ([1, 3], [8], [32, 3])})),
         shaped(("p", {"x": ([1, 3], [8, 3], [32])}))],
        "must have the same number of dimensions"),
    "min <= opt <= max": (
        [shaped(("p", {"x": ([2, 2], [2, 2], [2, 2])}))],
        [shaped(("p", {"x": ([9, 3], [8, 3], [32, 3])})), shaped(("p", {"x": ([1, 3], [33, 3], [32, 3])})),
         shaped(("p", {"x": ([1] * 7 + [9], [1] * 8, [1] * 7 + [9])}))],
        "every dimension needs min <= opt <= max"),
    "all profiles name the same inputs": (
        [shaped(("p", GOOD_RANGE), ("q", GOOD_RANGE)),
         shaped(("p", {"x": GOOD_RANGE["x"], "y": GOOD_RANGE["x"]}),
                ("q", {"y": GOOD_RANGE["x"], "x": GOOD_RANGE["x"]}))],
        [shaped(("p", GOOD_RANGE), ("q", {"y": GOOD_RANGE["x"]})),
         shaped(("p", GOOD_RANGE), ("q", GOOD_RANGE | {"y": GOOD_RANGE["x"]}))],
        "all profiles must name the same inputs"),
    "replicas or scaling": (
        [model(serving__replicas=2), model(serving__scaling=scaled(1, 4)), model()],
        [model(serving={"replicas": 2, "scaling": scaled(1, 4)})],
        "give replicas or scaling, not both"),
    "minReplicas <= maxReplicas": (
        [model(serving__scaling=scaled(4, 4))], [model(serving__scaling=scaled(5, 4))],
        "minReplicas must be at most maxReplicas"),
    "mode MIG and a profile belong together": (
        [model(accelerator={"mode": "MIG", "profile": "1g.10gb"}), model(accelerator={"mode": "GPU"})],
        [model(accelerator={"mode": "MIG"}), model(accelerator={"mode": "GPU", "profile": "1g.10gb"}),
         model(accelerator={"mode": "CPU", "profile": "Auto"})],
        "mode MIG needs profile (for example 1g.10gb, or Auto)"),
    "a profile is written as nvidia-smi writes it": (
        [model(accelerator={"mode": "MIG", "profile": profile}) for profile in (
            "1g.5gb", "1g.10gb+me", "1g.10gb+me.all", "1g.10gb-me", "1g.10gb+gfx", "7g.141gb", "Auto")],
        [model(accelerator={"mode": "MIG", "profile": profile}) for profile in (
            "8g.80gb", "1g.0gb", "1g10gb", "mig-1g.10gb", "1g.10gb.me", "auto", "1g.10GB", "1g.10gb+me+gfx")],
        "profile is a MIG profile such as 1g.10gb or 1g.10gb+me"),
    "a CPU has no TensorRT": (
        [model(build__backend="ONNXRuntime"), model(accelerator={"mode": "GPU"}, build__backend="TensorRT")],
        [model(build__backend="TensorRT"), model(build__backend="TensorRTRTX")],
        "needs build.backend Auto or ONNXRuntime"),
    "steps are for a canary and a canary needs them": (
        [canary(10, 50), model(rollout__strategy="Recreate")],
        [model(rollout={"strategy": "Canary"}),
         model(rollout={"strategy": "RollingUpdate", "steps": [{"weight": 10}]})],
        "strategy Canary needs steps, and only strategy Canary has them"),
    "weights rise": (
        [canary(1), canary(1, 2, 99), canary(*range(1, 11))],
        [canary(10, 10), canary(50, 10), canary(*range(1, 10), 9)],
        "the weights of steps must rise"),
    "Pooled and Canary exclude each other": (
        [model(serving__placement="Pooled")],
        [canary(10).having("spec.serving.placement", "Pooled")],
        "placement Pooled and strategy Canary exclude each other"),
    "vLLM and text generation belong together": (
        [model(**LLM)],
        [model(serving__server="VLLM"), model(source__format="HuggingFace", source__task="TextGeneration")],
        "task TextGeneration needs serving.server: VLLM, and the other way round"),
    "vLLM's options need vLLM": (
        [model(**LLM, serving__vllm={"maxModelLength": 4096})],
        [model(serving__vllm={"maxModelLength": 4096})],
        "vllm options need server: VLLM"),
    "Pooled is for the native server": (
        [model(serving__placement="Pooled")],
        [model(serving={"placement": "Pooled", "server": "Triton"})],
        "placement Pooled needs server: Native"),
    "a batch fits the largest profile": (
        [batched(8, 8), batched(8, 4, 8), model(serving__batching__maxBatchSize=64)],
        [batched(9, 8), batched(9, 4, 8)],
        "batching.maxBatchSize must be at most the largest profile's max"),
    "accelerators are asked for in one place": (
        [model(serving__resources={"requests": {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "1Gi"}})],
        [model(serving__resources={part: {name: "2"}}) for part in ("requests", "limits")
         for name in ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu", "gpu.intel.com/i915")],
        "accelerators are asked for in spec.accelerator only; remove them from resources"),
    "requests are at most limits": (
        [model(serving__resources={"requests": {"cpu": "1000m", "memory": "1Gi"},
                                   "limits": {"cpu": "1", "memory": "1024Mi"}})],
        [model(serving__resources={"requests": {"cpu": "1001m"}, "limits": {"cpu": "1"}}),
         model(serving__resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "1G"}})],
        "requests must be at most limits"),
    "a tenant's name is a label of at most 40 characters": (
        [tenant().having("metadata.name", "a" * 40)],
        [tenant().having("metadata.name", name) for name in ("a" * 41, "9tenant", "a.b")],
        "metadata.name must be a DNS label that starts with a letter, at most 40 characters"),
    "names or a selector": (
        [tenant(), tenant(namespaces={"selector": {"matchLabels": {"team": "a"}}})],
        [tenant(namespaces={}), tenant(namespaces={"names": ["a"], "selector": {}})],
        "give exactly one of names and selector"),
    "system namespaces belong to nobody": (
        [tenant(namespaces={"names": ["kubes", "default"]})],
        [tenant(namespaces={"names": ["team-a", "kube-system"]}), tenant(namespaces={"names": ["enginery-system"]})],
        "system namespaces (kube-*, enginery-system) belong to no tenant"),
    "maxBuild is at most max": (
        [tenant(quota__accelerators=[{"resource": "nvidia.com/gpu", "max": 2, "maxBuild": 2}])],
        [tenant(quota__accelerators=[{"resource": "nvidia.com/gpu", "max": 2, "maxBuild": 3}])],
        "maxBuild must be at most max"),
    "allowed sources end in a slash": (
        [tenant(policy__allowedSources=["s3://models/team-a/"])],
        [tenant(policy__allowedSources=["s3://models/team-a/", "s3://models/team-b"])],
        "every allowed source must end in /, or it allows its siblings"),
    "signatures need keys": (
        [tenant(policy={"signatures": "Require", "trustedKeys": [{"name": "k", "publicKey": KEY}]}),
         tenant(policy={"signatures": "Warn"})],
        [tenant(policy={"signatures": "Require"}), tenant(policy={"signatures": "Require", "trustedKeys": []})],
        "signatures: Require needs trustedKeys"),
    "a prefix is in S3": (
        [tenant(store__prefix="s3://enginery/a/")], [tenant(store__prefix="https://enginery/a/")],
        "write s3://BUCKET/PATH"),
    "a prefix names no host": (
        [tenant(store__prefix="s3://enginery/a:1/")], [tenant(store__prefix="s3://minio:9000/enginery/a/")],
        "a URI names no host"),
    "a prefix ends in a slash": (
        [tenant(store__prefix="s3://enginery/a/")], [tenant(store__prefix="s3://enginery/a")],
        "prefix must end in /"),
}  # fmt: skip

GOOD = {f"{rule}, good {index}": item for rule, (good, _, _) in RULES.items() for index, item in enumerate(good)}
BAD = {
    f"{rule}, bad {index}": (item, advice) for rule, (_, bad, advice) in RULES.items() for index, item in enumerate(bad)
}


@pytest.mark.parametrize("case", GOOD)
def test_what_the_rule_allows_is_accepted(case: str, api: ApiServer) -> None:
    assert api.refusal(GOOD[case].body()) == ""


@pytest.mark.parametrize("case", BAD)
def test_what_the_rule_forbids_is_refused_with_advice(case: str, api: ApiServer) -> None:
    item, advice = BAD[case]
    assert advice in api.refusal(item.body())


BOUNDS: dict[str, tuple[list[AnObject], list[AnObject], str]] = {
    # field: (good, bad, what the refusal names)
    "maxBatchSize": (
        [model(serving__batching__maxBatchSize=1)], [model(serving__batching__maxBatchSize=0)],
        "spec.serving.batching.maxBatchSize"),
    "maxQueueDelayMicroseconds": (
        [model(serving__batching__maxQueueDelayMicroseconds=0)],
        [model(serving__batching__maxQueueDelayMicroseconds=-1),
         model(serving__batching__maxQueueDelayMicroseconds="5s"),
         model(serving__batching__maxQueueDelayMicroseconds=0.5)],
        "spec.serving.batching.maxQueueDelayMicroseconds"),
    "queueTimeoutMilliseconds": (
        [model(serving__batching__queueTimeoutMilliseconds=3_600_000)],
        [model(serving__batching__queueTimeoutMilliseconds="5s"),
         model(serving__batching__queueTimeoutMilliseconds=3_600_001)],
        "spec.serving.batching.queueTimeoutMilliseconds"),
    "priorityLevels": (
        [model(serving__batching__priorityLevels=16)], [model(serving__batching__priorityLevels=17)],
        "spec.serving.batching.priorityLevels"),
    "optimizationLevel": (
        [model(build__optimizationLevel=0), model(build__optimizationLevel=5)],
        [model(build__optimizationLevel=-1), model(build__optimizationLevel=6)], "spec.build.optimizationLevel"),
    "calibration samples": (
        [quantized(calibration=CALIBRATION | {"samples": 100}), quantized(calibration=CALIBRATION | {"samples": 5000})],
        [quantized(calibration=CALIBRATION | {"samples": 99}), quantized(calibration=CALIBRATION | {"samples": 5001})],
        "spec.precision.calibration.samples"),
    "captured percent": (
        [quantized(calibration={"capture": {"percent": 100}})],
        [quantized(calibration={"capture": {"percent": 0}}), quantized(calibration={"capture": {"percent": 101}})],
        "spec.precision.calibration.capture.percent"),
    "maxDegradation is a decimal in a string": (
        [quantized(accuracyGate=GATE | {"maxDegradation": "0"})],
        [quantized(accuracyGate=GATE | {"maxDegradation": value}) for value in ("-0.1", "1e-3", ".5", "1%", 0.01)],
        "spec.precision.accuracyGate.maxDegradation"),
    "weights": ([canary(99)], [canary(0), canary(100)], "spec.rollout.steps[0].weight"),
    "dimensions": (
        [shaped(("p", {"x": ([], [], [])}))],
        [shaped(("p", {"x": ([0], [1], [1])})), shaped(("p", {"x": ([1] * 9, [1] * 9, [1] * 9)}))],
        "spec.shapes.profiles[0].inputs[0]"),
    "profiles": (
        [shaped(*((f"p{n}", GOOD_RANGE) for n in range(8)))],
        [shaped(*((f"p{n}", GOOD_RANGE) for n in range(9))), model(shapes__profiles=[]),
         shaped(("p", GOOD_RANGE), ("p", GOOD_RANGE))],
        "spec.shapes.profiles"),
    "digest": (
        [model(source__digest=f"sha256:{'0' * 64}")],
        [model(source__digest="0" * 64), model(source__digest=f"sha256:{'0' * 63}"),
         model(source__digest=f"sha256:{'A' * 64}")],
        "spec.source.digest"),
    "format": (
        [model(source__format="PyTorchExport")], [model(source__format="onnx"), model(source__format=None)],
        "spec.source.format"),
    "protocols": (
        [model(serving__protocols=["GRPC"])],
        [model(serving__protocols=[]), model(serving__protocols=["HTTP"]), model(serving__protocols=["REST", "REST"])],
        "spec.serving.protocols"),
    "state": ([model(state="Stopped")], [model(state="Paused")], "spec.state"),
    "replicas": (
        [model(serving__replicas=0), model(serving__replicas=1000)],
        [model(serving__replicas=-1), model(serving__replicas=1001)], "spec.serving.replicas"),
    "quantities": (
        [model(serving__resources={"requests": {"cpu": "1500m", "memory": "1.5Gi"}})],
        [model(serving__resources={"requests": {"cpu": value}}) for value in ("-1", "lots", "1 Gi", "")],
        "spec.serving.resources.requests.cpu"),
    "a field that is not there": (
        [model()], [model(serving__batching__maxBatch=8), model(surprise=1)], "unknown field"),
    "a secret of another namespace cannot be named": (
        [model(source__credentialsSecretRef={"name": "mine"})],
        [model(source__credentialsSecretRef={"name": "mine", "namespace": "other"}),
         model(source__credentialsSecretRef={})],
        "spec.source.credentialsSecretRef"),
    "a whole GPU or a profile": (
        [tenant(quota__accelerators=[{"resource": name, "max": 1} for name in (
            "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.me")])],
        [tenant(quota__accelerators=[{"resource": name, "max": 1}]) for name in (
            "cpu", "nvidia.com/gpus", "nvidia.com/mig-8g.10gb", "amd.com/gpu")],
        "spec.quota.accelerators[0].resource"),
    "one quota per resource": (
        [tenant(quota__accelerators=[{"resource": "nvidia.com/gpu", "max": 1}])],
        [tenant(quota__accelerators=[{"resource": "nvidia.com/gpu", "max": 1}] * 2)],
        "spec.quota.accelerators[1]"),
    "public keys": (
        [tenant(store__publicKeys=[KEY])], [tenant(store__publicKeys=["-----BEGIN PRIVATE KEY-----"])],
        "spec.store.publicKeys[0]"),
    "namespaces": (
        [tenant(namespaces={"names": ["a" * 63]})],
        [tenant(namespaces={"names": []}), tenant(namespaces={"names": ["a" * 64]}),
         tenant(namespaces={"names": ["A"]}), tenant(namespaces={"names": ["a", "a"]})],
        "spec.namespaces.names"),
    "stopPolicy": ([tenant(stopPolicy="Hold")], [tenant(stopPolicy="Stop")], "spec.stopPolicy"),
}  # fmt: skip


@pytest.mark.parametrize("field", BOUNDS)
def test_bounds_are_held_and_the_field_is_named(field: str, api: ApiServer) -> None:
    good, bad, name = BOUNDS[field]
    assert [api.refusal(item.body()) for item in good] == [""] * len(good)
    for item in bad:
        assert name in api.refusal(item.body()), item.body()["spec"]


CHANGES: dict[str, tuple[AnObject, dict[str, Any], str]] = {
    "the format stays": (model(), {"spec": {"source": {"format": "HuggingFace"}}}, "format is immutable"),
    "the source may change": (model(), {"spec": {"source": {"uri": "s3://models/other"}}}, ""),
    "the prefix stays": (tenant(), {"spec": {"store": {"prefix": "s3://enginery/other/"}}}, "prefix is immutable"),
    "the namespaces may change": (tenant(), {"spec": {"namespaces": {"names": ["b"]}}}, ""),
}


@pytest.mark.parametrize("sentence", CHANGES)
def test_what_must_not_change_does_not(sentence: str, api: ApiServer, own_namespace: str) -> None:
    item, change, advice = CHANGES[sentence]
    scoped = isinstance(item, AModel)
    body = item.having("metadata.namespace", own_namespace if scoped else None).body()
    if not scoped:
        body["metadata"]["name"] = own_namespace
        body["spec"]["namespaces"] = {"names": [own_namespace]}
        body["spec"]["store"]["prefix"] = f"s3://enginery/tenants/{own_namespace}/"
    api.create(body)
    answer = api.patch(body, change, query="?dryRun=All")
    if not scoped:
        api.call("DELETE", f"/apis/enginery.io/v1alpha1/tenants/{own_namespace}")
    assert (answer.status_code == 200) is (advice == "")
    assert advice in answer.json().get("message", "")


def test_every_rule_of_the_schema_stands_in_the_table() -> None:
    """A rule added without a good and a bad case is noticed."""
    from_schema: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            rules = node.get("x-kubernetes-validations", [])
            from_schema.update(rule["message"] for rule in rules if "oldSelf" not in rule["rule"])
            for inner in node.values():
                collect(inner)
        elif isinstance(node, list):
            for inner in node:
                collect(inner)

    for plural in ("inferencemodels", "tenants"):
        collect(schema_of(plural))
    covered = {message for message in from_schema for _, _, advice in RULES.values() if advice in message}
    assert from_schema - covered == set()
