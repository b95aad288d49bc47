"""Which instance holds the state of a sequence."""

import threading
from collections import OrderedDict
from collections.abc import Hashable

from tarn.client.pool import PoolMember

__all__ = ["Sequences"]

MOST = 10_000
"""Sequences that were begun and never ended; the oldest is forgotten."""


class Sequences:
    """Sequence ids and where they live. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._homes: OrderedDict[Hashable, PoolMember] = OrderedDict()

    def home(self, sequence: Hashable) -> PoolMember | None:
        """Return where *sequence* lives; None: nowhere yet."""
        with self._lock:
            return self._homes.get(sequence)

    def settle(self, sequence: Hashable, slot: PoolMember) -> None:
        """Remember that it lives at *slot*."""
        with self._lock:
            self._homes[sequence] = slot
            self._homes.move_to_end(sequence)
            if len(self._homes) > MOST:
                self._homes.popitem(last=False)

    def forget(self, sequence: Hashable) -> None:
        """Forget it: it ended, or its home did."""
        with self._lock:
            self._homes.pop(sequence, None)
