"""kubectl and helm that speak to one cluster whatever the user's KUBECONFIG says. Called by `up` and `kind`."""

from pathlib import Path

from enginery_cluster.places import Places


def write_programs(places: Places, kubebox: Path) -> None:
    """Two small scripts around the binary that holds both."""
    places.programs.mkdir(parents=True, exist_ok=True)
    for name in ("kubectl", "helm"):
        script = places.programs / name
        script.write_text(f"#!/bin/sh\nKUBECONFIG='{places.kubeconfig}' exec '{kubebox}' {name} \"$@\"\n")
        script.chmod(0o755)
