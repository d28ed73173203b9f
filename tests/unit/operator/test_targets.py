"""What nodes say -> kinds of slices: fleets of A100, H100, H200, GB200, T4 and CPU nodes, in every state met."""

import pytest
from enginery_operator.api.precision import Accelerator
from enginery_operator.targets import matching, offers, profiles
from support.installation import H100, ANode, a_cache, a_node, some_offers

STATE = "nvidia.com/mig.config.state"
SHARING = "nvidia.com/gpu.sharing-strategy"
H = "NVIDIA-H100-80GB-HBM3"

NODES: dict[str, tuple[ANode, list[tuple[str, str]]]] = {
    # sentence: (node, [(name of the target, resource)] besides the CPU's)
    "a CPU node": (a_node(), []),
    "a T4": (
        a_node().with_gpu("Tesla-T4", 1, capability="7.5"), [("sm75-tesla-t4", "nvidia.com/gpu")]),
    "eight whole H100": (
        a_node().with_gpu(H, 8), [("sm90-nvidia-h100-80gb-hbm3", "nvidia.com/gpu")]),
    "a GB200": (
        a_node().with_gpu("NVIDIA-GB200", 4, capability="10.0"), [("sm100-nvidia-gb200", "nvidia.com/gpu")]),
    "A100 40 GB, strategy mixed": (
        a_node().with_mig("NVIDIA-A100-SXM4-40GB", {"1g.5gb": 7, "3g.20gb": 1}, capability="8.0"),
        [("sm80-nvidia-a100-sxm4-40gb-1g.5gb", "nvidia.com/mig-1g.5gb"),
         ("sm80-nvidia-a100-sxm4-40gb-3g.20gb", "nvidia.com/mig-3g.20gb")]),
    "A100 80 GB, strategy mixed": (
        a_node().with_mig("NVIDIA-A100-SXM4-80GB", {"1g.10gb": 7}, capability="8.0"),
        [("sm80-nvidia-a100-sxm4-80gb-1g.10gb", "nvidia.com/mig-1g.10gb")]),
    "H200, strategy mixed, whole GPUs beside slices": (
        a_node().with_mig("NVIDIA-H200", {"1g.18gb": 4}).with_gpu("NVIDIA-H200", 2),
        [("sm90-nvidia-h200", "nvidia.com/gpu"), ("sm90-nvidia-h200-1g.18gb", "nvidia.com/mig-1g.18gb")]),
    "strategy single: the profile is in the product": (
        a_node().with_gpu(f"{H}-MIG-1g.10gb", 7),
        [("sm90-nvidia-h100-80gb-hbm3-1g.10gb", "nvidia.com/gpu")]),
    "strategy single with media engines": (
        a_node().with_gpu(f"{H}-MIG-1g.10gb.me", 1),
        [("sm90-nvidia-h100-80gb-hbm3-1g.10gb+me", "nvidia.com/gpu")]),
    "a profile with media engines": (
        a_node().with_mig(H, {"1g.10gb.me": 1}),
        [("sm90-nvidia-h100-80gb-hbm3-1g.10gb+me", "nvidia.com/mig-1g.10gb.me")]),
    "a profile with all media engines": (
        a_node().with_mig(H, {"1g.10gb.me.all": 1}),
        [("sm90-nvidia-h100-80gb-hbm3-1g.10gb+me.all", "nvidia.com/mig-1g.10gb.me.all")]),
    "a profile without media engines": (
        a_node().with_mig(H, {"1g.10gb-me": 1}),
        [("sm90-nvidia-h100-80gb-hbm3-1g.10gb-me", "nvidia.com/mig-1g.10gb-me")]),
    "a profile with graphics": (
        a_node().with_mig(H, {"1g.10gb.gfx": 1}),
        [("sm90-nvidia-h100-80gb-hbm3-1g.10gb+gfx", "nvidia.com/mig-1g.10gb.gfx")]),
    "slices in mixed sizes on GPUs of strategy single": (a_node().with_gpu(f"{H}-MIG-INVALID", 7), []),
    "time-sliced GPUs": (a_node().with_gpu(f"{H}-SHARED", 4), []),
    "time-sliced GPUs that keep their name": (
        a_node().with_gpu(H, 4).label(SHARING, "time-slicing"), []),
    "GPUs shared by MPS": (a_node().with_gpu(H, 4).label(SHARING, "mps"), []),
    "GPUs that say they are not shared": (
        a_node().with_gpu(H, 4).label(SHARING, "none"), [("sm90-nvidia-h100-80gb-hbm3", "nvidia.com/gpu")]),
    "time-sliced slices": (
        a_node().with_mig(H, {"1g.10gb": 14}).label("nvidia.com/mig-1g.10gb.sharing-strategy", "time-slicing"), []),
    "whole slices beside time-sliced GPUs": (
        a_node().with_mig(f"{H}-SHARED", {"1g.10gb": 7}).label(SHARING, "time-slicing"),
        [("sm90-nvidia-h100-80gb-hbm3-1g.10gb", "nvidia.com/mig-1g.10gb")]),
    "a slice that is listed and not given": (a_node().with_mig(H, {"3g.40gb": 0}), []),
    "labels of slices without the resource": (
        a_node().label("nvidia.com/mig-1g.10gb.count", "7").label("nvidia.com/gpu.product", H), []),
    "slices nobody has described yet": (ANode(allocatable={"nvidia.com/mig-1g.10gb": "7"}), []),
    "partitioning under way": (H100.label(STATE, "pending"), []),
    "partitioning failed": (H100.label(STATE, "failed"), []),
    "a reboot for partitioning": (H100.label(STATE, "rebooting"), []),
    "partitioning done": (
        H100.label(STATE, "success"), [("sm90-nvidia-h100-80gb-hbm3-1g.10gb", "nvidia.com/mig-1g.10gb")]),
}  # fmt: skip


