"""TensorRT's timing cache: what earlier builds for this kind of slice measured. Called by `backend`.

A cache that does not fit (another version, another device, damaged) costs time and nothing else, so it is a warning.
"""

import logging
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import tensorrt as trt

LOG = logging.getLogger(__name__)


class Timings:
    """The cache of one build."""

    def __init__(self, config: "trt.IBuilderConfig", stored: bytes | None) -> None:
        """Attach it to the build that `config` is for: filled with `stored` where that fits, else empty."""
        self._config: trt.IBuilderConfig = config
        self._stored = stored
        self._empty_size = len(_contents(config.create_timing_cache(b"")))
        self.state: Literal["Cold", "Warm"] = "Warm" if stored and self._attach(stored) else "Cold"
        if self.state == "Cold":
            if stored:
                LOG.warning("stored timings do not fit, starting without", extra={"bytes": len(stored)})
            config.set_timing_cache(config.create_timing_cache(b""), False)

    def news(self) -> bytes | None:
        """What to store after the build; None where it measured nothing new."""
        measured = _contents(self._config.get_timing_cache())
        return measured if len(measured) > self._empty_size and measured != self._stored else None

    def _attach(self, stored: bytes) -> bool:
        """Whether the library took them. Of bytes it cannot read it makes an empty cache, without an error."""
        cache: trt.ITimingCache = self._config.create_timing_cache(stored)
        return len(_contents(cache)) > self._empty_size and bool(self._config.set_timing_cache(cache, False))


def _contents(cache: "trt.ITimingCache | None") -> bytes:
    return bytes(cache.serialize()) if cache is not None else b""
