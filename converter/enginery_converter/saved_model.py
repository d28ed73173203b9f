"""Where is the SavedModel in what was uploaded, if it is one? Called by `tensorflow`, before TensorFlow is imported."""

from pathlib import Path

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import listed

_MODEL = "saved_model.pb"
_EXPORT = "save it with model.export(DIR) and upload the directory"
_OTHERS = {
    ".keras": "a Keras file",
    ".h5": "a Keras HDF5 file",
    ".hdf5": "a Keras HDF5 file",
    ".tflite": "a TensorFlow Lite file",
    ".ckpt": "a checkpoint",
    ".index": "a checkpoint",
    ".pbtxt": "a SavedModel in text form",
}


def folder_of(source: Path) -> Path:
    """The one folder with saved_model.pb: the source itself, or a folder in it, as TensorFlow Serving numbers them.

    Raises FinalError (SourceInvalid, UnsupportedFormat).
    """
    found = sorted(source.rglob(_MODEL))
    if len(found) > 1:
        several = listed(path.relative_to(source).as_posix() for path in found)
        raise FinalError(
            f"the source holds several SavedModels ({several}); name one of the folders in spec.source.uri",
            reason=Reason.SOURCE_INVALID,
        )
    if found:
        return found[0].parent
    names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file())
    for name in names:
        for ending, what in _OTHERS.items():
            if name.lower().endswith(ending):
                raise FinalError(
                    f"{listed([name])} is {what}, not a SavedModel; {_EXPORT}", reason=Reason.UNSUPPORTED_FORMAT
                )
    raise FinalError(f"the source holds no {_MODEL} (it has {listed(names)}); {_EXPORT}", reason=Reason.SOURCE_INVALID)
