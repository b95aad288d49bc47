"""The key of a request, read from any body, and the rules as they are sent."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.domain import AffinityRule, ModelTraits
from tarn.domain.affinity import (
    affinity_key,
    ranked,
    read_rules,
    resolve_ensembles,
    rule_for,
    rules_json,
    sequence_key,
    traits_of,
)

SEQUENCE = AffinityRule((), "sequence", idle_s=60.0)
LARGEST = 2**64 - 1
numbers = st.integers(1, LARGEST)
texts = st.text(min_size=1, max_size=30)
scalars = st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
# What must not count: an id among the data, in an output, in an object of another name.
decoys = st.fixed_dictionaries(
    {},
    optional={
        "sequence_id": numbers,
        "id": texts,
        "inputs": st.lists(
            st.fixed_dictionaries(
                {"parameters": st.fixed_dictionaries({"sequence_id": numbers}), "data": values}
            ),
            max_size=3,
        ),
        "more": st.fixed_dictionaries({"parameters": st.dictionaries(texts, values, max_size=3)}),
        "text": st.just('{"parameters": {"sequence_id": 13}}'),
    },
)


def escaped(key: str) -> str:
    """Return *key* as JSON in which every character is an escape."""
    return '"' + "".join(f"\\u{ord(mark):04x}" for mark in key) + '"'


@st.composite
def bodies(draw: st.DrawFn, parameters: dict[str, Any]) -> bytes:
    """A body with *parameters* at any place, its keys written in any way, and bytes behind it."""
    parts = [*draw(decoys).items(), ("parameters", parameters)]
    parts = draw(st.permutations(parts))
    space = draw(st.sampled_from(["", " ", "\n\t ", "\r\n"]))
    ascii_only = draw(st.booleans())

    def key(name: str) -> str:
        return escaped(name) if draw(st.booleans()) else json.dumps(name)

    def shown(name: str, value: object) -> str:
        if name == "parameters" and isinstance(value, dict):
            inner = f",{space}".join(shown(k, v) for k, v in value.items())
            return f"{key(name)}{space}:{space}{{{inner}{space}}}"
        text = json.dumps(value, ensure_ascii=ascii_only)
        return f"{key(name) if name == 'sequence_id' else json.dumps(name)}:{space}{text}"

    said = f",{space}".join(shown(name, value) for name, value in parts)
    behind = draw(st.binary(max_size=40) | st.just(b'{"parameters": {"sequence_id": 99}}'))
    return f"{space}{{{space}{said}{space}}}".encode("utf-8", "surrogatepass") + behind


others = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name not in {"sequence_id", "parameters"}),
    values,
    max_size=3,
)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), value=numbers | texts, others=others)
def test_the_id_of_a_sequence_is_found_wherever_it_is(
    data: st.DataObject, value: int | str, others: dict[str, Any]
) -> None:
    """Numbers up to 2**64 - 1 keep every digit; nothing else in the body is taken for it."""
    pairs = data.draw(st.permutations([*others.items(), ("sequence_id", value)]))
    body = data.draw(bodies(dict(pairs)))
    expected = str(value).encode("utf-8", "surrogatepass")
    assert affinity_key(SEQUENCE, {}, {}, body) == expected
    assert sequence_key(value) == expected, "the same key as for a caller who says it"


@settings(max_examples=200, deadline=None)
@given(data=st.data(), others=others)
def test_a_body_without_an_id_of_its_own_has_no_key(
    data: st.DataObject, others: dict[str, Any]
) -> None:
    """Ids in inputs, in data, in texts and in bytes behind the JSON are not the request's."""
    body = data.draw(bodies(others))
    assert affinity_key(SEQUENCE, {}, {}, body) is None


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=200) | st.text('{}[]":,\\ 01eparamtsqunc_id').map(str.encode))
def test_no_body_makes_it_raise(body: bytes) -> None:
    """Whatever comes, there is a key or none."""
    for rule in (
        SEQUENCE,
        AffinityRule(key="json", path="parameters.0.x"),
        AffinityRule(key="body", first_bytes=10),
    ):
        assert affinity_key(rule, {}, {}, body) is None or rule.key


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "-1",
        "1.5",
        "1e3",
        "18446744073709551616",
        "007",
        "true",
        "null",
        '""',
        "{}",
        "[1]",
        '"',
    ],
)
def test_what_triton_does_not_take_for_an_id_is_none(value: str) -> None:
    """0 and the empty text mean that there is no sequence; the rest Triton refuses."""
    body = b'{"parameters": {"sequence_id": %s}}' % value.encode()
    assert affinity_key(SEQUENCE, {}, {}, body) is None


