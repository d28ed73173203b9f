"""Where the SavedModel is, and what else people upload in its place."""

from pathlib import Path

import pytest
from enginery_converter.saved_model import folder_of
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("place", [".", "1", "export/7"])
def test_model_may_lie_in_a_numbered_folder(tmp_path: Path, place: str) -> None:
    touch(tmp_path, f"{place}/saved_model.pb", f"{place}/variables/variables.index")

    assert folder_of(tmp_path) == tmp_path / place


@pytest.mark.parametrize(
    ("names", "reason", "text"),
    [
        (["net.keras"], Reason.UNSUPPORTED_FORMAT, "a Keras file, not a SavedModel"),
        (["net.H5"], Reason.UNSUPPORTED_FORMAT, "a Keras HDF5 file"),
        (["net.tflite"], Reason.UNSUPPORTED_FORMAT, "a TensorFlow Lite file"),
        (["saved_model.pbtxt"], Reason.UNSUPPORTED_FORMAT, "in text form"),
        (["variables/variables.index"], Reason.UNSUPPORTED_FORMAT, "a checkpoint"),
        (["frozen.pb"], Reason.SOURCE_INVALID, "no saved_model.pb (it has frozen.pb)"),
        (["1/saved_model.pb", "2/saved_model.pb"], Reason.SOURCE_INVALID, "several SavedModels (1/saved_model.pb, 2/"),
    ],
)
def test_anything_else_is_refused_by_what_it_is(tmp_path: Path, names: list[str], reason: Reason, text: str) -> None:
    with pytest.raises(FinalError) as caught:
        folder_of(touch(tmp_path, *names))
    assert caught.value.reason == reason
    assert text in caught.value.message
