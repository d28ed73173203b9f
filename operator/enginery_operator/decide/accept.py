"""May this model be worked on at all? The condition Accepted, as ordered pure checks; the first that fails answers."""

from collections.abc import Callable, Sequence

from enginery_store.reasons import Reason

from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.backends import ONNXRUNTIME, RTX, TENSORRT, backend_of
from enginery_operator.decide import devices, ladder
from enginery_operator.decide.seen import Observed, Verdict
from enginery_operator.targets import profiles

SOURCE = "spec.source.uri"
"""The one location that holds a model; the others hold data."""

FINAL = "will not be retried until the spec changes"
"""How a message ends when only the tenant can help."""


ALLOWED = "continues by itself when the spec or the tenant's policy changes"
"""How it ends when the platform team can help too."""


def _fail(reason: Reason, message: str) -> Verdict:
    return Verdict("False", reason, message)


def tenant_is_known(seen: Observed) -> Verdict | None:
    """The namespace belongs to a Tenant, unless the installation serves others too."""
    if seen.tenant is None:
        return _fail(
            Reason.TENANT_NOT_FOUND,
            f"namespace {seen.model.namespace} belongs to no Tenant; ask the platform team to add it to"
            " spec.namespaces of one; continues by itself then",
        )
    return None


def tenant_is_active(seen: Observed) -> Verdict | None:
    """The Tenant is not stopped; what serves already goes on under Hold."""
    if seen.tenant is not None and seen.tenant.spec.stop_policy != "None":
        return _fail(
            Reason.TENANT_SUSPENDED,
            f"tenant {seen.tenant.name} has stopPolicy {seen.tenant.spec.stop_policy}; continues by itself when the"
            " platform team sets it to None",
        )
    return None


def locations(model: InferenceModel) -> dict[str, str]:
    """Everything a builder reads for this model, by the field that names it: policy holds for all of it."""
    precision = model.spec.precision
    gate, calibration = precision.accuracy_gate, precision.calibration
    found = {
        SOURCE: model.spec.source.uri,
        "spec.precision.calibration.uri": calibration.uri if calibration else None,
        "spec.precision.accuracyGate.uri": gate.uri if gate else None,
    }
    return {field: uri for field, uri in found.items() if uri is not None}


def source_is_allowed(tenant: Tenant, uri: str) -> bool:
    """Whether a source lies where the Tenant's policy wants it."""
    allowed = tenant.spec.policy.allowed_sources
    return allowed is None or uri.startswith(tuple(allowed))


def policy_allows(seen: Observed) -> Verdict | None:
    """Format, precision and source are among those the Tenant's policy names."""
    if seen.tenant is None:
        return None
    policy, spec = seen.tenant.spec.policy, seen.model.spec
    if policy.allowed_formats is not None and spec.source.format not in policy.allowed_formats:
        return _fail(
            Reason.FORMAT_NOT_ALLOWED,
            f"spec.source.format {spec.source.format} is not allowed; write one of"
            f" {', '.join(policy.allowed_formats)}; {ALLOWED}",
        )
    if (verdict := _precision_is_allowed(seen.model, policy.allowed_precisions)) is not None:
        return verdict
    for field, uri in locations(seen.model).items():
        what = "model" if field == SOURCE else "data"
        if not source_is_allowed(seen.tenant, uri):
            return _fail(
                Reason.SOURCE_NOT_ALLOWED,
                f"{field} {uri} lies outside {', '.join(policy.allowed_sources or ())}; copy the {what} there and write"
                f" its new address; {ALLOWED}",
            )
        if field in seen.foreign:
            return _fail(
                Reason.SOURCE_NOT_ALLOWED,
                f"{field} {uri} lies in or around another tenant's part of the store; copy the {what} to a place of"
                f" your own and write its address; {ALLOWED}",
            )
    return None


def _precision_is_allowed(model: InferenceModel, allowed: Sequence[str] | None) -> Verdict | None:
    """By name; and what Auto may come to is allowed as well."""
    wanted = model.spec.precision.type
    if allowed is None:
        return None
    steps = ladder.steps(model) if wanted == "Auto" else ()
    forbidden = [step for step in steps if step not in allowed]
    if wanted in allowed and not forbidden:
        return None
    because = f", as it may come to {', '.join(forbidden)}" if wanted in allowed else ""
    others = ", ".join(name for name in allowed if name != wanted)
    advice = f"write one of {others}" if others else "ask the platform team to allow that too"
    return _fail(
        Reason.PRECISION_NOT_ALLOWED, f"spec.precision.type {wanted} is not allowed{because}; {advice}; {ALLOWED}"
    )


