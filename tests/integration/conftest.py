"""Fixtures of the integration tests: real S3 servers, a bucket of one's own."""

from collections.abc import Iterator

import pytest
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
