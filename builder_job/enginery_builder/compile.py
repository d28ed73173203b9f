"""From a prepared model to an engine on the device in hand. Called by `build`; the backend does the work.

Version and device are compared with the request first: an engine key holds both, and an engine published under the
key of another version or device would be served where it cannot run.
"""

import logging
import time
from pathlib import Path

from enginery_store.errors import FinalError
from enginery_store.manifest import Target
from enginery_store.reasons import Reason
from enginery_store.requests import BuildRequest

from enginery_builder.artifacts import CompiledEngine, FetchedModel
from enginery_builder.backend import Backend

LOG = logging.getLogger(__name__)


def require_fit(backend: Backend, request: BuildRequest) -> None:
    """The request is for this backend's version and this device.

    Raises FinalError (ConfigError: another version; EngineDeviceMismatch: another device) that names both sides.
    """
    version = backend.version()
    if request.backend_version != version:
        raise FinalError(
            f"the request is for {request.backend} {request.backend_version}, this builder has {version}; install"
            " operator and builder images of one release",
            reason=Reason.CONFIG_ERROR,
        )
    device = backend.device()
    here = Target(accelerator="CPU", architecture=device.architecture).name
    if request.target.name != here:
        raise FinalError(
            f"the request is for {request.target.name}, this pod runs on {here} ({device.name}); the Job needs a node"
            " of its target",
            reason=Reason.ENGINE_DEVICE_MISMATCH,
        )


def compile_engine(
    backend: Backend, model: FetchedModel, request: BuildRequest, folder: Path, name: str
) -> CompiledEngine:
    """Compile into `folder` under the file name `name`. Raises what the backend raises."""
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    LOG.info("compiling", extra={"engine": request.key, "backend": request.backend})
    files = backend.compile(model.path, folder, request.profiles, request.options, name)
    seconds = round(time.monotonic() - started)
    LOG.info("compiled", extra={"engine": request.key, "seconds": seconds, "bytes": files[0].stat().st_size})
    return CompiledEngine(files, seconds)
