"""The programs and manifests of examples/, as they lie in the repository. Used by every test that runs an example or
takes its data from one.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "examples"
CLASSIFICATION, QUANTIZED = FOLDER / "01-file-classification", FOLDER / "02-quantized-classification"


@cache
def program(path: Path) -> ModuleType:
    """A program of an example as a module."""
    name = f"example_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def manifest(example: Path, namespace: str) -> str:
    """An example's InferenceModel for a tenant of this name."""
    return (example / "inferencemodel.yaml").read_text().replace("team-a", namespace)
