"""How much memory requests may take together: one budget for both front ends, which ask before they read or decode."""

from enginery_runtime.errors import BusyError


class Budget:
    """Bytes of requests in flight. Only the event loop's thread calls it."""

    def __init__(self, limit_bytes: int) -> None:
        """`limit_bytes` bounds the sum over all requests not answered yet."""
        self._limit = limit_bytes
        self.used = 0

    def take(self, size_bytes: int) -> None:
        """Set memory aside; raises BusyError when there is not enough."""
        if self.used + size_bytes > self._limit:
            raise BusyError(f"requests in flight take {self.used} of {self._limit} bytes; {size_bytes} more do not fit")
        self.used += size_bytes

    def give(self, size_bytes: int) -> None:
        """Give memory back."""
        self.used -= size_bytes
