"""The store client behind a proxy that cuts, alters, stalls and refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from enginery_store.client import StoreClient, file_digest
from enginery_store.errors import (
    EngineryError,
    IntegrityError,
    StoreAccessError,
    StoreUnavailableError,
)
from support.s3_proxy import (
    S3Proxy,
    cut,
    flip,
    refuse,
    refuse_checksums,
    s3_proxy,
    stall,
    whole_for_range,
)
from support.s3_servers import Bucket

BIG = 40 * 1024 * 1024


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[S3Proxy]:
    with s3_proxy(bucket.server.endpoint) as running:
        yield running


@pytest.fixture
def client(bucket: Bucket, proxy: S3Proxy) -> StoreClient:
    return bucket.client(proxy.endpoint)


def a_file(folder: Path, size: int) -> Path:
    path = folder / "sent"
    path.write_bytes(b"engine" * (size // 6 + 1))
    return path


@pytest.mark.parametrize("size", [1024, BIG], ids=["1 KB", "40 MB in parts"])
def test_store_that_refuses_checksum_headers_takes_everything(
    bucket: Bucket, proxy: S3Proxy, client: StoreClient, tmp_path: Path, size: int
) -> None:
    proxy.add(refuse_checksums())
    sent, place = a_file(tmp_path, size), bucket.location("blob")

    digest = client.upload(place, sent)
    assert client.write(bucket.location("doc"), b"{}", if_absent=True)
    assert client.download(place, tmp_path / "got", expected=digest) == digest
    assert client.read(bucket.location("doc")) == b"{}"
    client.delete(place)


def test_checksums_are_sent_where_the_setting_asks_for_them(bucket: Bucket, proxy: S3Proxy) -> None:
    bucket.client(proxy.endpoint, checksums="WhenSupported").write(bucket.location("doc"), b"{}")

    sent = {name.lower() for exchange in proxy.seen for name in exchange.headers}
    assert any(name.startswith("x-amz-checksum") or name == "x-amz-sdk-checksum-algorithm" for name in sent)


@pytest.mark.parametrize("size", [100_000, BIG], ids=["one part", "many parts"])
def test_two_cuts_and_then_success_recovers(
    bucket: Bucket, proxy: S3Proxy, client: StoreClient, tmp_path: Path, size: int
) -> None:
    sent = a_file(tmp_path, size)
    digest = bucket.client().upload(bucket.location("blob"), sent)
    proxy.add(cut(0.6, method="GET", path="blob", times=2))

    assert client.download(bucket.location("blob"), tmp_path / "got", expected=digest) == file_digest(sent)


def test_endless_cuts_are_passing_trouble_and_leave_no_file(
    bucket: Bucket, proxy: S3Proxy, client: StoreClient, tmp_path: Path
) -> None:
    bucket.put("blob", b"x" * 100_000)
    proxy.add(cut(0.6, method="GET", path="blob"))

    with pytest.raises(StoreUnavailableError):
        client.download(bucket.location("blob"), tmp_path / "got")
    assert not list(tmp_path.iterdir())


def test_document_cut_short_is_not_half_read(bucket: Bucket, proxy: S3Proxy, client: StoreClient) -> None:
    bucket.put("doc", b"x" * 1000)
    proxy.add(cut(0.6, method="GET", path="doc"))

    with pytest.raises(StoreUnavailableError):
        client.read(bucket.location("doc"))


def test_flipped_byte_is_never_a_file(bucket: Bucket, proxy: S3Proxy, client: StoreClient, tmp_path: Path) -> None:
    folder = tmp_path / "target"
    bucket.client().upload(bucket.location("blob"), a_file(tmp_path, 100_000))
    proxy.add(flip(500, method="GET", path="blob"))

    with pytest.raises(IntegrityError, match="sha256"):
        client.download(bucket.location("blob"), folder / "got")
    assert not list(folder.iterdir())


def test_whole_body_for_a_range_is_no_damaged_file(
    bucket: Bucket, proxy: S3Proxy, client: StoreClient, tmp_path: Path
) -> None:
    folder = tmp_path / "target"
    digest = bucket.client().upload(bucket.location("blob"), a_file(tmp_path, BIG))
    proxy.add(whole_for_range(method="GET", path="blob"))

    try:
        assert client.download(bucket.location("blob"), folder / "got", expected=digest) == digest
    except EngineryError:
        assert not list(folder.iterdir())


def test_stall_ends_with_the_read_timeout(bucket: Bucket, proxy: S3Proxy) -> None:
    impatient = StoreClient(
        bucket.server.access.model_copy(update={"endpoint": proxy.endpoint}),
        bucket.server.credentials,
        attempts=1,
        read_timeout_seconds=0.3,
    )
    proxy.add(stall(300))

    with pytest.raises(StoreUnavailableError, match="does not answer"):
        impatient.read(bucket.location("doc"))


def test_overload_passes_and_is_retried(bucket: Bucket, proxy: S3Proxy, client: StoreClient) -> None:
    bucket.put("doc", b"{}")
    proxy.add(refuse(503, "SlowDown", times=1))
    assert client.read(bucket.location("doc")) == b"{}"

    proxy.add(refuse(503, "SlowDown"))
    with pytest.raises(StoreUnavailableError, match="SlowDown"):
        client.read(bucket.location("doc"))


def test_denial_is_final_and_asked_once(bucket: Bucket, proxy: S3Proxy, client: StoreClient, tmp_path: Path) -> None:
    proxy.add(refuse(403, "AccessDenied"))

    with pytest.raises(StoreAccessError, match="AccessDenied"):
        client.read(bucket.location("doc"))
    assert len(proxy.seen) == 1
    with pytest.raises(StoreAccessError):
        client.upload(bucket.location("doc"), a_file(tmp_path, 10))
    with pytest.raises(StoreAccessError):
        client.list_objects(bucket.location("doc"))


def test_store_without_conditional_writes_still_keeps_the_first(
    bucket: Bucket, proxy: S3Proxy, client: StoreClient
) -> None:
    def no_conditions(exchange: object, _stop: object) -> None:
        if exchange.headers.keys() & {"If-None-Match", "If-Match"}:  # type: ignore[attr-defined]
            exchange.refuse(501, "NotImplemented")  # type: ignore[attr-defined]

    fault = refuse(501, "NotImplemented")
    fault.act = no_conditions
    proxy.add(fault)

    assert client.write(bucket.location("doc"), b"first", if_absent=True)
    assert not client.write(bucket.location("doc"), b"second", if_absent=True)
    assert bucket.get("doc") == b"first"
    _, tag = client.read_tagged(bucket.location("doc"), 100)
    assert client.write(bucket.location("doc"), b"second", if_match=tag)
    assert not client.write(bucket.location("doc"), b"third", if_match=tag)
    assert bucket.get("doc") == b"second"


def test_dropped_upload_is_passing_trouble(bucket: Bucket, proxy: S3Proxy, client: StoreClient, tmp_path: Path) -> None:
    proxy.add(refuse(503, "SlowDown", method="PUT"))

    with pytest.raises(StoreUnavailableError):
        client.upload(bucket.location("blob"), a_file(tmp_path, 1000))
