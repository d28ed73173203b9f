"""Which tenant a namespace belongs to, and what is said of a Tenant."""

import pytest
from enginery_operator import tenancy
from enginery_operator.api.tenant import Namespaces, Tenant
from enginery_operator.cache import Cache
from enginery_operator.decide.seen import Trouble
from enginery_operator.settings import Settings, Tenancy
from enginery_store.reasons import Reason
from support.api_objects import ATenant, a_model, a_tenant, ago, stamp
from support.installation import a_cache, some_settings

SETTINGS = some_settings()
NAMESPACES = {"team-a": {"team": "a"}, "team-a-dev": {"team": "a", "env": "dev"}, "kube-system": {}, "other": {}}


def by_selector(name: str, **selector: object) -> ATenant:
    return a_tenant(name).having("spec.namespaces", {"selector": selector})


def younger(tenant: ATenant) -> ATenant:
    return tenant.having("metadata.creationTimestamp", stamp(ago(60)))


def expression(operator: str, *values: str, key: str = "env") -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


CLAIMS: dict[str, tuple[dict[str, object], list[str]]] = {
    "by name": ({"names": ["team-a"]}, ["team-a"]),
    "by several names": ({"names": ["team-a", "other"]}, ["other", "team-a"]),
    "by a label": ({"selector": {"matchLabels": {"team": "a"}}}, ["team-a", "team-a-dev"]),
    "by two labels": ({"selector": {"matchLabels": {"team": "a", "env": "dev"}}}, ["team-a-dev"]),
    "In": ({"selector": expression("In", "dev", "prod")}, ["team-a-dev"]),
    "NotIn takes those without the label": ({"selector": expression("NotIn", "dev")}, ["other", "team-a"]),
    "Exists": ({"selector": expression("Exists")}, ["team-a-dev"]),
    "DoesNotExist": ({"selector": expression("DoesNotExist", key="team")}, ["other"]),
    "an empty selector takes all but those of the system": ({"selector": {}}, ["other", "team-a", "team-a-dev"]),
}


@pytest.mark.parametrize("sentence", CLAIMS)
def test_namespaces_are_claimed_as_kubernetes_selects(sentence: str) -> None:
    spec, want = CLAIMS[sentence]
    every = NAMESPACES | {"enginery-system": {}}
    wanted = Namespaces.model_validate(spec)
    assert sorted(name for name, labels in every.items() if tenancy.claims(wanted, name, labels)) == want


PLACES = {
    # location: whether it is, or holds, something of team-b
    "s3://enginery/tenants/team-b/": True,
    "s3://enginery//tenants/team-b/engines/m.onnx": True,
    "s3://enginery/tenants/": True,
    "s3://enginery/": True,
    "s3://enginery/tenants/team-b-dev/": False,
    "s3://enginery/tenants/team-a/": False,
    "s3://models/": False,
}


@pytest.mark.parametrize("uri", PLACES)
def test_a_location_around_another_tenants_part_is_as_foreign_as_one_in_it(uri: str) -> None:
    cache = a_cache(tenants=(a_tenant(), a_tenant("team-b")))
    assert tenancy.in_foreign_prefix(a_tenant().build(), uri, cache) is PLACES[uri]


def test_the_older_of_two_tenants_has_the_namespace() -> None:
    new = younger(a_tenant("aaa", "team-a"))
    cache = a_cache(tenants=(new, a_tenant("team-a")), namespaces=NAMESPACES)
    found = tenancy.tenant_of("team-a", cache, SETTINGS)
    assert found is not None
    assert found.name == "team-a"


def test_equal_ages_are_decided_by_name() -> None:
    cache = a_cache(tenants=(a_tenant("zzz", "x"), a_tenant("aaa", "x")), namespaces={"x": {}})
    found = tenancy.tenant_of("x", cache, SETTINGS)
    assert found is not None
    assert found.name == "aaa"


def test_a_namespace_of_nobody_has_no_tenant() -> None:
    assert tenancy.tenant_of("other", a_cache(tenants=(a_tenant(),), namespaces=NAMESPACES), SETTINGS) is None


