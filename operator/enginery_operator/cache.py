"""What the watches delivered, by the keys a pass asks with. Filled by kopf's indices, read by `observe`.

kopf fills its indices before any handler runs, so the first pass sees everything; reading them costs no request. The
one thing they may lag behind is a write of our own: status writes are overlaid until the watch delivers them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from enginery_operator.api.v1alpha1 import Tenant
from enginery_operator.targets import Offer, offers

Object = dict[str, Any]
Index = Mapping[Any, Collection[Object]]
NodeSelector = frozenset[tuple[str, str]]

_SLIM_METADATA = ("name", "namespace", "uid", "labels", "annotations", "creationTimestamp", "deletionTimestamp",
                  "generation", "resourceVersion", "ownerReferences")  # fmt: skip


def slim(body: Mapping[str, Any], *parts: str) -> Object:
    """An object with the metadata we use and the given top-level parts; managedFields are half of many objects."""
    metadata = body.get("metadata", {})
    kept = {name: metadata[name] for name in _SLIM_METADATA if name in metadata}
    return {"metadata": kept} | {part: body[part] for part in parts if part in body}


@dataclass
class Cache:
    """Typed access to the indices; `bind` is called by the first handler that kopf hands them to."""

    _indices: dict[str, Index] = field(default_factory=dict)
    _written: dict[str, Object] = field(default_factory=dict)
    _tenants: dict[tuple[str, str], Tenant | None] = field(default_factory=dict)
    _offers: dict[tuple[NodeSelector, bool], tuple[Offer, ...]] = field(default_factory=dict)
    _given: dict[str, tuple[NodeSelector, tuple[Offer, ...], tuple[Offer, ...]] | None] = field(default_factory=dict)

    def bind(self, indices: Mapping[str, Index]) -> None:
        """Take the live indices; they stay the same objects for the process's life."""
        if not self._indices:
            self._indices = dict(indices)

    @property
    def bound(self) -> bool:
        """Whether a pass can see anything yet."""
        return bool(self._indices)

    def _all(self, index: str, key: Any) -> list[Object]:
        return list(self._indices[index].get(key, ()))

    def _first(self, index: str, key: Any) -> Object | None:
        return next(iter(self._indices[index].get(key, ())), None)

    def model(self, namespace: str, name: str) -> Object | None:
        """An InferenceModel, with our own last status write when the watch has not delivered it yet."""
        return self._with_own_word(self._first("models", (namespace, name)))

    def _with_own_word(self, seen: Object | None) -> Object | None:
        if seen is None:
            return None
        uid = seen["metadata"]["uid"]
        written = self._written.get(uid)
        if written is None or _version(written) <= _version(seen):
            self._written.pop(uid, None)
            return seen
        # Spec and metadata as watched: they are the newest word on what is wanted.
        return seen | {"status": written["status"]}

    def wrote(self, answer: Object) -> None:
        """Remember an object as the API server answered a status write."""
        self._written[answer["metadata"]["uid"]] = slim(answer, "status")

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._written.pop(uid, None)

    def models(self) -> Iterator[Object]:
        """Every InferenceModel."""
        return (item for key in self._indices["models"] for item in self._indices["models"][key])

    def tenant_body(self, name: str) -> Object | None:
        """A Tenant by name, with our own last status write when the watch has not delivered it yet."""
        return self._with_own_word(self._first("tenants", name))

    def tenants(self) -> list[Tenant]:
        """Every Tenant, oldest first: the first to name a namespace has it. Parsed once per version.

        One that does not fit the types is left out, so that it spoils nobody else's passes.
        """
        bodies = [item for key in self._indices["tenants"] for item in self._indices["tenants"][key]]
        marks = {(body["metadata"]["uid"], body["metadata"]["resourceVersion"]): body for body in bodies}
        self._tenants = {
            mark: self._tenants[mark] if mark in self._tenants else _parsed(body) for mark, body in marks.items()
        }
        found = [tenant for tenant in self._tenants.values() if tenant is not None]
        return sorted(found, key=lambda item: (item.metadata["creationTimestamp"], item.name))

    def namespace(self, name: str) -> Object | None:
        """A Namespace by name."""
        return self._first("namespaces", name)

    def is_going(self, namespace: str) -> bool:
        """Whether a namespace is being deleted: its pods go first, and nothing may be made in it any more."""
        return bool((self.namespace(namespace) or {"metadata": {}})["metadata"].get("deletionTimestamp"))

    def namespaces(self) -> Iterable[Object]:
        """Every Namespace."""
        return (item for key in self._indices["namespaces"] for item in self._indices["namespaces"][key])

    def nodes(self) -> Iterable[Object]:
        """Every Node."""
        return (item for key in self._indices["nodes"] for item in self._indices["nodes"][key])

    def offers(self, selector: Mapping[str, str] | None = None, *, resting: bool = False) -> tuple[Offer, ...]:
        """Every kind of slice that nodes with these labels give, computed once per change of the nodes."""
        wanted = frozenset((selector or {}).items())
        if (wanted, resting) not in self._offers:
            having = (node for node in self.nodes() if wanted <= _labels(node))
            self._offers[wanted, resting] = offers(having, resting=resting)
        return self._offers[wanted, resting]

    def gives_otherwise(self, name: str) -> bool:
        """Whether a node gives something else, or to others, than when it was last asked.

        Most of what is heard of nodes is heartbeats; a look at all nodes for every selector at each would fill the day.
        """
        node = self._first("nodes", name)
        given = None if node is None else (_labels(node), offers([node]), offers([node], resting=True))
        if given == self._given.get(name):
            return False
        self._given[name] = given
        if given is None:
            del self._given[name]
        return True

    def refresh_offers(self) -> bool:
        """Look at the nodes again; whether what they give to anybody has changed (a heartbeat has not)."""
        before, self._offers = self._offers, {}
        return any(self.offers(dict(asked[0]), resting=asked[1]) != found for asked, found in before.items())

    def reasons(self) -> Counter[str]:
        """How many models have which Ready.reason."""
        return Counter(
            next((item["reason"] for item in conditions if item["type"] == "Ready"), "Pending")
            for conditions in (model.get("status", {}).get("conditions", []) for model in self.models())
        )

    def jobs(self, tenant: str, key: str) -> list[Object]:
        """Builder Jobs of a tenant for a request or engine key, in whichever of its namespaces."""
        return self._all("jobs", (tenant, key))

    def jobs_of_model(self, namespace: str, model: str) -> list[Object]:
        """Builder Jobs that carry a model's label."""
        return self._all("jobs", ("model", namespace, model))

    def pods_of_job(self, namespace: str, job: str) -> list[Object]:
        """Pods of a Job."""
        return self._all("pods", ("job", namespace, job))

    def pods_of_revision(self, namespace: str, revision: str) -> list[Object]:
        """Runtime pods of a revision."""
        return self._all("pods", ("revision", namespace, revision))

    def deployments(self, namespace: str, model: str) -> list[Object]:
        """Deployments that carry a model's label."""
        return self._all("deployments", (namespace, model))

    def service(self, namespace: str, model: str) -> Object | None:
        """The Service of a model's name; people may label Services of their own."""
        return next(
            (item for item in self._all("services", (namespace, model)) if item["metadata"]["name"] == model), None
        )


def _parsed(body: Object) -> Tenant | None:
    try:
        return Tenant.model_validate(body)
    except ValidationError:
        return None


def _labels(node: Object) -> frozenset[tuple[str, str]]:
    return frozenset(node["metadata"].get("labels", {}).items())


def _version(obj: Object) -> int:
    """Resource versions are comparable numbers (Kubernetes 1.35 made it a promise)."""
    return int(obj["metadata"].get("resourceVersion", 0))
