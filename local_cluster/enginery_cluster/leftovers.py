"""What a cluster can leave on the machine, as a list of sentences. Called by `down --verify` and by tests."""

from enginery_cluster import cgroups, network
from enginery_cluster.places import Places


def leftovers(name: str) -> list[str]:
    """Everything of a cluster that is still there; empty after `down`."""
    places = Places(name)
    found = [f"process {pid}" for pid in sorted(cgroups.processes(places.cgroup))]
    found += [f"cgroup {folder}" for folder in cgroups.folders(places.cgroup)]
    if network.interface_exists(places.interface):
        found.append(f"interface {places.interface}, with its routes")
    found += [f"mount {line.split()[4]}" for line in _mounts() if str(places.state) in line]
    if places.state.exists():
        found.append(f"folder {places.state}")
    return found


def _mounts() -> list[str]:
    with open("/proc/self/mountinfo") as table:  # noqa: PTH123
        return table.readlines()
