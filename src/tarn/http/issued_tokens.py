"""Tokens that a master issues and checks: sessions, CSRF values, one-time codes, nonces.

A session carries only its end and a nonce. Its key is derived from the api token and the cluster's
name, so every master of the cluster takes it, until the api token changes. The other tokens are
valid only for the master that issued them.
"""

import hashlib
import hmac
import math
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import parse_qsl

import attrs

from tarn.domain import Principal

__all__ = [
    "CSRF_S",
    "LINK_S",
    "SESSION_S",
    "BrowserSession",
    "Csrf",
    "Links",
    "Nonces",
    "Sessions",
    "csrf_of",
]

# A working day.
SESSION_S = 8 * 3600
MOST_ENDED = 4096

_SESSION = re.compile(rb"s1\.([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([0-9a-f]{64})")


@attrs.frozen
class BrowserSession:
    """A session that has not ended."""

    nonce: str = attrs.field(repr=False)
    expires: int
    """Unix seconds."""


class Sessions:
    """Issues and checks sessions. Lives on one event loop.

    Only this master remembers which sessions were ended early: the next one takes them again until
    they expire.

    Args:
        api_token: The cluster's.
        cluster: The cluster's name.
        at: Returns wall time, Unix seconds.
        most: How many ended sessions are remembered.
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
        """Return a new session, as the header ``X-TARN-Session`` carries it."""
        said = f"s1.{math.floor(self._at()) + SESSION_S}.{secrets.token_urlsafe(16)}"
        return f"{said}.{self._signature(said.encode())}"

    def read(self, text: bytes) -> BrowserSession | None:
        """Return the session in *text*; None if it is not valid or has ended."""
        found = _SESSION.fullmatch(text)
        if found is None:
            return None
        said = text.rpartition(b".")[0]
        if not hmac.compare_digest(self._signature(said).encode(), found[3]):
            return None
        session = BrowserSession(found[2].decode(), int(found[1]))
        over = session.nonce in self._ended or session.expires <= self._over_until
        return None if over or self.left_s(session) <= 0 else session

    def left_s(self, session: BrowserSession) -> int:
        """Return how many seconds *session* has left, rounded down."""
        return math.floor(session.expires - self._at())

    def end(self, session: BrowserSession) -> None:
        """End *session*. Idempotent."""
        now = self._at()
        self._ended = {one: at for one, at in self._ended.items() if at > now}
        if len(self._ended) >= self._most:
            # Forgetting one would make it valid again: instead all that began until now have ended.
            self._ended.clear()
            self._over_until = math.ceil(now) + SESSION_S
        self._ended[session.nonce] = session.expires

    def _signature(self, said: bytes) -> str:
        return hmac.digest(self._key, said, "sha256").hex()


CSRF_S = 3600
MOST_FIELDS = 16

_CSRF = re.compile(r"c1\.([0-9]{1,12})\.([0-9a-f]{64})")


# A foreign page can make a browser send a write, but it cannot read the master's answers to that
# browser. So a value from such an answer proves a page of the master. It is needed for pages behind
# a proxy, whose Origin is not the master's.
class Csrf:
    """Issues and checks CSRF values. Stateless; any thread.

    Its secret is this master's, so a page asks for a new value after a takeover.

    Args:
        at: Returns wall time, Unix seconds.
    """

    def __init__(self, at: Callable[[], float]) -> None:
        self._secret = secrets.token_bytes(32)
        self._at = at

    def __repr__(self) -> str:
        return "Csrf()"

    def of(self, principal: Principal) -> str:
        """Return a value for *principal* only, valid for an hour."""
        expires = math.floor(self._at()) + CSRF_S
        return f"c1.{expires}.{self._signature(expires, principal)}"

    def good(self, value: str, principal: Principal) -> bool:
        """Return whether *value* was issued to *principal* and has not expired."""
        found = _CSRF.fullmatch(value)
        if found is None or int(found[1]) <= self._at():
            return False
        return hmac.compare_digest(self._signature(int(found[1]), principal), found[2])

    def _signature(self, expires: int, principal: Principal) -> str:
        said = f"{expires}\0{principal.via}\0{principal.user}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, said, "sha256").hex()


def csrf_of(query: bytes) -> str:
    """Return ``?csrf=`` of *query*; empty if it is missing or given twice."""
    try:
        pairs = parse_qsl(query.decode("latin-1"), max_num_fields=MOST_FIELDS)
    except ValueError:
        return ""
    values = [value for name, value in pairs if name == "csrf"]
    return values[0] if len(values) == 1 else ""


LINK_S = 60
MOST_LINKS = 64


class Links:
    """Issues codes that are valid once, for a minute. Lives on one event loop.

    Args:
        now_s: Returns monotonic seconds.
        most: How many are valid at once; a new one replaces the oldest.
    """

    def __init__(self, now_s: Callable[[], float], most: int = MOST_LINKS) -> None:
        self._now_s = now_s
        self._most = most
        # By digest, so that the time of a look-up says nothing about a code.
        self._until_s: dict[bytes, float] = {}

    def __repr__(self) -> str:
        return f"Links({len(self._until_s)} out)"

    def give(self) -> str:
        """Return a new code."""
        now_s = self._now_s()
        self._until_s = {one: s for one, s in self._until_s.items() if s > now_s}
        while len(self._until_s) >= self._most:
            del self._until_s[next(iter(self._until_s))]
        code = secrets.token_urlsafe(32)
        self._until_s[_code_digest(code)] = now_s + LINK_S
        return code

    def take(self, code: str) -> bool:
        """Return whether *code* is valid, and make it invalid."""
        until_s = self._until_s.pop(_code_digest(code), None)
        return until_s is not None and self._now_s() < until_s


def _code_digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()


MOST_IN_USE = 1024
# How far a request of one client may arrive behind a later one; concurrent requests overtake.
WINDOW = 1024


class Nonces:
    """Issues nonces to anybody, and takes each count of a nonce once. Lives on one event loop.

    If too many are in use, the nonce that was not used for the longest time expires, with all older
    ones that are not in use. Their clients ask for a new one.

    Args:
        most: How many may be in use.
    """

    # A nonce is a signed serial number, which takes memory only from the first correctly signed
    # request on: a client without a token cannot fill it.

    def __init__(self, most: int = MOST_IN_USE) -> None:
        self._secret = secrets.token_bytes(32)
        self._most = most
        self._given = self._void_until = 0
        # Serial number -> (highest count, a bit for each count below it that was used).
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def __repr__(self) -> str:
        return "Nonces()"

    def give(self) -> str:
        """Return a new nonce."""
        self._given += 1
        return f"{self._given}-{self._signature(self._given)}"

    def take(self, nonce: str, count: int) -> bool:
        """Use *count* of *nonce*; False if it was used, or the nonce expired or is not ours.

        Call it only for a correctly signed request.
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