def test_without_required_tenancy_a_stand_in_has_a_folder_of_its_own() -> None:
    settings = some_settings(tenancy=Tenancy(required=False, default_prefix="s3://enginery/untenanted/"))
    found = tenancy.tenant_of("other", a_cache(namespaces=NAMESPACES), settings)
    assert found is not None
    assert found.spec.store.prefix == "s3://enginery/untenanted/other/"
    assert found.spec.store.builder_secret_name == "enginery-builder"


@pytest.mark.parametrize("required", [True, False])
def test_our_own_namespace_is_nobodys_whatever_it_is_called(required: bool) -> None:
    own = some_settings().model_copy(
        update={"namespace": "other", "tenancy": Tenancy(required=required, default_prefix="s3://enginery/x/")}
    )
    named, selected = a_tenant("team-a", "team-a", "other"), by_selector("all")
    for tenant, want in ((named, Reason.SYSTEM_NAMESPACE), (selected, Reason.NAMESPACES_BOUND)):
        cache = a_cache(tenants=(tenant,), namespaces=NAMESPACES)
        assert tenancy.tenant_of("other", cache, own) is None
        verdicts, bound = tenancy.judge(tenant.build(), cache, own, None)
        assert verdicts["NamespacesReady"].reason is want
        assert "other" not in bound


def with_jobs(cache: Cache, tenant: str, *namespaces: str) -> Cache:
    """Jobs for one key, each labelled as of this tenant."""
    made = [{"metadata": {"name": "m-build-1", "namespace": namespace}} for namespace in namespaces]
    cache._indices = dict(cache._indices) | {"jobs": {(tenant, "key"): made}}
    return cache


def at_work(tenant: Tenant, cache: Cache, settings: Settings) -> list[str]:
    return [job["metadata"]["namespace"] for job in tenancy.jobs_of(tenant, "key", cache, settings)]


def test_a_job_that_only_claims_to_be_a_tenants_is_not() -> None:
    both = a_tenant("team-a", "team-a", "team-a-dev"), a_tenant("team-b", "other")
    cache = with_jobs(a_cache(tenants=both, namespaces=NAMESPACES), "team-a", "team-a", "team-a-dev", "other", "x")
    assert at_work(both[0].build(), cache, SETTINGS) == ["team-a", "team-a-dev"]


def test_namespaces_without_a_tenant_do_not_work_for_each_other() -> None:
    """Each publishes below a prefix of its own."""
    settings = some_settings(tenancy=Tenancy(required=False, default_prefix="s3://enginery/untenanted/"))
    cache = with_jobs(a_cache(namespaces={"x": {}, "y": {}}), "none", "x", "y")
    found = tenancy.tenant_of("y", cache, settings)
    assert found is not None
    assert at_work(found, cache, settings) == ["y"]


def judged(
    tenant: ATenant, *others: ATenant, reach: Trouble | None = None, namespaces: dict[str, dict[str, str]] | None = None
) -> dict[str, str]:
    cache = a_cache(tenants=(tenant, *others), namespaces=NAMESPACES if namespaces is None else namespaces)
    verdicts, _ = tenancy.judge(tenant.build(), cache, SETTINGS, reach)
    assert list(verdicts) == list(tenancy.TENANT_CONDITIONS)
    return {name: f"{verdict.status} {verdict.reason.value}" for name, verdict in verdicts.items()}


SILENT = Trouble(Reason.STORE_UNAVAILABLE, "no answer", passing=True)
INSIDE = a_tenant("team-b", "other").having("spec.store.prefix", "s3://enginery//tenants/team-a/inner/")
BESIDE = a_tenant("team-b", "other").having("spec.store.prefix", "s3://enginery/tenants/team-a-dev/")