def test_of_two_members_with_one_name_the_first_counts() -> None:
    """As in Triton."""
    body = b'{"parameters":{"sequence_id":1,"sequence_id":2},"parameters":{"sequence_id":3}}'
    assert affinity_key(SEQUENCE, {}, {}, body) == b"1"


def test_megabytes_of_data_are_skipped_quickly() -> None:
    """Tensors in JSON before the parameters cost milliseconds, not seconds."""
    data = json.dumps([float(number) for number in range(200_000)])
    body = f'{{"inputs":[{{"data":{data}}}],"parameters":{{"sequence_id":7}}}}'.encode()
    assert affinity_key(SEQUENCE, {}, {}, body) == b"7"


def test_a_header_names_the_sequence_before_the_body() -> None:
    """Its name in any case; 0 is none there, too."""
    body = b'{"parameters":{"sequence_id":7}}'
    assert affinity_key(SEQUENCE, {"x-SEQUENCE-id": " 8 "}, {}, body) == b"8"
    assert affinity_key(SEQUENCE, {"X-Sequence-Id": "0"}, {}, body) == b"7"
    assert affinity_key(SEQUENCE, {}, {"sequence_id": 9}, b"") == b"9"
    assert affinity_key(SEQUENCE, {}, {"sequence_id": True}, b"") is None


def test_keys_of_other_rules() -> None:
    """A header, a value at a path, the body, each up to its first bytes."""
    header = AffinityRule(key="header", header="X-Session", idle_s=10.0)
    assert affinity_key(header, {"x-session": "u1"}, {}, b"") == b"u1"
    assert affinity_key(header, {"x-other": "u1"}, {}, b"") is None
    body = b'{"inputs":[{"data":[1]},{"data":["Once upon"]}],"n":{"a b":12.50}} \xff'
    for path, most, found in (
        ("inputs.1.data.0", 4, b"Once"),
        ("inputs.1.data.0", 0, b"Once upon"),
        ("inputs.0.data", 0, b"[1]"),
        ("n.a b", 0, b"12.50"),
        ("inputs.2", 0, None),
        ("inputs.1.data.0.x", 0, None),
        ("inputs.-1", 0, None),
        ("nowhere", 0, None),
    ):
        rule = AffinityRule(key="json", path=path, first_bytes=most)
        assert affinity_key(rule, {}, {}, body) == found, path
    assert affinity_key(AffinityRule(key="body", first_bytes=7), {}, {}, body) == b'{"input'
    assert affinity_key(AffinityRule(key="body"), {}, {}, b"") is None


@settings(max_examples=100, deadline=None)
@given(
    names=st.lists(st.text(max_size=10), unique=True, min_size=2, max_size=8), key=st.binary(),
    gone=st.integers(0, 7),
)  # fmt: skip
def test_only_the_keys_of_what_left_move(names: list[str], key: bytes, gone: int) -> None:
    """The order of the others is the same without it."""
    names = [name.encode("utf-8", "replace").decode() for name in names]
    left = names[gone % len(names)]
    with_it = [names[number] for number in ranked(key, names)]
    without = [name for name in names if name != left]
    assert [without[n] for n in ranked(key, without)] == [n for n in with_it if n != left]


