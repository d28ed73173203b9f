"""The cgroup that holds every process of a cluster, on each hierarchy of cgroup v1 or on the one of v2.

Called by `up` (make, enter), by the node's process 1 (mount) and by `down` (processes, remove). Its name is known from
checkout and cluster name alone, so it finds processes even when the state folder is incomplete.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
"""Where every distribution mounts the hierarchies."""


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy; `options` are its controllers on v1 and empty on v2."""

    mount: Path
    options: str

    @property
    def is_v2(self) -> bool:
        """The unified hierarchy."""
        return not self.options


def hierarchies() -> list[Hierarchy]:
    """The mounted hierarchies: many of v1, or the one of v2 (a v2 without controllers beside v1 is left out)."""
    found: dict[str, Hierarchy] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        mount = left.split()[4]
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup" and Path(mount).parent == ROOT:
            found[mount] = Hierarchy(Path(mount), _controllers(options))
        elif kind == "cgroup2" and Path(mount) == ROOT:
            found[mount] = Hierarchy(Path(mount), "")
    return list(found.values())


def _controllers(options: str) -> str:
    known = {line.split()[0] for line in Path("/proc/cgroups").read_text().splitlines()[1:]}
    return ",".join(option for option in options.split(",") if option in known or option.startswith("name="))


def make(name: str) -> list[Path]:
    """The cluster's folder on each hierarchy, ready for processes."""
    return [_make_v2(h.mount / name) if h.is_v2 else _make_v1(h.mount / name) for h in hierarchies()]


def _make_v1(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in a new cpuset, which then takes no process
        if (folder / setting).exists():
            (folder / setting).write_text((folder.parent / setting).read_text())
    return folder


def _make_v2(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    _delegate(folder.parent)
    return folder


def _delegate(folder: Path) -> None:
    """Let children of a v2 group use every controller it has itself."""
    for controller in (folder / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):  # already on, or a controller that cannot be delegated (cpu with RT tasks)
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def enter(folders: list[Path]) -> None:
    """Move the calling process in; used between fork and exec."""
    for folder in folders:
        (folder / "cgroup.procs").write_text("0")


def settle(name: str) -> None:
    """v2: processes move to a leaf, so that the group itself may pass its controllers on to kubepods."""
    for hierarchy in hierarchies():
        folder = hierarchy.mount / name
        if hierarchy.is_v2 and folder.exists():
            (folder / "init").mkdir(exist_ok=True)
            for pid in (folder / "cgroup.procs").read_text().split():
                (folder / "init" / "cgroup.procs").write_text(pid)
            _delegate(folder)


def mount_inside() -> None:
    """In the node: mount the hierarchies anew, which shows them from the cluster's folder down (cgroup namespace)."""
    seen = hierarchies()
    if any(h.is_v2 for h in seen):
        _mount("cgroup2", "cgroup2", ROOT, "rw")
        return
    _mount("tmpfs", "tmpfs", ROOT, "mode=755")
    for hierarchy in seen:
        hierarchy.mount.mkdir()
        named = "none," if hierarchy.options.startswith("name=") else ""
        _mount("cgroup", "cgroup", hierarchy.mount, named + hierarchy.options)
        for controller in hierarchy.mount.name.split(","):  # cpu -> cpu,cpuacct
            if controller != hierarchy.mount.name:
                (ROOT / controller).symlink_to(hierarchy.mount.name)


def _mount(kind: str, source: str, target: Path, options: str) -> None:
    subprocess.run(["mount", "-t", kind, "-o", options, source, str(target)], check=True)


def folders(name: str) -> list[Path]:
    """The cluster's folders that exist."""
    return [h.mount / name for h in hierarchies() if (h.mount / name).exists()]


def processes(name: str) -> set[int]:
    """Every process below the cluster's folders."""
    return {
        int(pid)
        for folder in folders(name)
        for members in folder.rglob("cgroup.procs")
        for pid in _read(members).split()
    } - {os.getpid()}


def remove(name: str, timeout_seconds: float = 10) -> None:
    """Remove the folders, deepest first; a group is busy for a moment after its last process died."""
    deadline = time.monotonic() + timeout_seconds
    while remaining := folders(name):
        for folder in (path for top in remaining for path in _deepest_first(top)):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _deepest_first(top: Path) -> Iterator[Path]:
    yield from sorted((path for path in top.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    yield top


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
