"""Where this pod keeps things. Called by `__main__` once; the environment changes a place only in tests and by hand.

ENGINERY_WORK_FOLDER        scratch space, an emptyDir in a pod (default /var/lib/enginery)
ENGINERY_CREDENTIALS_ROOT   folder with the mounted Secrets `store` and `source`
ENGINERY_TERMINATION_LOG    file the kubelet reads the termination message from (default /dev/termination-log)
ENGINERY_LOG_LEVEL          INFO unless set
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enginery_store.requests import SOURCE_CREDENTIALS_FOLDER, STORE_CREDENTIALS_FOLDER

_TERMINATION_LOG = "/dev/termination-log"
"""The kubelet's default terminationMessagePath."""

_WORK_FOLDER = "/var/lib/enginery"
"""The operator mounts an emptyDir here; it must hold the source twice and the engine."""


@dataclass(frozen=True)
class Settings:
    """Folders and files of one run."""

    work_folder: Path
    store_credentials: Path
    source_credentials: Path
    termination_log: Path
    log_level: str = "INFO"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read once at start; absent variables mean the places of a pod."""
        root = Path(environment.get("ENGINERY_CREDENTIALS_ROOT") or STORE_CREDENTIALS_FOLDER.parent)
        return cls(
            work_folder=Path(environment.get("ENGINERY_WORK_FOLDER") or _WORK_FOLDER),
            store_credentials=root / STORE_CREDENTIALS_FOLDER.name,
            source_credentials=root / SOURCE_CREDENTIALS_FOLDER.name,
            termination_log=Path(environment.get("ENGINERY_TERMINATION_LOG") or _TERMINATION_LOG),
            log_level=environment.get("ENGINERY_LOG_LEVEL") or "INFO",
        )
