"""Orders for a converter, alone and between the builder's containers."""

from pathlib import Path

from enginery_store.manifest import PreparedManifest
from enginery_store.requests import ModelRef, PrecisionRef, PrepareRequest, SourceRef, StoreAccess
from support.builder_runs import Workbench
from support.frameworks import Framework


def conversion_order(kind: str, task: str = "") -> PrepareRequest:
    """The order of a prepare Job for a source of this format, for the converter alone: no store is behind it."""
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


def upload_folder(bench: Workbench, folder: Path, key: str) -> str:
    """Put a folder's files below a key; returns its URI."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            bench.upload(f"{key}/{path.relative_to(folder)}", path.read_bytes())
    return f"s3://{bench.bucket.name}/{key}/"


def three_containers(bench: Workbench, framework: Framework, request: PrepareRequest) -> PreparedManifest:
    """`fetch`, `convert` and `builder` of a prepare Job, one after the other on one work folder, as in a pod."""
    fetched = bench.run(request, "fetch")
    assert fetched.code == 0, fetched.log
    conversion = framework.convert(bench.folder / "work", request)
    assert conversion.refusal is None
    prepared = bench.run(request)
    assert prepared.code == 0, prepared.log
    outcome = bench.outcome(request.key)
    assert outcome is not None
    manifest = bench.prepared(outcome.prepared_key)
    assert manifest.tool_versions.items() >= conversion.tool_versions.items()
    return manifest


def prepared_files(bench: Workbench, manifest: PreparedManifest, folder: Path) -> Path:
    """Download a prepared model; returns the ONNX file, its external data beside it."""
    for file in manifest.files:
        place = f"{bench.prefix_key}/prepared/{manifest.key[:2]}/{manifest.key}/{file.name}"
        (folder / file.name).write_bytes(bench.bucket.get(place))
    return folder / manifest.files[0].name
