"""Asks a served model with the clients of the kserve package, and prints what came back as one JSON object.

    client.py --http HOST:PORT --grpc HOST:PORT --model NAME --data FILE.npz

The .npz holds `input.NAME` and `output.NAME` arrays. A check is `ok` or `failed: <words>`. Runs in an environment of
its own: it shares no code with the server.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

ARGUMENTS, sys.argv[1:] = sys.argv[1:], []  # importing kserve parses the program's arguments as its own
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig  # noqa: E402
from kserve.protocol.infer_type import RequestedOutput  # noqa: E402

DATATYPES = {
    "float32": "FP32",
    "float64": "FP64",
    "float16": "FP16",
    "int64": "INT64",
    "int32": "INT32",
    "bool": "BOOL",
}


def request(model: str, inputs: dict[str, np.ndarray], outputs: list[str], *, binary: bool) -> InferRequest:
    tensors = []
    for name, array in inputs.items():
        tensor = InferInput(name, list(array.shape), DATATYPES.get(str(array.dtype), str(array.dtype).upper()))
        tensor.set_data_from_numpy(array, binary_data=binary)
        tensors.append(tensor)
    asked = [RequestedOutput(name, {"binary_data": binary}) for name in outputs]
    return InferRequest(model_name=model, infer_inputs=tensors, request_id="seven", request_outputs=asked)


def compare(answer: Any, wanted: dict[str, np.ndarray], model: str) -> None:
    if (answer.model_name, answer.id) != (model, "seven"):
        raise AssertionError(f"model and id came back as {answer.model_name!r}, {answer.id!r}")
    found = {output.name: output.as_numpy() for output in answer.outputs}
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name].reshape(array.shape), array, rtol=1e-4, atol=1e-5)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("http", "grpc", "model", "data"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args(ARGUMENTS)
    data = np.load(options.data)
    inputs = {name.removeprefix("input."): data[name] for name in data.files if name.startswith("input.")}
    wanted = {name.removeprefix("output."): data[name] for name in data.files if name.startswith("output.")}
    model, base = options.model, f"http://{options.http}"
    results: dict[str, str] = {}

    async def check(name: str, action: Callable[[], Awaitable[Any]]) -> None:
        try:
            answer = await action()
            results[name] = "ok" if answer in (None, True) else f"failed: answered {answer!r}"
        except Exception as error:  # noqa: BLE001 - whatever a client raises is the result
            results[name] = f"failed: {type(error).__name__}: {error}"

    rest = InferenceRESTClient(RESTConfig(protocol="v2", retries=1))
    rpc = InferenceGRPCClient(options.grpc)

    async def over_rest(*, binary: bool) -> None:
        asked = request(model, inputs, list(wanted), binary=binary)
        compare(await rest.infer(base, asked, model_name=model), wanted, model)

    async def over_grpc(*, binary: bool) -> None:
        compare(await rpc.infer(request(model, inputs, list(wanted), binary=binary)), wanted, model)

    async def unknown_is_not_ready() -> bool:
        return not await rest.is_model_ready(base, "no-such-model")

    await check("http live", lambda: rest.is_server_live(base))
    await check("http ready", lambda: rest.is_server_ready(base))
    await check("http model ready", lambda: rest.is_model_ready(base, model))
    await check("http unknown model is not ready", unknown_is_not_ready)
    await check("http infer binary", lambda: over_rest(binary=True))
    await check("http infer json", lambda: over_rest(binary=False))
    await check("grpc live", rpc.is_server_live)
    await check("grpc ready", rpc.is_server_ready)
    await check("grpc model ready", lambda: rpc.is_model_ready(model))
    await check("grpc infer raw", lambda: over_grpc(binary=True))
    await check("grpc infer typed", lambda: over_grpc(binary=False))
    await rest.close()
    await rpc.close()
    print(json.dumps({"results": results}))


if __name__ == "__main__":
    asyncio.run(main())
