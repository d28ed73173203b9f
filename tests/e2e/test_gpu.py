"""GPU models up to the Job that asks for a slice: a real kubelet hands out what a fake device plugin advertises."""

from enginery_cluster.gpu_labels import GPU_LABELS, MIG_RESOURCE
from support.eventually import eventually
from support.linear_model import linear
from support.workspace import Workspace

PROFILE = MIG_RESOURCE.removeprefix("nvidia.com/mig-")


def test_a_mig_model_is_prepared_without_a_slice_and_built_on_one_of_its_profile(team: Workspace) -> None:
    team.serve("sliced", linear(), accelerator={"mode": "MIG", "profile": PROFILE})
    (build,) = eventually(lambda: team.jobs("sliced", "build"), 90, 0.2)
    (prepare,) = team.jobs("sliced", "prepare")
    resources = _builder(prepare)["resources"]
    assert not any(name.startswith("nvidia.com/") for name in {**resources["requests"], **resources["limits"]})
    resources = _builder(build)["resources"]
    assert resources["limits"][MIG_RESOURCE] == "1" == resources["requests"][MIG_RESOURCE]
    required = build["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    (term,) = required["nodeSelectorTerms"]
    product = GPU_LABELS["nvidia.com/gpu.product"]
    assert {"key": "nvidia.com/gpu.product", "operator": "In", "values": [product]} in term["matchExpressions"]
    # The kubelet ran it, so node, labels and device were found; without a GPU the builder can only say so.
    ended = eventually(lambda: _ended(team), 90, 0.2)
    assert ended["exitCode"] != 0
    status = team.status("sliced")
    assert status["acceleratorSummary"] == f"mig-{PROFILE}"
    (engine,) = status["engines"]
    assert engine["target"].startswith("sm90-nvidia-h100")
    assert engine["target"].endswith(PROFILE)
    found = team.wait("sliced", "EnginesReady", "False")
    assert found["message"]


def _builder(job: dict[str, object]) -> dict[str, dict[str, dict[str, str]]]:
    spec = job["spec"]
    assert isinstance(spec, dict)
    container: dict[str, dict[str, dict[str, str]]] = spec["template"]["spec"]["containers"][0]
    return container


def _ended(team: Workspace) -> dict[str, int] | None:
    for pod in team.pods("sliced", "build"):
        for container in pod["status"].get("containerStatuses", []):
            ended: dict[str, int] | None = container["state"].get("terminated")
            if ended:
                return ended
    return None


def test_a_profile_that_no_node_has_is_refused_with_those_that_exist(team: Workspace) -> None:
    team.serve("sliced", linear(), accelerator={"mode": "MIG", "profile": "7g.80gb"})
    found = team.wait("sliced", "Accepted", "False", "MIGProfileNotFound")
    assert "7g.80gb" in found["message"]
    assert f"profiles that exist: {PROFILE}" in found["message"]
    assert team.condition("sliced")["reason"] == "MIGProfileNotFound"
    assert team.jobs("sliced", "build") == []


def test_a_whole_gpu_where_there_are_only_slices_says_so(team: Workspace) -> None:
    team.serve("whole", linear(), accelerator={"mode": "GPU"})
    found = team.wait("whole", "Accepted", "False", "NoCompatibleNodes")
    assert "GPU" in found["message"]
    assert team.jobs() == []
