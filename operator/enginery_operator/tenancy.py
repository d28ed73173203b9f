"""Which tenant a namespace belongs to, and what is true of a Tenant. Pure but for the cache it reads.

Called by `observe` and by the Tenant's own pass in `reconcile`. Where two Tenants name one namespace, the older has
it, so that a new Tenant can take nothing from anybody.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from enginery_store.errors import EngineryError
from enginery_store.layout import parse_uri
from enginery_store.reasons import Reason

from enginery_operator.api.tenant import LabelRequirement, Namespaces, Tenant
from enginery_operator.cache import Cache, Object
from enginery_operator.decide.seen import Trouble, Verdict
from enginery_operator.settings import Settings

TENANT_CONDITIONS = ("NamespacesReady", "QuotaConfigured", "StoreReady", "IsolationEnforced", "Active", "Ready")
"""All conditions of a Tenant, in the order of status."""

SYSTEM_NAMESPACES = frozenset({"enginery-system"})
"""Besides kube-*; no selector takes them, as the CRD refuses them by name."""


def tenant_of(namespace: str, cache: Cache, settings: Settings) -> Tenant | None:
    """The Tenant of a namespace; a stand-in where tenancy is not required; else None.

    Our own namespace, whatever it is called, is nobody's: a model there could name the operator's own store Secret.
    """
    if namespace == settings.namespace:
        return None
    labels = _labels(cache, namespace)
    for tenant in cache.tenants():
        if claims(tenant.spec.namespaces, namespace, labels):
            return tenant
    if settings.tenancy.required:
        return None
    return Tenant.model_validate(
        {
            "metadata": {"name": "none"},
            "spec": {
                "namespaces": {"names": [namespace]},
                "store": {"prefix": f"{settings.tenancy.default_prefix.rstrip('/')}/{namespace}/"},
            },
        }
    )


def jobs_of(tenant: Tenant, key: str, cache: Cache, settings: Settings) -> list[Object]:
    """Builder Jobs for a request or engine key that work for this tenant.

    A label is a claim that whoever may make Jobs in any namespace can write, so the namespace decides. Stand-ins have
    one name and a prefix each, and what is published below one prefix is nothing to another: hence the prefix.
    """

    def works_for(namespace: str) -> bool:
        owner = tenant_of(namespace, cache, settings)
        return owner is not None and owner.spec.store.prefix == tenant.spec.store.prefix

    return [job for job in cache.jobs(tenant.name, key) if works_for(job["metadata"]["namespace"])]


def claims(wanted: Namespaces, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a Tenant's namespaces cover this one."""
    if wanted.names is not None:
        return namespace in wanted.names
    selector = wanted.selector
    if selector is None or namespace.startswith("kube-") or namespace in SYSTEM_NAMESPACES:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.match_labels or {}).items())
    return equal and all(_holds(item, labels) for item in selector.match_expressions or [])


def in_foreign_prefix(tenant: Tenant, uri: str, cache: Cache) -> bool:
    """Whether a location lies in another tenant's part of the store, or holds it: names and sizes there are not this
    one's to learn.
    """
    others = (other.spec.store.prefix for other in cache.tenants() if other.name != tenant.name)
    try:
        place = f"{str(parse_uri(uri)).rstrip('/')}/"
        theirs = [f"{str(parse_uri(prefix)).rstrip('/')}/" for prefix in others]
        return any(place.startswith(prefix) or prefix.startswith(place) for prefix in theirs)
    except EngineryError:
        return False  # no location at all; the listing says so


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.key), requirement.values or []
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _labels(cache: Cache, namespace: str) -> Mapping[str, str]:
    found: Mapping[str, str] = (cache.namespace(namespace) or {}).get("metadata", {}).get("labels", {})
    return found


def namespaces_of(tenant: Tenant, cache: Cache) -> list[str]:
    """Existing namespaces the tenant claims, sorted."""
    return sorted(
        item["metadata"]["name"]
        for item in cache.namespaces()
        if claims(tenant.spec.namespaces, item["metadata"]["name"], item["metadata"].get("labels", {}))
    )


def judge(
    tenant: Tenant, cache: Cache, settings: Settings, reach: Trouble | None
) -> tuple[dict[str, Verdict], list[str]]:
    """Every condition of a Tenant, and the namespaces bound to it; `reach` is what listing its prefix led to."""
    claimed = [name for name in namespaces_of(tenant, cache) if name != settings.namespace]
    bound = [name for name in claimed if (owner := tenant_of(name, cache, settings)) and owner.name == tenant.name]
    verdicts = {
        "NamespacesReady": _namespaces(tenant, claimed, bound, cache, settings),
        "QuotaConfigured": Verdict(
            "Unknown" if tenant.spec.quota else "True",
            Reason.PENDING if tenant.spec.quota else Reason.QUOTA_SYNCED,
            "this version does not enforce spec.quota yet" if tenant.spec.quota else "no quota is asked for",
        ),
        "StoreReady": _store(tenant, cache, reach),
        "IsolationEnforced": Verdict(
            "Unknown" if tenant.spec.policy.network_isolation == "Enforced" else "True",
            Reason.PENDING if tenant.spec.policy.network_isolation == "Enforced" else Reason.DISABLED,
            "this version does not write NetworkPolicies yet",
        ),
        "Active": _active(tenant),
    }
    verdicts["Ready"] = _ready(verdicts, _not_done(tenant))
    return verdicts, bound


