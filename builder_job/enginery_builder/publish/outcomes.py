"""Outcomes under `requests/`: what a prepare request led to, or why a request can never succeed."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version

from enginery_store.errors import EngineryError, FinalError
from enginery_store.layout import prepared_folder, request_object
from enginery_store.manifest import PreparedManifest
from enginery_store.reasons import Reason
from enginery_store.requests import EXIT_CODES, Outcome, PrepareRequest

from enginery_builder.artifacts import ConvertedModel, FetchedFiles
from enginery_builder.publish.commit import is_whole
from enginery_builder.stores import Stores
from enginery_builder.wording import bounded

LOG = logging.getLogger(__name__)

ABOUT_THE_REQUEST = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.SOURCE_INVALID,
        Reason.SOURCE_NOT_FOUND,
        Reason.DIGEST_MISMATCH,
        Reason.UNSUPPORTED_FORMAT,
        Reason.UNSUPPORTED_OPERATOR,
        Reason.INVALID_SHAPES,
        Reason.SOURCE_TOO_LARGE,
        Reason.CONVERSION_FAILED,
        Reason.CALIBRATION_DATA_NOT_FOUND,
        Reason.TOO_FEW_SAMPLES,
        Reason.CALIBRATION_DATA_INVALID,
        Reason.CALIBRATION_FAILED,
        Reason.EVALUATION_DATA_INVALID,
        Reason.EVALUATION_FAILED,
        Reason.BUILD_FAILED,
        Reason.PRECISION_NOT_SUPPORTED_BY_HARDWARE,
    }
)
"""Final reasons that hold for the same request anywhere, and so are recorded under its key. The others (credentials,
signing key, memory, time, node, builder version) are of the surroundings: once mended, the same key must build."""


NOTES_LIMIT = 8
"""Sentences that an Outcome holds."""


def record_success(
    stores: Stores, request: PrepareRequest, source: FetchedFiles, key: str, model: ConvertedModel
) -> Outcome:
    """What the request led to; the operator finds the prepared model through it."""
    outcome = Outcome(
        key=request.key,
        reason=Reason.VERIFIED if request.source.digest else Reason.DIGEST_RECORDED,
        prepared_key=key,
        source_digest=source.digest,
        source_size_bytes=source.size_bytes,
        calibration=model.calibration,
        notes=[bounded(note) for note in (*model.notes, *model.checked.notes)][:NOTES_LIMIT],
        builder_version=version("enginery"),
        finished_at=datetime.now(UTC),
    )
    stores.store.write(request_object(stores.prefix, request.key), outcome.to_json())
    return outcome


def recorded_success(stores: Stores, key: str) -> Outcome | None:
    """What an earlier run of the same prepare request recorded, when its prepared model is still there."""
    outcome = stores.store.read_document(request_object(stores.prefix, key), Outcome)
    if (
        outcome is None
        or outcome.failed
        or not is_whole(stores.store, prepared_folder(stores.prefix, outcome.prepared_key), PreparedManifest)
    ):
        return None
    return outcome


@contextmanager
def final_failures_recorded(stores: Stores, key: str) -> Iterator[None]:
    """Errors pass through; one that is final for this very request is stored under its key on the way."""
    try:
        yield
    except FinalError as error:
        if error.reason in ABOUT_THE_REQUEST:
            _record_failure(stores, key, error)
        raise


def _record_failure(stores: Stores, key: str, error: FinalError) -> None:
    outcome = Outcome(
        key=key,
        reason=error.reason,
        message=bounded(error.message),
        exit_code=EXIT_CODES[error.reason],
        builder_version=version("enginery"),
        finished_at=datetime.now(UTC),
    )
    try:
        stores.store.write(request_object(stores.prefix, key), outcome.to_json())
    except EngineryError as trouble:
        LOG.warning("failure not recorded", extra={"key": key, "error": trouble.message})
