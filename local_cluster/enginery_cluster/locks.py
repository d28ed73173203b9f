"""One `up` or `down` of a cluster at a time, and one build into the cache. Called by `up`, `down` and both builders."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from enginery_cluster.places import Places, cache_folder
from enginery_cluster.steps import say


@contextmanager
def exclusive(places: Places) -> Iterator[None]:
    """Hold the cluster's lock; the kernel drops it when we die, however we die. The file goes with the last holder."""
    while True:
        places.lock.parent.mkdir(exist_ok=True)
        handle = os.open(places.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting: another up or down of cluster {places.name} is at work")
            fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_current(handle, places):
            break
        os.close(handle)  # the former holder removed the file while we waited for it
    try:
        yield
    finally:
        places.lock.unlink(missing_ok=True)
        os.close(handle)
        if not any(places.lock.parent.iterdir()):
            places.lock.parent.rmdir()


def _is_current(handle: int, places: Places) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), places.lock.stat())
    except FileNotFoundError:
        return False


@contextmanager
def one_at_a_time(folder: str) -> Iterator[None]:
    """Hold the lock of one folder of the cache: a second build waits, and then finds what the first one built."""
    with (cache_folder(folder) / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting: another build is at work")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
