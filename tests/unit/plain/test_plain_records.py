"""Records: what programs write for programs, read back to the same values."""

import json
import math
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Epoch
from tarn.domain.control_calls import CallKind
from tarn.interfaces import ClusterRef
from tarn.plain.master_files import ref_in, written_ref
from tarn.plain.structure import from_record, to_record


@attrs.frozen
class Part:
    wait_s: float
    size_mib: int = 0


@attrs.frozen
class Whole:
    rows: tuple[tuple[str, float, tuple[int, ...]], ...] = ()
    names: frozenset[str] = frozenset()
    parts: Mapping[str, Part] = attrs.field(factory=dict)
    kind: CallKind | None = None
    part: Part | None = None


parts = st.builds(Part, st.floats(allow_nan=False), st.integers())
wholes = st.builds(
    Whole,
    st.lists(
        st.tuples(st.text(), st.floats(allow_nan=False), st.lists(st.integers()).map(tuple))
    ).map(tuple),
    st.frozensets(st.text()),
    st.dictionaries(st.text(), parts),
    st.sampled_from(CallKind) | st.none(),
    parts | st.none(),
)


@given(wholes)
def test_a_record_is_read_back_to_the_same_value(value: Whole) -> None:
    assert from_record(Whole, json.loads(json.dumps(to_record(value)))) == value


def test_numbers_stand_under_the_names_of_their_fields_and_without_units() -> None:
    assert to_record(Part(0.25, 512)) == {"wait_s": 0.25, "size_mib": 512}


def test_what_a_newer_program_wrote_besides_is_left_alone() -> None:
    assert from_record(Part, {"wait_s": 1, "later": True}) == Part(1.0)


def test_a_moment_that_never_comes_is_kept() -> None:
    assert from_record(Part, {"wait_s": math.inf}) == Part(math.inf)


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({}, "wait_s is missing; it must be given"),
        ([], "a mapping is needed"),
        ({"wait_s": "1"}, "wait_s = '1': a number is needed"),
        ({"wait_s": 1, "size_mib": 0.5}, "size_mib = 0.5: a whole number is needed"),
    ],
)
def test_what_is_no_record_is_told(plain: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_record(Part, plain)


@pytest.mark.parametrize("row", [["a", 1.0], ["a", 1.0, [1], 2], "abc", ["a", "b", [1]]])
def test_a_row_has_its_places(row: Any) -> None:
    with pytest.raises(ValueError, match=r"rows\[0\]"):
        from_record(Whole, {"rows": [row]})


def test_a_reference_is_read_back_with_its_epoch_as_text() -> None:
    ref = ClusterRef("llama", "local", Epoch(1764201600000, 2), url="http://gpu1:1", pid=7)
    data = written_ref(ref)
    assert json.loads(data)["epoch"] == "1764201600000-2"
    assert ref_in(data) == ref


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"epoch": 1}', b'{"epoch": "1-1"}', b"[" * 100_000]
)
def test_what_is_no_reference_is_an_error_of_its_value(data: bytes) -> None:
    with pytest.raises(ValueError):
        ref_in(data)
