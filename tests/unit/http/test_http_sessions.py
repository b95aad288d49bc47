"""Sessions: known by every master with the same token, and by nobody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.http.issued_tokens import SESSION_S, Sessions

TOKEN = b"the-api-token-of-a-cluster-of-43-letters-xx"


class Wall:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.5

    def __call__(self) -> float:
        return self.now


def test_a_session_is_good_for_eight_hours_and_not_a_second_longer() -> None:
    """Also by a clock that is read between two seconds."""
    at = Wall()
    sessions = Sessions(TOKEN, "demo", at)
    text = sessions.begin().encode()
    session = sessions.read(text)
    assert session is not None
    assert SESSION_S - 1 <= sessions.left_s(session) <= SESSION_S
    at.now += SESSION_S - 1.5
    assert sessions.read(text) is not None
    at.now += 1
    assert sessions.read(text) is None


def test_the_next_master_knows_it_another_cluster_or_token_does_not() -> None:
    """Nothing is kept: the key comes from the token and the name."""
    at = Wall()
    text = Sessions(TOKEN, "demo", at).begin().encode()
    assert Sessions(TOKEN, "demo", at).read(text) is not None
    assert Sessions(TOKEN, "other", at).read(text) is None
    assert Sessions(TOKEN + b"x", "demo", at).read(text) is None


@given(st.data())
def test_one_changed_letter_makes_it_nobodys(data: st.DataObject) -> None:
    """Its end, its nonce, its signature: whatever is changed, removed or added."""
    sessions = Sessions(TOKEN, "demo", Wall())
    text = sessions.begin().encode()
    where = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.binary(max_size=2).filter(lambda one: one != text[where : where + 1]))
    assert sessions.read(text[:where] + letter + text[where + 1 :]) is None


@given(st.binary(max_size=200))
def test_anything_else_is_no_session(text: bytes) -> None:
    """It never raises either."""
    assert Sessions(TOKEN, "demo", Wall()).read(text) is None


def test_an_ended_one_is_over_at_once_and_the_others_are_not() -> None:
    """Twice is no error."""
    sessions = Sessions(TOKEN, "demo", Wall())
    one, other = sessions.begin().encode(), sessions.begin().encode()
    session = sessions.read(one)
    assert session is not None
    sessions.end(session)
    sessions.end(session)
    assert sessions.read(one) is None
    assert sessions.read(other) is not None


@given(ended=st.integers(0, 12), most=st.integers(1, 4))
def test_memory_is_bounded_and_no_ended_session_comes_back(ended: int, most: int) -> None:
    """Of more than fit all are over that began until then; new ones begin as ever."""
    at = Wall()
    sessions = Sessions(TOKEN, "demo", at, most)
    texts = []
    for _ in range(ended):
        texts.append(sessions.begin().encode())
        session = sessions.read(texts[-1])
        assert session is not None
        sessions.end(session)
        at.now += 2
    assert [sessions.read(text) for text in texts] == [None] * ended
    assert len(sessions._ended) <= most
    assert sessions.read(sessions.begin().encode()) is not None


def test_what_ended_is_forgotten_when_it_would_be_over_anyway() -> None:
    """So a master that lives for months remembers a day's worth."""
    at = Wall()
    sessions = Sessions(TOKEN, "demo", at)
    for _ in range(5):
        session = sessions.read(sessions.begin().encode())
        assert session is not None
        sessions.end(session)
        at.now += SESSION_S + 1
    assert len(sessions._ended) == 1


def test_no_text_of_it_shows_a_secret() -> None:
    """A session may be in a traceback's values."""
    sessions = Sessions(TOKEN, "demo", Wall())
    text = sessions.begin()
    session = sessions.read(text.encode())
    assert session is not None
    for part in (TOKEN.decode(), *text.split(".")[2:]):
        assert part not in repr(sessions) + repr(session)


@pytest.mark.parametrize("digits", ["٣" * 10, "0" * 13, "-1800000000", "+180000000"])
def test_a_time_is_plain_digits(digits: str) -> None:
    """Signed or not: what is not of the form is not looked at."""
    sessions = Sessions(TOKEN, "demo", Wall())
    said = f"s1.{digits}.{'a' * 22}"
    assert sessions.read(f"{said}.{sessions._signature(said.encode())}".encode()) is None
