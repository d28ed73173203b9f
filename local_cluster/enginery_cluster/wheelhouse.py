"""Wheels of everything our images install, fetched on the host with the host's pip settings. Called by `images`.

The image build then needs no network and no index, and a rebuild downloads nothing. Kept in the cache under a digest of
what was asked for. The programs share one set under requirements.lock; a converter has its own, under its own lock, for
frameworks pin what the programs pin otherwise.
"""

import hashlib
import platform
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginery_cluster.base_image import PYTHON_VERSION
from enginery_cluster.places import CHECKOUT, cache_folder

EXTRAS = ("operator", "builder", "runtime")
"""The extras that become images."""

GLIBC_MINORS = range(36, 16, -1)
"""Debian 12 has glibc 2.36; wheels of manylinux 2.17 to 2.36 run on it."""


@dataclass(frozen=True)
class Wheelhouse:
    """Requirements, and the file that pins them: as constraints, or as requirements themselves."""

    requirements: tuple[str, ...]
    lock: Path
    lock_option: str

    @property
    def folder(self) -> Path:
        """Where the wheels are, or will be."""
        inputs = repr(list(self.requirements)).encode() + self.lock.read_bytes()
        return cache_folder("wheels") / hashlib.sha256(inputs).hexdigest()[:12]

    def is_complete(self) -> bool:
        """The folder is renamed to its name when the last wheel is in it."""
        return self.folder.exists()

    def fetch(self) -> None:
        """Download wheels only: nothing is compiled, so an image holds what its authors published."""
        target = self.folder
        new = target.with_suffix(".new")
        new.mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(new)]
        pinned = [self.lock_option, str(self.lock)]
        subprocess.run([*pip, *_foreign_python(), *pinned, *self.requirements], check=True, stdout=sys.stderr)
        new.rename(target)


def of_programs() -> Wheelhouse:
    """Requirements of the three programs, and the build backend's: an image build has no index to ask."""
    document = _project()
    project = document["project"]
    extras = [requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra]]
    wanted = (*document["build-system"]["requires"], *project["dependencies"], *extras)
    return Wheelhouse(wanted, CHECKOUT / "requirements.lock", "--constraint")


def of_converter(lock: str) -> Wheelhouse:
    """What a converter's lock lists, and the build backend."""
    return Wheelhouse(tuple(_project()["build-system"]["requires"]), CHECKOUT / lock, "--requirement")


def _project() -> dict[str, Any]:
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def _foreign_python() -> list[str]:
    """Options for another Python: pip chooses for the Python that runs it unless told version and platforms."""
    if platform.python_version().startswith(PYTHON_VERSION + "."):
        return []
    machine = platform.machine()
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
    return [f"--python-version={PYTHON_VERSION}", *platforms, f"--platform=manylinux2014_{machine}"]
