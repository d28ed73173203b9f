"""The labels that NVIDIA's GPU Feature Discovery (device plugin 0.20) writes for an H100 80GB in MIG mode "mixed".

Given to the kubelet when it registers the node; the operator reads product, compute capability and slice from them.
Pure; called by `components` and by `kind`.
"""

MIG_RESOURCE = "nvidia.com/mig-1g.10gb"
"""The extended resource that the fake device plugin advertises by default."""

MIG_COUNT = 4
"""How many slices of it: enough for two tenants with a model in roll-out each."""

GPU_LABELS = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.family": "hopper",
    "nvidia.com/gpu.compute.major": "9",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.machine": "Enginery-Local-Cluster",
    "nvidia.com/gpu.mode": "compute",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mig.config": "all-1g.10gb",
    "nvidia.com/mig.config.state": "success",
    "nvidia.com/mps.capable": "false",
    "nvidia.com/cuda.driver-version.major": "580",
    "nvidia.com/cuda.driver-version.minor": "95",
    "nvidia.com/cuda.driver-version.revision": "05",
    "nvidia.com/cuda.driver-version.full": "580.95.05",
    "nvidia.com/cuda.runtime-version.major": "13",
    "nvidia.com/cuda.runtime-version.minor": "0",
    "nvidia.com/cuda.runtime-version.full": "13.0",
    "nvidia.com/mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
    "nvidia.com/mig-1g.10gb.count": str(MIG_COUNT),
    "nvidia.com/mig-1g.10gb.replicas": "1",
    "nvidia.com/mig-1g.10gb.sharing-strategy": "none",
    "nvidia.com/mig-1g.10gb.memory": "9984",
    "nvidia.com/mig-1g.10gb.multiprocessors": "16",
    "nvidia.com/mig-1g.10gb.slices.gi": "1",
    "nvidia.com/mig-1g.10gb.slices.ci": "1",
    "nvidia.com/mig-1g.10gb.engines.copy": "1",
    "nvidia.com/mig-1g.10gb.engines.decoder": "1",
    "nvidia.com/mig-1g.10gb.engines.encoder": "0",
    "nvidia.com/mig-1g.10gb.engines.jpeg": "1",
    "nvidia.com/mig-1g.10gb.engines.ofa": "0",
}
"""Values as on a real machine, but for `gpu.machine`, which says that this is none."""
