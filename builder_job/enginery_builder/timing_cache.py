"""TensorRT's timing cache in the model store: read before a build, replaced after it. Called by `build`.

It saves minutes and decides nothing, so no trouble with it ends a build. Two builds for one kind of slice may replace
it at the same time; the store keeps the first, and what the other measured is measured again some day.
"""

import logging
from dataclasses import dataclass

from enginery_store.errors import EngineryError, ObjectMissingError
from enginery_store.layout import Location, timing_cache_object
from enginery_store.requests import BuildRequest

from enginery_builder.stores import Stores

LOG = logging.getLogger(__name__)

LIMIT_BYTES = 256 * 1024**2
"""A cache grows with every model that is built; beyond this it is left out, and not replaced by a larger one."""


@dataclass(frozen=True)
class StoredTimings:
    """What the store held before the build."""

    place: Location | None = None
    """Where they are kept; None for a backend that keeps none, and when the store is in trouble."""
    data: bytes | None = None
    tag: str = ""
    """ETag of `data`; empty where there was none."""


def read(stores: Stores, request: BuildRequest) -> StoredTimings:
    """The timings for this version and kind of slice."""
    if request.backend != "TensorRT":
        return StoredTimings()
    target = request.target
    place = timing_cache_object(stores.prefix, request.backend_version, target.product, target.mig_profile)
    try:
        return StoredTimings(place, *stores.store.read_tagged(place, LIMIT_BYTES))
    except ObjectMissingError:
        return StoredTimings(place)
    except EngineryError as error:
        LOG.warning("stored timings cannot be read", extra={"reason": error.reason, "text": error.message})
        return StoredTimings()


def replace(stores: Stores, stored: StoredTimings, news: bytes | None) -> None:
    """Store what a build measured, unless another build did so meanwhile."""
    if stored.place is None or news is None:
        return
    if len(news) > LIMIT_BYTES:
        LOG.warning("timings are too large to be stored", extra={"bytes": len(news)})
        return
    try:
        won = stores.store.write(stored.place, news, if_absent=not stored.tag, if_match=stored.tag)
    except EngineryError as error:
        LOG.warning("timings cannot be stored", extra={"reason": error.reason, "text": error.message})
        return
    LOG.info("timings stored" if won else "another build stored its timings first", extra={"bytes": len(news)})
