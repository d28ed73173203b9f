"""The sandbox image of every pod: one static program, written as an OCI archive without any image builder.

Called by `up`. The pause binary is local_cluster/pause, which needs neither a registry nor a C compiler.
"""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

from enginery_cluster.configuration import PAUSE_IMAGE

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of machines in images."""

_OCI = "application/vnd.oci.image"


def write(pause: Path, archive: Path) -> None:
    """Write the archive of PAUSE_IMAGE."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("pause")
        entry.size, entry.mode = pause.stat().st_size, 0o755
        with pause.open("rb") as program:
            tar.addfile(entry, program)
    with tarfile.open(archive, "w") as tar:
        layer_digest = _add_blob(tar, layer.getvalue())
        config = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _described(tar, config, f"{_OCI}.config.v1+json"),
            "layers": [
                {
                    "mediaType": f"{_OCI}.layer.v1.tar",
                    "digest": layer_digest,
                    "size": len(layer.getvalue()),
                }
            ],
        }
        described = _described(tar, manifest, f"{_OCI}.manifest.v1+json")
        described["annotations"] = {"io.containerd.image.name": PAUSE_IMAGE}
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [described]}).encode())
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')


def _described(tar: tarfile.TarFile, document: dict[str, Any], media_type: str) -> dict[str, Any]:
    content = json.dumps(document).encode()
    return {"mediaType": media_type, "digest": _add_blob(tar, content), "size": len(content)}


def _add_blob(tar: tarfile.TarFile, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    _add(tar, f"blobs/sha256/{digest}", content)
    return f"sha256:{digest}"


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
