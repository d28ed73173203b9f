"""Real client packages and frameworks, each in an environment of its own, as their pins contradict ours.

An environment is made once per content of its requirements and kept under ~/.cache/enginery/venvs; delete the folder to
make it anew.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

CLIENTS = Path(__file__).parents[1] / "clients"
VENVS = Path.home() / ".cache" / "enginery" / "venvs"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def client_python(client: str) -> Path:
    """The interpreter of the environment of `tests/clients/<client>`."""
    return environment((CLIENTS / client / "requirements.txt").read_text())


def environment(requirements: str, *options: str) -> Path:
    """The interpreter of an environment that holds these requirements; made when it is not there."""
    digest = hashlib.sha256("\n".join([PYTHON, requirements, *options]).encode()).hexdigest()[:16]
    folder = VENVS / digest
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    unfinished = VENVS / f".{digest}.{os.getpid()}"
    _uv("venv", "--quiet", "--clear", "--relocatable", "--python", sys.executable, str(unfinished))
    (unfinished / "requirements.txt").write_text(requirements)
    installing = ["pip", "install", "--quiet", "--python", str(unfinished / "bin" / "python"), *options]
    _uv(*installing, "-r", str(unfinished / "requirements.txt"))
    (unfinished / "complete").touch()
    try:
        unfinished.rename(folder)
    except OSError:  # another test run was faster
        if not (folder / "complete").exists():
            raise
    return python


def run_client(client: str, http: str, rpc: str, model: str, data: Path) -> dict[str, Any]:
    """What `tests/clients/<client>/client.py` prints."""
    arguments = ["--http", http, "--grpc", rpc, "--model", model, "--data", str(data)]
    done = subprocess.run(
        [client_python(client), "-W", "ignore", CLIENTS / client / "client.py", *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def save_case(path: Path, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Path:
    """The file the clients read."""
    arrays = {f"input.{name}": array for name, array in inputs.items()}
    arrays |= {f"output.{name}": array for name, array in outputs.items()}
    np.savez(path, **arrays)
    return path


def _uv(*arguments: str) -> None:
    subprocess.run([Path(sys.executable).with_name("uv"), *arguments], check=True, timeout=600)
