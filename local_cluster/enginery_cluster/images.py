"""`images`: build the programs' images and bring them into a cluster. Called by the command.

An image's tag is a digest of everything it is built from, so an unchanged program is neither built nor imported again.
"""

import dataclasses
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from enginery_cluster import base_image, node_process, wheelhouse
from enginery_cluster.locks import one_at_a_time
from enginery_cluster.places import CHECKOUT, Places, cache_folder
from enginery_cluster.requirements import lies_on_overlay
from enginery_cluster.state import Cluster, Images
from enginery_cluster.steps import Steps
from enginery_cluster.wheelhouse import Wheelhouse

KEPT = 2
"""Archives of one program, bases and wheelhouses that stay in the cache."""


@dataclass(frozen=True)
class Program:
    """One of our programs: the name of its image (and of its field in Images), its Dockerfile, and what that copies."""

    name: str
    dockerfile: str
    inputs: tuple[str, ...]
    """Files and folders that end up in the image."""
    wheels: Callable[[], Wheelhouse] = wheelhouse.of_programs

    @property
    def image(self) -> str:
        """The image's name."""
        return self.name.replace("_", "-")


def _program(name: str, folder: str, *packages: str) -> Program:
    """`packages`: folders of shared packages it needs beside the store's."""
    shared = ("pyproject.toml", "requirements.lock", "local_cluster/dependencies.py", "model_store")
    return Program(name, f"{folder}/Dockerfile", (*shared, *packages, folder))


def _converter(framework: str) -> Program:
    dockerfile, lock = f"converter/{framework}.Dockerfile", f"converter/{framework}.lock"
    inputs = ("pyproject.toml", dockerfile, lock, "model_store", "converter/enginery_converter")
    return Program(f"converter_{framework}", dockerfile, inputs, partial(wheelhouse.of_converter, lock))


PROGRAMS = (
    _program("operator", "operator"),
    _program("builder", "builder_job", "tensorrt_engine"),
    _program("runtime", "runtime_image", "tensorrt_engine"),
)
"""What `make images` builds."""

CONVERTERS = (_converter("tensorflow"), _converter("pytorch"))
"""What it builds when asked: together 8 GB of frameworks."""


def images(name: str, frameworks: Sequence[str] = ()) -> None:
    """Build what changed, load what the cluster lacks, and note the tags in cluster.json. `frameworks`: the converters
    that are wanted too (tensorflow, pytorch); one that the cluster has already is kept up to date.
    """
    cluster = Cluster.load(name)
    if cluster.provider == "existing":
        return  # the user's cluster pulls from the user's registry: tags come from the environment
    programs = [*PROGRAMS, *_converters(cluster, frameworks)]
    tags = {program.name: tag_of(program) for program in programs}
    steps = Steps("images", 1 + len({program.wheels() for program in programs}) + len(programs) * 2)
    with one_at_a_time("images"):
        _prepare(programs, steps)
        for program in programs:
            archive = _archive(tags[program.name])
            if archive.exists():
                steps.skip(f"{program.image}: built before")
            else:
                _build(program, tags[program.name], archive, steps)
            _load(cluster, tags[program.name], archive, steps)
        _prune(set(tags.values()))
    dataclasses.replace(cluster, images=Images(**tags)).save()


def _converters(cluster: Cluster, frameworks: Sequence[str]) -> list[Program]:
    wanted = {f"converter_{framework}" for framework in frameworks}
    return [program for program in CONVERTERS if program.name in wanted or getattr(cluster.images, program.name)]


def tag_of(program: Program) -> str:
    """localhost/enginery/<name>:<digest of the base and of every file that goes in>."""
    digest = hashlib.sha256(base_image.digest().encode())
    for entry in program.inputs:
        for path in _files(CHECKOUT / entry):
            digest.update(f"{path.relative_to(CHECKOUT)}\0".encode() + path.read_bytes())
    return f"localhost/enginery/{program.image}:{digest.hexdigest()[:12]}"


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def _archive(tag: str) -> Path:
    name, _, digest = tag.rpartition("/")[2].partition(":")
    return cache_folder("images") / f"{name}-{digest}.tar"


