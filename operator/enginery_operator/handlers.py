"""kopf's side of the operator: indices of everything watched, and events that wake the objects they concern.

Handlers parse names, ask for a pass, return. No handler of kopf's that keeps state is used (create, update, timer):
those write annotations and finalizers onto objects, and a change that arrives while one runs could be missed.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import kopf
from kopf._cogs.aiokits import aiotoggles

from enginery_operator import metrics
from enginery_operator.api.v1alpha1 import GROUP, VERSION, InferenceModel, Tenant
from enginery_operator.cache import slim
from enginery_operator.reconcile import Context
from enginery_operator.render import labels
from enginery_operator.tenancy import tenant_of
from enginery_operator.workqueue import Key, WorkQueue

Body = Mapping[str, Any]
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

WATCHED = ("models", "tenants", "namespaces", "nodes", "jobs", "pods", "deployments", "services")
"""Names of the indices, which are the names of the functions below."""

_OURS = {labels.MODEL: kopf.PRESENT}
_SELECTOR = labels.MODEL

WATCH_SERVER_TIMEOUT_SECONDS = 290
"""The API server ends a watch after this time, and it is begun anew: a silent one cannot last."""

WATCH_CLIENT_TIMEOUT_SECONDS = 300
"""Our side ends it if the API server did not."""


TENANT_COUNT_DELAY_SECONDS = 2.0
"""Models change in bursts; the counts in a Tenant's status follow so much later, once per burst."""


def configure(settings: kopf.OperatorSettings) -> None:
    """Kopf's own settings: bounded watches, bounded workers, nothing posted or peered behind our back."""
    settings.watching.server_timeout = WATCH_SERVER_TIMEOUT_SECONDS
    settings.watching.client_timeout = WATCH_CLIENT_TIMEOUT_SECONDS
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 500
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    # No limit: kopf's worker of each listed object waits until every object of every kind is indexed, so a limit below
    # their number is a deadlock at start. Our handlers only ask for a pass; the work queue bounds the work.
    settings.queueing.worker_limit = None
    settings.queueing.error_delays = (1, 2, 5, 10, 30)
    settings.networking.error_backoffs = (1, 2, 5, 10, 10, 10)
    settings.networking.request_timeout = 60
    settings.execution.max_workers = 4
    for plural in ("jobs", "pods", "deployments", "services"):
        settings.watching.label_selectors[plural] = _SELECTOR


class _QuietToggles(aiotoggles.ToggleSet):  # type: ignore[misc]
    """kopf holds every listed object back until all are indexed, and wakes all of them for each one more: with a
    thousand models and their children that took minutes of CPU at each start. This wakes them when there is news.
    """

    async def make_toggle(self, val: bool = False, /, *, name: str | None = None) -> aiotoggles.Toggle:
        """Add a toggle; waiters are told if the set as a whole changed."""
        toggle = aiotoggles.Toggle(val, name=name, condition=self._condition)
        async with self._condition:
            before = self.is_on()
            self._toggles.add(toggle)
            self._tell(before)
        return toggle

    async def drop_toggle(self, toggle: aiotoggles.Toggle) -> None:
        """Remove a toggle; waiters are told if the set as a whole changed."""
        async with self._condition:
            before = self.is_on()
            self._toggles.discard(toggle)
            self._tell(before)

    def _tell(self, before: bool) -> None:
        if self.is_on() != before:
            self._condition.notify_all()


def quieten() -> None:
    """Make kopf 1.45.2 use the quiet toggles; called once, before its operator starts."""
    aiotoggles.ToggleSet = _QuietToggles


def register(registry: kopf.OperatorRegistry, ctx: Context, queue: WorkQueue) -> None:
    """Declare how to log in, indices and event handlers."""
    on_login: _Decorator = kopf.on.login(registry=registry)

    @on_login
    def login(**kwargs: Any) -> Any:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    _register_indices(registry)
    _register_events(registry, ctx, queue)


def _register_indices(registry: kopf.OperatorRegistry) -> None:
    def index(*resource: str, name: str, **filters: Any) -> _Decorator:
        decorator: _Decorator = kopf.index(*resource, id=name, registry=registry, **filters)
        return decorator

    @index(GROUP, VERSION, InferenceModel.PLURAL, name="models")
    def models(body: Body, namespace: str, name: str, **_: Any) -> Any:
        return {(namespace, name): slim(body, "spec", "status")}

    @index(GROUP, VERSION, Tenant.PLURAL, name="tenants")
    def tenants(body: Body, name: str, **_: Any) -> Any:
        return {name: slim(body, "spec", "status")}

    @index("", "v1", "namespaces", name="namespaces")
    def namespaces(body: Body, name: str, **_: Any) -> Any:
        return {name: slim(body)}

    @index("", "v1", "nodes", name="nodes")
    def nodes(body: Body, name: str, **_: Any) -> Any:
        return {name: slim(body) | {"spec": dict(body.get("spec", {})), "status": _node_status(body)}}

    @index("batch", "v1", "jobs", name="jobs", labels=_OURS)
    def jobs(body: Body, namespace: str, **_: Any) -> Any:
        marks = body["metadata"]["labels"]
        job = slim(body, "status") | {"spec": {"suspend": body["spec"].get("suspend", False)}}
        return {
            (marks.get(labels.TENANT), marks.get(labels.KEY)): job,
            ("model", namespace, marks[labels.MODEL]): job,
        }

    @index("", "v1", "pods", name="pods", labels=_OURS)
    def pods(body: Body, namespace: str, **_: Any) -> Any:
        marks = body["metadata"]["labels"]
        job = marks.get("batch.kubernetes.io/job-name")
        key = ("job", namespace, job) if job else ("revision", namespace, marks.get(labels.REVISION))
        return {key: slim(body, "status")}

    @index("apps", "v1", "deployments", name="deployments", labels=_OURS)
    def deployments(body: Body, namespace: str, **_: Any) -> Any:
        return {(namespace, body["metadata"]["labels"][labels.MODEL]): slim(body, "spec", "status")}

    @index("", "v1", "services", name="services", labels=_OURS)
    def services(body: Body, namespace: str, **_: Any) -> Any:
        return {(namespace, body["metadata"]["labels"][labels.MODEL]): slim(body, "spec")}