@pytest.mark.parametrize("sentence", NODES)
def test_offers_are_what_the_node_can_give(sentence: str) -> None:
    node, want = NODES[sentence]
    found = [(offer.target.name, offer.resource) for offer in offers([node.body()]) if offer.resource != "cpu"]
    assert found == want


def test_a_cordoned_or_unready_node_gives_nothing() -> None:
    assert offers([ANode(labels=H100.labels, allocatable=H100.allocatable, unschedulable=True).body()]) == ()
    assert offers([ANode(labels=H100.labels, allocatable=H100.allocatable, ready="Unknown").body()]) == ()


def test_equal_nodes_are_one_kind() -> None:
    assert some_offers(H100, H100, a_node()) == some_offers(H100)


def test_kinds_do_not_depend_on_the_order_of_nodes() -> None:
    nodes = [node for node, _ in NODES.values()]
    assert some_offers(*nodes) == some_offers(*reversed(nodes))


FLEET = some_offers(*(node for node, _ in NODES.values()))
ASKED: dict[str, tuple[dict[str, str], list[str], int]] = {
    "CPU": ({"mode": "CPU"}, [], 1),
    "whole GPUs": ({"mode": "GPU"}, [], 4),
    "whole GPUs of a product": ({"mode": "GPU"}, ["NVIDIA-GB200"], 1),
    "a profile on two products, on one of them in both strategies": ({"mode": "MIG", "profile": "1g.10gb"}, [], 2),
    "a profile of one product": ({"mode": "MIG", "profile": "1g.18gb"}, [], 1),
    "a profile with media engines is another": ({"mode": "MIG", "profile": "1g.10gb+me"}, [], 1),
    "a profile nobody has": ({"mode": "MIG", "profile": "7g.80gb"}, [], 0),
}


@pytest.mark.parametrize("sentence", ASKED)
def test_a_model_gets_exactly_what_it_asks_for(sentence: str) -> None:
    accelerator, products, want = ASKED[sentence]
    found = matching(Accelerator.model_validate(accelerator), FLEET, products)
    assert len(found) == want, [offer.target.name for offer in found]
    assert all(offer.target.mig_profile == accelerator.get("profile", "") for offer in found)


def test_a_target_in_both_strategies_is_taken_the_same_way_by_every_pass() -> None:
    single, mixed = a_node().with_gpu(f"{H}-MIG-1g.10gb", 7), H100
    wanted = Accelerator.model_validate({"mode": "MIG", "profile": "1g.10gb"})
    for nodes in ((single, mixed), (mixed, single)):
        assert [offer.resource for offer in matching(wanted, some_offers(*nodes))] == ["nvidia.com/gpu"]


def test_profiles_are_listed_once_each() -> None:
    assert profiles(FLEET) == [
        "1g.10gb", "1g.10gb+gfx", "1g.10gb+me", "1g.10gb+me.all", "1g.10gb-me", "1g.18gb", "1g.5gb", "3g.20gb",
    ]  # fmt: skip


def test_a_tenants_node_selector_narrows_what_it_is_offered() -> None:
    pool = ANode(name="a", labels=H100.labels | {"pool": "a"}, allocatable=H100.allocatable)
    other = ANode(name="b", labels=a_node().labels | {"pool": "b"})
    cache = a_cache(nodes=(pool, other))
    assert [offer.resource for offer in cache.offers({"pool": "a"})] == ["cpu", "nvidia.com/mig-1g.10gb"]
    assert [offer.resource for offer in cache.offers({"pool": "b"})] == ["cpu"]
    assert cache.offers({"pool": "c"}) == ()
    assert cache.offers() == cache.offers({"pool": "a"})


def test_only_a_change_of_what_nodes_give_wakes_models() -> None:
    cache = a_cache(nodes=(H100,))
    before = cache.offers({"pool": "a"}), cache.offers()
    assert before[0] == ()
    body = next(iter(cache.nodes()))
    body["status"]["conditions"].append({"type": "MemoryPressure", "status": "False"})
    assert not cache.refresh_offers()
    body["metadata"]["labels"]["pool"] = "a"
    assert cache.refresh_offers()
    body["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "0"
    assert cache.refresh_offers()
    assert not cache.refresh_offers()
