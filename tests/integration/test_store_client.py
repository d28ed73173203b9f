"""The store client against real S3 servers: listings, documents, create-if-absent, transfers, and errors told apart."""

import errno
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from enginery_store.client import Credentials, FileDigest, StoreClient, file_digest
from enginery_store.errors import (
    BucketMissingError,
    DocumentError,
    EngineryError,
    IntegrityError,
    ObjectMissingError,
    StoreAccessError,
    StoreUnavailableError,
)
from enginery_store.layout import Location, parse_uri
from enginery_store.manifest import StoredFile
from enginery_store.requests import StoreAccess
from support.s3_servers import Bucket

KEYS = ["m/a", "m-hf/a", "m/m/ckpt", "m2", "m/", "m/sub/", "n/m/x"]


@pytest.fixture
def filled(bucket: Bucket) -> Bucket:
    for key in KEYS:
        bucket.put(key, b"" if key.endswith("/") else key.encode())
    return bucket


@pytest.mark.parametrize("key", ["m", "m/"], ids=["without slash", "with slash"])
def test_listing_a_folder_takes_exactly_what_is_below_it(filled: Bucket, key: str) -> None:
    names = [item.name for item in filled.client().list_objects(filled.location(key))]

    assert sorted(names) == ["a", "m/ckpt"]


@pytest.mark.server("moto")  # a server that keeps objects as files cannot hold m and m/a
def test_listing_prefers_the_object_of_that_very_key(filled: Bucket) -> None:
    client = filled.client()
    filled.put("m", b"an object")

    assert [item.name for item in client.list_objects(filled.location("m"))] == ["m"]
    assert sorted(item.name for item in client.list_objects(filled.location("m/"))) == ["a", "m/ckpt"]


def test_names_with_spaces_plus_percent_and_unicode_arrive_unchanged(bucket: Bucket, tmp_path: Path) -> None:
    names = ["a b.bin", "a+b.bin", "a%2Fb.bin", "häß/日本.bin"]
    for name in names:
        bucket.put(f"m/{name}", name.encode())
    client = bucket.client()

    listed = [item.name for item in client.list_objects(bucket.location("m/"))]
    for name in listed:
        client.download(bucket.location("m/") / name, tmp_path / name)

    assert sorted(listed) == sorted(names)
    assert all((tmp_path / name).read_bytes() == name.encode() for name in names)


def test_listing_reads_beyond_a_thousand_keys(bucket: Bucket) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: bucket.put(f"many/{number:04}", b"x"), range(1005)))

    assert len(bucket.client().list_objects(bucket.location("many"))) == 1005


def test_whole_bucket_is_a_folder_too(filled: Bucket) -> None:
    names = {item.name for item in filled.client().list_objects(Location(filled.name, ""))}

    assert names == {key for key in KEYS if not key.endswith("/")}


def test_uri_with_stray_slashes_names_the_same_object(filled: Bucket) -> None:
    location = parse_uri(f"s3://{filled.name}//m//a")

    assert filled.client().read(location) == b"m/a"


def test_wrong_key_wrong_bucket_and_wrong_credentials_are_told_apart(filled: Bucket) -> None:
    client = filled.client()

    with pytest.raises(ObjectMissingError, match=f"s3://{filled.name}/nothing"):
        client.list_objects(filled.location("nothing"))
    with pytest.raises(ObjectMissingError):
        client.read(filled.location("nothing"))
    with pytest.raises(BucketMissingError, match="no-such-bucket-here"):
        client.list_objects(Location("no-such-bucket-here", "m"))


