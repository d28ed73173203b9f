"""Wheels of everything our images install, fetched on the host with the host's pip settings. Called by `images`.

The image build then needs no network and no index, and a rebuild downloads nothing. Kept in the cache under a digest of
the requirements and requirements.lock.
"""

import hashlib
import platform
import subprocess
import sys
import tomllib
from pathlib import Path

from enginery_cluster.base_image import PYTHON_VERSION
from enginery_cluster.places import CHECKOUT, cache_folder

EXTRAS = ("operator", "builder", "runtime")
"""The extras that become images."""

GLIBC_MINORS = range(36, 16, -1)
"""Debian 12 has glibc 2.36; wheels of manylinux 2.17 to 2.36 run on it."""


def wanted() -> list[str]:
    """Requirements of the images, and the build backend's: an image build has no index to ask."""
    document = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    project = document["project"]
    extras = [requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra]]
    return [*document["build-system"]["requires"], *project["dependencies"], *extras]


def folder() -> Path:
    """Where the wheels are, or will be."""
    inputs = repr(wanted()).encode() + (CHECKOUT / "requirements.lock").read_bytes()
    return cache_folder("wheels") / hashlib.sha256(inputs).hexdigest()[:12]


def is_complete() -> bool:
    """The folder is renamed to its name when the last wheel is in it."""
    return folder().exists()


def fetch() -> None:
    """Download wheels only: nothing is compiled, so an image holds what its authors published."""
    target = folder()
    new = target.with_suffix(".new")
    new.mkdir(exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(new)]
    constraints = ["--constraint", str(CHECKOUT / "requirements.lock")]
    subprocess.run([*pip, *_foreign_python(), *constraints, *wanted()], check=True, stdout=sys.stderr)
    new.rename(target)


def _foreign_python() -> list[str]:
    """Options for another Python: pip chooses for the Python that runs it unless told version and platforms."""
    if platform.python_version().startswith(PYTHON_VERSION + "."):
        return []
    machine = platform.machine()
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
    return [f"--python-version={PYTHON_VERSION}", *platforms, f"--platform=manylinux2014_{machine}"]
