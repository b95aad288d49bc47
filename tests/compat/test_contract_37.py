"""37: to the Java TARN who gave no name was the user that the master ran as."""

from tarn.domain import ANONYMOUS
from tarn.http.identity import OWNER, Identity

CLAIM = [(b"x-forwarded-user", b"ceo"), (b"x-tarn-user", b"root")]


def test_who_says_nothing_is_anonymous() -> None:
    """Also with a header in which anybody can write anything."""
    identity = Identity(None)
    assert identity.principal("/instances", b"", []) == ANONYMOUS
    assert identity.principal("/instances", b"", CLAIM) == ANONYMOUS
    assert ANONYMOUS.user == "anonymous"


def test_the_token_is_who_holds_it_and_no_header_changes_that() -> None:
    """A claim beside the token is no proof either."""
    held = [(b"x-tarn-token", b"t"), *CLAIM]
    assert Identity(b"t").principal("/instances", b"", held) == OWNER
    assert Identity(b"t").principal("/instances", b"", CLAIM) is None
