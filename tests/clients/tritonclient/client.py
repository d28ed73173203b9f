"""Calls every method of tritonclient against a served model, and prints what came back as one JSON object.

    client.py --http HOST:PORT --grpc HOST:PORT --model NAME --data FILE.npz

The .npz holds `input.NAME` and `output.NAME` arrays. A check is `ok`, `refused: <words>` where the client raised its
own InferenceServerException, or `failed: <words>`. It runs in an environment of its own.
"""

import argparse
import json
from collections.abc import Callable
from queue import Queue
from typing import Any

import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype


class Checks:
    """Named results in order."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.documents: dict[str, Any] = {}

    def run(self, name: str, action: Callable[[], Any]) -> None:
        try:
            answer = action()
            self.results[name] = "ok" if answer is None or answer is True else f"failed: answered {answer!r}"
        except InferenceServerException as error:
            self.results[name] = f"refused: {error.status()} {error.message()}"
        except Exception as error:  # noqa: BLE001 - whatever a client raises is the result
            self.results[name] = f"failed: {type(error).__name__}: {error}"

    def read(self, name: str, action: Callable[[], Any]) -> None:
        """As `run`, for a document that is to be seen."""

        def keep() -> None:
            self.documents[name] = action()

        self.run(name, keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("http", "grpc", "model", "data"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    data = np.load(options.data)
    inputs = {name.removeprefix("input."): data[name] for name in data.files if name.startswith("input.")}
    wanted = {name.removeprefix("output."): data[name] for name in data.files if name.startswith("output.")}
    checks = Checks()
    http_client = over_http.InferenceServerClient(options.http, concurrency=4)
    grpc_client = over_grpc.InferenceServerClient(options.grpc)
    for prefix, client, module in (("http", http_client, over_http), ("grpc", grpc_client, over_grpc)):
        common(checks, prefix, client, options.model)
        infer(checks, prefix, client, module=module, model=options.model, inputs=inputs, wanted=wanted)
    compressed_http(checks, http_client, options.model, inputs, wanted)
    asynchronous_grpc(checks, grpc_client, options.model, inputs, wanted)
    http_client.close()
    grpc_client.close()
    print(json.dumps({"results": checks.results, "documents": checks.documents}))


def common(checks: Checks, prefix: str, client: Any, model: str) -> None:
    """What both clients have under the same names."""
    as_json = {} if prefix == "http" else {"as_json": True}
    checks.run(f"{prefix} live", client.is_server_live)
    checks.run(f"{prefix} ready", client.is_server_ready)
    checks.run(f"{prefix} model ready", lambda: client.is_model_ready(model))
    checks.run(f"{prefix} unknown model is not ready", lambda: not ready_or_refused(client))
    checks.read(f"{prefix} server metadata", lambda: client.get_server_metadata(**as_json))
    checks.read(f"{prefix} model metadata", lambda: client.get_model_metadata(model, **as_json))
    checks.read(f"{prefix} model config", lambda: client.get_model_config(model, **as_json))
    checks.read(f"{prefix} index", lambda: client.get_model_repository_index(**as_json))
    checks.read(f"{prefix} statistics", lambda: client.get_inference_statistics(model, **as_json))
    checks.read(f"{prefix} all statistics", lambda: client.get_inference_statistics(**as_json))
    checks.run(f"{prefix} load", lambda: client.load_model(model))
    checks.run(f"{prefix} unload", lambda: client.unload_model(model))
    checks.run(f"{prefix} trace settings", client.get_trace_settings)
    checks.run(f"{prefix} update trace settings", lambda: client.update_trace_settings(settings={}))
    checks.run(f"{prefix} log settings", client.get_log_settings)
    checks.run(f"{prefix} update log settings", lambda: client.update_log_settings({}))
    checks.run(f"{prefix} system shared memory", client.get_system_shared_memory_status)
    checks.run(f"{prefix} cuda shared memory", client.get_cuda_shared_memory_status)
    checks.run(
        f"{prefix} register system shared memory", lambda: client.register_system_shared_memory("region", "/region", 8)
    )
    checks.run(f"{prefix} register cuda shared memory", lambda: client.register_cuda_shared_memory("r", b"AA==", 0, 8))
    checks.run(f"{prefix} unregister system shared memory", client.unregister_system_shared_memory)
    checks.run(f"{prefix} unregister cuda shared memory", client.unregister_cuda_shared_memory)


def ready_or_refused(client: Any) -> bool:
    try:
        return bool(client.is_model_ready("no-such-model"))
    except InferenceServerException:
        return False


def tensors(module: Any, arrays: dict[str, np.ndarray], **options: Any) -> list[Any]:
    found = []
    for name, array in arrays.items():
        tensor = module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, **options)
        found.append(tensor)
    return found


def compare(result: Any, wanted: dict[str, np.ndarray]) -> None:
    for name, array in wanted.items():
        found = result.as_numpy(name)
        if found is None:
            raise AssertionError(f"no output {name}")
        np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-5)
        if found.dtype != array.dtype:
            raise AssertionError(f"output {name} came as {found.dtype}")


def infer(
    checks: Checks,
    prefix: str,
    client: Any,
    *,
    module: Any,
    model: str,
    inputs: dict[str, np.ndarray],
    wanted: dict[str, np.ndarray],
) -> None:
    forms = {"binary": {"binary_data": True}, "json": {"binary_data": False}} if prefix == "http" else {"raw": {}}
    for form, options in forms.items():
        given = tensors(module, inputs, **options)
        asked = [module.InferRequestedOutput(name, **options) for name in wanted]
        checks.run(f"{prefix} infer {form}", lambda g=given: compare(client.infer(model, g), wanted))
        checks.run(
            f"{prefix} infer {form} with outputs, id and parameters",
            lambda g=given, a=asked: with_everything(client, model, g, a, wanted),
        )
    given = tensors(module, inputs)
    checks.run(f"{prefix} unknown model", lambda: client.infer("no-such-model", given))
    checks.run(f"{prefix} unknown version", lambda: client.infer(model, given, model_version="99"))
    checks.run(f"{prefix} no inputs", lambda: client.infer(model, []))
    classes = [module.InferRequestedOutput(next(iter(wanted)), class_count=2)]
    checks.run(f"{prefix} classification", lambda: client.infer(model, given, outputs=classes))


def with_everything(client: Any, model: str, given: list[Any], asked: list[Any], wanted: dict[str, Any]) -> None:
    result = client.infer(
        model, given, outputs=asked, request_id="seven", timeout=10_000_000, parameters={"color": "blue"}
    )
    compare(result, wanted)
    answer = result.get_response()
    found = answer["id"] if isinstance(answer, dict) else answer.id
    if found != "seven":
        raise AssertionError(f"id came back as {found!r}")


def compressed_http(checks: Checks, client: Any, model: str, inputs: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name in ("gzip", "deflate"):
        checks.run(
            f"http infer {name}",
            lambda n=name: compare(
                client.infer(
                    model,
                    tensors(over_http, inputs),
                    request_compression_algorithm=n,
                    response_compression_algorithm=n,
                ),
                wanted,
            ),
        )
    checks.run(
        "http async infer",
        lambda: compare(client.async_infer(model, tensors(over_http, inputs)).get_result(), wanted),
    )


def asynchronous_grpc(checks: Checks, client: Any, model: str, inputs: dict[str, Any], wanted: dict[str, Any]) -> None:
    checks.run(
        "grpc infer gzip",
        lambda: compare(client.infer(model, tensors(over_grpc, inputs), compression_algorithm="gzip"), wanted),
    )

    def ask(start: Callable[[Callable[[Any, Any], None]], None]) -> None:
        answers: Queue[tuple[Any, Any]] = Queue()
        start(lambda result, error: answers.put((result, error)))
        result, error = answers.get(timeout=20)
        if error is not None:
            raise error
        compare(result, wanted)

    def unary(callback: Callable[[Any, Any], None]) -> None:
        client.async_infer(model, tensors(over_grpc, inputs), callback)

    def stream(callback: Callable[[Any, Any], None]) -> None:
        client.start_stream(callback)
        client.async_stream_infer(model, tensors(over_grpc, inputs))

    checks.run("grpc async infer", lambda: ask(unary))
    checks.run("grpc stream infer", lambda: ask(stream))


if __name__ == "__main__":
    main()
