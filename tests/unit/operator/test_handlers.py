"""kopf's side: bounded watches, no marks on objects, and which objects an event wakes."""

import asyncio
from importlib.metadata import version
from typing import Any

import kopf
import pytest
from enginery_operator import handlers
from enginery_operator.cache import Cache, slim
from enginery_operator.reconcile import Context
from enginery_operator.render import labels
from enginery_operator.workqueue import Key, WorkQueue
from kopf._cogs.aiokits import aiotoggles
from support.api_objects import a_model, a_tenant
from support.installation import H100, a_cache, some_settings


def test_no_watch_can_be_silent_for_ever() -> None:
    settings = kopf.OperatorSettings()
    handlers.configure(settings)
    watching = settings.watching
    assert watching.server_timeout is not None
    assert watching.client_timeout is not None
    assert 0 < watching.server_timeout < watching.client_timeout <= 300
    assert watching.connect_timeout is not None
    assert settings.networking.request_timeout is not None


def test_nothing_is_done_behind_our_back() -> None:
    settings = kopf.OperatorSettings()
    handlers.configure(settings)
    assert settings.posting.enabled is False
    assert settings.peering.standalone is True
    assert settings.persistence.finalizer.startswith("enginery.io/")
    assert settings.queueing.worker_limit is None  # any number below that of the objects would be a deadlock at start
    assert max(settings.queueing.error_delays) <= 30


async def test_indexing_wakes_who_waits_once_and_not_for_every_object() -> None:
    """With kopf's own toggles each of n objects wakes each of n others: here nobody wakes before all are indexed."""
    toggles, woken = handlers._QuietToggles(all), 0

    def is_on() -> bool:
        nonlocal woken
        woken += 1
        return toggles.is_on()

    async def wait() -> None:
        async with toggles._condition:
            await toggles._condition.wait_for(is_on)

    blocker = await toggles.make_toggle(name="listing")
    waiting = [asyncio.create_task(wait()) for _ in range(50)]
    objects = [await toggles.make_toggle(name=str(number)) for number in range(50)]
    for item in objects:
        await toggles.drop_toggle(item)
        await asyncio.sleep(0)
    assert woken == 50  # each looked once, when it began to wait
    await toggles.drop_toggle(blocker)
    await asyncio.gather(*waiting)
    assert woken == 100


def test_kopf_is_the_version_whose_toggles_are_replaced() -> None:
    assert version("kopf") == "1.45.2"
    handlers.quieten()
    assert aiotoggles.ToggleSet is handlers._QuietToggles


def test_only_stateless_handlers_are_registered() -> None:
    """Handlers with progress write annotations and finalizers; indices and events do not."""
    registry = kopf.OperatorRegistry()
    handlers.register(registry, None, None)  # type: ignore[arg-type] - nothing is called
    assert registry._changing._handlers == []
    assert registry._spawning._handlers == []
    assert registry._webhooks._handlers == []
    indexed = {str(handler.id) for handler in registry._indexing._handlers}
    assert indexed == set(handlers.WATCHED)
    watched = {str(handler.id).removeprefix("on-") + "s" for handler in registry._watching._handlers}
    assert watched == indexed


def test_children_are_watched_by_our_label_only() -> None:
    registry = kopf.OperatorRegistry()
    handlers.register(registry, None, None)  # type: ignore[arg-type] - nothing is called
    by_name = {str(handler.id): handler for handler in registry._indexing._handlers}
    for name in ("jobs", "pods", "deployments", "services"):
        assert dict(by_name[name].labels or {}) == {labels.MODEL: kopf.PRESENT}


