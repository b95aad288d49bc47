"""A secret shows itself nowhere."""

import copy
import json
import pickle

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Secret

VALUE = "canary-5f2b"


@attrs.frozen
class Holder:
    one: Secret
    many: dict[str, Secret] = attrs.field(factory=dict)


def test_nothing_that_prints_shows_it() -> None:
    """Neither alone, nor in a list, a record or an f-string, however it is formatted."""
    secret = Secret(VALUE)
    holder = Holder(secret, {"a": secret})
    shown = (repr(secret), str(secret), f"{secret}", f"{[secret]}", f"{secret!r:>20}")
    assert VALUE not in "".join((*shown, repr(holder), str(attrs.asdict(holder))))
    assert secret.reveal() == VALUE


@pytest.mark.parametrize("write", [json.dumps, pickle.dumps, copy.deepcopy])
def test_nothing_writes_it_down(write) -> None:
    """Whoever means to must reveal it; the refusal does not hold it either."""
    with pytest.raises(TypeError) as caught:
        write(Secret(VALUE))
    assert VALUE not in str(caught.value)


@given(one=st.text(), other=st.text())
def test_equal_where_the_texts_are(one: str, other: str) -> None:
    """So two launches can be told apart, and no text equals a secret."""
    assert (Secret(one) == Secret(other)) == (one == other)
    assert len({Secret(one), Secret(other)}) == len({one, other})
    assert Secret(one) != one