def _build(program: Program, tag: str, archive: Path, steps: Steps) -> None:
    with steps.step(f"building {program.image} (longer when its dependencies changed)"):
        command = ["bud", "--isolation=chroot", "--layers", "--tag", tag, "--file", program.dockerfile]
        arguments = {"BASE": _base_tag(), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
        command += [f"--build-arg={key}={value}" for key, value in arguments.items()]
        _buildah(*command, "--pull-never", f"--volume={program.wheels().folder}:/wheels:ro", str(CHECKOUT))
        new = archive.with_suffix(".new.tar")
        new.unlink(missing_ok=True)
        _buildah("push", "--disable-compression", tag, f"oci-archive:{new}:{tag}")
        new.replace(archive)


def _prepare(programs: Sequence[Program], steps: Steps) -> None:
    """The base that all builds use, and their wheels."""
    if _buildah("images", "--quiet", _base_tag(), check=False):
        steps.skip("base image: made before")
    else:
        with steps.step("base image: a small Debian with Python (half a minute)"):
            _make_base()
    for wheels in dict.fromkeys(program.wheels() for program in programs):
        if wheels.is_complete():
            steps.skip(f"Python packages of {wheels.lock.name}: fetched before")
        else:
            with steps.step(f"Python packages of {wheels.lock.name}"):
                wheels.fetch()


def _base_tag() -> str:
    return f"localhost/enginery/base:{base_image.digest()}"


def _make_base() -> None:
    """The base as an image in buildah's storage, which is in the cache too."""
    if not base_image.archive().exists():
        base_image.make()
    container = _buildah("from", "scratch")
    _buildah("add", "--quiet", container, str(base_image.archive()), "/")
    _buildah("config", "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
    _buildah("commit", "--quiet", "--rm", container, _base_tag())


def _buildah(*arguments: str, check: bool = True) -> str:
    """Runs buildah on storage of our own, so that the machine's containers and images stay out of it."""
    root = cache_folder("buildah")
    driver = "vfs" if lies_on_overlay(root) else "overlay"
    storage = [f"--root={root}/storage", f"--runroot={root}/run", f"--storage-driver={driver}"]
    # In a mount namespace of its own, so that a killed build leaves no mount.
    own = ["unshare", "--mount", "--propagation=slave"]
    done = subprocess.run(
        [*own, "buildah", *storage, *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    if check and done.returncode:
        raise RuntimeError(f"buildah {arguments[0]} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout.strip() if done.returncode == 0 else ""


def _load(cluster: Cluster, tag: str, archive: Path, steps: Steps) -> None:
    if cluster.provider == "kind":
        from enginery_cluster import kind

        with steps.step(f"loading {tag} into kind"):
            kind.load(cluster, archive)
        return
    places = Places(cluster.name)
    listed = node_process.ctr(places, "images", "list", "--quiet", f"name=={tag}")
    if subprocess.run(listed, capture_output=True, text=True, check=False).stdout.strip():
        steps.skip(f"{tag}: in the cluster")
        return
    with steps.step(f"loading {tag}"):
        command = node_process.ctr(places, "images", "import", str(archive))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ctr could not import {tag}:\n{done.stderr[-3000:]}")


def _prune(tags: set[str]) -> None:
    """Keep the newest few of each kind; the buildah storage forgets what no tag holds."""
    newest: Callable[[Path], float] = lambda path: path.stat().st_mtime  # noqa: E731
    every = (*PROGRAMS, *CONVERTERS)
    groups = [sorted(cache_folder("images").glob(f"{program.image}-*.tar"), key=newest) for program in every]
    groups.append(sorted(cache_folder("base").iterdir(), key=newest))
    current = {program.wheels().folder for program in every}
    groups.append([path for path in sorted(cache_folder("wheels").iterdir(), key=newest) if path not in current])
    for old in (path for group in groups for path in group[:-KEPT]):
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
    stored = json.loads(_buildah("images", "--json") or "[]")
    keep = {_base_tag(), *tags}
    for image in stored:
        if not keep & set(image.get("names") or ()):
            _buildah("rmi", image["id"], check=False)
