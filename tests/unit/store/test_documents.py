"""Documents, reasons, exit codes and the log format: what the programs say to each other."""

import io
import json
import logging
from datetime import UTC, datetime

import pytest
from enginery_store import log
from enginery_store.errors import DocumentError, EngineryError, FinalError, PassingError
from enginery_store.manifest import StoredFile, Target, parse_document
from enginery_store.reasons import FINAL_REASONS, Reason
from enginery_store.requests import EXIT_CODES, FINAL_EXIT_CODES, Outcome, TerminationMessage


def subclasses(kind: type[EngineryError]) -> list[type[EngineryError]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in subclasses(child))]


def test_class_of_an_error_agrees_with_its_reason() -> None:
    for kind in subclasses(FinalError):
        assert not kind("x").retryable
        assert kind("x").reason in FINAL_REASONS
    for kind in subclasses(PassingError):
        assert kind("x").retryable
        assert kind("x").reason not in FINAL_REASONS


def test_exit_codes_are_unique_and_final_exactly_below_fifty() -> None:
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
    assert all((code < 50) == (reason in FINAL_REASONS) for reason, code in EXIT_CODES.items())
    assert [code for code in sorted(EXIT_CODES.values()) if code < 50] == FINAL_EXIT_CODES
    assert not {1, 2, 126, 127, 137, 139, 143} & set(EXIT_CODES.values())


def test_document_is_camel_case_and_reads_back() -> None:
    outcome = Outcome(key="k", reason=Reason.VERIFIED, prepared_key="p", finished_at=datetime(2026, 1, 2, tzinfo=UTC))

    text = json.loads(outcome.to_json())

    assert text["preparedKey"] == "p"
    assert text["reason"] == "Verified"
    assert parse_document(Outcome, outcome.to_json()) == outcome


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "document"),
        (b"[]", "document"),
        (b'{"name": "x"}', "sha256"),
        (b'{"name": "x", "sha256": "zz", "sizeBytes": 1}', "sha256"),
        (b'{"name": "x", "sha256": "' + b"0" * 64 + b'", "sizeBytes": 1, "surprise": 2}', "surprise"),
    ],
)
def test_document_of_another_schema_names_the_field(data: bytes, words: str) -> None:
    with pytest.raises(DocumentError, match=words):
        parse_document(StoredFile, data)


def test_unknown_version_is_refused() -> None:
    outcome = Outcome(key="k", reason=Reason.VERIFIED, finished_at=datetime(2026, 1, 2, tzinfo=UTC))

    with pytest.raises(DocumentError, match="version"):
        parse_document(Outcome, outcome.to_json().replace(b'"v1"', b'"v2"'))


TARGETS = {
    "cpu-amd64": Target(accelerator="CPU", architecture="amd64"),
    "sm90-nvidia-h200": Target(accelerator="GPU", compute_capability="9.0", product="NVIDIA-H200"),
    "sm90-nvidia-h200-1g.18gb": Target(
        accelerator="MIG", compute_capability="9.0", product="NVIDIA-H200", mig_profile="1g.18gb"
    ),
}


@pytest.mark.parametrize("name", TARGETS)
def test_target_has_a_name_for_people(name: str) -> None:
    assert TARGETS[name].name == name


@pytest.mark.parametrize("text", ["short", "x" * 10000, '"' * 5000, "\n" * 5000, "日本" * 3000], ids=range(5))
def test_termination_message_fits_and_reads_back(text: str) -> None:
    message = TerminationMessage(reason=Reason.SOURCE_INVALID, message=text, retryable=False)

    data = message.to_log()

    assert len(data) <= 4096
    assert text.startswith(parse_document(TerminationMessage, data).message)


def test_log_line_is_json_with_its_fields() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        log.configure("INFO", stream)
        logging.getLogger("enginery").info("built", extra={"engine": "k", "seconds": 3})
        logging.getLogger("enginery").debug("not shown")
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:], root.level = before[0], before[1]

    (line,) = stream.getvalue().splitlines()
    assert {"level": "info", "logger": "enginery", "message": "built", "engine": "k", "seconds": 3}.items() <= (
        json.loads(line).items()
    )
