"""Building blocks of the API types: the base class and the annotated strings and lists. Called by the types only."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class APIType(BaseModel):
    """Base of every API type: frozen, camelCase as Kubernetes writes it.

    Unknown fields are ignored rather than refused: the API server has pruned them already, and an operator that is
    older than the CRD must still read the objects (an upgrade is not atomic).
    """

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """CEL rules of a type, as (rule, message that says what to write instead), for `json_schema_extra`."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def ruled(*pairs: tuple[str, str]) -> ConfigDict:
    """A type's configuration with CEL rules."""
    return ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, json_schema_extra=rules(*pairs)
    )


def map_list(*keys: str) -> dict[str, Any]:
    """Schema of a list whose items are found by these keys, so that appliers can own single items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


SET_LIST: dict[str, Any] = {"x-kubernetes-list-type": "set"}
"""Schema of a list of distinct values."""

ATOMIC_LIST: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
"""Schema of a list that has one owner."""

URI = Annotated[str, Field(min_length=6, max_length=1024)]
"""A location in object storage."""

Digest = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$", max_length=71)]
"""As sha256sum prints it, after sha256:"""

Decimal = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?$", max_length=19)]
"""A decimal number as a string; the Kubernetes API knows no floats."""

Name = Annotated[str, Field(min_length=1, max_length=253)]
"""Name of a Kubernetes object."""

Label = Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""A DNS label."""

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$", max_length=32)]
"""A Kubernetes quantity."""

Text = Annotated[str, Field(max_length=256)]
"""A short text."""

Message = Annotated[str, Field(max_length=1024)]
"""A sentence for people."""

Dimension = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""Size of one dimension of a tensor."""

PEM = Annotated[str, Field(pattern="^-----BEGIN PUBLIC KEY-----", max_length=1024)]
"""An Ed25519 public key."""

SCHEME_RULE = ("self.startsWith('s3://') || self.startsWith('pvc://')", "write s3://BUCKET/PATH or pvc://CLAIM/PATH")
S3_SCHEME_RULE = ("self.startsWith('s3://')", "write s3://BUCKET/PATH")
NO_HOST_RULE = (
    "!self.matches('^s3://[^/]*[:@]')",
    "a URI names no host; write s3://BUCKET/PATH and set AWS_ENDPOINT_URL_S3 in the credentials Secret",
)
"""Rules every location obeys, here once."""