def this_version_serves_it(seen: Observed) -> Verdict | None:
    """What the API promises and this version does not do yet is refused in words, never half done."""
    spec = seen.model.spec
    unsupported = {
        "spec.source.uri": (spec.source.uri.startswith("pvc://"), "pvc://; copy the model to s3://"),
        "spec.source.signature": (spec.source.signature is not None, "a signature; pin spec.source.digest instead"),
        "spec.precision.calibration.capture": (
            spec.precision.calibration is not None and spec.precision.calibration.capture is not None,
            "calibration on live traffic; write calibration.uri",
        ),
        "spec.serving.server": (spec.serving.server != "Native", f"{spec.serving.server}; write Native"),
        "spec.serving.placement": (spec.serving.placement != "Dedicated", "Pooled; write Dedicated"),
        "spec.serving.fallback": (spec.serving.fallback != "None", "ONNXRuntime; write None"),
        "spec.shapes.fromTraffic.mode": (spec.shapes.from_traffic.mode != "Off", "traffic; write Off"),
        "spec.accelerator.profile": (
            spec.accelerator.profile == "Auto",
            f"Auto; write one of the profiles that exist: {', '.join(profiles(seen.offers)) or 'none'}",
        ),
        "spec.build.retention": (spec.build.retention == "Delete", "Delete; write Retain"),
        "spec.serving.cudaGraphs.batchSizes": (
            spec.serving.cuda_graphs.batch_sizes is not None,
            "CUDA graphs of chosen sizes; remove it",
        ),
        "spec.serving.batching.priorityLevels": (
            spec.serving.batching is not None and spec.serving.batching.priority_levels > 1,
            "priorities of requests; write 1",
        ),
        "spec.rollout.surge": (spec.rollout.surge == "Never", "Never; write Auto, or strategy: Recreate"),
        "spec.route": (spec.route is not None, "a route; remove it and use status.url"),
    }
    for field, (applies, advice) in unsupported.items():
        if applies:
            return _fail(Reason.INVALID_SPEC, f"{field}: this version does not do {advice}; {FINAL}")
    if spec.rollout.strategy == "Canary":
        return _fail(
            Reason.CANARY_NOT_SUPPORTED,
            f"spec.rollout.strategy Canary needs a Gateway route; write RollingUpdate or Recreate; {FINAL}",
        )
    if spec.serving.scaling is not None:
        return _fail(
            Reason.SCALER_NOT_INSTALLED,
            f"spec.serving.scaling needs an autoscaler this version does not set up; write spec.serving.replicas;"
            f" {FINAL}",
        )
    return None


def backend_fits_the_accelerator(seen: Observed) -> Verdict | None:
    """The compiler is one for the devices that are asked for, and takes the options."""
    backend, mode = seen.model.spec.build.backend, seen.model.spec.accelerator.mode
    if backend == ONNXRUNTIME and mode != "CPU":
        return _fail(
            Reason.INVALID_SPEC,
            f"spec.build.backend ONNXRuntime serves on CPUs and spec.accelerator.mode is {mode}; write backend TensorRT"
            f" or Auto, or mode CPU; {FINAL}",
        )
    if backend in {TENSORRT, RTX} and mode == "CPU":
        return _fail(
            Reason.INVALID_SPEC,
            f"spec.build.backend {backend} serves on GPUs and spec.accelerator.mode is CPU; write backend ONNXRuntime"
            f" or Auto, or mode GPU or MIG; {FINAL}",
        )
    if backend == RTX and (asked := seen.model.spec.build.hardware_compatibility) != "None":
        return _fail(
            Reason.INVALID_SPEC,
            f"spec.build.hardwareCompatibility {asked} is for TensorRT, while engines of TensorRTRTX run on every GPU"
            f" of their compute capability; write None; {FINAL}",
        )
    return None


def images_are_installed(seen: Observed) -> Verdict | None:
    """The installation has the images that this model's format and backend need."""
    if not seen.missing_images:
        return None
    source_format, values = seen.model.spec.source.format, " and ".join(seen.missing_images)
    if any(name.startswith("images.converters.") for name in seen.missing_images):
        return _fail(
            Reason.INVALID_SPEC,
            f"spec.source.format {source_format}: this installation has no converter image for it; ask the platform"
            f" team to set {values}, or export the model to ONNX; continues by itself when it is set",
        )
    return _fail(
        Reason.INVALID_SPEC,
        f"spec.build.backend {backend_of(seen.model)}: this installation has no image for it; ask the platform team to"
        f" set {values}; continues by itself when it is set",
    )


CHECKS: tuple[Callable[[Observed], Verdict | None], ...] = (
    tenant_is_known,
    tenant_is_active,
    policy_allows,
    this_version_serves_it,
    backend_fits_the_accelerator,
    images_are_installed,
    *devices.CHECKS,
)
"""In this order: whoever may do nothing learns nothing about devices."""


def accepted(seen: Observed) -> Verdict:
    """The condition Accepted."""
    for check in CHECKS:
        if (verdict := check(seen)) is not None:
            return verdict
    return Verdict("True", Reason.ACCEPTED, devices.told(seen))
