"""torch itself: programs convert with torch's answers, and no pickle and no code of an archive ever runs."""

from pathlib import Path

import onnx
import pytest
from enginery_store.reasons import Reason
from support.conversions import conversion_order
from support.frameworks import Framework, largest_difference

pytestmark = pytest.mark.frameworks

PYTORCH = Framework("pytorch")

TOLERANCE = 2e-5
"""Largest difference of values around 1: both compute in FP32, in another order."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return PYTORCH.models("pytorch_models.py", tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("case", ["images", "sequences"])
def test_program_answers_as_torch_does(models: Path, case: str) -> None:
    conversion = PYTORCH.convert(models / case, conversion_order("PyTorchExport"))

    assert conversion.refusal is None
    assert conversion.tool_versions.items() >= {"torch": "2.15.0", "onnxscript": "0.7.2"}.items()
    folder = models / case / "converted"
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "model.onnx.data", "converted.json"}
    assert [entry.version for entry in onnx.load(folder / "model.onnx").opset_import if not entry.domain] == [18]
    assert max(largest_difference(folder / "model.onnx", models / case / "case.npz").values()) < TOLERANCE


def test_trap_in_the_examples_is_left_alone(models: Path) -> None:
    """The program is good; its example inputs are a pickle that torch.export.load would run."""
    conversion = PYTORCH.convert(models / "trap_in_examples", conversion_order("PyTorchExport"))

    assert conversion.refusal is None
    assert not (models / "trap_in_examples" / "owned").exists()


REFUSED = [
    ("code_in_a_size", Reason.SOURCE_INVALID, "as a size, which torch.export does not write"),
    ("foreign_operator", Reason.UNSUPPORTED_OPERATOR, "the program calls torch.os.system"),
    ("custom", Reason.UNSUPPORTED_OPERATOR, "the program calls torch.ops.mylib.fused.default"),
    ("no_counterpart", Reason.UNSUPPORTED_OPERATOR, "aten._linalg_eigh"),
    ("pickle", Reason.UNSUPPORTED_FORMAT, "torch.save file: a Python pickle"),
    ("torchscript", Reason.UNSUPPORTED_FORMAT, "is TorchScript"),
    ("cut", Reason.SOURCE_INVALID, "is cut off"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=[case for case, _, _ in REFUSED])
def test_archive_is_refused_in_words_and_nothing_of_it_runs(models: Path, refused: tuple[str, Reason, str]) -> None:
    case, reason, text = refused

    conversion = PYTORCH.convert(models / case, conversion_order("PyTorchExport"))

    assert conversion.refusal is not None
    assert conversion.refusal.reason == reason
    assert text in conversion.refusal.message
    assert not (models / case / "owned").exists()
