"""The request documents that Jobs and Deployments carry. Pure; called by `job` and `deployment`."""

from enginery_store.requests import (
    BuildRequest,
    EngineRef,
    ModelRef,
    PrecisionRef,
    PrepareRequest,
    ServeRequest,
)

from enginery_operator import keys
from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.backends import backend_of
from enginery_operator.decide.seen import EngineSeen
from enginery_operator.settings import Settings


def prepare_request(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    key: str,
    precision: PrecisionRef,
    revision: str,
    fingerprint: str,
) -> PrepareRequest:
    """Order for the prepare Job."""
    store = keys.store_access(tenant, settings)
    return PrepareRequest(
        key=key,
        model=ModelRef(namespace=model.namespace, name=model.name, revision=revision),
        store=store,
        source_store=store,
        prefix=tenant.spec.store.prefix,
        source=keys.source_ref(model, fingerprint),
        precision=precision,
        profiles=keys.profiles(model),
        backends=keys.compilers(model),
        max_source_bytes=settings.jobs.max_source_bytes,
        timeout_seconds=settings.jobs.prepare_timeout_seconds,
    )


def build_request(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    engine: EngineSeen,
    prepared: str,
    precision: PrecisionRef,
    revision: str,
) -> BuildRequest:
    """Order for the build Job of one target."""
    store = keys.store_access(tenant, settings)
    return BuildRequest.model_validate(
        {
            "key": engine.key,
            "model": ModelRef(namespace=model.namespace, name=model.name, revision=revision),
            "store": store,
            "source_store": store,
            "prefix": tenant.spec.store.prefix,
            "prepared_key": prepared,
            "backend": backend_of(model),
            "backend_version": keys.backend_version(model, settings),
            "target": engine.offer.target,
            "precision": precision,
            "profiles": keys.profiles(model),
            "options": keys.options(model),
            "evaluation": keys.evaluation(model),
            "timeout_seconds": model.spec.build.timeout_seconds,
        }
    )


def serve_request(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    engines: tuple[EngineSeen, ...],
    revision: str,
    threads: int,
) -> ServeRequest:
    """Order for the runtime: every engine of the revision, so that the pod picks the one for its device."""
    return ServeRequest(
        model=ModelRef(namespace=model.namespace, name=model.name, revision=revision),
        store=keys.store_access(tenant, settings),
        prefix=tenant.spec.store.prefix,
        engines=[EngineRef(target=engine.offer.target, key=engine.key) for engine in engines],
        public_keys=list(tenant.spec.store.public_keys or []),
        batching=keys.batching(model),
        warmup_requests=model.spec.serving.warmup.requests,
        protocols=tuple(model.spec.serving.protocols),
        threads=threads,
    )
