"""From a prepared model to an engine on the device in hand. Called by `build`; the backend does the work.

Version and device are compared with the request first: an engine key holds both, and an engine published under the
key of another version or device would be served where it cannot run.
"""

import logging
import resource
import time
from pathlib import Path

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.requests import BuildRequest

from enginery_builder.artifacts import CompiledEngine, FetchedModel
from enginery_builder.backend import Backend, CompileOrder

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
    backend.require_target(request.target)


def compile_engine(
    backend: Backend,
    model: FetchedModel,
    request: BuildRequest,
    folder: Path,
    name: str,
    *,
    timing_cache: bytes | None = None,
) -> CompiledEngine:
    """Compile into `folder` under the file name `name`. Raises what the backend raises."""
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    LOG.info("compiling", extra={"engine": request.key, "backend": request.backend})
    order = CompileOrder(
        model=model.path,
        folder=folder,
        name=name,
        profiles=request.profiles,
        options=request.options,
        precision=model.manifest.precision,
        target=request.target,
        timing_cache=timing_cache,
    )
    compiled = backend.compile(order)
    seconds, peak = round(time.monotonic() - started), 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = compiled.files[0].stat().st_size
    LOG.info("compiled", extra={"engine": request.key, "seconds": seconds, "bytes": size, "peak_memory": peak})
    return CompiledEngine(compiled, seconds, peak)
