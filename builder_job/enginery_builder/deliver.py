"""The story of `fetch`: the first container of a Job whose source is converted. Called by `__main__`.

It has the credentials and no framework; the converter after it has a framework and no credentials.
"""

from enginery_store.reasons import Reason
from enginery_store.requests import PrepareRequest

from enginery_builder import fetch, handover, publish
from enginery_builder.settings import Settings
from enginery_builder.stores import open_stores
from enginery_builder.verdict import Verdict, success


def deliver(request: PrepareRequest, settings: Settings) -> Verdict:
    """Leave the source in the work folder. Raises EngineryError; a failure final for this request is recorded."""
    with open_stores(request, settings) as stores, publish.final_failures_recorded(stores, request.key):
        source = fetch.fetch_source(stores.source, request, handover.emptied(settings.work_folder))
        handover.leave_source(settings.work_folder, source)
    return success(Reason.PREPARING, f"{source.digest} is fetched for conversion")
