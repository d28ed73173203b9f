"""Tests with real frameworks. TensorFlow's run always; those marked `frameworks` install several GB (torch), once, into
the user's cache, and run with `pytest -m frameworks tests/frameworks`.
"""

from collections.abc import Iterator

import pytest
from support.s3_servers import Bucket, moto_server


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "frameworks: installs several GB of frameworks; runs with -m frameworks")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without -m frameworks, tests so marked are not chosen."""
    if "frameworks" in config.option.markexpr:
        return
    left = [item for item in items if item.get_closest_marker("frameworks")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with moto_server() as server:
        yield server.bucket()
