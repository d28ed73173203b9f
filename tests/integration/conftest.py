"""Fixtures of the integration tests: real S3 servers, a bucket of one's own, a builder that works on it."""

import importlib.resources
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.builder_runs import Workbench
from support.s3_servers import OTHER_IS_NAMED, Bucket, S3Server, moto_server, other_server


@pytest.fixture(scope="session", params=["moto", "other"])
def s3_server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    """moto, or another server: the one that ENGINERY_S3_ENDPOINT names, else the test cluster's."""
    if request.param == "moto":
        with moto_server() as server:
            yield server
    else:
        yield other_server()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every test runs on moto, and on the other server where one is named; a test marked `server` on that one only."""
    kept, left = [], []
    for item in items:
        on = getattr(item, "callspec", None) and item.callspec.params.get("s3_server")  # type: ignore[attr-defined]
        only = item.get_closest_marker("server")
        wanted = set(only.args) if only else {"moto", "other"} if OTHER_IS_NAMED else {"moto"}
        (kept if on is None or on in wanted else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture
def bucket(s3_server: S3Server) -> Bucket:
    return s3_server.bucket()


@pytest.fixture
def bench(tmp_path: Path, bucket: Bucket) -> Workbench:
    return Workbench(tmp_path, bucket)


@pytest.fixture(scope="session")
def magika_model() -> bytes:
    return (importlib.resources.files("magika") / "models/standard_v3_3/model.onnx").read_bytes()
