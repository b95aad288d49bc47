"""Who asks: the api token, and nothing that an unproven peer may claim.

``X-TARN-User`` and ``X-Forwarded-User`` are not read here: a name is believed only from a peer
that proved itself.
"""

import hmac
from collections.abc import Iterable
from urllib.parse import parse_qsl

from tarn.domain import ANONYMOUS, Principal

__all__ = ["OWNER", "Identity"]

OWNER = Principal("owner", via="token")
"""Whoever holds the api token."""

Headers = Iterable[tuple[bytes, bytes]]


class Identity:
    """Proves principals. Without a configured token everybody is anonymous, and let in."""

    def __init__(self, api_token: bytes | None) -> None:
        self._api_token = api_token

    def __repr__(self) -> str:
        return f"Identity(api_token={'none' if self._api_token is None else '***'})"

    def principal(self, path: str, query: bytes, headers: Headers) -> Principal | None:
        """Return who asks, or None when the api token is missing or wrong.

        The header ``X-TARN-Token`` comes first, then ``Authorization: Bearer``; ``?token=`` is
        read on ``/metrics`` only, for scrapers that can send nothing else.
        """
        if self._api_token is None:
            return ANONYMOUS
        given = _from_headers(headers)
        if given is None and path == "/metrics":
            given = _from_query(query)
        if given is not None and hmac.compare_digest(given, self._api_token):
            return OWNER
        return None


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