def _namespaces(tenant: Tenant, claimed: list[str], bound: list[str], cache: Cache, settings: Settings) -> Verdict:
    if settings.namespace in (tenant.spec.namespaces.names or []):
        return Verdict(
            "False", Reason.SYSTEM_NAMESPACE, f"namespace {settings.namespace} is Enginery's own; name another"
        )
    absent = sorted(set(tenant.spec.namespaces.names or []) - set(claimed))
    if absent:
        return Verdict(
            "False",
            Reason.NAMESPACE_NOT_FOUND,
            f"namespace {absent[0]} does not exist; create it; continues by itself then",
        )
    if taken := sorted(set(claimed) - set(bound)):
        owner = tenant_of(taken[0], cache, settings)
        return Verdict(
            "False",
            Reason.NAMESPACE_CONFLICT,
            f"namespace {taken[0]} belongs to tenant {owner.name if owner else 'unknown'}; remove it from one of them",
        )
    return Verdict("True", Reason.NAMESPACES_BOUND, f"{len(bound)} namespace(s)")


def _store(tenant: Tenant, cache: Cache, reach: Trouble | None) -> Verdict:
    try:
        own = str(parse_uri(tenant.spec.store.prefix))
    except EngineryError as error:
        return Verdict("False", Reason.BUCKET_NOT_FOUND, error.message)
    for other in takewhile(lambda item: item.name != tenant.name, cache.tenants()):  # the older has it
        name, prefix = other.name, _normal(other.spec.store.prefix)
        if own.startswith(prefix) or prefix.startswith(own):
            return Verdict(
                "False", Reason.PREFIX_CONFLICT, f"spec.store.prefix {own} and {prefix} of tenant {name} overlap"
            )
    if reach is not None and reach.passing:
        return Verdict("Unknown", reach.reason, f"{reach.message}; will be retried")
    if reach is not None:
        reason = Reason.ACCESS_DENIED if reach.reason is Reason.ACCESS_DENIED else Reason.BUCKET_NOT_FOUND
        return Verdict("False", reason, f"{reach.message}; will be retried")
    return Verdict("True", Reason.STORE_REACHABLE, f"prefix {own}")


def _normal(prefix: str) -> str:
    """Repeated slashes are one; a prefix that is none of ours stays as it is and overlaps with nothing."""
    try:
        return str(parse_uri(prefix))
    except EngineryError:
        return prefix


def _active(tenant: Tenant) -> Verdict:
    match tenant.spec.stop_policy:
        case "Hold":
            return Verdict("False", Reason.SUSPENDED, "stopPolicy Hold: nothing new starts")
        case "HoldAndDrain":
            return Verdict("False", Reason.DRAINING, "stopPolicy HoldAndDrain: nothing new starts")
        case _:
            return Verdict("True", Reason.ACTIVE, "the tenant may work")


def _not_done(tenant: Tenant) -> str:
    """What is asked for and no other condition owns up to: silence would read as done."""
    spec = tenant.spec
    asked = {
        "spec.admins": spec.admins,
        "spec.scheduling.queueName": spec.scheduling.queue_name,
        "spec.store.serviceAccountAnnotations": spec.store.service_account_annotations,
        "spec.policy.signatures Warn": spec.policy.signatures == "Warn",
    }
    names = ", ".join(name for name, value in asked.items() if value)
    return f"; this version does nothing yet about {names}" if names else ""


def _ready(verdicts: Mapping[str, Verdict], not_done: str) -> Verdict:
    """What this version decides: namespaces, store and activity."""
    decided = [verdicts[name] for name in ("NamespacesReady", "StoreReady", "Active")]
    failed = next((verdict for verdict in decided if verdict.failed), None)
    undecided = next((verdict for verdict in decided if not verdict.holds), None)
    if failed is None and undecided is not None:
        return Verdict("Unknown", Reason.PENDING, undecided.message)
    return failed or Verdict("True", Reason.ACTIVE, f"models of this tenant are served{not_done}")


def tenant_models(bound: list[str], cache: Cache) -> tuple[int, int]:
    """(models in these namespaces, of which Ready)."""
    names = set(bound)
    models = [model for model in cache.models() if model["metadata"]["namespace"] in names]
    return len(models), sum(1 for model in models if _is_ready(model))


def _is_ready(model: Mapping[str, Any]) -> bool:
    conditions = model.get("status", {}).get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
