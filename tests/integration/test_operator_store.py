"""What the operator reads from real S3 servers: listings, outcomes, engines; an outage is an observation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from enginery_operator import stored
from enginery_operator.stored import BUILDER_VERSION, ModelStore
from enginery_store.layout import MANIFEST_NAME, SIGNATURE_NAME, engine_folder, parse_uri, prepared_folder
from enginery_store.manifest import EngineManifest, Target
from enginery_store.reasons import Reason
from enginery_store.requests import StoreAccess
from enginery_store.signing import sign
from support.observed import a_manifest, an_outcome
from support.published import SigningKey
from support.s3_servers import Bucket

KEY = "e" * 64
OURS, OTHER = SigningKey.fresh(), SigningKey.fresh()


class Stage:
    """One tenant's prefix in a bucket, and the operator's reader of it."""

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        (folder / "AWS_ACCESS_KEY_ID").write_text(bucket.server.access_key)
        (folder / "AWS_SECRET_ACCESS_KEY").write_text(bucket.server.secret_key)
        self.bucket, self.store, self.access = bucket, ModelStore(folder), bucket.server.access
        self.prefix = f"s3://{bucket.name}/tenants/a/"

    def put(self, where: Any, data: bytes) -> None:
        self.bucket.put(where.key, data)

    @property
    def folder(self) -> Any:
        return engine_folder(parse_uri(self.prefix), KEY)

    def publish(self, manifest: EngineManifest | None = None, *, key: SigningKey | None = OURS) -> None:
        document = (manifest or a_manifest(Target(accelerator="CPU", architecture="amd64"), key=KEY)).to_json()
        self.put(self.folder / "model-1.onnx", b"x")
        if key is not None:
            self.put(self.folder / SIGNATURE_NAME, sign(key.private, document))
        self.put(self.folder / MANIFEST_NAME, document)

    async def engine(self, *keys: SigningKey) -> Any:
        return await self.store.engine(self.access, self.prefix, KEY, tuple(key.public for key in keys))

    async def outcome(self) -> Any:
        return await self.store.outcome(self.access, self.prefix, "1" * 64)

    def record(self, data: bytes) -> None:
        self.bucket.put(f"tenants/a/requests/{'1' * 64}.json", data)


@pytest.fixture
def stage(bucket: Bucket, tmp_path: Path) -> Iterator[Stage]:
    found = Stage(bucket, tmp_path)
    yield found
    for client in found.store._clients.values():
        client.close()


async def test_a_listing_is_a_fingerprint_that_changes_with_the_content(stage: Stage) -> None:
    uri = f"s3://{stage.bucket.name}/models/m"
    missing = await stage.store.listing(stage.access, uri)
    assert missing.fingerprint is None
    assert missing.trouble is not None
    assert (missing.trouble.reason, missing.trouble.passing) == (Reason.SOURCE_NOT_FOUND, False)
    stage.bucket.put("models/m/a.onnx", b"one")
    stage.bucket.put("models/m-other/a.onnx", b"one")
    first = await stage.store.listing(stage.access, uri)
    assert first == await stage.store.listing(stage.access, f"{uri}/")
    assert first.size_bytes == 3
    stage.bucket.put("models/m/a.onnx", b"two")
    assert (await stage.store.listing(stage.access, uri)).fingerprint != first.fingerprint


async def test_an_outage_is_passing_trouble_everywhere(stage: Stage) -> None:
    away = StoreAccess(endpoint="http://127.0.0.1:9")
    listing = await stage.store.listing(away, f"s3://{stage.bucket.name}/m")
    _, outcome = await stage.store.outcome(away, stage.prefix, "1" * 64)
    engine = await stage.store.engine(away, stage.prefix, KEY, ())
    reach = await stage.store.reach(away, stage.prefix)
    assert engine is not None
    for trouble in (listing.trouble, outcome, engine.trouble, reach):
        assert trouble is not None
        assert (trouble.reason, trouble.passing) == (Reason.STORE_UNAVAILABLE, True)
    assert await stage.store.prepared(away, stage.prefix, "b" * 64)


async def test_an_engine_is_what_a_trusted_key_signed(stage: Stage) -> None:
    assert await stage.engine(OURS) is None
    stage.publish()
    for keys in ([OURS], [OTHER, OURS]):
        found = await stage.engine(*keys)
        assert found.trouble is None
        assert found.signed
        assert found.manifest.key == KEY
    unsigned = await stage.engine()
    assert (unsigned.signed, unsigned.trouble) == (False, None)


FAULTS: dict[str, Any] = {
    "no signature": lambda stage: stage.publish(key=None),
    "a stranger's signature": lambda stage: stage.publish(key=OTHER),
    "another engine's manifest": lambda stage: stage.publish(
        a_manifest(Target(accelerator="CPU", architecture="amd64"), key="0" * 64)
    ),
    "altered bytes": lambda stage: (
        stage.publish(),
        stage.put(stage.folder / MANIFEST_NAME, stage.bucket.get((stage.folder / MANIFEST_NAME).key) + b" "),
    ),
    "a manifest of a later version": lambda stage: _signed(stage, b'{"kind": "Engine", "version": "v9"}'),
    "a manifest that is none": lambda stage: _signed(stage, b"\x00\x01"),
}


def _signed(stage: Stage, data: bytes) -> None:
    stage.put(stage.folder / SIGNATURE_NAME, sign(OURS.private, data))
    stage.put(stage.folder / MANIFEST_NAME, data)


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_does_not_verify_is_no_engine_and_final(fault: str, stage: Stage) -> None:
    FAULTS[fault](stage)
    found = await stage.engine(OURS)
    assert found.manifest is None
    assert (found.trouble.reason, found.trouble.passing) == (Reason.ENGINE_VERIFICATION_FAILED, False)
    assert "remove the folder to have it built again" in found.trouble.message


async def test_a_slip_in_the_tenants_keys_is_not_blamed_on_the_engine(stage: Stage) -> None:
    stage.publish()
    found = await stage.store.engine(stage.access, stage.prefix, KEY, ("junk",))
    assert found is not None
    assert found.trouble is not None
    assert found.trouble.message.endswith("correct the Tenant's spec.store.publicKeys")
    assert "remove the folder" not in found.trouble.message


async def test_a_mended_engine_is_read_again(stage: Stage) -> None:
    stage.publish(key=OTHER)
    assert (await stage.engine(OURS)).manifest is None
    stage.publish()
    assert (await stage.engine(OURS)).manifest is not None


async def test_a_manifest_without_its_file_is_no_engine(stage: Stage) -> None:
    stage.publish()
    assert (await stage.engine(OURS)).manifest is not None
    stage.bucket.delete((stage.folder / "model-1.onnx").key)
    assert await stage.engine(OURS) is None


async def test_an_outcome_is_read_and_a_good_one_kept(stage: Stage) -> None:
    assert await stage.outcome() == (None, None)
    stage.record(an_outcome(Reason.SOURCE_INVALID, "no model").to_json())
    found, trouble = await stage.outcome()
    assert trouble is None
    assert found.failed
    stage.record(an_outcome().to_json())
    found, _ = await stage.outcome()
    assert not found.failed


@pytest.mark.parametrize("data", [b"not json", b"{}", an_outcome(key="2" * 64).to_json()])
async def test_an_outcome_that_is_not_ours_is_passing_trouble(data: bytes, stage: Stage) -> None:
    stage.record(data)
    found, trouble = await stage.outcome()
    assert found is None
    assert trouble is not None
    assert trouble.passing


async def test_a_refusal_by_another_builder_is_asked_again(stage: Stage) -> None:
    stage.record(an_outcome(Reason.UNSUPPORTED_OPERATOR, "Foo", builder_version="0.0.1").to_json())
    assert await stage.outcome() == (None, None)
    stage.record(an_outcome(Reason.UNSUPPORTED_OPERATOR, "Foo", builder_version=BUILDER_VERSION).to_json())
    found, _ = await stage.outcome()
    assert found is not None


async def test_a_prepared_model_is_there_when_its_files_are(stage: Stage) -> None:
    folder = prepared_folder(parse_uri(stage.prefix), "b" * 64)
    names = ("model.onnx", MANIFEST_NAME)
    seen = [await stage.store.prepared(stage.access, stage.prefix, "b" * 64)]
    for name in names:
        stage.put(folder / name, b"x")
        seen.append(await stage.store.prepared(stage.access, stage.prefix, "b" * 64))
    assert seen == [False, False, True]


async def test_a_prefix_is_reached_and_a_missing_bucket_told(stage: Stage) -> None:
    assert await stage.store.reach(stage.access, stage.prefix) is None
    trouble = await stage.store.reach(stage.access, "s3://no-such-bucket-here/x/")
    assert trouble is not None
    assert not trouble.passing


async def test_a_prefix_is_asked_at_once_however_short_the_machine_is_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored.time, "monotonic", lambda: 5.0)
    assert await stage.store.reach(stage.access, "s3://no-such-bucket-here/x/") is not None


async def test_what_came_and_went_does_not_fill_the_memory(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "CACHE_LIMIT", 3)
    for digit in "12345":
        key = digit * 64
        stage.bucket.put(f"tenants/a/requests/{key}.json", an_outcome(key=key).to_json())
        assert (await stage.store.outcome(stage.access, stage.prefix, key))[0] is not None
    assert len(stage.store._outcomes) == 3


async def test_rotated_credentials_hold_from_the_next_request(stage: Stage) -> None:
    await stage.outcome()
    (first,) = stage.store._clients.values()
    (stage.store.credentials_folder / "AWS_SECRET_ACCESS_KEY").write_text("another")
    await stage.outcome()
    (second,) = stage.store._clients.values()
    assert second is not first
