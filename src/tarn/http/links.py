"""One-time codes: who holds the api token gives one to a browser, which signs in with it."""

import hashlib
import secrets
from collections.abc import Callable

__all__ = ["LINK_S", "Links"]

LINK_S = 60
MOST_LINKS = 64


class Links:
    """Gives codes, and takes each once. Lives on one event loop; a later master knows none.

    Only their digests are kept, so that how long a look-up takes says nothing about a code. Of
    more than *most* the oldest is forgotten.

    Args:
        now_s: Returns monotonic seconds.
        most: How many may be out at once.
    """

    def __init__(self, now_s: Callable[[], float], most: int = MOST_LINKS) -> None:
        self._now_s = now_s
        self._most = most
        self._until_s: dict[bytes, float] = {}

    def __repr__(self) -> str:
        return f"Links({len(self._until_s)} out)"

    def give(self) -> str:
        """Return a new code, good for a minute."""
        now_s = self._now_s()
        self._until_s = {one: s for one, s in self._until_s.items() if s > now_s}
        while len(self._until_s) >= self._most:
            del self._until_s[next(iter(self._until_s))]
        code = secrets.token_urlsafe(32)
        self._until_s[_digest(code)] = now_s + LINK_S
        return code

    def take(self, code: str) -> bool:
        """Say whether *code* is good; it is not from now on."""
        until_s = self._until_s.pop(_digest(code), None)
        return until_s is not None and self._now_s() < until_s


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
