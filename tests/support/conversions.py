"""Orders for a converter, which reads neither a store nor its credentials."""

from enginery_store.requests import ModelRef, PrecisionRef, PrepareRequest, SourceRef, StoreAccess


def conversion_order(kind: str, task: str = "") -> PrepareRequest:
    """The order of a prepare Job for a source of this format."""
    return PrepareRequest(
        key="a" * 64,
        model=ModelRef(namespace="team-a", name="m", revision="m-1"),
        store=StoreAccess(),
        source_store=StoreAccess(),
        prefix="s3://models/tenants/team-a/",
        source=SourceRef.model_validate({"uri": "s3://models/m", "format": kind, "task": task}),
        precision=PrecisionRef(),
        profiles=[],
        max_source_bytes=1 << 30,
        timeout_seconds=500,
    )
