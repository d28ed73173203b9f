"""What carries a model's label is not the model's for that: people label Deployments and Services of their own."""

from pathlib import Path
from typing import Any

import pytest
from enginery_operator.cluster import Cluster
from enginery_operator.errors import RefusedError
from enginery_operator.observe import observe
from enginery_operator.reconcile import Context, _apply
from enginery_operator.render import labels
from enginery_operator.stored import ModelStore
from enginery_store.requests import StoreAccess
from kubernetes.aio import client
from support.api_objects import NOW, a_model
from support.installation import a_cache, a_node, some_settings

SETTINGS = some_settings(store=StoreAccess(endpoint="http://127.0.0.1:9"))
MODEL = a_model().with_status({"currentRevision": "resnet50-01d01d01"})
OWN = a_model().build()


def an_object(name: str, *, owner: str | None, managed: bool = True, **spec: Any) -> dict[str, Any]:
    """`owner` is the uid of its controller."""
    marks = {labels.MODEL: "resnet50"} | ({labels.MANAGED_BY: labels.MANAGER} if managed else {})
    owners = [{"kind": "InferenceModel", "controller": True, "uid": owner}] if owner else []
    metadata = {"name": name, "namespace": "team-a", "labels": marks, "ownerReferences": owners, "generation": 1}
    return {"metadata": metadata, "spec": spec, "status": {"observedGeneration": 1}}


CLAIMS = {
    "made by the model": (an_object("x", owner=OWN.uid), True),
    "made by a model of this name that was deleted": (an_object("x", owner="other-uid"), False),
    "made by somebody who wrote the label": (an_object("x", owner=None, managed=False), False),
    "left by a model deleted with --cascade=orphan": (an_object("x", owner=None), True),
    "left by another model": (
        {"metadata": {"labels": {labels.MODEL: "bert", labels.MANAGED_BY: labels.MANAGER}}}, False),
    "without a label": ({"metadata": {"name": "x"}}, False),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CLAIMS)
def test_the_controller_decides_whose_an_object_is(sentence: str) -> None:
    found, want = CLAIMS[sentence]
    assert labels.is_of(found, OWN) is want


async def seen(**objects: Any) -> Any:
    cache = a_cache(namespaces={"team-a": {}}, nodes=(a_node(),), models=(MODEL,), **objects)
    return await observe(MODEL.build(), cache=cache, store=ModelStore(Path("/nowhere")), settings=SETTINGS, now=NOW)


async def test_a_deployment_of_the_tenants_own_is_no_revision_and_so_never_removed() -> None:
    own = an_object("resnet50-01d01d01", owner=OWN.uid)
    found = await seen(deployments=(an_object("my-client", owner=None, managed=False), own))
    assert [item.revision for item in found.revisions] == ["resnet50-01d01d01"]


def selecting(revision: str, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"name": "resnet50", "owner": OWN.uid} | changes
    return an_object(**given, selector={labels.REVISION: revision})


SERVICES: dict[str, tuple[tuple[dict[str, Any], ...], str | None]] = {
    "the model's": ((selecting("resnet50-01d01d01"),), "resnet50-01d01d01"),
    "gone": ((), "resnet50-01d01d01"),
    "turned to a revision that does not exist": ((selecting("nonsense"),), "resnet50-01d01d01"),
    "another one of the tenant's own, with the label, before the model's": (
        (selecting("x", name="a-nodeport", owner=None, managed=False), selecting("resnet50-01d01d01")),
        "resnet50-01d01d01"),
    "somebody else's, under the model's name": ((selecting("resnet50-01d01d01", owner="other-uid"),), None),
}  # fmt: skip


@pytest.mark.parametrize("sentence", SERVICES)
async def test_what_serves_is_what_the_models_own_service_selects(sentence: str) -> None:
    services, want = SERVICES[sentence]
    found = await seen(services=services, deployments=(an_object("resnet50-01d01d01", owner=OWN.uid),))
    assert found.serving == want


class Taken(Cluster):
    """Holds one object, and keeps what is applied."""

    def __init__(self, there: dict[str, Any] | None) -> None:
        super().__init__(client.ApiClient(client.Configuration()))
        self.there, self.applied, self.asked = there, 0, 0

    async def get(self, *_: str) -> dict[str, Any] | None:
        self.asked += 1
        return self.there

    async def apply(self, wanted: dict[str, Any]) -> dict[str, Any]:
        self.applied += 1
        return wanted


WANTED = an_object("resnet50", owner=OWN.uid) | {"kind": "Service"}
UNLABELLED = {"metadata": {"name": "resnet50", "namespace": "team-a"}, "spec": {"selector": {"app": "mine"}}}


def a_context(cluster: Cluster) -> Context:
    return Context(SETTINGS, cluster, ModelStore(Path("/nowhere")), a_cache())


@pytest.mark.parametrize("watched", [None, an_object("resnet50", owner="other-uid")], ids=["unseen", "seen"])
async def test_a_name_that_somebody_else_has_is_not_taken_from_them(watched: dict[str, Any] | None) -> None:
    cluster = Taken(UNLABELLED)
    with pytest.raises(RefusedError, match="Service resnet50 is there already and not of this model"):
        await _apply(WANTED, watched, OWN, a_context(cluster))
    assert cluster.applied == 0


@pytest.mark.parametrize("there", [None, an_object("resnet50", owner=OWN.uid)], ids=["absent", "not watched yet"])
async def test_a_name_that_is_free_or_the_models_is_written(there: dict[str, Any] | None) -> None:
    cluster = Taken(there)
    await _apply(WANTED, None, OWN, a_context(cluster))
    assert cluster.applied == 1


async def test_what_holds_already_costs_no_request() -> None:
    cluster = Taken(None)
    await _apply(WANTED, an_object("resnet50", owner=OWN.uid), OWN, a_context(cluster))
    assert (cluster.applied, cluster.asked) == (0, 0)
