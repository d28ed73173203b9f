"""The chart as rendered: default and full values, template by template, with the schema that guards them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from enginery_operator.crd import definitions
from enginery_operator.settings import Settings
from support.api_server import ApiServer, helm
from support.golden import assert_golden
from support.pod_security import violations

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[2] / "helm/enginery"
FULL: dict[str, Any] = {
    "images": {
        "operator": {"repository": "registry.example.com/operator", "tag": "2"},
        "builder": {"repository": "registry.example.com/builder", "tag": "3"},
        "builderTensorRT": {"repository": "registry.example.com/builder-tensorrt", "tag": "5"},
        "runtime": {"repository": "registry.example.com/runtime", "tag": "4"},
        "runtimeTensorRT": {"repository": "registry.example.com/runtime-tensorrt", "tag": "6"},
        "runtimeTensorRTRTX": {"repository": "registry.example.com/runtime-tensorrt-rtx"},
        "converters": {"pyTorch": {"repository": "registry.example.com/converter-pytorch", "tag": "7"}},
        "pullPolicy": "Always",
        "pullSecrets": ["one", "two"],
    },
    "replicas": 2,
    "store": {
        "endpoint": "https://s3.example.com",
        "region": "eu-west-1",
        "addressing": "Path",
        "checksums": "WhenSupported",
        "caBundle": "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
        "credentialsSecretName": "",
    },
    "tenancy": {"required": False, "defaultPrefix": "s3://enginery/untenanted/"},
    "watchNamespaces": ["team-a", "team-b"],
    "config": {"workers": 3, "logLevel": "DEBUG", "jobs": {"ttlSeconds": 60}, "lease": {"durationSeconds": 30}},
    "serviceAccount": {"create": True, "name": "mine", "annotations": {"role": "arn:x"}},
    "metrics": {
        "service": {"enabled": True, "port": 9090, "annotations": {"scrape": "yes"}},
        "serviceMonitor": {"enabled": True},
    },
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"note": "a"},
    "podLabels": {"team": "platform"},
}

Objects = dict[tuple[str, str], dict[str, Any]]
Render = Callable[[dict[str, Any]], Objects]


@pytest.fixture(scope="module")
def render(api: ApiServer) -> Render:
    """Rendered objects by (kind, name)."""
    kept: dict[str, Objects] = {}

    def rendered(values: dict[str, Any]) -> Objects:
        key = json.dumps(values)
        if key not in kept:
            done = helm(api, "template", "enginery", str(CHART), "--namespace", "enginery-system", "-f", "-", given=key)
            assert done.returncode == 0, done.stderr
            found = [item for item in yaml.safe_load_all(done.stdout) if item]
            kept[key] = {(item["kind"], item["metadata"]["name"]): item for item in found}
        return kept[key]

    return rendered


def without_crds(objects: Objects) -> Objects:
    return {key: item for key, item in objects.items() if key[0] != "CustomResourceDefinition"}


def pod_of(objects: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = objects["Deployment", "enginery"]["spec"]["template"]["spec"]
    return spec


def settings_of(objects: Objects) -> Settings:
    return Settings.model_validate(yaml.safe_load(objects["ConfigMap", "enginery"]["data"]["config.yaml"]))


def test_helm_finds_nothing_to_complain_about(api: ApiServer) -> None:
    for values in ({}, FULL):
        done = helm(api, "lint", "--strict", str(CHART), "-f", "-", given=json.dumps(values))
        assert done.returncode == 0, done.stdout + done.stderr


def test_default_values_render_what_somebody_has_read(render: Render) -> None:
    text = yaml.safe_dump_all(without_crds(render({})).values(), sort_keys=False, width=120)
    assert_golden("chart/default.yaml", text)


@pytest.mark.parametrize("values", [{}, FULL], ids=["default", "full"])
def test_objects_follow_the_apis_schema_to_the_letter(values: dict[str, Any], render: Render) -> None:
    for (kind, name), item in render(values).items():
        if kind not in {"ServiceMonitor", "CustomResourceDefinition"}:
            kubernetes_validate.validate(item, "1.36", strict=True)
        assert name, kind


@pytest.mark.parametrize("values", [{}, FULL], ids=["default", "full"])
def test_every_object_says_whose_it_is(values: dict[str, Any], render: Render) -> None:
    for (kind, _), item in without_crds(render(values)).items():
        assert item["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert item["metadata"]["labels"]["app.kubernetes.io/instance"] == "enginery"
        cluster_scoped = kind in {"ClusterRole", "ClusterRoleBinding"}
        assert ("namespace" in item["metadata"]) is not cluster_scoped


@pytest.mark.parametrize("values", [{}, FULL], ids=["default", "full"])
def test_the_operators_pod_is_restricted(values: dict[str, Any], render: Render) -> None:
    assert violations(pod_of(render(values))) == []


def test_default_settings_are_the_operators_own(render: Render) -> None:
    found = settings_of(render({}))
    images = {"builder": "enginery/builder:0.1.0", "runtime": "enginery/runtime:0.1.0"}
    assert found == Settings.model_validate({"namespace": "enginery-system", "images": images})


def test_full_settings_reach_the_operator(render: Render) -> None:
    found = settings_of(render(FULL))
    assert found.images.builder == "registry.example.com/builder:3"
    assert found.images.builder_tensorrt == "registry.example.com/builder-tensorrt:5"
    assert found.images.runtime == "registry.example.com/runtime:4"
    assert found.images.runtime_tensorrt == "registry.example.com/runtime-tensorrt:6"
    assert found.images.runtime_tensorrt_rtx == "registry.example.com/runtime-tensorrt-rtx:0.1.0"
    assert (found.images.converters.pytorch, found.images.converters.tensorflow) == (
        "registry.example.com/converter-pytorch:7",
        "",
    )
    assert (found.images.pull_policy, found.images.pull_secrets) == ("Always", ("one", "two"))
    assert found.store.endpoint == "https://s3.example.com"
    assert (found.store.region, found.store.addressing, found.store.checksums) == ("eu-west-1", "Path", "WhenSupported")
    assert found.store.ca_bundle == FULL["store"]["caBundle"]
    assert (found.tenancy.required, found.tenancy.default_prefix) == (False, "s3://enginery/untenanted/")
    assert found.watch_namespaces == ("team-a", "team-b")
    assert (found.workers, found.log_level, found.jobs.ttl_seconds, found.lease.duration_seconds) == (
        3,
        "DEBUG",
        60,
        30,
    )


def test_full_values_reach_the_pod(render: Render) -> None:
    objects = render(FULL)
    deployment, pod = objects["Deployment", "enginery"], pod_of(objects)
    assert deployment["spec"]["replicas"] == 2
    assert pod["containers"][0]["image"] == "registry.example.com/operator:2"
    assert pod["containers"][0]["imagePullPolicy"] == "Always"
    assert pod["containers"][0]["resources"] == FULL["resources"]
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert pod["serviceAccountName"] == "mine"
    for name in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert pod[name] == FULL[name]
    template = deployment["spec"]["template"]["metadata"]
    assert template["annotations"]["note"] == "a"
    assert template["labels"]["team"] == "platform"
    assert "team" not in deployment["spec"]["selector"]["matchLabels"]


def test_without_a_secret_the_sdk_finds_its_own_credentials(render: Render) -> None:
    store = next(item for item in pod_of(render(FULL))["volumes"] if item["name"] == "store")
    assert store == {"name": "store", "emptyDir": {}}
    store = next(item for item in pod_of(render({}))["volumes"] if item["name"] == "store")
    assert store["secret"] == {"secretName": "enginery-operator-store", "optional": True, "defaultMode": 0o440}


def test_a_new_setting_restarts_the_operator(render: Render) -> None:
    def mark(values: dict[str, Any]) -> str:
        template = render(values)["Deployment", "enginery"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert mark({}) == mark({"replicas": 2})
    assert mark({}) != mark({"config": {"workers": 3}})


def test_ports_probes_and_the_service_meet(render: Render) -> None:
    objects = render(FULL)
    container = pod_of(objects)["containers"][0]
    assert container["ports"] == [{"name": "metrics", "containerPort": settings_of(objects).http_port}]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "metrics"
    service = objects["Service", "enginery-metrics"]["spec"]
    assert service["ports"] == [{"name": "metrics", "port": 9090, "targetPort": "metrics"}]
    labels = objects["Deployment", "enginery"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    monitor = objects["ServiceMonitor", "enginery"]["spec"]
    assert (
        monitor["selector"]["matchLabels"].items()
        <= objects["Service", "enginery-metrics"]["metadata"]["labels"].items()
    )
    assert monitor["endpoints"] == [{"port": "metrics"}]


def test_the_metrics_service_can_be_left_out(render: Render) -> None:
    objects = render({"metrics": {"service": {"enabled": False}}})
    assert not [kind for kind, _ in objects if kind in {"Service", "ServiceMonitor"}]


def test_no_role_and_no_account_where_they_are_made_by_others(render: Render) -> None:
    objects = render({"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "theirs"}})
    assert {kind for kind, _ in without_crds(objects)} == {"ConfigMap", "Deployment", "Service"}
    assert pod_of(objects)["serviceAccountName"] == "theirs"


def test_crds_come_with_the_release_and_stay_when_it_goes(render: Render) -> None:
    for name, crd in definitions().items():
        found = render({})["CustomResourceDefinition", crd["metadata"]["name"]]
        assert found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert found["spec"] == crd["spec"], name


def test_crds_can_be_left_to_others(render: Render) -> None:
    assert not [kind for kind, _ in render({"crds": {"enabled": False}}) if kind == "CustomResourceDefinition"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"replica": 2}, "replica"),
    "an unknown key of images": ({"images": {"builder": {"repo": "x"}}}, "repo"),
    "an unknown key of converters": ({"images": {"converters": {"tensorflow": {}}}}, "tensorflow"),
    "an unknown key of the store": ({"store": {"endpont": "x"}}, "endpont"),
    "an unknown key of tenancy": ({"tenancy": {"require": True}}, "require"),
    "an unknown setting": ({"config": {"worker": 2}}, "worker"),
    "an unknown setting of Jobs": ({"config": {"jobs": {"ttl": 2}}}, "ttl"),
    "an unknown setting of the Lease": ({"config": {"lease": {"seconds": 2}}}, "seconds"),
    "an unknown key of CRDs": ({"crds": {"enable": True}}, "enable"),
    "an unknown key of the account": ({"serviceAccount": {"nam": "x"}}, "nam"),
    "an unknown key of roles": ({"rbac": {"crate": True}}, "crate"),
    "an unknown key of metrics": ({"metrics": {"servce": {}}}, "servce"),
    "text for a number": ({"replicas": "two"}, "replicas"),
    "a policy nobody has": ({"images": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    "an endpoint that is no URL": ({"store": {"endpoint": "s3.example.com"}}, "endpoint"),
    "a prefix without its slash": ({"tenancy": {"defaultPrefix": "s3://enginery/x"}}, "defaultPrefix"),
    "a namespace twice": ({"watchNamespaces": ["a", "a"]}, "watchNamespaces"),
    "too many workers": ({"config": {"workers": 65}}, "workers"),
    "a namespace in the settings beside watchNamespaces": ({"config": {"watchNamespaces": ["a"]}}, "watchNamespaces"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_values_are_refused_with_their_key(sentence: str, api: ApiServer) -> None:
    values, key = WRONG[sentence]
    done = helm(api, "template", "enginery", str(CHART), "-f", "-", given=json.dumps(values))
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert key in done.stderr


def test_every_object_of_the_schema_is_closed() -> None:
    document = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(document["properties"]) - {"global"} == set(values)

    def opened(node: dict[str, Any], path: str) -> list[str]:
        here = [path] if node.get("properties") and node.get("additionalProperties") is not False else []
        return here + [
            item for name, inner in node.get("properties", {}).items() for item in opened(inner, f"{path}.{name}")
        ]

    assert opened(document, "") == []


def test_every_value_is_explained() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    top = [index for index, line in enumerate(lines) if line and not line.startswith((" ", "#"))]
    assert top
    plain = {"resources", "nodeSelector", "tolerations", "affinity", "priorityClassName", "podAnnotations",
             "podLabels", "serviceAccount", "rbac", "metrics", "crds"}  # fmt: skip
    bare = [lines[i].partition(":")[0] for i in top if not lines[i - 1].startswith("#")]
    assert set(bare) <= plain