JUDGED: dict[str, tuple[dict[str, str], str, str, str]] = {
    "all is well": (judged(a_tenant()), "NamespacesReady", "True NamespacesBound", "True Active"),
    "a namespace is missing": (
        judged(a_tenant("team-a", "nowhere")), "NamespacesReady", "False NamespaceNotFound",
        "False NamespaceNotFound"),
    "a namespace is another's": (
        judged(younger(a_tenant("new", "team-a")), a_tenant()), "NamespacesReady", "False NamespaceConflict",
        "False NamespaceConflict"),
    "the other sees nothing of it": (
        judged(a_tenant(), younger(a_tenant("new", "team-a"))), "NamespacesReady", "True NamespacesBound",
        "True Active"),
    "a prefix inside another's, whatever its slashes": (
        judged(younger(INSIDE), a_tenant()), "StoreReady", "False PrefixConflict", "False PrefixConflict"),
    "a prefix around another's": (
        judged(younger(a_tenant()), INSIDE), "StoreReady", "False PrefixConflict", "False PrefixConflict"),
    "a prefix that a younger tenant takes a part of": (
        judged(a_tenant(), younger(INSIDE)), "StoreReady", "True StoreReachable", "True Active"),
    "a prefix that only begins alike": (
        judged(BESIDE, a_tenant()), "StoreReady", "True StoreReachable", "True Active"),
    "a store that is silent": (
        judged(a_tenant(), reach=SILENT), "StoreReady", "Unknown StoreUnavailable", "Unknown Pending"),
    "a bucket that is not there": (
        judged(a_tenant(), reach=Trouble(Reason.SOURCE_NOT_FOUND, "bucket enginery does not exist")),
        "StoreReady", "False BucketNotFound", "False BucketNotFound"),
    "a prefix that may not be listed": (
        judged(a_tenant(), reach=Trouble(Reason.ACCESS_DENIED, "denied")),
        "StoreReady", "False AccessDenied", "False AccessDenied"),
    "on hold": (
        judged(a_tenant().having("spec.stopPolicy", "Hold")), "Active", "False Suspended", "False Suspended"),
    "draining": (
        judged(a_tenant().having("spec.stopPolicy", "HoldAndDrain")), "Active", "False Draining",
        "False Draining"),
    "a quota this version does not enforce is not called enforced": (
        judged(a_tenant().having("spec.quota", {"models": 3})), "QuotaConfigured", "Unknown Pending",
        "True Active"),
    "no quota": (judged(a_tenant()), "QuotaConfigured", "True QuotaSynced", "True Active"),
    "isolation this version does not enforce is not called enforced": (
        judged(a_tenant()), "IsolationEnforced", "Unknown Pending", "True Active"),
    "isolation that is not wanted": (
        judged(a_tenant().having("spec.policy.networkIsolation", "Disabled")),
        "IsolationEnforced", "True Disabled", "True Active"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", JUDGED)
def test_tenant_conditions_say_what_is_true(sentence: str) -> None:
    found, name, want, ready = JUDGED[sentence]
    assert (found[name], found["Ready"]) == (want, ready)


NOT_DONE: dict[str, tuple[ATenant, str]] = {
    "nothing": (a_tenant(), ""),
    "empty values": (a_tenant().having("spec.admins", []).having("spec.scheduling", {"queueName": ""}), ""),
    "admins and a queue": (
        a_tenant().having("spec.admins", [{"kind": "Group", "name": "x"}]).having("spec.scheduling.queueName", "q"),
        "spec.admins, spec.scheduling.queueName"),
    "workload identity": (
        a_tenant().having("spec.store.serviceAccountAnnotations", {"a": "b"}), "spec.store.serviceAccountAnnotations"),
    "signatures that are only warned of": (
        a_tenant().having("spec.policy.signatures", "Warn"), "spec.policy.signatures Warn"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", NOT_DONE)
def test_what_this_version_ignores_is_said(sentence: str) -> None:
    tenant, want = NOT_DONE[sentence]
    verdicts, _ = tenancy.judge(tenant.build(), a_cache(tenants=(tenant,), namespaces=NAMESPACES), SETTINGS, None)
    after = f"; this version does nothing yet about {want}" if want else ""
    assert verdicts["Ready"].message == f"models of this tenant are served{after}"


def test_models_are_counted_in_bound_namespaces_only() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "Serving"}]}
    models = (
        a_model().named("one").with_status(ready),
        a_model().named("two"),
        a_model().named("three", "other").with_status(ready),
    )
    assert tenancy.tenant_models(["team-a", "team-a-dev"], a_cache(models=models)) == (2, 1)
