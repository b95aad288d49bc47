"""One-time codes."""

from hypothesis import given
from hypothesis import strategies as st

from tarn.http.issued_tokens import LINK_S, Links


class Clock:
    """Set by hand."""

    def __init__(self) -> None:
        self.now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


def test_a_code_is_taken_once_and_within_its_minute() -> None:
    """The second use, and the one too late, are as any other text."""
    now_s = Clock()
    links = Links(now_s)
    code, late = links.give(), links.give()
    assert links.take(code)
    assert not links.take(code)
    now_s.now_s += LINK_S
    assert not links.take(late)


def test_another_masters_code_is_none() -> None:
    """A code in a master that took over would have been good twice."""
    assert not Links(Clock()).take(Links(Clock()).give())


@given(given_out=st.integers(1, 20), most=st.integers(1, 5))
def test_memory_is_bounded_and_the_newest_codes_are_good(given_out: int, most: int) -> None:
    """The oldest is forgotten, which is a no."""
    links = Links(Clock(), most)
    codes = [links.give() for _ in range(given_out)]
    assert len(set(codes)) == given_out
    good = [links.take(code) for code in codes]
    assert good == [index >= given_out - most for index in range(given_out)]


@given(st.text(max_size=60))
def test_any_text_is_a_question_and_no_error(text: str) -> None:
    """Also what no encoding has; and nothing that is shown holds a code."""
    links = Links(Clock())
    code = links.give()
    assert not links.take(text)
    assert code not in repr(links)
    assert code not in repr(links.__dict__)
