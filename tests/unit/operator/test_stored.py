"""The operator's reader of the store: what it says without a store, and what it keeps."""

from pathlib import Path

import pytest
from enginery_operator import stored
from enginery_operator.stored import ModelStore
from enginery_store.identity import ListedObject
from enginery_store.reasons import Reason
from enginery_store.requests import StoreAccess

ACCESS = StoreAccess(endpoint="http://127.0.0.1:9")


@pytest.mark.parametrize("prefix", ["s3://ab/", "s3://enginery/../x/", "/namespace/"])
async def test_a_prefix_that_is_none_is_an_observation(prefix: str, tmp_path: Path) -> None:
    """Otherwise no model of that tenant would ever have a condition."""
    store = ModelStore(tmp_path)
    _, trouble = await store.outcome(ACCESS, prefix, "1" * 64)
    engine = await store.engine(ACCESS, prefix, "e" * 64, ())
    assert trouble is not None
    assert engine is not None
    assert engine.trouble is not None
    assert trouble.passing
    assert await store.prepared(ACCESS, prefix, "b" * 64)


async def test_a_source_of_too_many_objects_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fingerprint over some of them would never be the builder's, and the source be replaced for ever."""
    monkeypatch.setattr(stored, "LISTING_LIMIT", 2)
    store, found = ModelStore(tmp_path), [ListedObject(str(number), 1, "etag") for number in range(3)]

    class Client:
        def list_objects(self, *_: object, limit: int) -> list[ListedObject]:
            assert limit == stored.LISTING_LIMIT
            return found

    monkeypatch.setattr(store, "_client", lambda _: Client())
    listing = await store.listing(ACCESS, "s3://models/team-a/")
    assert listing.fingerprint is None
    assert listing.trouble is not None
    assert (listing.trouble.reason, listing.trouble.passing) == (Reason.SOURCE_TOO_LARGE, False)
    found.pop()
    assert (await store.listing(ACCESS, "s3://models/team-a/")).size_bytes == 2


def test_rotated_credentials_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    """Keys that change every hour would leave a connection pool and a file of certificates each."""
    store, other = ModelStore(tmp_path), StoreAccess(endpoint="http://127.0.0.1:10")
    before = {}
    for number in range(3):
        (tmp_path / "AWS_ACCESS_KEY_ID").write_text(f"key-{number}")
        (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text("secret")
        for access in (ACCESS, other):
            client = store._client(access)
            assert store._client(access) is client
            assert client is not before.get(access.endpoint)
            before[access.endpoint] = client
        assert len(store._clients) == 2
    for client in before.values():
        client.close()
