"""Weights in other files: nothing outside the source is read, nothing half is taken, every byte is in the digest."""

from pathlib import Path

import pytest
from enginery_builder import check
from enginery_store.errors import FinalError
from support.checking import Files, checked, fetched
from support.onnx_cases.files import DATA_NAME, external, in_two_files, with_fields

OUTSIDE = {
    "a parent": "../secret",
    "a detour": "a/../../secret",
    "an absolute path": "/etc/passwd",
    "a Windows drive": "C:secret",
    "a backslash": "..\\secret",
    "a folder": "./model.data",
    "two slashes": "a//model.data",
    "a zero byte": "model.data\0.txt",
    "nothing": "",
}


@pytest.mark.parametrize("location", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_path_that_is_not_plainly_below_the_model_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(1 << 20))

    with pytest.raises(FinalError, match="export the model again") as caught:
        checked(tmp_path / "source", external(location))
    assert caught.value.reason == "SourceInvalid"


RANGES: dict[str, tuple[Files, str]] = {
    "an offset beyond the end": (with_fields(offset="999999"), "needs bytes 999999"),
    "a negative offset": (with_fields(offset="-1"), "needs bytes -1"),
    "a negative length": (with_fields(length="-1"), "needs bytes 0 to -1"),
    "a length beyond the end": (with_fields(length=str(1 << 62)), "cut off"),
    "a length of another shape": (with_fields(length="4"), "has 4 bytes where its shape"),
    "an offset that is no number": (with_fields(offset="0x10"), "no number"),
    "a file cut off": (external(keep=100), "cut off"),
    "an empty file": (external(keep=None) | {DATA_NAME: b""}, "cut off"),
    "a file not uploaded": (external(keep=0), "missing"),
}


@pytest.mark.parametrize(("files", "words"), RANGES.values(), ids=RANGES.keys())
def test_range_must_lie_within_the_file(tmp_path: Path, files: Files, words: str) -> None:
    with pytest.raises(FinalError, match=words) as caught:
        checked(tmp_path, files)
    assert caught.value.reason == "SourceInvalid"


def test_several_files_in_folders_are_taken(tmp_path: Path) -> None:
    assert checked(tmp_path, in_two_files()).external == ("first.data", "more/second.data")


def test_file_that_nobody_refers_to_is_left_alone(tmp_path: Path) -> None:
    assert checked(tmp_path, external() | {"notes/readme.txt": b"hello"}).external == (DATA_NAME,)


@pytest.mark.parametrize("target", ["file", "folder"])
def test_link_to_a_file_outside_is_refused(tmp_path: Path, target: str) -> None:
    source = fetched(tmp_path / "source", in_two_files())
    outside = tmp_path / "outside"
    outside.mkdir()
    (source.folder / "more" / "second.data").rename(outside / "second.data")
    if target == "folder":
        (source.folder / "more").rmdir()
        (source.folder / "more").symlink_to(outside)
    else:
        (source.folder / "more" / "second.data").symlink_to(outside / "second.data")

    with pytest.raises(FinalError, match="is a link") as caught:
        check.check_model(source)
    assert caught.value.reason == "SourceInvalid"
    assert str(tmp_path) not in caught.value.message


@pytest.mark.parametrize("changed", ["model.onnx", "first.data", "more/second.data", "bystander"])
def test_digest_covers_every_file(tmp_path: Path, changed: str) -> None:
    files = in_two_files() | {"bystander": b"1234"}
    before = fetched(tmp_path / "before", files).digest
    flipped = files | {changed: files[changed][:-1] + bytes([files[changed][-1] ^ 1])}
    renamed = {(f"{name}2" if name == changed else name): data for name, data in files.items()}

    digests = {before, fetched(tmp_path / "flipped", flipped).digest, fetched(tmp_path / "renamed", renamed).digest}

    assert len(digests) == 3
