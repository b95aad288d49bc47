"""Sessions of who signed in with the api token: signed, so that the next master knows them, too.

A session says when it is over and nothing else. Its signature is made with a key that is derived
from the api token and the cluster's name: another token, or another cluster, knows none of them.
"""

import hmac
import math
import re
import secrets
from collections.abc import Callable

import attrs

__all__ = ["SESSION_S", "BrowserSession", "Sessions"]

SESSION_S = 8 * 3600
"""A working day; then somebody signs in again."""
MOST_ENDED = 4096

_FORM = re.compile(rb"s1\.([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([0-9a-f]{64})")


@attrs.frozen
class BrowserSession:
    """One that is not over."""

    nonce: str = attrs.field(repr=False)
    expires: int
    """Unix seconds."""


class Sessions:
    """Begins sessions, and knows them again. Lives on one event loop.

    What was ended before its time is remembered until then, by this master only: a later one
    takes it for good again. Of more than *most* nothing is forgotten: then every session that
    began until now is over.

    Args:
        api_token: Of the cluster.
        cluster: Its name.
        at: Returns wall time, Unix seconds.
        most: How many ended ones are remembered.
    """

    def __init__(
        self, api_token: bytes, cluster: str, at: Callable[[], float], most: int = MOST_ENDED
    ) -> None:
        self._key = hmac.digest(api_token, b"tarn session\0" + cluster.encode(), "sha256")
        self._at = at
        self._most = most
        self._ended: dict[str, int] = {}
        self._over_until = 0

    def __repr__(self) -> str:
        return "Sessions()"

    def begin(self) -> str:
        """Return a new session, as it is sent from now on in the header ``X-TARN-Session``."""
        said = f"s1.{math.floor(self._at()) + SESSION_S}.{secrets.token_urlsafe(16)}"
        return f"{said}.{self._signature(said.encode())}"

    def read(self, text: bytes) -> BrowserSession | None:
        """Return the session that *text* is; None: it is none of this cluster's, or is over."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        said = text.rpartition(b".")[0]
        if not hmac.compare_digest(self._signature(said).encode(), found[3]):
            return None
        session = BrowserSession(found[2].decode(), int(found[1]))
        over = session.nonce in self._ended or session.expires <= self._over_until
        return None if over or self.left_s(session) <= 0 else session

    def left_s(self, session: BrowserSession) -> int:
        """Return for how many seconds *session* is good, rounded down."""
        return math.floor(session.expires - self._at())

    def end(self, session: BrowserSession) -> None:
        """Let *session* count no more. Idempotent."""
        now = self._at()
        self._ended = {one: at for one, at in self._ended.items() if at > now}
        if len(self._ended) >= self._most:
            self._ended.clear()
            self._over_until = math.ceil(now) + SESSION_S
        self._ended[session.nonce] = session.expires

    def _signature(self, said: bytes) -> str:
        return hmac.digest(self._key, said, "sha256").hex()
