"""The end of an output, however long it gets."""

RING_BYTES = 2**20


class Ring:
    """Keeps at least the last `capacity` bytes; a position counts from the first byte there ever was."""

    def __init__(self, capacity: int = RING_BYTES) -> None:
        self._capacity = capacity
        self._kept = bytearray()
        self.start = 0
        """The position of the first byte that is kept: so many were dropped."""

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self.start + len(self._kept)

    def feed(self, chunk: bytes) -> None:
        self._kept += chunk
        # Rarely: moving what is kept costs its whole length.
        if len(self._kept) > 2 * self._capacity:
            dropped = len(self._kept) - self._capacity
            del self._kept[:dropped]
            self.start += dropped

    def since(self, position: int) -> bytes:
        """What is kept from `position` on."""
        return bytes(self._kept[max(position - self.start, 0) :])