def test_keys_spread_over_instances() -> None:
    """Each of four gets about a quarter."""
    names = [f"llama-{number:04d}" for number in range(4)]
    first = [ranked(b"%d" % number, names)[0] for number in range(2000)]
    assert all(400 < first.count(number) < 600 for number in range(4))


rules = st.builds(
    AffinityRule,
    st.lists(st.text(max_size=20), max_size=4).map(tuple),
    st.sampled_from(["header", "body"]),
    first_bytes=st.integers(0, 1 << 20),
    imbalance=st.just(0) | st.integers(101, 1000),
    idle_s=st.floats(0, 600_000),
)


@given(rules=st.lists(rules, max_size=5))
def test_rules_survive_the_way_to_a_client(rules: list[AffinityRule]) -> None:
    """What is sent as JSON is read as it was."""
    answer = json.loads(json.dumps({"rules": rules_json(rules), "complete": True}))
    assert read_rules(answer) == tuple(rules)


@pytest.mark.parametrize(
    "answer",
    [None, [], {"rules": {}}, {"rules": [1]}, {"rules": [{"models": "acc"}]},
     {"rules": [{"models": [1]}]}, {"rules": [{"key": "moon"}]}, {"rules": [{"key": "json"}]},
     {"rules": [{"key": "sequence"}]}, {"rules": [{"key": "body", "imbalance": 50}]},
     {"rules": [{"key": "header", "header": "a b"}]}, {"rules": [{}] * 65},
     {"rules": [{"key": "body", "idle_s": "x"}]}],
)  # fmt: skip
def test_an_answer_that_is_not_right_is_refused(answer: object) -> None:
    """A reader keeps the rules that it has."""
    with pytest.raises(ValueError, match=r".+"):
        read_rules(answer)


def test_a_field_of_a_later_version_is_ignored() -> None:
    """A rule may get more fields."""
    (rule,) = read_rules({"rules": [{"key": "body", "models": ["a"], "later": 1}]})
    assert rule == AffinityRule(("a",), "body")


def test_the_first_rule_that_names_a_model_counts() -> None:
    """One without models names all."""
    one, all_ = AffinityRule(("a",), "body"), AffinityRule((), "header", idle_s=1.0)
    assert rule_for((one, all_), "a") is one
    assert rule_for((one, all_), "b") is all_
    assert rule_for((one,), "b") is None


def test_a_configuration_says_what_the_model_keeps() -> None:
    """As Triton gives it: numbers of 64 bits may be texts."""
    config = {"sequence_batching": {"max_sequence_idle_microseconds": "60000000"}}
    assert traits_of("acc", config) == ModelTraits("acc", True, 60.0)
    assert traits_of("acc", {"sequence_batching": {}}) == ModelTraits("acc", True, 1.0)
    odd = {"sequence_batching": {"max_sequence_idle_microseconds": "soon"}}
    assert traits_of("acc", odd) == ModelTraits("acc", True, 1.0)
    assert traits_of("m", {"response_cache": {"enable": True}}).response_cache
    assert traits_of("m", {"dynamic_batching": {}, "response_cache": {}}) == ModelTraits("m")


def test_an_ensemble_keeps_sequences_if_a_model_in_it_does() -> None:
    """Triton passes the id on to each step, through any number of ensembles."""
    steps = {"ensemble_scheduling": {"step": [{"model_name": "inner"}, {"model_name": "pre"}]}}
    outer = traits_of("outer", steps)
    inner = ModelTraits("inner", steps=("acc", "outer"))
    models = resolve_ensembles([outer, inner, ModelTraits("acc", True, 30.0), ModelTraits("pre")])
    assert [model.name for model in models] == ["acc", "inner", "outer", "pre"]
    kept = {m.name: (m.sequence_batching, m.max_sequence_idle_s) for m in models}
    assert kept == {"acc": (True, 30.0), "inner": (True, 30.0), "outer": (True, 30.0),
                    "pre": (False, 0.0)}  # fmt: skip
    assert attrs.evolve(models[2], sequence_batching=False, max_sequence_idle_s=0.0) == outer
