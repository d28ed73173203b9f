"""Which targets a model can be compiled for, from what nodes say. Pure; called by `observe`.

What a node can give is read from its allocatable resources, never computed from labels: after a MIG change a node may
still carry the labels of slices that it cannot give. Labels only describe the product behind a resource.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from enginery_store.manifest import Target

from enginery_operator.api.precision import Accelerator

_GPU = "nvidia.com/gpu"
_MIG = "nvidia.com/mig-"
_ARCHITECTURE = "kubernetes.io/arch"
_PRODUCT = "nvidia.com/gpu.product"


@dataclass(frozen=True)
class Offer:
    """One kind of slice in the cluster: the resource to ask for, what it is, and the node labels that name it."""

    resource: str
    target: Target
    node_labels: tuple[tuple[str, str], ...]


def offers(nodes: Iterable[Mapping[str, Any]], *, resting: bool = False) -> tuple[Offer, ...]:
    """Every kind of slice that ready, schedulable nodes can give, sorted; equal kinds on several nodes once.

    With `resting` those too of nodes that are cordoned or not ready now.
    """
    found = {offer for node in nodes if resting or _usable(node) for offer in _of_node(node)}
    return tuple(sorted(found, key=lambda offer: (offer.target.name, offer.resource, offer.node_labels)))


def matching(accelerator: Accelerator, offered: Iterable[Offer], products: Iterable[str] = ()) -> tuple[Offer, ...]:
    """The offers a model's accelerator asks for, one per target.

    Where one target comes in two ways (MIG strategies single and mixed), the first in order is taken: an engine is
    built once, and status names each target once.
    """
    wanted = set(products)

    def fits(offer: Offer) -> bool:
        target = offer.target
        if target.accelerator != accelerator.mode or (wanted and target.product not in wanted):
            return False
        return accelerator.mode != "MIG" or accelerator.profile in {target.mig_profile, "Auto"}

    found: dict[str, Offer] = {}
    for offer in offered:
        if fits(offer):
            found.setdefault(offer.target.name, offer)
    return tuple(found.values())


def profiles(offered: Iterable[Offer]) -> list[str]:
    """MIG profiles that exist now, for messages."""
    return sorted({offer.target.mig_profile for offer in offered if offer.target.mig_profile})


def _usable(node: Mapping[str, Any]) -> bool:
    if node.get("spec", {}).get("unschedulable"):
        return False
    conditions = node.get("status", {}).get("conditions", [])
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _of_node(node: Mapping[str, Any]) -> Iterable[Offer]:
    labels = node.get("metadata", {}).get("labels", {})
    allocatable = node.get("status", {}).get("allocatable", {})
    architecture = labels.get(_ARCHITECTURE, "")
    if architecture:
        yield Offer("cpu", Target(accelerator="CPU", architecture=architecture), ((_ARCHITECTURE, architecture),))
    if labels.get("nvidia.com/mig.config.state", "success") != "success":
        return
    for resource, amount in allocatable.items():
        if not str(amount).isdigit() or int(amount) == 0:
            continue
        if resource == _GPU:
            yield from _gpu(labels, architecture)
        elif resource.startswith(_MIG):
            yield from _mig(labels, resource, architecture)


def _capability(labels: Mapping[str, str]) -> str:
    return f"{labels.get('nvidia.com/gpu.compute.major', '0')}.{labels.get('nvidia.com/gpu.compute.minor', '0')}"


def _gpu(labels: Mapping[str, str], architecture: str) -> Iterable[Offer]:
    """`nvidia.com/gpu` is a whole GPU, or, with MIG strategy single, a slice whose profile is in the product's name."""
    product = labels.get(_PRODUCT, "")
    if not product or product.endswith(("-SHARED", "-MIG-INVALID")) or _shared(labels, _GPU):
        return
    name, _, profile = product.partition("-MIG-")
    yield Offer(
        _GPU,
        Target(
            accelerator="MIG" if profile else "GPU",
            architecture=architecture,
            compute_capability=_capability(labels),
            product=name,
            mig_profile=_profile(profile),
        ),
        ((_PRODUCT, product),),
    )


def _mig(labels: Mapping[str, str], resource: str, architecture: str) -> Iterable[Offer]:
    """With MIG strategy mixed every profile is a resource of its own; the product is the whole GPU's."""
    product = labels.get(_PRODUCT, "")
    if not product or _shared(labels, resource):
        return
    yield Offer(
        resource,
        Target(
            accelerator="MIG",
            architecture=architecture,
            compute_capability=_capability(labels),
            product=product.partition("-MIG-")[0].removesuffix("-SHARED"),
            mig_profile=_profile(resource.removeprefix(_MIG)),
        ),
        ((_PRODUCT, product),),
    )


def _shared(labels: Mapping[str, str], resource: str) -> bool:
    """Whether several pods share one device behind this resource: timings would be a neighbour's too."""
    return labels.get(f"{resource}.sharing-strategy", "none") not in {"", "none"}


def _profile(text: str) -> str:
    """A profile as nvidia-smi writes it: labels and resource names cannot hold its plus sign."""
    return text.replace(".me", "+me", 1).replace(".gfx", "+gfx", 1)
