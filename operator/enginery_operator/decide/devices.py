"""Is there a device of this kind, for this compiler, with units for this precision? Part of Accepted. Pure.

What is missing may turn up with the next node, so each of these goes on by itself.
"""

from enginery_store.reasons import Reason

from enginery_operator.backends import RTX_CAPABILITIES, backend_of, compiles_for, computes, fitting
from enginery_operator.decide.seen import Observed, Verdict
from enginery_operator.targets import profiles

PRECISIONS = ("FP32", "FP16", "BF16", "INT8", "FP8")
"""All there are, for messages."""


def devices_exist(seen: Observed) -> Verdict | None:
    """Some node can give the accelerator now; goes on by itself when one turns up."""
    if seen.matching:
        return None
    wanted = seen.model.spec.accelerator
    if wanted.mode == "MIG":
        known = ", ".join(profiles(seen.offers)) or "none"
        return Verdict(
            "False",
            Reason.MIG_PROFILE_NOT_FOUND,
            f"no ready node offers MIG profile {wanted.profile}; profiles that exist: {known}; continues by itself"
            " when one does",
        )
    return Verdict(
        "False",
        Reason.NO_COMPATIBLE_NODES,
        f"no ready node offers spec.accelerator.mode {wanted.mode}; continues by itself when one does",
    )


def backend_compiles_for_some_device(seen: Observed) -> Verdict | None:
    """TensorRT-RTX has a list of its own; every other backend compiles for whatever is in hand."""
    backend = backend_of(seen.model)
    if any(compiles_for(backend, offer.target) for offer in seen.matching):
        return None
    return Verdict(
        "False",
        Reason.INVALID_SPEC,
        f"spec.build.backend {backend} compiles for compute capabilities {', '.join(RTX_CAPABILITIES)} and these are"
        f" none: {_devices(seen)}; write TensorRT, or wait for such a node; continues by itself then",
    )


def some_device_computes_the_precision(seen: Observed) -> Verdict | None:
    """At least one target has units for the precision; the others are left out."""
    if fitting(seen.model, seen.matching):
        return None
    wanted, backend = seen.model.spec.precision.type, backend_of(seen.model)
    usable = [
        name
        for name in PRECISIONS
        if any(compiles_for(backend, offer.target) and computes(offer.target, name) for offer in seen.matching)
    ]
    return Verdict(
        "False",
        Reason.PRECISION_NOT_SUPPORTED_BY_HARDWARE,
        f"spec.precision.type {wanted}: none of the targets computes it ({_devices(seen)}); write one of"
        f" {', '.join(usable)}; continues by itself when a device that does turns up",
    )


def _devices(seen: Observed) -> str:
    return ", ".join(offer.target.name for offer in seen.matching)


CHECKS = (devices_exist, backend_compiles_for_some_device, some_device_computes_the_precision)
"""In this order: each takes for granted what the one before it found."""


def told(seen: Observed) -> str:
    """How many targets are used, and which of those asked for are left out."""
    used = fitting(seen.model, seen.matching)
    others = [offer.target.name for offer in seen.matching if offer not in used]
    precision, backend = seen.model.spec.precision.type, backend_of(seen.model)
    left_out = f"; left out, as {backend} makes no {precision} engines for them: {', '.join(others)}" if others else ""
    return f"{len(used)} target(s){left_out}"
