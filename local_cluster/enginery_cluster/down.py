"""`down`: end a cluster and remove everything it left, whatever state it is in. Called by the command and by `up`."""

import shutil

from enginery_cluster import cgroups, network, node_process
from enginery_cluster.leftovers import leftovers
from enginery_cluster.locks import exclusive
from enginery_cluster.places import Places
from enginery_cluster.state import Cluster, NoClusterError
from enginery_cluster.steps import say


def down(name: str) -> None:
    """Remove the cluster; RuntimeError names what could not be removed."""
    places = Places(name)
    with exclusive(places):
        provider = _provider(name)
        if provider == "kind":
            from enginery_cluster.kind import delete

            delete(places)
        remove(places)
    say(f"cluster {name} is gone" if provider != "existing" else f"forgot the existing cluster as {name}")


def remove(places: Places) -> None:
    """Everything but the lock. Safe to repeat, and to run on half a cluster or on none."""
    places.go_ahead.unlink(missing_ok=True)
    node_process.stop(places)
    network.disconnect(places.interface)
    cgroups.remove(places.cgroup)
    shutil.rmtree(places.state, ignore_errors=True)
    if rest := leftovers(places.name):
        raise RuntimeError("could not be removed: " + "; ".join(rest))


def _provider(name: str) -> str:
    try:
        return Cluster.load(name).provider
    except (NoClusterError, ValueError, TypeError, KeyError):
        return ""
