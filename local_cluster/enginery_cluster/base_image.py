"""The base of our images where there is no registry: a small Debian with Python, made by mmdebstrap.

Called by `images`. Kept in the cache under a digest of its package list; the packages come from the machine's own
Debian mirror.
"""

import hashlib
import subprocess
from pathlib import Path

from enginery_cluster.places import cache_folder

SUITE = "bookworm"
"""Debian 12, whose Python is 3.11."""

PYTHON_VERSION = "3.11"
"""The Python in it, for which wheels are chosen."""

PACKAGES = ("ca-certificates", "python3", "python3-venv")
"""Beyond Debian's minimal set."""

LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
"""Files that no program reads."""

SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
"""Where a Debian machine names its mirror."""


def digest() -> str:
    """Identifies the base image's content."""
    return hashlib.sha256(repr((SUITE, PACKAGES, LEFT_OUT)).encode()).hexdigest()[:12]


def archive() -> Path:
    """The root file system as a tar file, where it is or will be."""
    return cache_folder("base") / f"debian-{digest()}.tar"


def make() -> None:
    """Make the root file system; half a minute."""
    target = archive()
    new = target.with_suffix(".new.tar")
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}", *options]
    done = subprocess.run([*command, SUITE, str(new), *_mirror()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mmdebstrap failed:\n{done.stderr[-3000:]}")
    new.replace(target)


def _mirror() -> list[str]:
    """The machine's own sources when they are of the suite; otherwise mmdebstrap's default."""
    return [str(path) for path in SOURCES if path.exists() and SUITE in path.read_text()][:1]
