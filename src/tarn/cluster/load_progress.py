"""How far a starting instance is, read from its log while somebody waits for it."""

import threading

from tarn.cluster.link import Link
from tarn.errors import TarnError
from tarn.interfaces import Clock
from tarn.triton.loading import loading

__all__ = ["LoadProgress"]

READ_EVERY_S = 1.0
READ_WITHIN_S = 1.0
"""Who waits for a cluster waits for its log no longer: on other machines it may take minutes."""


class LoadProgress:
    """Reads an instance's log now and then; it never fails, and hardly waits.

    Used by one thread; a log is read in another, of which there is one at a time.

    Args:
        link: The way to the deployer, which shows logs.
        clock: Tells when to read again.
    """

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link, self._clock = link, clock
        self._again_s = float("-inf")
        self._known = 0, 0
        self._reader: threading.Thread | None = None

    def look(self, instance: str) -> tuple[int, int]:
        """Return (models settled, models begun) of *instance*; (0, 0) where that is not known.

        The whole log is read, so no more often than once a second.
        """
        if not instance:
            return 0, 0
        if self._reader is None and self._clock.now_s() >= self._again_s:
            self._reader = threading.Thread(
                target=self._read, args=(instance,), name="read-log", daemon=True
            )
            self._reader.start()
            self._reader.join(READ_WITHIN_S)
        if self._reader is not None and not self._reader.is_alive():
            self._reader = None
            self._again_s = self._clock.now_s() + READ_EVERY_S
        return self._known

    def _read(self, instance: str) -> None:
        try:
            ref = self._link.find()
            self._known = (
                (0, 0) if ref is None else loading(self._link.deployer.logs(ref, instance, None))
            )
        # It has written nothing yet, nobody can tell at the moment, or who waited is done, and
        # the deployer's pipe was closed under this thread (ValueError).
        except (TarnError, OSError, ValueError):
            self._known = 0, 0
