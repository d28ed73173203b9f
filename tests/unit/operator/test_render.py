"""Every object the operator makes: golden files, the API's own schema, pod security, and what rolls pods."""

import json
from typing import Any

import kubernetes_validate
import pytest
import yaml
from enginery_operator import keys
from enginery_operator.decide.seen import EngineSeen
from enginery_operator.render import labels
from enginery_operator.render.deployment import deployment
from enginery_operator.render.job import build_job, prepare_job
from enginery_operator.render.service import service, urls
from enginery_operator.settings import Jobs, Settings
from enginery_operator.targets import matching
from enginery_store.reasons import FINAL_REASONS, Reason
from enginery_store.requests import EXIT_CODES, BuildRequest, PrepareRequest, ServeRequest, StoreAccess
from support.api_objects import AModel, ATenant, a_model, a_tenant
from support.golden import assert_golden
from support.installation import A10, H100, H200, IMAGES, L40S, a_node, some_offers, some_settings
from support.observed import FINGERPRINT, PREPARED
from support.pod_security import violations

VERSION = "1.36"
KEY = "0123456789abcdef" * 4
REVISION = "resnet50-12345678"
FULL_TENANT = (
    a_tenant()
    .having("spec.scheduling", {
        "priorityClassName": "tenants", "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]})
    .having("spec.store.publicKeys", ["-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n"])
)  # fmt: skip
FULL_MODEL = (
    a_model()
    .with_mig("1g.10gb")
    .with_gate()
    .with_profile()
    .with_replicas(3)
    .having("spec.source.credentialsSecretRef", {"name": "mine"})
    .having("spec.serving.batching", {
        "maxBatchSize": 8, "maxQueueDelayMicroseconds": 500, "preferredBatchSizes": [4, 8],
        "queueTimeoutMilliseconds": 1000, "priorityLevels": 2})
    .having("spec.serving.warmup.requests", 5)
    .having("spec.serving.protocols", ["REST"])
    .having("spec.serving.resources", {
        "requests": {"cpu": "2500m", "memory": "4Gi", "ephemeral-storage": "10Gi"}, "limits": {"memory": "8Gi"}})
    .having("spec.rollout.progressDeadlineSeconds", 120)
    .having("spec.build", {"backoffLimit": 5, "timeoutSeconds": 900, "workspaceMiB": 2048, "optimizationLevel": 4})
)  # fmt: skip
FULL_SETTINGS = Settings(
    namespace="enginery-system",
    images=IMAGES.model_copy(update={"pull_secrets": ("pull",)}),
    store=StoreAccess(endpoint="https://s3.example.com", ca_bundle="-----BEGIN CERTIFICATE-----"),
    jobs=Jobs(ttl_seconds=60, cpu_limit="4"),
)


CONVERTED_MODEL = (
    a_model()
    .with_gpu()
    .with_gate()
    .having("spec.source", {
        "format": "PyTorchExport", "uri": "s3://models/team-a/net.pt2", "credentialsSecretRef": {"name": "mine"}})
    .having("spec.precision.type", "INT8")
    .having("spec.precision.calibration", {"uri": "s3://models/team-a/calibration/"})
    .having("spec.build.backend", "TensorRTRTX")
)  # fmt: skip


def children(model: AModel, tenant: ATenant, settings: Settings) -> dict[str, dict[str, Any]]:
    """Everything made for one model."""
    parsed, owner = model.build(), tenant.build()
    offers = matching(parsed.spec.accelerator, some_offers(a_node(), H100, H200, A10, L40S))
    engines = tuple(EngineSeen(offer, KEY) for offer in offers)
    precision = keys.precision_ref(parsed, parsed.spec.precision.type)
    return {
        "prepare-job": prepare_job(
            parsed, owner, settings, key=KEY, precision=precision, attempt=1, revision=REVISION,
            fingerprint=FINGERPRINT),
        "build-job": build_job(
            parsed, owner, settings, engine=engines[0], prepared=PREPARED, precision=precision, attempt=3,
            revision=REVISION),
        "deployment": deployment(parsed, owner, settings, engines=engines, revision=REVISION, replicas=3),
        "service": service(parsed, owner, REVISION),
    }  # fmt: skip


SMALL = children(a_model(), a_tenant(), some_settings())
FULL = children(FULL_MODEL, FULL_TENANT, FULL_SETTINGS)
CONVERTED = children(CONVERTED_MODEL, a_tenant(), some_settings())
EVERY = {
    f"{size}/{name}": item
    for size, found in (("cpu", SMALL), ("mig", FULL), ("rtx", CONVERTED))
    for name, item in found.items()
}
PODS = {name: item for name, item in EVERY.items() if not name.endswith("service")}


def pod_of(item: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = item["spec"]["template"]["spec"]
    return spec


def request_of(item: dict[str, Any]) -> str:
    environment = pod_of(item)["containers"][0]["env"]
    return str(next(entry["value"] for entry in environment if entry["name"] == "ENGINERY_REQUEST"))


@pytest.mark.parametrize("name", EVERY)
def test_objects_are_as_somebody_has_read_them(name: str) -> None:
    readable = json.loads(json.dumps(EVERY[name]))
    if name in PODS:
        pod = pod_of(readable)
        for entry in [entry for item in (*pod.get("initContainers", []), *pod["containers"]) for entry in item["env"]]:
            if entry["name"] == "ENGINERY_REQUEST":
                entry["value"] = json.loads(entry["value"])
    assert_golden(f"render/{name}.yaml", yaml.safe_dump(readable, sort_keys=False, width=120))


@pytest.mark.parametrize("name", EVERY)
def test_objects_follow_the_apis_schema_to_the_letter(name: str) -> None:
    kubernetes_validate.validate(EVERY[name], VERSION, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_pods_are_restricted(name: str) -> None:
    assert violations(pod_of(PODS[name])) == []


@pytest.mark.parametrize("name", PODS)
def test_pods_have_no_token_and_no_links_to_services(name: str) -> None:
    pod = pod_of(PODS[name])
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert "serviceAccountName" not in pod


@pytest.mark.parametrize("name", PODS)
def test_secrets_are_mounted_read_only_and_named_by_the_tenant(name: str) -> None:
    pod = pod_of(PODS[name])
    secrets = {item["name"]: item["secret"] for item in pod["volumes"] if "secret" in item}
    mounts = {item["name"]: item for item in pod["containers"][0]["volumeMounts"]}
    assert all(mounts[name]["readOnly"] for name in secrets)
    wanted = "enginery-runtime" if name.endswith("deployment") else "enginery-builder"
    assert secrets["store"] == {"secretName": wanted, "optional": True, "defaultMode": 0o440}


def test_a_runtime_never_sees_the_builders_or_the_sources_credentials() -> None:
    text = json.dumps(FULL["deployment"])
    assert "enginery-builder" not in text
    assert '"mine"' not in text


@pytest.mark.parametrize("name", PODS)
def test_extended_resources_are_one_slice_requested_and_limited(name: str) -> None:
    resources = pod_of(PODS[name])["containers"][0]["resources"]
    slices = [
        {key: value for key, value in resources[part].items() if key.startswith("nvidia.com/")}
        for part in ("requests", "limits")
    ]
    want = {
        "mig/build-job": {"nvidia.com/mig-1g.10gb": "1"},
        "mig/deployment": {"nvidia.com/mig-1g.10gb": "1"},
        "rtx/deployment": {"nvidia.com/gpu": "1"},
    }.get(name, {})
    assert slices == [want, want]


def test_prepare_needs_no_device_and_no_special_node() -> None:
    assert "affinity" not in pod_of(FULL["prepare-job"])
    assert pod_of(FULL["build-job"])["affinity"]["nodeAffinity"]


def test_an_engine_for_rtx_is_compiled_on_a_cpu_and_served_on_its_gpu() -> None:
    build, serve = pod_of(CONVERTED["build-job"]), pod_of(CONVERTED["deployment"])
    placed = build["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert placed == [{"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}]
    assert "nvidia.com/gpu" not in json.dumps(build["containers"][0]["resources"])
    assert build["containers"][0]["image"] == IMAGES.builder
    order = BuildRequest.model_validate_json(request_of(CONVERTED["build-job"]))
    assert (order.backend, order.backend_version) == ("TensorRTRTX", "1.7.1")
    assert (order.target.product, order.target.compute_capability) == ("NVIDIA-A10", "8.6")
    assert serve["containers"][0]["image"] == IMAGES.runtime_tensorrt_rtx
    assert serve["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    products = [
        rule["values"][0]
        for term in serve["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        for rule in term["matchExpressions"]
    ]
    assert products == ["NVIDIA-A10", "NVIDIA-L40S"]


def test_images_are_those_of_the_backend() -> None:
    found = {name: pod_of(item)["containers"][0]["image"] for name, item in PODS.items()}
    assert found == {
        "cpu/prepare-job": IMAGES.builder,
        "cpu/build-job": IMAGES.builder,
        "cpu/deployment": IMAGES.runtime,
        "mig/prepare-job": IMAGES.builder,
        "mig/build-job": IMAGES.builder_tensorrt,
        "mig/deployment": IMAGES.runtime_tensorrt,
        "rtx/prepare-job": IMAGES.builder,
        "rtx/build-job": IMAGES.builder,
        "rtx/deployment": IMAGES.runtime_tensorrt_rtx,
    }


def test_a_framework_that_converts_sees_neither_credentials_nor_what_was_noted_of_the_source() -> None:
    pod = pod_of(CONVERTED["prepare-job"])
    fetch, convert = pod["initContainers"]
    (builder,) = pod["containers"]
    assert [(item["name"], item.get("args")) for item in (fetch, convert, builder)] == [
        ("fetch", ["fetch"]), ("convert", None), ("builder", ["prepare"])]  # fmt: skip
    assert (fetch["image"], convert["image"]) == (IMAGES.builder, IMAGES.converters.pytorch)
    assert fetch["volumeMounts"] == builder["volumeMounts"]
    assert {item["name"] for item in builder["volumeMounts"]} == {"work", "tmp", "store", "source"}
    assert convert["volumeMounts"] == [
        {"name": "work", "mountPath": "/var/lib/enginery/source", "subPath": "source", "readOnly": True},
        {"name": "work", "mountPath": "/var/lib/enginery/converted", "subPath": "converted"},
        {"name": "convert-tmp", "mountPath": "/tmp"},
    ]
    assert len({json.dumps(item["env"]) for item in (fetch, convert, builder)}) == 1
    assert pod["activeDeadlineSeconds"] == 3 * 1800 + 600  # each of the three may take the request's time


@pytest.mark.parametrize("source_format", ["TensorFlowSavedModel", "PyTorchExport", "HuggingFace"])
def test_every_format_but_onnx_is_converted_by_its_framework(source_format: str) -> None:
    model = a_model().having("spec.source.format", source_format)
    pod = pod_of(children(model, a_tenant(), some_settings())["prepare-job"])
    want = IMAGES.converters.tensorflow if source_format == "TensorFlowSavedModel" else IMAGES.converters.pytorch
    assert pod["initContainers"][1]["image"] == want
    assert "initContainers" not in pod_of(SMALL["prepare-job"])


@pytest.mark.parametrize("name", PODS)
def test_placement_stands_exactly_once_in_every_pod(name: str) -> None:
    pod = pod_of(PODS[name])
    found = {key: pod.get(key) for key in ("nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets")}
    full = {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "tenants",
        "imagePullSecrets": [{"name": "pull"}],
    }
    assert found == (full if name.startswith("mig/") else dict.fromkeys(full))


@pytest.mark.parametrize("name", ["cpu/prepare-job", "mig/build-job", "rtx/prepare-job"])
def test_jobs_ignore_disruptions_fail_on_final_codes_and_count_the_rest(name: str) -> None:
    spec = EVERY[name]["spec"]
    assert spec["podFailurePolicy"]["rules"][0] == {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }
    rules, pod = spec["podFailurePolicy"]["rules"][1:], spec["template"]["spec"]
    final = {code for reason, code in EXIT_CODES.items() if reason in FINAL_REASONS}
    assert not {0, 1, 137, 143, EXIT_CODES[Reason.STORE_UNAVAILABLE], EXIT_CODES[Reason.DEVICE_UNAVAILABLE]} & final
    for rule in rules:
        assert (rule["action"], rule["onExitCodes"]["operator"]) == ("FailJob", "In")
        assert set(rule["onExitCodes"]["values"]) == final
    names = [item["name"] for item in (*pod.get("initContainers", []), *pod["containers"])]
    assert [rule["onExitCodes"]["containerName"] for rule in rules] == names
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["podReplacementPolicy"] == "Failed"


def test_a_builds_own_time_out_comes_before_the_kubelets() -> None:
    request = BuildRequest.model_validate_json(request_of(FULL["build-job"]))
    assert request.timeout_seconds == 900
    assert pod_of(FULL["build-job"])["activeDeadlineSeconds"] == 900 + 600
    assert "activeDeadlineSeconds" not in FULL["build-job"]["spec"]  # a queue's time would count against it


def test_requests_are_documents_of_the_contract() -> None:
    prepare = PrepareRequest.model_validate_json(request_of(FULL["prepare-job"]))
    build = BuildRequest.model_validate_json(request_of(FULL["build-job"]))
    serve = ServeRequest.model_validate_json(request_of(FULL["deployment"]))
    assert (prepare.key, build.key) == (KEY, KEY)
    assert prepare.source.fingerprint == FINGERPRINT
    assert build.prepared_key == PREPARED
    assert build.evaluation is not None
    assert (build.options.workspace_mib, build.options.optimization_level) == (2048, 4)
    assert serve.threads == 3
    assert len(serve.public_keys) == 1
    assert [engine.target.mig_profile for engine in serve.engines] == ["1g.10gb"]


SERVING: dict[str, tuple[str, Any, Any]] = {
    # field of spec.serving: (path, another value, where it must show: a path in the request, or None for the pod)
    "batching.maxBatchSize": ("batching.maxBatchSize", 4, ("batching", "maxBatchSize")),
    "batching.maxQueueDelayMicroseconds": (
        "batching.maxQueueDelayMicroseconds", 9, ("batching", "maxQueueDelayMicroseconds")),
    "batching.preferredBatchSizes": ("batching.preferredBatchSizes", [2], ("batching", "preferredBatchSizes")),
    "batching.queueTimeoutMilliseconds": (
        "batching.queueTimeoutMilliseconds", 7, ("batching", "queueTimeoutMilliseconds")),
    "batching.priorityLevels": ("batching.priorityLevels", 3, ("batching", "priorityLevels")),
    "warmup.requests": ("warmup.requests", 77, ("warmupRequests",)),
    "protocols": ("protocols", ["GRPC"], ("protocols",)),
}  # fmt: skip


@pytest.mark.parametrize("field", SERVING)
def test_every_tuning_field_reaches_the_runtime(field: str) -> None:
    path, value, where = SERVING[field]
    changed = children(FULL_MODEL.having(f"spec.serving.{path}", value), FULL_TENANT, FULL_SETTINGS)
    found: Any = json.loads(request_of(changed["deployment"]))
    for name in where:
        found = found[name]
    assert found == value


def test_resources_show_in_the_pod() -> None:
    resources = pod_of(FULL["deployment"])["containers"][0]["resources"]
    assert resources["requests"] | {"nvidia.com/mig-1g.10gb": "1"} == resources["requests"]
    assert resources["requests"]["cpu"] == "2500m"
    assert resources["requests"]["ephemeral-storage"] == "10Gi"
    assert resources["limits"] == {"memory": "8Gi", "nvidia.com/mig-1g.10gb": "1"}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (None, {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}),
        (
            {"requests": {"memory": "3Gi"}},
            {"requests": {"cpu": "1", "memory": "3Gi"}, "limits": {"memory": "3Gi"}},
        ),
        (
            {"limits": {"cpu": "4", "memory": "3Gi"}},
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "3Gi"}},
        ),
    ],
)
def test_memory_is_limited_to_its_request(given: Any, want: Any) -> None:
    found = children(a_model().having("spec.serving.resources", given), a_tenant(), some_settings())["deployment"]
    assert pod_of(found)["containers"][0]["resources"] == want


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"limits": {"cpu": "500m"}}, ("500m", "1Gi")),
        ({"limits": {"memory": "512Mi"}}, ("1", "512Mi")),
    ],
)
def test_a_limit_below_our_default_request_lowers_the_request(given: Any, want: tuple[str, str]) -> None:
    """The API server refuses a request above its limit."""
    found = children(a_model().having("spec.serving.resources", given), a_tenant(), some_settings())["deployment"]
    requests = pod_of(found)["containers"][0]["resources"]["requests"]
    assert (requests["cpu"], requests["memory"]) == want


