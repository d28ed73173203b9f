"""A .pt2 archive, made safe to load. Called by `pytorch`, before torch reads anything; needs no torch.

`torch.export.load` warns that it uses pickle: it unpickles example inputs, weights that their index marks so, and
objects of custom classes; it falls back from the safe unpickler to the unsafe one; and it evaluates strings of the
program. So an archive is judged here, and torch gets a copy made of what was judged: two readers of one file may see
two archives, two readers of this copy do not.

Kept: the program, tensors as raw bytes, their indexes. Emptied: the example inputs, which are a pickle and which an
export does not need. Refused: every other pickle, TorchScript, AOTInductor packages (compiled code), and archives of
torch.export before 2.8.

    <root>/archive_format, archive_version, byteorder, .data/...
    <root>/models/model.json                           the program
    <root>/data/weights/{model_weights_config.json, weight_0 ...}
    <root>/data/constants/{model_constants_config.json, tensor_0 ...}
    <root>/data/sample_inputs/model.pt                 the example inputs
"""

import json
import re
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import listed, quoted

from enginery_converter.pt2_program import judged

PROGRAM = "models/model.json"
EXAMPLES = "data/sample_inputs/model.pt"
INDEXES = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_KEPT = re.compile(
    r"archive_format|archive_version|byteorder|\.data/\w+|data/weights/weight_\d+|data/constants/tensor_\d+"
)
_DROPPED = "extra/"
"""Files that a person added; nothing of the program."""

_EXPORT = "save it with torch.export.save(torch.export.export(model, ...), 'model.pt2')"
_PICKLE = "a Python pickle, which can run code when it is loaded and is never loaded here"
_FOREIGN = (
    ("code/", "TorchScript"),
    ("data.pkl", f"a torch.save file: {_PICKLE}"),
    ("serialized_exported_program.json", "an archive of torch.export before 2.8; export it again with 2.8 or newer"),
    ("data/aotinductor/", "an AOTInductor package, compiled code for one machine"),
)
"""What another kind of archive holds, and what it is."""

_COPY_BYTES = 1 << 20


def file_of(source: Path) -> Path:
    """The one .pt2 file of the source, or its only file. Raises FinalError (SourceInvalid)."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    archives = [path for path in files if path.suffix == ".pt2"]
    for candidates in (archives, files):
        if len(candidates) == 1:
            return candidates[0]
    names = listed(path.relative_to(source).as_posix() for path in files)
    raise _invalid(f"the source holds no single .pt2 file (it has {names}); name the file in spec.source.uri")


def copy_judged(path: Path, target: Path) -> None:
    """Write to `target` the archive that torch may load. Raises FinalError (UnsupportedFormat, UnsupportedOperator,
    SourceInvalid).
    """
    if not zipfile.is_zipfile(path):
        raise _not_an_archive(path)
    try:
        with zipfile.ZipFile(path) as archive:
            _copy(archive, quoted(path.name), path.stat().st_size, target)
    except (zipfile.BadZipFile, EOFError, NotImplementedError):
        raise _invalid(f"{quoted(path.name)} is cut off or damaged; upload it again") from None


def _copy(archive: zipfile.ZipFile, title: str, size_bytes: int, target: Path) -> None:
    members = _members(archive, title)
    _require_export(members, title)
    _require_plain(members.values(), title, size_bytes)
    _require_format(archive, members, title)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for name, entry in members.items():
            if name.startswith(_DROPPED):
                continue
            with copy.open(f"model/{name}", "w", force_zip64=True) as out:
                if name == PROGRAM:
                    out.write(judged(archive.read(entry)))
                elif name in INDEXES:
                    out.write(_judged_index(archive.read(entry), members, name))
                elif name != EXAMPLES:
                    with archive.open(entry) as member:
                        shutil.copyfileobj(member, out, _COPY_BYTES)


def _members(archive: zipfile.ZipFile, title: str) -> dict[str, zipfile.ZipInfo]:
    """Entries by their name below the archive's root, each once.

    A file that was cut off shows the archive of its example inputs, which lies within; so the first entry must begin
    where the file does.
    """
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if min((entry.header_offset for entry in entries), default=0):
        raise _invalid(f"{title} is cut off or damaged; upload it again")
    root = entries[0].filename.partition("/")[0] if entries else ""
    members: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        first, _, name = entry.filename.partition("/")
        if first != root or not name or name in members:
            raise _strange(title)
        members[name] = entry
    return members


def _require_plain(entries: Iterable[zipfile.ZipInfo], title: str, size_bytes: int) -> None:
    """Nothing is compressed and no byte is in two entries, so that the copy is no larger than the source."""
    every = list(entries)
    stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in every)
    if not stored or sum(entry.file_size for entry in every) > size_bytes:
        raise _strange(title)


def _require_export(members: Iterable[str], title: str) -> None:
    """Everything in it belongs to an exported program that holds no pickle that would be loaded."""
    names = set(members)
    for mark, what in _FOREIGN:
        if any(name.startswith(mark) for name in names):
            raise _unsupported(f"{title} is {what}; {_EXPORT}")
    if PROGRAM not in names or not names.issuperset({*INDEXES, EXAMPLES}):
        raise _unsupported(f"{title} holds no exported program named `model`; {_EXPORT}")
    strange = [
        name
        for name in sorted(names - {PROGRAM, EXAMPLES, *INDEXES})
        if not _KEPT.fullmatch(name) and not name.startswith(_DROPPED)
    ]
    if strange:
        raise _unsupported(
            f"{title} holds {listed(strange)}, which may be {_PICKLE}; export a program whose weights and constants are"
            " plain tensors"
        )


def _require_format(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], title: str) -> None:
    expected = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little"}
    for name, value in expected.items():
        found = archive.read(members[name])[:16].strip() if name in members else value
        if found != value:
            raise _unsupported(
                f"{title} has {name} {quoted(found.decode(errors='replace'))}, this version reads {value.decode()};"
                " export it with the torch version of this installation's converter"
            )


def _judged_index(data: bytes, members: Iterable[str], name: str) -> bytes:
    """The index of weights or constants, in which no payload is a pickle."""
    folder = name.rpartition("/")[0]
    present = set(members)
    try:
        index: dict[str, dict[str, object]] = json.loads(data)["config"]
        for tensor, payload in index.items():
            if payload["use_pickle"] is not False:
                raise _unsupported(
                    f"tensor {quoted(tensor)} is stored as {_PICKLE}; export a program whose weights and constants are"
                    " plain dense tensors"
                )
            if f"{folder}/{payload['path_name']}" not in present:
                raise _invalid(f"the archive lacks the bytes of tensor {quoted(tensor)}; save it again")
        return json.dumps({"config": index}).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _invalid(f"{name} is damaged; save the program again") from None


def _strange(title: str) -> FinalError:
    return _unsupported(f"{title} is a ZIP archive, but none that torch.export.save writes; {_EXPORT}")


def _not_an_archive(path: Path) -> FinalError:
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(b"\x80"):
        return _unsupported(f"{quoted(path.name)} is {_PICKLE}; {_EXPORT}")
    if head.startswith(b"PK"):
        return _invalid(f"{quoted(path.name)} is cut off; upload it again and compare its size")
    return _invalid(f"{quoted(path.name)} is no .pt2 archive; {_EXPORT}")


def _invalid(text: str) -> FinalError:
    return FinalError(text, reason=Reason.SOURCE_INVALID)


def _unsupported(text: str) -> FinalError:
    return FinalError(text, reason=Reason.UNSUPPORTED_FORMAT)
