"""Whose credentials read a source: the tenant's, or those of the Secret that the model names; no others for them."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from enginery_builder.settings import Settings
from enginery_builder.stores import open_stores
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.requests import ModelRef, PrecisionRef, PrepareRequest, SourceRef, StoreAccess

OWN, NAMED = "http://own:9000", "http://named:9000"


def request() -> PrepareRequest:
    return PrepareRequest(
        key="1" * 64,
        model=ModelRef(namespace="team-a", name="m", revision="m-1"),
        store=StoreAccess(),
        source_store=StoreAccess(),
        prefix="s3://enginery/tenants/team-a/",
        source=SourceRef(uri="s3://models/team-a/m.onnx", format="ONNX"),
        precision=PrecisionRef(),
        profiles=[],
        max_source_bytes=1,
        timeout_seconds=1,
    )


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A pod whose model names no Secret."""
    found = Settings.from_environment({"ENGINERY_CREDENTIALS_ROOT": str(tmp_path)})
    found.store_credentials.mkdir()
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (found.store_credentials / "signing.key").write_bytes(pem)
    (found.store_credentials / "AWS_ENDPOINT_URL_S3").write_text(OWN)
    return found


def test_a_model_without_a_secret_is_read_with_the_tenants_credentials(settings: Settings) -> None:
    with open_stores(request(), settings) as stores:
        assert stores.source.endpoint == OWN


def test_a_named_secret_is_used_for_the_source_alone(settings: Settings) -> None:
    settings.source_credentials.mkdir()
    (settings.source_credentials / "AWS_ENDPOINT_URL_S3").write_text(NAMED)
    with open_stores(request(), settings) as stores:
        assert (stores.source.endpoint, stores.store.endpoint) == (NAMED, OWN)


@pytest.mark.parametrize("of_the_kubelet", [[], ["..2026_03_01_12_00_00.1", "..data"]])
def test_a_named_secret_that_is_missing_is_said_and_not_replaced(of_the_kubelet: list[str], settings: Settings) -> None:
    """The kubelet mounts an optional Secret that does not exist as a folder without visible files."""
    settings.source_credentials.mkdir()
    for name in of_the_kubelet:
        (settings.source_credentials / name).mkdir()
    with pytest.raises(FinalError, match="credentialsSecretRef") as caught, open_stores(request(), settings):
        pytest.fail("opened")
    assert caught.value.reason is Reason.ACCESS_DENIED