@pytest.mark.parametrize(("cpu", "want"), [("1", 1), ("100m", 1), ("1500m", 2), ("2", 2), ("2.5", 3), ("1k", 1000)])
def test_threads_are_the_requested_cpus_rounded_up(cpu: str, want: int) -> None:
    model = a_model().having("spec.serving.resources", {"requests": {"cpu": cpu}})
    found = children(model, a_tenant(), some_settings())["deployment"]
    assert json.loads(request_of(found))["threads"] == want


def with_images(**changes: str) -> Settings:
    return some_settings().model_copy(update={"images": IMAGES.model_copy(update=changes)})


ROLLS: dict[str, tuple[AModel, ATenant, Settings, bool]] = {
    # input that changed: (model, tenant, settings, whether pods roll)
    "the engine": (a_model(), a_tenant(), some_settings(), True),
    "the runtime image": (
        a_model(), a_tenant(), with_images(runtime="enginery/runtime:2"), True),
    "the image of a runtime for GPUs": (
        a_model(), a_tenant(), with_images(runtime_tensorrt="enginery/runtime-tensorrt:2"), False),
    "batching": (
        a_model().having("spec.serving.batching.maxBatchSize", 2), a_tenant(), some_settings(), True),
    "the store's endpoint": (
        a_model(), a_tenant(), some_settings(store=StoreAccess(endpoint="https://s3.example.com")), True),
    "keys that manifests are signed with": (a_model(), FULL_TENANT, some_settings(), True),
    "the builder image": (
        a_model(), a_tenant(), with_images(builder="enginery/builder:2"), False),
    "the operator's log level": (a_model(), a_tenant(), some_settings(log_level="DEBUG"), False),
    "the operator's workers and resync": (a_model(), a_tenant(), some_settings(workers=2, resync_seconds=9), False),
    "how Jobs run": (a_model(), a_tenant(), some_settings(jobs=Jobs(cpu_limit="9")), False),
    "the tenant's quota": (a_model(), a_tenant().having("spec.quota", {"models": 2}), some_settings(), False),
    "the tenant's display name": (a_model(), a_tenant().having("spec.displayName", "A"), some_settings(), False),
    "the tenant's stop policy": (a_model(), a_tenant().having("spec.stopPolicy", "Hold"), some_settings(), False),
    "replicas": (a_model().with_replicas(7), a_tenant(), some_settings(), False),
    "labels of the model": (a_model().having("metadata.labels", {"a": "b"}), a_tenant(), some_settings(), False),
    "annotations of the model": (
        a_model().having("metadata.annotations", {"a": "b"}), a_tenant(), some_settings(), False),
    "the rollout's deadline": (
        a_model().having("spec.rollout.progressDeadlineSeconds", 77), a_tenant(), some_settings(), False),
    "retention": (a_model().having("spec.build.retainRevisions", 9), a_tenant(), some_settings(), False),
}  # fmt: skip


