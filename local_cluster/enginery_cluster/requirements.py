"""What the local cluster needs from the machine, checked before anything starts. Called by `up` and `images`."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "iptables", "nft", "nsenter", "unshare")
"""Programs of Debian packages that `make` installs when one is missing."""


def check_machine() -> None:
    """Leave with everything that is missing in one message."""
    problems = []
    if platform.system() != "Linux":
        problems.append("Linux is needed: use CLUSTER=kind or CLUSTER=existing elsewhere")
    elif os.geteuid() != 0:
        problems.append("root is needed: the node makes namespaces, mounts and a network interface (or CLUSTER=kind)")
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    problems += [f"{program} is missing: run `make packages`" for program in PROGRAMS if not shutil.which(program)]
    if problems:
        sys.exit("\n".join(problems))


def lies_on_overlay(folder: Path) -> bool:
    """Whether a folder is on an overlay file system, as in a CI container: overlays do not stack on it."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True)
    return "overlay" in kind.stdout