def test_no_credentials_is_a_denial_that_says_what_to_give(filled: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = StoreClient(filled.server.access, Credentials(), attempts=1)

    with pytest.raises(StoreAccessError, match="AWS_ACCESS_KEY_ID"):
        client.read(filled.location("m/a"))


def test_unreachable_endpoint_is_passing_trouble(bucket: Bucket) -> None:
    client = StoreClient(StoreAccess(endpoint="http://127.0.0.1:9"), bucket.server.credentials, attempts=1)

    with pytest.raises(StoreUnavailableError) as caught:
        client.read(bucket.location("x"))
    assert caught.value.retryable


def test_create_if_absent_lets_the_first_writer_win(bucket: Bucket) -> None:
    client, place = bucket.client(), bucket.location("manifest.json")

    assert client.write(place, b"first", if_absent=True)
    assert not client.write(place, b"second", if_absent=True)
    assert client.read(place) == b"first"
    assert client.write(place, b"third")
    assert client.read(place) == b"third"


def test_replacement_needs_the_object_that_was_read(bucket: Bucket) -> None:
    client, place = bucket.client(), bucket.location("timings.cache")
    client.write(place, b"first")
    data, tag = client.read_tagged(place, 100)

    assert data == b"first"
    assert client.write(place, b"second", if_match=tag)
    assert not client.write(place, b"third", if_match=tag)
    assert client.read(place) == b"second"
    client.delete(place)
    assert not client.write(place, b"fourth", if_match=tag)


def test_object_beyond_the_limit_is_not_read(bucket: Bucket) -> None:
    bucket.put("large", b"x" * 101)

    with pytest.raises(DocumentError, match="100 bytes"):
        bucket.client().read_tagged(bucket.location("large"), 100)


def test_is_object_means_exactly_this_key(filled: Bucket) -> None:
    client = filled.client()

    assert client.is_object(filled.location("m/a"))
    assert not client.is_object(filled.location("m/m"))
    assert not client.is_object(filled.location("m/"))
    assert not client.is_object(Location(filled.name, ""))


def test_document_is_read_absent_or_refused(bucket: Bucket) -> None:
    client, place = bucket.client(), bucket.location("file.json")
    assert client.read_document(place, StoredFile) is None

    wanted = StoredFile(name="x", sha256="0" * 64, size_bytes=1)
    client.write(place, wanted.to_json())
    assert client.read_document(place, StoredFile) == wanted

    client.write(place, b'{"name": 1}')
    with pytest.raises(DocumentError, match="sha256"):
        client.read_document(place, StoredFile)


def test_document_of_absurd_size_is_not_read(bucket: Bucket) -> None:
    bucket.put("big.json", b" " * (4 * 1024 * 1024 + 1))

    with pytest.raises(DocumentError, match="larger"):
        bucket.client().read(bucket.location("big.json"))


@pytest.mark.parametrize("size", [0, 1, 1024, 40 * 1024 * 1024 + 7])
def test_file_of_any_size_comes_back_with_its_digest(bucket: Bucket, tmp_path: Path, size: int) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    client, place = bucket.client(), bucket.location("blob")

    digest = client.upload(place, sent)
    got = client.download(place, tmp_path / "got", expected=digest)

    assert digest == got == file_digest(sent) == file_digest(tmp_path / "got")


@pytest.mark.parametrize(
    "expected", [FileDigest(3, "0" * 64), FileDigest(4, "0" * 64)], ids=["other digest", "other size"]
)
def test_content_other_than_expected_never_gets_the_name(bucket: Bucket, tmp_path: Path, expected: FileDigest) -> None:
    bucket.put("blob", b"abc")

    with pytest.raises(IntegrityError):
        bucket.client().download(bucket.location("blob"), tmp_path / "file", expected=expected)
    assert not list(tmp_path.iterdir())


def test_full_disk_is_no_fault_of_the_store(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("large", bytes(1 << 16))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, limits[1]))  # files end here, as on a full disk
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            bucket.client().download(bucket.location("large"), tmp_path / "large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert not list(tmp_path.iterdir())


def test_content_replaced_without_its_metadata_is_noticed(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("blob", b"altered", {"sha256": "0" * 64})

    with pytest.raises(IntegrityError, match="was uploaded"):
        bucket.client().download(bucket.location("blob"), tmp_path / "file")


def test_delete_of_what_is_absent_succeeds(bucket: Bucket) -> None:
    client = bucket.client()
    bucket.put("x", b"x")

    client.delete(bucket.location("x"))
    client.delete(bucket.location("x"))

    assert bucket.keys() == []


def test_upload_to_a_missing_bucket_names_the_bucket(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")

    with pytest.raises(BucketMissingError, match="no-such-bucket-here"):
        bucket.client().upload(Location("no-such-bucket-here", "k"), tmp_path / "f")


def test_credentials_folder_overrides_the_installation(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "AWS_ACCESS_KEY_ID").write_text(f"{bucket.server.access_key}\n")
    (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text(bucket.server.secret_key)
    (tmp_path / "AWS_ENDPOINT_URL_S3").write_text(bucket.server.endpoint)
    secret = Credentials.from_folder(tmp_path)
    client = StoreClient(StoreAccess(endpoint="http://127.0.0.1:9"), secret)
    bucket.put("x", b"y")

    assert client.endpoint == bucket.server.endpoint
    assert client.read(bucket.location("x")) == b"y"
    assert bucket.server.secret_key not in repr(secret)


def test_every_error_is_ours(bucket: Bucket) -> None:
    with pytest.raises(EngineryError):
        bucket.client().read(Location("Not_A_Valid_Bucket!", "x"))
