"""Real clients of the protocol: every method works, or raises the client's own error in clear words."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from enginery_store.requests import Batching
from support.client_env import run_client, save_case
from support.runtime_process import RuntimeProcess
from support.runtime_stage import Stage
from support.s3_servers import moto_server
from support.tiny_models import double_plus_one

UNSUPPORTED = (
    "load", "unload", "trace settings", "update trace settings", "log settings", "update log settings",
    "system shared memory", "cuda shared memory", "register system shared memory", "register cuda shared memory",
    "unregister system shared memory", "unregister cuda shared memory",
)  # fmt: skip
"""Triton's extensions that this server does not have; each must be refused, not fail."""

BAD = ("unknown model", "unknown version", "no inputs", "classification")
"""Requests that must be refused."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeProcess]:
    with moto_server() as server:
        stage = Stage(server, tmp_path_factory.mktemp("runtime"))
        order = stage.order(stage.publish(double_plus_one()), batching=Batching(max_batch_size=8))
        with stage.runtime(order) as runtime:
            yield runtime.wait_ready()


@pytest.fixture
def case(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    return save_case(tmp_path / "case.npz", {"x": x}, {"y": 2 * x + 1})


def test_tritonclient_works_with_every_method(tiny: RuntimeProcess, case: Path) -> None:
    said = run_client("tritonclient", tiny.url.removeprefix("http://"), tiny.grpc_address, "tiny", case)
    results = dict(said["results"])
    for prefix in ("http", "grpc"):
        for name in (*UNSUPPORTED, *BAD):
            assert results.pop(f"{prefix} {name}").startswith("refused: "), name
    assert results.pop("grpc stream infer").startswith("refused: ")
    assert {name: result for name, result in results.items() if result != "ok"} == {}
    assert len(results) > 25
    assert said["documents"]["http model metadata"] == said["documents"]["grpc model metadata"] | {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
    }


def test_kserve_clients_are_answered(tiny: RuntimeProcess, case: Path) -> None:
    said = run_client("kserve", tiny.url.removeprefix("http://"), tiny.grpc_address, "tiny", case)
    assert {name: result for name, result in said["results"].items() if result != "ok"} == {}
