"""One small ONNX source through the whole of `prepare`, in this process, against a real S3 server."""

from enginery_builder.__main__ import run
from enginery_builder.settings import Settings
from enginery_builder.verdict import Verdict
from enginery_store.requests import PrepareRequest
from support.builder_runs import Workbench
from support.onnx_cases import Case


def request_of(bench: Workbench, case: Case) -> PrepareRequest:
    """Upload it, a file under its own name and several as a folder, and ask for it as the case says."""
    files = case.files()
    uris = [bench.upload(f"models/{case.name}/{name}", data) for name, data in files.items()]
    uri = uris[0] if len(files) == 1 else f"s3://{bench.bucket.name}/models/{case.name}/"
    request = bench.prepare_request(uri, list(case.profiles), backends=[case.backend])
    return request.model_copy(update={"precision": case.precision})


def prepare(bench: Workbench, request: PrepareRequest) -> Verdict:
    """What the container would leave."""
    folders = {"ENGINERY_CREDENTIALS_ROOT": "credentials", "ENGINERY_WORK_FOLDER": "work"}
    settings = Settings.from_environment({name: str(bench.folder / folder) for name, folder in folders.items()})
    return run("prepare", request, settings)
