"""Two builders that prepare one key at once, and whose files differ in their last bits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from enginery_builder import publish
from enginery_builder.artifacts import CheckedModel, ConvertedModel, FetchedFiles
from enginery_builder.fetch import fetch_prepared
from enginery_builder.stores import Stores
from enginery_store.client import FileDigest, StoreClient
from enginery_store.layout import Location, prepared_folder
from enginery_store.signing import verify
from support.checking import request
from support.s3_servers import Bucket

KEY = "ab" * 32


class Interrupted(StoreClient):
    """Lets somebody else do something just before its first upload."""

    meanwhile: Callable[[], Any] = staticmethod(lambda: None)

    def upload(self, location: Location, path: Path) -> FileDigest:
        first, self.meanwhile = self.meanwhile, lambda: None
        first()
        return super().upload(location, path)


@pytest.fixture
def signing_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def publish_one(bucket: Bucket, key: Ed25519PrivateKey, folder: Path, scales: bytes, store: StoreClient) -> None:
    """One builder's way to the store."""
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"model with scales " + scales)
    (folder / "reference.onnx").write_bytes(b"reference")
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    checked = CheckedModel(folder / "reference.onnx", (), (), (), 17)
    made = ConvertedModel((folder / "model.onnx",), checked, "INT8", reference=(folder / "reference.onnx",))
    source = FetchedFiles(folder, {"m.onnx": FileDigest(9, "c" * 64)}, f"sha256:{'c' * 64}")
    stores = Stores(store, store, bucket.location("tenants/team-a/"), private)
    publish.publish_prepared(stores, KEY, request(), source, made, converters={})


@pytest.mark.parametrize("scales", [b"0.1", b"0.2"], ids=["the same files", "other files"])
def test_store_holds_the_files_that_its_manifest_names(
    bucket: Bucket, signing_key: Ed25519PrivateKey, tmp_path: Path, scales: bytes
) -> None:
    slow = Interrupted(bucket.server.access, bucket.server.credentials)
    slow.meanwhile = lambda: publish_one(bucket, signing_key, tmp_path / "first", b"0.1", bucket.client())

    publish_one(bucket, signing_key, tmp_path / "second", scales, slow)

    prefix = bucket.location("tenants/team-a/")
    fetched = fetch_prepared(bucket.client(), prefix, KEY, tmp_path / "fetched")
    assert fetched.path.read_bytes() == b"model with scales " + scales
    assert fetched.reference.read_bytes() == b"reference"
    place = prepared_folder(prefix, KEY)
    public = signing_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    verify([public], bucket.get((place / "manifest.json").key), bucket.get((place / "manifest.sig").key))
