"""From a model to the keys and names of what it needs: revision, request, engines. Pure; called by `observe`, `render`.

Only what changes an artifact goes in. The parts are dumped without defaults, so that a later version with one more
field computes the same keys for the same wishes.
"""

from collections.abc import Mapping
from typing import Any

from enginery_store import identity
from enginery_store.manifest import BuildOptions, ShapeProfile
from enginery_store.requests import (
    OVERFLOW_SAMPLES,
    Batching,
    CalibrationRef,
    EvaluationRef,
    PrecisionRef,
    SourceRef,
    StoreAccess,
)

from enginery_operator.api.schema import APIType
from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.backends import ONNXRUNTIME, QUANTIZED, RTX, backend_of
from enginery_operator.settings import Settings
from enginery_operator.targets import Offer

REVISION_HASH_LENGTH = 8
"""Hex digits of a revision's name after the model's."""

UNLISTED = "unlisted"
"""What status says in place of a fingerprint when the operator may not list the source."""

JOB_NAME_LIMIT = 63
"""A Job's name is a label of its pods."""

JOB_HASH_LENGTH = 10
"""Hex digits of a Job's name: 40 bits among the Jobs of one model."""


def _wishes(part: APIType) -> dict[str, Any]:
    return part.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)


def revision_name(model: InferenceModel, fingerprint: str) -> str:
    """`<model>-<hash8>` over what makes a revision, and the listing its source is pinned to."""
    spec = model.spec
    serving = spec.serving.model_copy(update={"replicas": None, "scaling": None})
    parts = {
        "source": _wishes(spec.source),
        "fingerprint": fingerprint,
        "precision": _wishes(spec.precision),
        "shapes": _wishes(spec.shapes),
        "build": _wishes(spec.build),
        "accelerator": _wishes(spec.accelerator),
        "serving": _wishes(serving),
    }
    if spec.precision.type == "Auto" and spec.objective is not None:
        parts["objective"] = _wishes(spec.objective)  # it decides which precision serves
    return f"{model.name}-{identity.digest_of(parts)[:REVISION_HASH_LENGTH]}"


def source_ref(model: InferenceModel, fingerprint: str) -> SourceRef:
    """What the builder is told of the source."""
    source = model.spec.source
    return SourceRef(
        uri=source.uri,
        format=source.format,
        task=source.task or "",
        digest=source.digest or "",
        fingerprint=fingerprint,
    )


def profiles(model: InferenceModel) -> list[ShapeProfile]:
    """spec.shapes.profiles as documents."""
    given = model.spec.shapes.profiles or []
    return [ShapeProfile.model_validate(profile.model_dump(by_alias=True)) for profile in given]


def precision_ref(model: InferenceModel, precision: str) -> PrecisionRef:
    """The order for one precision: the spec's own type, or a step of Auto."""
    wanted = model.spec.precision
    quantized = precision in QUANTIZED
    prequantized = quantized and wanted.quantization == "Prequantized"
    return PrecisionRef.model_validate(
        {
            "type": precision,
            "prequantized": prequantized,
            "rest": "FP16" if quantized and backend_of(model) != ONNXRUNTIME else "FP32",
            "calibration": None if prequantized else _calibration(model, precision),
        }
    )


def _calibration(model: InferenceModel, precision: str) -> CalibrationRef | None:
    """Scales come from the calibration data; overflow of half precision shows on the gate's data, where there are."""
    gate, given = model.spec.precision.accuracy_gate, model.spec.precision.calibration
    if precision in QUANTIZED and given is not None and given.uri is not None:
        return CalibrationRef(uri=given.uri, samples=given.samples, evaluation_uri=gate.uri if gate else "")
    if precision == "FP16" and gate is not None:  # BF16 has the range of FP32
        return CalibrationRef(uri=gate.uri, samples=min(gate.samples, OVERFLOW_SAMPLES))
    return None


def options(model: InferenceModel) -> BuildOptions:
    """Builder options. ONNX Runtime has none of TensorRT's, so they do not split its engines."""
    build = model.spec.build
    if backend_of(model) == ONNXRUNTIME:
        return BuildOptions()
    return BuildOptions(
        optimization_level=build.optimization_level,
        workspace_mib=build.workspace_mi_b,
        hardware_compatibility=build.hardware_compatibility,
    )


def evaluation(model: InferenceModel) -> EvaluationRef | None:
    """The accuracy gate as an order to the builder."""
    gate = model.spec.precision.accuracy_gate
    if gate is None:
        return None
    return EvaluationRef.model_validate(gate.model_dump())


def batching(model: InferenceModel) -> Batching:
    """spec.serving.batching as an order to the runtime."""
    wanted = model.spec.serving.batching
    return Batching.model_validate(wanted.model_dump(exclude_none=True)) if wanted else Batching()


def compilers(model: InferenceModel) -> list[Any]:
    """What will compile the prepared model: a source that these refuse is refused for them alone."""
    return [backend_of(model)]


def backend_version(model: InferenceModel, settings: Settings) -> str:
    """Exact version of the model's compiler inside the installation's images."""
    versions = {ONNXRUNTIME: settings.onnxruntime_version, RTX: settings.tensorrt_rtx_version}
    return versions.get(backend_of(model), settings.tensorrt_version)


def request_key(model: InferenceModel, fingerprint: str, prefix: str, precision: PrecisionRef) -> str:
    """Key of the prepare request for one precision."""
    source = source_ref(model, fingerprint).model_dump(by_alias=True) | {"backends": compilers(model)}
    secret = model.spec.source.credentials_secret_ref
    if secret is not None:
        # Other credentials may see what these could not: the outcome is theirs.
        source["credentials"] = f"{model.namespace}/{secret.name}"
    return identity.request_key(
        source=source,
        precision={"type": precision.type}
        | precision.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True),
        profiles=[profile.model_dump(by_alias=True) for profile in profiles(model)],
        prefix=prefix,
    )


def engine_key(model: InferenceModel, prepared: str, offer: Offer, settings: Settings) -> str:
    """Key of the engine for one target."""
    gate = evaluation(model)
    asked: Mapping[str, Any] | None = gate.model_dump(by_alias=True, exclude={"max_degradation"}) if gate else None
    return identity.engine_key(
        prepared=prepared,
        backend=backend_of(model),
        backend_version=backend_version(model, settings),
        target=offer.target.model_dump(by_alias=True),
        profiles=[profile.model_dump(by_alias=True) for profile in profiles(model)],
        options=options(model).model_dump(by_alias=True, exclude_none=True),
        evaluation=asked,
    )


def job_name(model: InferenceModel, stage: str, key: str, attempt: int) -> str:
    """`<model>-<stage>-<key10>`, with `-r<n>` from the second attempt on; at most 63 characters.

    A Job that is asked again for ever has an ever longer number; what it takes goes from the key's digits.
    """
    suffix = "" if attempt == 1 else f"-r{attempt}"
    room = JOB_NAME_LIMIT - len(f"{model.name}-{stage}-{suffix}")
    return f"{model.name}-{stage}-{key[: min(JOB_HASH_LENGTH, room)]}{suffix}"


def store_access(tenant: Tenant, settings: Settings) -> StoreAccess:
    """The installation's store settings with the Tenant's own on top."""
    store = tenant.spec.store
    own = {
        "endpoint": store.endpoint,
        "region": store.region,
        "addressing": store.addressing,
        "checksums": store.checksums,
        "ca_bundle": store.ca_bundle,
    }
    return settings.store.model_copy(update={name: value for name, value in own.items() if value is not None})
