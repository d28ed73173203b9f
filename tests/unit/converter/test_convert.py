"""The converter as its container runs it, where no framework is needed: refusals, orders, messages, exit codes."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from enginery_store.manifest import parse_document
from enginery_store.reasons import Reason
from enginery_store.requests import EXIT_CODES, Conversion, PrepareRequest, TerminationMessage
from support.conversions import conversion_order


class Pod:
    """The two folders and the termination log that the container has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "source"
        self.converted = folder / "converted"
        self.source.mkdir()

    def convert(self, order: PrepareRequest | str) -> tuple[int, TerminationMessage]:
        """Exit code and termination message."""
        text = order if isinstance(order, str) else order.to_json().decode()
        environment = {
            "PATH": os.environ["PATH"],
            "ENGINERY_REQUEST": text,
            "ENGINERY_WORK_FOLDER": str(self.folder),
            "ENGINERY_TERMINATION_LOG": str(self.folder / "log"),
        }
        command = [sys.executable, "-m", "enginery_converter"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert "Traceback" not in done.stdout
        return done.returncode, parse_document(TerminationMessage, (self.folder / "log").read_bytes())

    def conversion(self) -> Conversion:
        return parse_document(Conversion, (self.converted / "converted.json").read_bytes())


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def test_refusal_is_a_result_that_the_builder_records(pod: Pod) -> None:
    with zipfile.ZipFile(pod.source / "net.pt2", "w") as archive:
        archive.writestr("net/data.pkl", b"\x80\x02.")

    code, message = pod.convert(conversion_order("PyTorchExport"))

    assert (code, message.reason) == (0, Reason.PREPARING)
    refusal = pod.conversion().refusal
    assert refusal is not None
    assert (refusal.reason, refusal.retryable) == (Reason.UNSUPPORTED_FORMAT, False)
    assert refusal.message == message.message
    assert "net.pt2 is a torch.save file: a Python pickle" in refusal.message
    assert [path.name for path in pod.converted.iterdir()] == ["converted.json"]


def test_model_that_grows_beyond_what_an_upload_may_be_is_refused(pod: Pod) -> None:
    with zipfile.ZipFile(pod.source / "net.pt2", "w") as archive:
        for name in ("models/model.json", "data/weights/model_weights_config.json"):
            archive.writestr(f"net/{name}", b'{"config": {}}')
        archive.writestr("net/data/constants/model_constants_config.json", b'{"config": {}}')
        archive.writestr("net/data/sample_inputs/model.pt", b"")
        archive.writestr("net/data/weights/weight_0", bytes(100_000))

    code, message = pod.convert(conversion_order("PyTorchExport").model_copy(update={"max_source_bytes": 50_000}))

    refusal = pod.conversion().refusal
    assert code == 0, message
    assert refusal is not None
    assert refusal.reason == Reason.SOURCE_TOO_LARGE
    assert "more than 50000 bytes" in refusal.message
    assert [path.name for path in pod.converted.iterdir()] == ["converted.json"]


def test_wrong_task_is_refused_before_any_framework_is_imported(pod: Pod) -> None:
    (pod.source / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}))
    (pod.source / "model.safetensors").touch()

    code, _ = pod.convert(conversion_order("HuggingFace", "ImageClassification"))

    refusal = pod.conversion().refusal
    assert code == 0
    assert refusal is not None
    assert refusal.reason == Reason.INVALID_SPEC
    assert "set spec.source.task to FeatureExtraction" in refusal.message


def test_image_without_the_framework_is_a_fault_of_the_installation(pod: Pod) -> None:
    (pod.source / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}))
    (pod.source / "model.safetensors").touch()

    code, message = pod.convert(conversion_order("HuggingFace", "FeatureExtraction"))

    assert (code, message.reason) == (EXIT_CODES[Reason.CONFIG_ERROR], Reason.CONFIG_ERROR)
    assert "this image cannot convert HuggingFace: No module named 'torch'" in message.message
    assert not (pod.converted / "converted.json").exists()


def test_onnx_needs_no_converter(pod: Pod) -> None:
    code, message = pod.convert(conversion_order("ONNX"))

    assert (code, message.reason) == (EXIT_CODES[Reason.CONFIG_ERROR], Reason.CONFIG_ERROR)
    assert "ONNX needs no conversion" in message.message


def test_order_that_is_none_is_named(pod: Pod) -> None:
    code, message = pod.convert("{}")

    assert (code, message.reason) == (EXIT_CODES[Reason.CONFIG_ERROR], Reason.CONFIG_ERROR)
    assert "ENGINERY_REQUEST holds no order for a conversion" in message.message


def test_remains_of_a_run_that_died_are_no_result(pod: Pod) -> None:
    pod.converted.mkdir()
    (pod.converted / "model.onnx").write_bytes(b"half")
    (pod.converted / "folder").mkdir()
    (pod.source / "net.keras").touch()

    pod.convert(conversion_order("TensorFlowSavedModel"))

    refusal = pod.conversion().refusal
    assert refusal is not None
    assert "net.keras is a Keras file" in refusal.message
    assert [path.name for path in pod.converted.iterdir()] == ["converted.json"]


def test_starting_loads_no_framework_and_no_store_client() -> None:
    heavy = "{'tensorflow', 'torch', 'transformers', 'onnx', 'boto3', 'cryptography', 'numpy'}"
    code = f"import sys, enginery_converter.__main__, enginery_converter.convert; print({heavy} & sys.modules.keys())"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