def _node_status(body: Body) -> dict[str, Any]:
    status = body.get("status", {})
    ready = [
        {"type": item["type"], "status": item["status"]}
        for item in status.get("conditions", [])
        if item["type"] == "Ready"
    ]
    return {"allocatable": dict(status.get("allocatable", {})), "conditions": ready}


def _register_events(registry: kopf.OperatorRegistry, ctx: Context, queue: WorkQueue) -> None:
    def on(*resource: str, name: str, **filters: Any) -> _Decorator:
        decorator: _Decorator = kopf.on.event(*resource, id=f"on-{name}", registry=registry, **filters)
        return decorator

    def noticed(indices: Mapping[str, Any]) -> None:
        ctx.cache.bind({name: indices[name] for name in WATCHED})
        metrics.LAST_EVENT.set(time.time())

    def wake_tenants() -> None:
        for tenant in ctx.cache.tenants():
            queue.add(Key(Tenant.KIND, "", tenant.name))

    def wake_models(namespace: str | None = None) -> None:
        for item in ctx.cache.models():
            if namespace is None or item["metadata"]["namespace"] == namespace:
                queue.add(Key(InferenceModel.KIND, item["metadata"]["namespace"], item["metadata"]["name"]))

    @on(GROUP, VERSION, InferenceModel.PLURAL, name="model")
    async def on_model(namespace: str, name: str, type: str, body: Body, **indices: Any) -> None:  # noqa: A002
        noticed(indices)
        if type == "DELETED":
            ctx.cache.forget(body["metadata"]["uid"])
        queue.add(Key(InferenceModel.KIND, namespace, name))
        if (owner := tenant_of(namespace, ctx.cache, ctx.settings)) is not None:
            queue.add(Key(Tenant.KIND, "", owner.name), TENANT_COUNT_DELAY_SECONDS)

    generations: dict[str, int] = {}

    @on(GROUP, VERSION, Tenant.PLURAL, name="tenant")
    async def on_tenant(name: str, type: str, body: Body, **indices: Any) -> None:  # noqa: A002
        noticed(indices)
        queue.add(Key(Tenant.KIND, "", name))
        generation = None if type == "DELETED" else int(body["metadata"]["generation"])
        if generation is None:
            ctx.cache.forget(body["metadata"]["uid"])
        if generations.pop(name, None) != generation:
            # What one Tenant claims decides what others have, and what every model may do.
            wake_tenants()
            wake_models()
        if generation is not None:
            generations[name] = generation

    @on("", "v1", "namespaces", name="namespace")
    async def on_namespace(name: str, **indices: Any) -> None:
        noticed(indices)
        wake_tenants()
        wake_models(name)

    @on("", "v1", "nodes", name="node")
    async def on_node(name: str, **indices: Any) -> None:
        noticed(indices)
        if ctx.cache.gives_otherwise(name) and ctx.cache.refresh_offers():
            wake_models()

    @on("batch", "v1", "jobs", name="job", labels=_OURS)
    async def on_job(namespace: str, body: Body, **indices: Any) -> None:
        noticed(indices)
        ctx.claims.drop(labels.work(body))
        for key in _concerned(namespace, body, ctx):
            queue.add(key)

    @on("", "v1", "pods", name="pod", labels=_OURS)
    async def on_pod(namespace: str, body: Body, **indices: Any) -> None:
        noticed(indices)
        for key in _concerned(namespace, body, ctx):
            queue.add(key)

    @on("apps", "v1", "deployments", name="deployment", labels=_OURS)
    async def on_deployment(namespace: str, body: Body, **indices: Any) -> None:
        noticed(indices)
        queue.add(_owner(namespace, body))

    @on("", "v1", "services", name="service", labels=_OURS)
    async def on_service(namespace: str, body: Body, **indices: Any) -> None:
        noticed(indices)
        queue.add(_owner(namespace, body))


def _owner(namespace: str, body: Body) -> Key:
    return Key(InferenceModel.KIND, namespace, body["metadata"]["labels"][labels.MODEL])


def _concerned(namespace: str, body: Body, ctx: Context) -> set[Key]:
    """The model that owns a Job or pod, and every other that waits for the same key."""
    mark = body["metadata"]["labels"].get(labels.KEY, "none")
    return {_owner(namespace, body), *ctx.interest.of(mark)}
