"""What a page of the master sends with a write through a proxy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import ANONYMOUS, Principal
from tarn.http.issued_tokens import CSRF_S, Csrf, csrf_of

ALICE = Principal("alice", via="rm-proxy")
PEOPLE = st.sampled_from(
    [ANONYMOUS, ALICE, Principal("alice", via="proxy"), Principal("bob", via="rm-proxy")]
)


class Wall:
    """Set by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.5

    def __call__(self) -> float:
        return self.now


@given(of=PEOPLE, by=PEOPLE)
def test_a_value_is_good_for_whom_it_was_made(of: Principal, by: Principal) -> None:
    """And for nobody else: not for the same name, proven in another way."""
    csrf = Csrf(Wall())
    assert csrf.good(csrf.of(of), by) == (of == by)


def test_it_is_good_for_an_hour_and_with_one_master() -> None:
    """The secret is the master's own."""
    at = Wall()
    csrf = Csrf(at)
    value = csrf.of(ALICE)
    assert not Csrf(at).good(value, ALICE)
    at.now += CSRF_S - 1
    assert csrf.good(value, ALICE)
    at.now += 1
    assert not csrf.good(value, ALICE)


@given(st.data())
def test_one_changed_letter_makes_it_worthless(data: st.DataObject) -> None:
    """Also one of its end."""
    csrf = Csrf(Wall())
    value = csrf.of(ALICE)
    where = data.draw(st.integers(0, len(value) - 1))
    letter = data.draw(st.text(max_size=2).filter(lambda one: one != value[where]))
    assert not csrf.good(value[:where] + letter + value[where + 1 :], ALICE)


@given(st.text(max_size=100))
def test_any_other_text_is_worthless(text: str) -> None:
    """It raises nothing."""
    assert not Csrf(Wall()).good(text, ALICE)


@pytest.mark.parametrize(
    ("query", "value"),
    [
        (b"csrf=c1.5.ab", "c1.5.ab"),
        (b"a=b&csrf=x", "x"),
        (b"csrf=x&csrf=x", ""),
        (b"CSRF=x", ""),
        (b"", ""),
        (b"csrf=", ""),
        (b"&".join([b"a=b"] * 17 + [b"csrf=x"]), ""),
    ],
)
def test_it_stands_once_in_the_query(query: bytes, value: str) -> None:
    """Twice is a doubt, and every doubt is a no."""
    assert csrf_of(query) == value


@given(st.binary(max_size=60))
def test_any_query_can_be_read(query: bytes) -> None:
    """Whatever bytes come."""
    assert isinstance(csrf_of(query), str)
