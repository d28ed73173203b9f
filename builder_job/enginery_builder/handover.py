"""What the containers of one prepare pod hand each other in its work folder. Called by `deliver` and `prepare`.

The converter between them runs a framework on a stranger's model. It sees `source` read-only and nothing of
`source.json`; what it leaves in `converted` is taken as an upload is: every file is hashed, and a link, which could
show it the credentials that `prepare` has and it has not, is no file.
"""

import logging
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enginery_store.client import FileDigest, file_digest
from enginery_store.errors import DocumentError, FinalError
from enginery_store.identity import content_digest
from enginery_store.manifest import StoredFile, parse_document
from enginery_store.reasons import FINAL_REASONS, Reason
from enginery_store.requests import (
    CONVERSION_NAME,
    CONVERTED_FOLDER,
    SOURCE_FILES_NAME,
    SOURCE_FOLDER,
    Conversion,
    SourceFiles,
)
from enginery_store.wording import printable, quoted

from enginery_builder.artifacts import FetchedFiles

LOG = logging.getLogger(__name__)

DOCUMENT_LIMIT_BYTES = 1 << 16
"""A Conversion is a few hundred bytes."""


@dataclass(frozen=True)
class Received:
    """What `prepare` goes on with."""

    source: FetchedFiles
    """What the model names."""
    model: FetchedFiles
    """The ONNX model that came of it, judged by nobody yet; the source itself where that is ONNX."""
    tool_versions: Mapping[str, str] = field(default_factory=dict)
    """What converted it."""
    warnings: tuple[str, ...] = ()


def emptied(work: Path) -> Path:
    """Folders for a source and what becomes of it, without remains of a run that died; returns the source's."""
    for name in (SOURCE_FOLDER, CONVERTED_FOLDER):
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).mkdir(parents=True)
    return work / SOURCE_FOLDER


def leave_source(work: Path, source: FetchedFiles) -> None:
    """Note what was fetched, for `prepare`."""
    files = [
        StoredFile(name=name, sha256=file.sha256, size_bytes=file.size_bytes) for name, file in source.files.items()
    ]
    (work / SOURCE_FILES_NAME).write_bytes(SourceFiles(digest=source.digest, files=files).to_json())


def received(work: Path, limit_bytes: int) -> Received:
    """The converted model. Raises FinalError: the converter's refusal, SourceTooLarge for more than an upload may be,
    or ConfigError where containers are missing.
    """
    try:
        fetched = parse_document(SourceFiles, (work / SOURCE_FILES_NAME).read_bytes())
        conversion = parse_document(Conversion, _document(work / CONVERTED_FOLDER / CONVERSION_NAME))
    except (FileNotFoundError, DocumentError) as error:
        raise FinalError(
            "no converted model is in the work folder: this Job lacks its containers `fetch` and `convert`, or they are"
            " of another version; use images of one version",
            reason=Reason.CONFIG_ERROR,
        ) from error
    _require_accepted(conversion)
    files = {file.name: FileDigest(file.size_bytes, file.sha256) for file in fetched.files}
    source = FetchedFiles(work / SOURCE_FOLDER, files, fetched.digest)
    model = _hashed(work / CONVERTED_FOLDER, limit_bytes)
    LOG.info("converted model received", extra={"source": source.digest, "tools": conversion.tool_versions})
    return Received(source, model, conversion.tool_versions, tuple(map(printable, conversion.warnings)))


def _require_accepted(conversion: Conversion) -> None:
    refusal = conversion.refusal
    if refusal is None:
        return
    reason = refusal.reason if refusal.reason in FINAL_REASONS else Reason.CONVERSION_FAILED
    raise FinalError(printable(refusal.message), reason=reason)


def _document(path: Path) -> bytes:
    _require_file(path)
    with path.open("rb") as file:
        return file.read(DOCUMENT_LIMIT_BYTES)


def _hashed(folder: Path, limit_bytes: int) -> FetchedFiles:
    """Every file that the converter left, but for its own document.

    Sizes are summed before a byte is read: a file with holes takes no room on the disk, and years to hash.
    """
    files, total = {}, 0
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        _require_file(path)
        total += path.stat().st_size
        if total > limit_bytes:
            raise FinalError(
                f"the ONNX model that was made of the source takes more than {limit_bytes} bytes, which is what this"
                " installation takes; use a smaller model",
                reason=Reason.SOURCE_TOO_LARGE,
            )
        name = path.relative_to(folder).as_posix()
        if name != CONVERSION_NAME:
            files[name] = file_digest(path)
    return FetchedFiles(folder, files, content_digest({name: file.sha256 for name, file in files.items()}))


def _require_file(path: Path) -> None:
    """A plain file. The converter has ended: what is one now stays one."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise FinalError(
            f"the conversion left {quoted(path.name)}, which is no plain file; convert the model to ONNX where it was"
            " trained",
            reason=Reason.CONVERSION_FAILED,
        )