class Woken(WorkQueue):
    """Notes who is woken."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []

    def add(self, key: Key, delay: float = 0.0) -> None:  # noqa: ARG002 - as the real one has it
        self.keys.append((key.kind, key.name))


async def event(kind: str, cache: Cache, **said: Any) -> list[tuple[str, str]]:
    """Whom an event wakes."""
    registry, woken = kopf.OperatorRegistry(), Woken()
    ctx = Context(some_settings(), None, None, cache)  # type: ignore[arg-type] - no pass is made
    handlers.register(registry, ctx, woken)
    (handler,) = (found for found in registry._watching._handlers if found.id == f"on-{kind}")
    await handler.fn(**said, **dict.fromkeys(handlers.WATCHED))
    return woken.keys


async def test_a_model_wakes_itself_and_the_tenant_that_counts_it() -> None:
    tenants = tuple(a_tenant(name) for name in ("team-a", "team-b", "team-c"))
    cache = a_cache(tenants=tenants, namespaces={"team-a": {}, "team-b": {}})
    body = a_model().body()
    found = await event("model", cache, namespace="team-b", name="bert", type="MODIFIED", body=body)
    assert found == [("InferenceModel", "bert"), ("Tenant", "team-b")]


async def test_a_heartbeat_of_a_node_looks_at_no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = a_cache(nodes=(H100,), models=(a_model(),))
    before, looks = cache.offers(), []
    look = cache.refresh_offers
    monkeypatch.setattr(cache, "refresh_offers", lambda: looks.append(1) or look())
    assert await event("node", cache, name="node-1") == []
    body = next(iter(cache.nodes()))
    body["status"]["conditions"].append({"type": "MemoryPressure", "status": "False"})
    assert await event("node", cache, name="node-1") == []
    assert len(looks) == 1
    body["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "0"
    assert await event("node", cache, name="node-1") == [("InferenceModel", "resnet50")]
    assert cache.offers() != before
    cache._indices["nodes"].clear()  # type: ignore[attr-defined]
    assert await event("node", cache, name="node-1") == [("InferenceModel", "resnet50")]
    assert await event("node", cache, name="node-1") == []
    assert cache._given == {}


async def test_nothing_is_kept_of_a_tenant_that_is_gone() -> None:
    cache, body = a_cache(tenants=(a_tenant(),)), a_tenant().body()
    cache.wrote(body | {"status": {}})
    await event("tenant", cache, name="team-a", type="DELETED", body=body)
    assert cache._written == {}


def test_slim_objects_keep_what_is_read_and_drop_what_is_heavy() -> None:
    body: dict[str, Any] = a_model().body() | {"status": {"replicas": 1}}
    body["metadata"]["managedFields"] = [{"manager": "x"}]
    found = slim(body, "spec")
    assert set(found) == {"metadata", "spec"}
    assert "managedFields" not in found["metadata"]
    assert found["metadata"]["uid"] == "model-uid"


def versioned(version: int, **status: Any) -> dict[str, Any]:
    return a_model().having("metadata.resourceVersion", str(version)).having("status", status or None).body()


def watched(version: int, **status: Any) -> Cache:
    cache = a_cache()
    cache._indices["models"] = {("team-a", "resnet50"): [versioned(version, **status)]}
    return cache


def test_our_own_write_is_seen_before_the_watch_delivers_it() -> None:
    cache = watched(5, replicas=1)
    cache.wrote(versioned(7, replicas=2))
    found = cache.model("team-a", "resnet50")
    assert found is not None
    assert found["status"] == {"replicas": 2}
    assert found["metadata"]["resourceVersion"] == "5"


@pytest.mark.parametrize("version", [7, 8, 10])
def test_a_newer_word_of_the_watch_replaces_our_write(version: int) -> None:
    cache = watched(version, replicas=3)
    cache.wrote(versioned(7, replicas=2))
    found = cache.model("team-a", "resnet50")
    assert found is not None
    assert found["status"] == {"replicas": 3}
    assert cache._written == {}


def test_versions_are_numbers() -> None:
    cache = watched(10, replicas=3)
    cache.wrote(versioned(9, replicas=2))
    found = cache.model("team-a", "resnet50")
    assert found is not None
    assert found["status"] == {"replicas": 3}


def test_nothing_is_kept_of_a_model_that_is_gone() -> None:
    cache = watched(5)
    cache.wrote(versioned(7, replicas=2))
    cache.forget("model-uid")
    assert cache._written == {}


def test_models_are_counted_by_reason() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "Serving"}]}
    models = (a_model().named("a").with_status(ready), a_model().named("b").with_status(ready), a_model().named("c"))
    assert a_cache(models=models).reasons() == {"Serving": 2, "Pending": 1}
