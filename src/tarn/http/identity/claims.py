"""What a request says of who sent it: read strictly, and nothing of it believed. Pure."""

import base64
import binascii
import re
from urllib.parse import parse_qsl, unquote_to_bytes

import attrs

from tarn.domain.request_proof import SCHEME
from tarn.http.request_info import RequestInfo

__all__ = ["LONGEST_NAME", "Claims", "claims", "cookie_user", "has_ticket", "is_name", "ticket"]

LONGEST_NAME = 128
LONGEST_COOKIE = 256
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@$+=-]{0,127}")
_IN_COOKIE = re.compile(r"[^\s\x00-\x1f\x7f;,\"]+")
"""No user's name has blanks, control characters or what separates cookies."""
_ONCE = (b"x-tarn-user", b"x-tarn-token", b"x-tarn-session", b"authorization")


@attrs.frozen
class Claims:
    """What came, each at most once."""

    token: bytes | None = attrs.field(default=None, repr=False)
    ticket: bytes | None = attrs.field(default=None, repr=False)
    """As it stands behind ``Negotiate``."""
    user: bytes | None = None
    """Of ``X-TARN-User``."""
    session: bytes | None = attrs.field(default=None, repr=False)
    """Of ``X-TARN-Session``; never of a query, which others write down."""
    signed: bytes | None = attrs.field(default=None, repr=False)
    """What stands behind ``TARN``: a `RequestProof`, or nothing where a nonce is asked for."""


def claims(asked: RequestInfo) -> Claims:
    """Return what *asked* says of who sent it.

    ``X-TARN-Token`` comes first, then ``Authorization: Bearer``; ``?token=`` is read on
    ``/metrics`` only, for scrapers that can send nothing else.

    Raises:
        ValueError: It contradicts itself; the text says how, and holds nothing of what was sent.
    """
    for name in _ONCE:
        if len(asked.values(name)) > 1:
            raise ValueError(f"The header {_title(name)} is there twice: send it once")
    own = _only(asked, b"x-tarn-token")
    scheme, _, rest = (_only(asked, b"authorization") or b"").partition(b" ")
    kind, said = scheme.lower(), rest.strip()
    bearer = said if kind == b"bearer" else None
    token = bearer if own is None else own
    negotiated = said if kind == b"negotiate" else None
    signed = said if kind == SCHEME.lower().encode() else None
    if token is None and negotiated is None and signed is None and asked.path == "/metrics":
        token = _from_query(asked.query)
    user, session = _only(asked, b"x-tarn-user"), _only(asked, b"x-tarn-session")
    return Claims(token, negotiated, user, session, signed)


def is_name(text: str) -> bool:
    """Say whether *text* can be a user's name, as the master takes it from a proxy or a ticket."""
    return _NAME.fullmatch(text) is not None


def has_ticket(asked: RequestInfo) -> bool:
    """Say whether *asked* brings a Kerberos ticket, good or not."""
    return any(one[:9].lower() == b"negotiate" for one in asked.values(b"authorization"))


def ticket(encoded: bytes) -> bytes | None:
    """Return the token behind ``Negotiate``; None: it is none, or empty.

    Decoded strictly: else any nonsense would become an empty token.
    """
    try:
        return base64.b64decode(encoded, validate=True) or None
    except binascii.Error:
        return None


def cookie_user(asked: RequestInfo, wanted: bytes) -> str | None:
    """Return the user that the cookie *wanted* names; None when it says nothing, or too much.

    The proxy sets it once: of several, one was sent by somebody else, and none is believed.
    """
    values = [
        value.strip()
        for line in asked.values(b"cookie")
        for name, equals, value in (pair.partition(b"=") for pair in line.split(b";"))
        if equals and name.strip() == wanted
    ]
    if len(values) != 1 or len(values[0]) > LONGEST_COOKIE:
        return None
    try:
        user = unquote_to_bytes(values[0].replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        return None
    return user if _IN_COOKIE.fullmatch(user) else None


def _only(asked: RequestInfo, name: bytes) -> bytes | None:
    return next(iter(asked.values(name)), None)


def _from_query(query: bytes) -> bytes | None:
    try:
        pairs = parse_qsl(query.decode("latin-1"), encoding="latin-1", max_num_fields=100)
    except ValueError:
        return None
    return next((value.encode("latin-1") for name, value in pairs if name == "token"), None)


def _title(name: bytes) -> str:
    named = {
        b"x-tarn-user": "X-TARN-User",
        b"x-tarn-token": "X-TARN-Token",
        b"x-tarn-session": "X-TARN-Session",
    }
    return named.get(name, "Authorization")
