"""Who asks: the api token, and nothing that an unproven peer may claim.

``X-TARN-User`` and ``X-Forwarded-User`` are not read here: a name is believed only from a peer
that proved itself. The one such peer is the proxy of the runtime (`ProxyRule`), which names its
user in a cookie, and passes no header of ours.
"""

import hmac
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote_to_bytes

from tarn.domain import ANONYMOUS, Principal, ProxyRule
from tarn.http.asked import Asked, Identified

__all__ = ["OWNER", "Identity"]

OWNER = Principal("owner", via="token")
"""Whoever holds the api token."""

_UNIDENTIFIED = Identified(
    None,
    found="The api token is missing or wrong: send it in the header X-TARN-Token",
    headers={"WWW-Authenticate": 'Bearer realm="tarn"'},
)
LONGEST_NAME = 256
_USER = re.compile(r"[^\s\x00-\x1f\x7f;,\"]+")
"""No user's name has blanks, control characters or what separates cookies."""

Headers = Iterable[tuple[bytes, bytes]]


class Identity:
    """Proves principals. Without a configured token everybody is let in, anonymous unless proven.

    Args:
        api_token: None: nobody is asked for one.
        proxy: Whose cookie names a user; None: nobody's.
    """

    def __init__(self, api_token: bytes | None, proxy: ProxyRule | None = None) -> None:
        self._api_token = api_token
        self._proxy = proxy

    def __repr__(self) -> str:
        return f"Identity(api_token={'none' if self._api_token is None else '***'})"

    async def identify(self, asked: Asked) -> Identified:
        """Return who asks, or a refusal of somebody who may not.

        The header ``X-TARN-Token`` comes first, then ``Authorization: Bearer``; ``?token=`` is
        read on ``/metrics`` only, for scrapers that can send nothing else. Who sends a wrong token
        is refused. Without one, the cluster's owner is let in by the word of the proxy.
        """
        proven = self._proven(asked)
        if self._api_token is None:
            return Identified(proven or ANONYMOUS)
        given = _from_headers(asked.headers)
        if given is None and asked.path == "/metrics":
            given = _from_query(asked.query)
        if given is not None:
            right = hmac.compare_digest(given, self._api_token)
            return Identified(OWNER) if right else _UNIDENTIFIED
        owner = self._proxy.owner if self._proxy is not None else ""
        return Identified(proven) if proven and proven.user == owner else _UNIDENTIFIED

    def _proven(self, asked: Asked) -> Principal | None:
        rule = self._proxy
        if rule is None or not rule.proves or asked.peer not in rule.addresses:
            return None
        user = _from_cookies(asked.headers, rule.cookie.encode())
        return None if user is None else Principal(user, via="rm-proxy")


def _from_headers(headers: Headers) -> bytes | None:
    bearer = None
    for name, value in headers:
        if name == b"x-tarn-token":
            return value
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            bearer = value[7:].strip()
    return bearer


def _from_query(query: bytes) -> bytes | None:
    try:
        pairs = parse_qsl(query.decode("latin-1"), encoding="latin-1", max_num_fields=100)
    except ValueError:
        return None
    return next((value.encode("latin-1") for name, value in pairs if name == "token"), None)


def _from_cookies(headers: Headers, wanted: bytes) -> str | None:
    """Return the user that the cookie *wanted* names; None when it says nothing, or too much.

    The proxy sets it once: of several, one was sent by somebody else, and none is believed.
    """
    values = [
        value.strip()
        for header, line in headers
        if header == b"cookie"
        for name, equals, value in (pair.partition(b"=") for pair in line.split(b";"))
        if equals and name.strip() == wanted
    ]
    if len(values) != 1 or len(values[0]) > LONGEST_NAME:
        return None
    try:
        user = unquote_to_bytes(values[0].replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        return None
    return user if _USER.fullmatch(user) else None