@pytest.mark.parametrize("what", ROLLS)
def test_pods_roll_for_what_changes_them_and_for_nothing_else(what: str) -> None:
    model, tenant, settings, want = ROLLS[what]
    found = children(model, tenant, settings)["deployment"]
    if what == "the engine":
        engines = tuple(EngineSeen(offer, "f" * 64) for offer in some_offers(a_node()))
        found = deployment(model.build(), tenant.build(), settings, engines=engines, revision=REVISION, replicas=3)
    before, after = SMALL["deployment"]["spec"]["template"], found["spec"]["template"]
    assert (json.dumps(before) != json.dumps(after)) is want


def test_selectors_hold_only_model_revision_and_component() -> None:
    want = {labels.MODEL: "resnet50", labels.REVISION: REVISION, labels.COMPONENT: "runtime"}
    assert SMALL["deployment"]["spec"]["selector"]["matchLabels"] == want
    assert SMALL["service"]["spec"]["selector"] == want
    assert want.items() <= SMALL["deployment"]["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("name", EVERY)
def test_children_go_with_their_model(name: str) -> None:
    metadata = EVERY[name]["metadata"]
    owner = metadata["ownerReferences"][0]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("model-uid", True, False)
    assert metadata["namespace"] == "team-a"
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "enginery"
    assert "finalizers" not in metadata
    assert "annotations" not in metadata


def test_every_name_and_label_value_of_the_longest_model_is_legal() -> None:
    model = FULL_MODEL.named("a" * 40, "n" * 63)
    tenant = a_tenant("t" * 40, "n" * 63)
    for item in children(model, tenant, FULL_SETTINGS).values():
        assert len(item["metadata"]["name"]) <= 63
        marks = [item["metadata"]["labels"], item["spec"].get("template", {}).get("metadata", {}).get("labels", {})]
        assert all(len(value) <= 63 for found in marks for value in found.values())


def test_addresses_are_those_of_the_protocols_served() -> None:
    assert urls(a_model().build()) == {
        "REST": "http://resnet50.team-a.svc:8000",
        "GRPC": "grpc://resnet50.team-a.svc:8001",
    }
    assert list(urls(FULL_MODEL.build())) == ["REST"]


def test_rendering_is_deterministic() -> None:
    again = children(FULL_MODEL, FULL_TENANT, FULL_SETTINGS)
    assert json.dumps(again) == json.dumps(FULL)
