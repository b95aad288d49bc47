"""37: to the Java TARN who gave no name was the user that the master ran as."""

import asyncio

from tarn.domain import ANONYMOUS, Principal
from tarn.http.authenticator import OWNER, Authenticator
from tarn.http.request import RequestInfo

CLAIM = ((b"x-forwarded-user", b"ceo"), (b"x-tarn-user", b"root"))


def who(identity: Authenticator, *headers: tuple[bytes, bytes]) -> Principal | None:
    return asyncio.run(identity.identify(RequestInfo("/instances", b"", headers))).principal


def test_who_says_nothing_is_anonymous() -> None:
    """Also with a header in which anybody can write anything."""
    identity = Authenticator(None)
    assert who(identity) == ANONYMOUS
    assert who(identity, *CLAIM) == ANONYMOUS
    assert ANONYMOUS.user == "anonymous"


def test_the_token_is_who_holds_it_and_no_header_changes_that() -> None:
    """A claim beside the token is no proof either."""
    assert who(Authenticator(b"t"), (b"x-tarn-token", b"t"), *CLAIM) == OWNER
    assert who(Authenticator(b"t"), *CLAIM) is None
