"""Archives as torch.export.save writes them, and what else comes under the name .pt2. No torch: the bytes count."""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from enginery_converter.pt2_archive import copy_judged, file_of
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

PROGRAM = {"graph_module": {"graph": {"nodes": [{"target": "torch.ops.aten.relu.default"}]}}, "guards_code": []}


def weights(**changes: Any) -> bytes:
    return json.dumps({"config": {"fc.weight": {"path_name": "weight_0", "use_pickle": False} | changes}}).encode()


GOOD: dict[str, bytes] = {
    "archive_format": b"pt2",
    "archive_version": b"0",
    "byteorder": b"little",
    ".data/version": b"6\n",
    "models/model.json": json.dumps(PROGRAM).encode(),
    "data/weights/model_weights_config.json": weights(),
    "data/weights/weight_0": b"\0" * 16,
    "data/constants/model_constants_config.json": b'{"config": {}}',
    "data/sample_inputs/model.pt": pickle.dumps("examples"),
    "extra/readme.txt": b"hello",
}


def archive(path: Path, members: dict[str, bytes], root: str = "net", compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members.items():
            file.writestr(f"{root}/{name}", data)
    return path


def test_copy_holds_the_program_and_no_pickle(tmp_path: Path) -> None:
    source = archive(tmp_path / "net.pt2", GOOD)

    copy_judged(source, tmp_path / "copy.pt2")

    with zipfile.ZipFile(tmp_path / "copy.pt2") as copy:
        names = {name.removeprefix("model/") for name in copy.namelist()}
        assert names == GOOD.keys() - {"extra/readme.txt"}
        assert copy.read("model/data/sample_inputs/model.pt") == b""
        assert copy.read("model/data/weights/weight_0") == b"\0" * 16
        assert json.loads(copy.read("model/models/model.json")) == PROGRAM


def without(*names: str) -> dict[str, bytes]:
    return {name: data for name, data in GOOD.items() if name not in names}


TORCHSCRIPT = {"code/__torch__.py": b"", "data.pkl": b"\x80\x02", "constants.pkl": b""}
WITH_OBJECT = GOOD | {"data/constants/custom_obj_0": b"\x80\x02"}
PICKLED = GOOD | {"data/weights/model_weights_config.json": weights(use_pickle=True)}
UNSAID = GOOD | {"data/weights/model_weights_config.json": weights(use_pickle=None)}
ELSEWHERE = GOOD | {"data/weights/model_weights_config.json": weights(path_name="../../models/model.json")}

REFUSED: dict[str, tuple[dict[str, bytes], Reason, str]] = {
    "torch.save": (
        {"data.pkl": b"\x80\x02", "data/0": b""}, Reason.UNSUPPORTED_FORMAT, "torch.save file: a Python pickle",
    ),
    "TorchScript": (TORCHSCRIPT, Reason.UNSUPPORTED_FORMAT, "is TorchScript"),
    "an old export": (
        {"serialized_exported_program.json": b"{}", "version": b"8.2"}, Reason.UNSUPPORTED_FORMAT, "before 2.8",
    ),
    "compiled code": (
        GOOD | {"data/aotinductor/model/wrapper.so": b"\x7fELF"}, Reason.UNSUPPORTED_FORMAT, "AOTInductor",
    ),
    "an object of a class": (WITH_OBJECT, Reason.UNSUPPORTED_FORMAT, "custom_obj_0, which may be a Python pickle"),
    "an opaque object": (
        GOOD | {"data/constants/opaque_obj_0": b"\x80\x02"}, Reason.UNSUPPORTED_FORMAT, "opaque_obj_0",
    ),
    "legacy weights": (GOOD | {"data/weights/model.pt": b"PK"}, Reason.UNSUPPORTED_FORMAT, "data/weights/model.pt"),
    "a pickled weight": (PICKLED, Reason.UNSUPPORTED_FORMAT, "fc.weight is stored as a Python pickle"),
    "a weight of no kind": (UNSAID, Reason.UNSUPPORTED_FORMAT, "fc.weight"),
    "a weight elsewhere": (ELSEWHERE, Reason.SOURCE_INVALID, "lacks the bytes of tensor fc.weight"),
    "a second program": (GOOD | {"models/other.json": b"{}"}, Reason.UNSUPPORTED_FORMAT, "models/other.json"),
    "no program": (without("models/model.json"), Reason.UNSUPPORTED_FORMAT, "no exported program named `model`"),
    "another version": (GOOD | {"archive_version": b"7"}, Reason.UNSUPPORTED_FORMAT, "archive_version 7"),
    "big-endian weights": (GOOD | {"byteorder": b"big"}, Reason.UNSUPPORTED_FORMAT, "byteorder big"),
    "a damaged index": (
        GOOD | {"data/weights/model_weights_config.json": b"{"}, Reason.SOURCE_INVALID, "config.json is damaged",
    ),
    "nothing": ({}, Reason.UNSUPPORTED_FORMAT, "no exported program"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_other_archive_is_refused_in_words(tmp_path: Path, case: tuple[dict[str, bytes], Reason, str]) -> None:
    members, reason, text = case

    with pytest.raises(FinalError) as caught:
        copy_judged(archive(tmp_path / "net.pt2", members), tmp_path / "copy.pt2")
    assert caught.value.reason == reason
    assert text in caught.value.message


FILES: dict[str, tuple[bytes, Reason, str]] = {
    "a bare pickle": (pickle.dumps({"a": 1}), Reason.UNSUPPORTED_FORMAT, "a Python pickle"),
    "an error page": (b"<html>403</html>", Reason.SOURCE_INVALID, "no .pt2 archive"),
    "the start of an archive": (b"PK\x03\x04" + b"\0" * 99, Reason.SOURCE_INVALID, "cut off"),
    "no bytes": (b"", Reason.SOURCE_INVALID, "no .pt2 archive"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES.values(), ids=FILES.keys())
def test_file_that_is_no_archive_is_refused(tmp_path: Path, case: tuple[bytes, Reason, str]) -> None:
    data, reason, text = case
    path = tmp_path / "m.pt2"
    path.write_bytes(data)

    with pytest.raises(FinalError) as caught:
        copy_judged(path, tmp_path / "copy.pt2")
    assert caught.value.reason == reason
    assert text in caught.value.message


def test_compressed_archive_is_none_of_torchs(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "m.pt2", GOOD, compression=zipfile.ZIP_DEFLATED)

    with pytest.raises(FinalError, match=r"none that torch\.export\.save writes"):
        copy_judged(bomb, tmp_path / "copy.pt2")


def test_entries_that_share_bytes_do_not_multiply_them(tmp_path: Path) -> None:
    shared = bytes(100_000)
    headers = [local_header(f"net/data/weights/weight_{number}") for number in (1, 2, 3, 4)]
    bomb = archive(tmp_path / "m.pt2", GOOD)
    with zipfile.ZipFile(bomb, "a") as file:
        whole = b"".join(headers) + shared  # each entry holds the headers of those behind it, and all of them the bytes
        at = file.start_dir
        file.writestr("net/data/weights/weight_9", whole)
        inner = at + len(local_header("net/data/weights/weight_9"))
        for number in range(4):
            left = len(whole) - sum(map(len, headers[: number + 1]))
            info = described(f"net/data/weights/weight_{number + 1}", left)
            info.header_offset = inner + sum(map(len, headers[:number]))
            file.filelist.append(info)

    with pytest.raises(FinalError, match=r"none that torch.export.save writes"):
        copy_judged(bomb, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def local_header(name: str) -> bytes:
    return described(name, 0).FileHeader()


def described(name: str, size: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.CRC, info.file_size, info.compress_size = 0, size, size
    return info


def test_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.pt2", GOOD)
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("net/models/model.json", "{}")

    with pytest.raises(FinalError, match=r"none that torch\.export\.save writes"):
        copy_judged(path, tmp_path / "copy.pt2")


def test_archive_within_a_cut_one_is_not_taken_for_it(tmp_path: Path) -> None:
    examples = archive(tmp_path / "examples", {"data.pkl": b"\x80\x02."}).read_bytes()
    path = archive(tmp_path / "m.pt2", GOOD | {"data/sample_inputs/model.pt": examples})
    data = path.read_bytes()
    path.write_bytes(data[: data.index(examples) + len(examples)])

    with pytest.raises(FinalError, match="cut off") as caught:
        copy_judged(path, tmp_path / "copy.pt2")
    assert caught.value.reason == Reason.SOURCE_INVALID


def test_cut_bytes_of_a_weight_are_damage(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.pt2", GOOD)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\0" * 16, b"\1" * 16))

    with pytest.raises(FinalError, match="cut off or damaged") as caught:
        copy_judged(path, tmp_path / "copy.pt2")
    assert caught.value.reason == Reason.SOURCE_INVALID


def test_the_one_archive_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    (tmp_path / "net.pt2").touch()

    assert file_of(tmp_path).name == "net.pt2"


def test_several_archives_are_not_guessed_among(tmp_path: Path) -> None:
    for name in ("a.pt2", "b.pt2"):
        (tmp_path / name).touch()

    with pytest.raises(FinalError, match=r"a\.pt2, b\.pt2.*spec\.source\.uri"):
        file_of(tmp_path)
