"""From URIs and keys to object names."""

import pytest
from enginery_store.errors import InvalidLocationError
from enginery_store.layout import Location, engine_folder, parse_uri, prepared_folder, request_object
from enginery_store.reasons import Reason

GOOD = {
    "s3://bucket/a/b": Location("bucket", "a/b"),
    "s3://bucket/a/b/": Location("bucket", "a/b/"),
    "s3://bucket//a///b": Location("bucket", "a/b"),
    "s3://bucket": Location("bucket", ""),
    "s3://bucket/": Location("bucket", ""),
    "s3://bucket/a b+c%2Fd/ü": Location("bucket", "a b+c%2Fd/ü"),
    "s3://my.bucket-1/..a/b..": Location("my.bucket-1", "..a/b.."),
}
BAD = {
    "s3://host:9000/bucket/key": "AWS_ENDPOINT_URL_S3",
    "s3://user@bucket/key": "AWS_ENDPOINT_URL_S3",
    "http://bucket/key": "s3://BUCKET/PATH",
    "bucket/key": "s3://BUCKET/PATH",
    "s3:/bucket/key": "s3://BUCKET/PATH",
    "s3://": "bucket name",
    "s3:///key": "bucket name",
    "s3://ab/key": "bucket name",
    "s3://bucket/a/../b": "climbs",
    "s3://bucket/./b": "climbs",
}


@pytest.mark.parametrize("uri", GOOD)
def test_uri_is_split(uri: str) -> None:
    assert parse_uri(uri) == GOOD[uri]


@pytest.mark.parametrize("uri", BAD)
def test_uri_that_cannot_be_is_refused_with_advice(uri: str) -> None:
    with pytest.raises(InvalidLocationError, match=BAD[uri]) as caught:
        parse_uri(uri)
    assert caught.value.reason == Reason.INVALID_SPEC


@pytest.mark.parametrize("uri", GOOD)
def test_location_prints_as_a_uri_that_means_itself(uri: str) -> None:
    assert parse_uri(str(GOOD[uri])) == GOOD[uri]


@pytest.mark.parametrize("prefix", ["s3://bucket/tenants/a", "s3://bucket/tenants/a/"])
def test_names_below_a_prefix_do_not_depend_on_its_slash(prefix: str) -> None:
    place, key = parse_uri(prefix), "abcdef"

    assert str(request_object(place, key)) == "s3://bucket/tenants/a/requests/abcdef.json"
    assert str(prepared_folder(place, key)) == "s3://bucket/tenants/a/prepared/ab/abcdef"
    assert str(engine_folder(place, key)) == "s3://bucket/tenants/a/engines/ab/abcdef"
    assert str(engine_folder(Location("bucket", ""), key) / "manifest.json") == (
        "s3://bucket/engines/ab/abcdef/manifest.json"
    )
