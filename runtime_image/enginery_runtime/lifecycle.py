"""Where the process stands between start and end, and what health answers meanwhile. Both front ends read it.

LOADING ──> READY ──> DRAINING ──> STOPPED        DRAINING: still serves, so that nobody's request is lost
   └──────────┴──> BROKEN                         while the platform takes the address out of rotation
"""

import asyncio
from enum import Enum


class Phase(Enum):
    """A step of the process's life."""

    LOADING = "the model is loading"
    READY = "ready"
    DRAINING = "the server is being stopped"
    STOPPED = "the server has stopped taking requests"
    BROKEN = "the engine failed; this server is being replaced"


class Lifecycle:
    """The current phase. Ready turns true once and false once: it never flickers."""

    def __init__(self) -> None:
        self.phase = Phase.LOADING
        self._changed = asyncio.Event()

    def enter(self, phase: Phase) -> None:
        """Go on to a later phase; a step back is ignored, as draining and breaking race with loading."""
        order = list(Phase)
        if order.index(phase) > order.index(self.phase):
            self.phase = phase
            self._changed.set()
            self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Return at the next change of phase."""
        await self._changed.wait()

    @property
    def live(self) -> bool:
        """Whether the process is of use at all; false asks the platform for a new one."""
        return self.phase is not Phase.BROKEN

    @property
    def ready(self) -> bool:
        """Whether new clients should be sent here."""
        return self.phase is Phase.READY

    @property
    def serves(self) -> bool:
        """Whether a request that comes all the same is answered."""
        return self.phase in {Phase.READY, Phase.DRAINING}

    @property
    def leaving(self) -> bool:
        """Whether clients should look for another address."""
        return self.phase not in {Phase.LOADING, Phase.READY}
