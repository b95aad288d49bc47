"""The numbers with which clients sign their requests, each of which counts once."""

import hmac
import secrets
from collections import OrderedDict

__all__ = ["Nonces"]

MOST_IN_USE = 1024
WINDOW = 1024
"""Requests of one client that may overtake one another."""


class Nonces:
    """Gives nonces to anybody, and takes each count of one once. Lives on one event loop.

    A nonce is a serial number, signed: it costs memory only from the first request on whose
    signature was right, so nobody without a token can fill it. Where there are too many, the one
    that rested longest is forgotten, and none that is as old as it is taken any more: its client
    asks for another.

    Args:
        most: How many may be in use.
    """

    def __init__(self, most: int = MOST_IN_USE) -> None:
        self._secret = secrets.token_bytes(32)
        self._most = most
        self._given = self._void_until = 0
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """Serial number -> (highest count, bits of those below it)."""

    def __repr__(self) -> str:
        return "Nonces()"

    def give(self) -> str:
        """Return a nonce that nobody else has."""
        self._given += 1
        return f"{self._given}-{self._signature(self._given)}"

    def take(self, nonce: str, count: int) -> bool:
        """Use *count* of *nonce*; False: it was used, or the nonce is void or another master's.

        Only for a request whose signature was right.
        """
        text, _, signature = nonce.partition("-")
        serial = int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else 0  # noqa: PLR2004
        if not 0 < serial <= self._given:
            return False
        if not hmac.compare_digest(self._signature(serial), signature):
            return False
        if serial not in self._seen:
            if serial <= self._void_until:
                return False
            self._seen[serial] = (0, 0)
            if len(self._seen) > self._most:
                oldest, _ = self._seen.popitem(last=False)
                self._void_until = max(self._void_until, oldest)
        self._seen.move_to_end(serial)
        return self._first_time(serial, count)

    def _first_time(self, serial: int, count: int) -> bool:
        highest, below = self._seen[serial]
        if count > highest:
            moved = (below << 1 | (highest > 0)) << min(count - highest - 1, WINDOW)
            self._seen[serial] = (count, moved & ((1 << WINDOW) - 1))
            return True
        if count < 1 or not 0 < highest - count <= WINDOW:
            return False
        bit = 1 << (highest - count - 1)
        if below & bit:
            return False
        self._seen[serial] = (highest, below | bit)
        return True

    def _signature(self, serial: int) -> str:
        return hmac.digest(self._secret, str(serial).encode(), "sha256").hex()[:32]
