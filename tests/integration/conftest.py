"""Fixtures of the integration tests: real S3 servers, a bucket of one's own."""

from collections.abc import Iterator

import pytest
from support.s3_servers import Bucket, S3Server, moto_server, named_server

SERVERS = ["moto"] + (["named"] if named_server() else [])


@pytest.fixture(scope="session", params=SERVERS)
def s3_server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    """Each S3 server there is; moto always, and the one that ENGINERY_S3_ENDPOINT names."""
    if request.param == "moto":
        with moto_server() as server:
            yield server
    else:
        server = named_server()
        assert server is not None
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> Bucket:
    return s3_server.bucket()
