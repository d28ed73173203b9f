"""Names in the model store: from URIs and keys to buckets and object names. Pure; called by all three programs.

    <prefix>/requests/<request key>.json
    <prefix>/prepared/<key[:2]>/<key>/{source.json, model.onnx[.data], reference.onnx[.data], manifest.json,
                                       manifest.sig}
    <prefix>/engines/<key[:2]>/<key>/{engine.plan | model.onnx, manifest.json, manifest.sig}
    <prefix>/timing-caches/<backend version>/<product>/<slice>.cache

A manifest is written last: a key with a manifest is complete.
"""

from dataclasses import dataclass

from enginery_store.errors import InvalidLocationError

MANIFEST_NAME = "manifest.json"
SIGNATURE_NAME = "manifest.sig"
SOURCE_NAME = "source.json"
PREPARED_MODEL_NAME = "model.onnx"
REFERENCE_MODEL_NAME = "reference.onnx"

_MINIMUM_BUCKET_LENGTH = 3


@dataclass(frozen=True)
class Location:
    """A bucket and a key (without leading slash). A key that ends in `/`, or is empty, names a folder."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def __truediv__(self, name: str) -> "Location":
        """The location of `name` below this folder."""
        return Location(self.bucket, f"{self.key.rstrip('/')}/{name}" if self.key else name)


def parse_uri(uri: str) -> Location:
    """Split `s3://bucket/key`; repeated slashes are one, as in a path; a trailing slash is kept.

    Raises InvalidLocationError with advice for another scheme, a host and port, a missing bucket or a climbing path.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme != "s3":
        raise InvalidLocationError(f"{uri!r} is not an s3:// URI; write s3://BUCKET/PATH")
    bucket, _, key = rest.partition("/")
    if ":" in bucket or "@" in bucket:
        raise InvalidLocationError(
            f"{uri!r} names a host; write s3://BUCKET/PATH and set the endpoint in the store settings or as"
            " AWS_ENDPOINT_URL_S3 in the credentials Secret"
        )
    if len(bucket) < _MINIMUM_BUCKET_LENGTH:
        raise InvalidLocationError(f"{uri!r} has no valid bucket name (3 to 63 characters); write s3://BUCKET/PATH")
    segments = [segment for segment in key.split("/") if segment]
    if ".." in segments or "." in segments:
        raise InvalidLocationError(f"{uri!r} has a path that climbs ('..'); write the plain path")
    normal = "/".join(segments)
    return Location(bucket, f"{normal}/" if normal and key.endswith("/") else normal)


def request_object(prefix: Location, key: str) -> Location:
    """Where the outcome of a prepare request, or the final failure of a build, is recorded."""
    return prefix / f"requests/{key}.json"


def prepared_folder(prefix: Location, key: str) -> Location:
    """The folder of a prepared model."""
    return prefix / f"prepared/{key[:2]}/{key}"


def engine_folder(prefix: Location, key: str) -> Location:
    """The folder of an engine."""
    return prefix / f"engines/{key[:2]}/{key}"


def timing_cache_object(prefix: Location, backend_version: str, product: str, mig_profile: str) -> Location:
    """Where TensorRT's timings for one kind of slice are kept.

    Below the tenant's prefix: a cache holds compiled code, and so is trusted as far as its tenant is.
    """
    return prefix / f"timing-caches/{backend_version}/{product}/{mig_profile or 'whole'}.cache"
