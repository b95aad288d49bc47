"""Plain data to attrs values: what is accepted, and what is said otherwise."""

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from attrs.validators import ge, in_, matches_re, optional

from tarn.plain import describe, structure, unstructure


class Colour(enum.StrEnum):
    """Some words."""

    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Inner:
    """A part."""

    word: str = attrs.field(default="a", validator=in_(("alpha", "beta", "a")))
    """Which one."""


@attrs.frozen
class Whole:
    """Every type that plain data can give."""

    count: int = attrs.field(default=1, validator=ge(1))
    share: float = 0.5
    on: bool = False
    text: str = attrs.field(default="x", validator=matches_re(r"[a-z]+"))
    maybe: int | None = attrs.field(default=None, validator=optional(ge(3)))
    words: tuple[str, ...] = ()
    numbers: list[int] = attrs.field(factory=list)
    names: frozenset[str] = frozenset()
    table: Mapping[str, str] = attrs.field(factory=dict)
    anything: Mapping[str, object] = attrs.field(factory=dict)
    inner: Inner = attrs.field(factory=Inner)
    inners: tuple[Inner, ...] = ()
    colour: Colour = Colour.RED
    side: Literal["left", "right"] = "left"
    place: Path | None = None
    either: int | str = 0
    wait_s: float = attrs.field(default=1.0, validator=ge(0.1))
    """How long."""
    waits_s: tuple[float, ...] = ()
    room_mib: int | None = None


FULL = {
    "count": 2, "share": 1, "on": True, "text": "abc", "maybe": 3, "words": ["a", "b"],
    "numbers": [1, 2], "names": ["x"], "table": {"K": "v"}, "anything": {"a": [1, {"b": None}]},
    "inner": {"word": "beta"}, "inners": [{"word": "alpha"}, {}], "colour": "blue",
    "side": "right", "place": "/tmp/x", "either": "s", "wait": "2s", "waits": ["1s", "250ms"],
    "room": "1GiB",
}  # fmt: skip


def said(plain: Any) -> list[str]:
    """Return each problem as found text and next step."""
    value, problems = structure(Whole, plain)
    assert value is None
    return [f"{p.found}. {p.next_step}".removesuffix(". ") for p in problems]


def test_every_type_is_read() -> None:
    """Scalars, lists, sets, maps, classes, words, paths, choices, quantities."""
    value, problems = structure(Whole, FULL)
    assert problems == ()
    assert value == Whole(
        2, 1.0, True, "abc", 3, ("a", "b"), [1, 2], frozenset({"x"}), {"K": "v"},
        {"a": [1, {"b": None}]}, Inner("beta"), (Inner("alpha"), Inner()), Colour.BLUE,
        "right", Path("/tmp/x"), "s", 2.0, (1.0, 0.25), 1024,
    )  # fmt: skip


def test_what_was_read_is_written_as_it_was() -> None:
    """`unstructure` is the inverse."""
    value, _ = structure(Whole, FULL)
    plain = unstructure(value)
    assert structure(Whole, plain)[0] == value
    assert (plain["wait"], plain["waits"], plain["room"]) == ("2s", ["1s", "250ms"], "1GiB")


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"cont": 1}, "cont: unknown key. Did you mean 'count'?"),
        ({"wait_s": 3}, "wait_s: unknown key. Write the unit with the value: 'wait: 10m'"),
        ({"count": "3"}, "count = '3': a whole number is needed. Write it without quotes"),
        ({"count": True}, "count = true: a whole number is needed"),
        ({"count": 0}, "count = 0: must be at least 1"),
        ({"maybe": 2}, "maybe = 2: must be at least 3"),
        ({"text": 5}, 'text = 5: text is needed. Write it in quotes: "5"'),
        ({"text": True}, 'text = true: text is needed. Write it in quotes: "true"'),
        ({"on": "yes"}, "on = 'yes': true or false is needed"),
        ({"words": "a"}, "words = 'a': a list is needed. Write [a]"),
        ({"table": {"A": None}}, "table.A = null: text is needed"),
        ({"inner": {"word": "alfa"}}, ("inner.word = 'alfa': must be 'alpha' or 'beta' or 'a'. "
                                      "Did you mean 'alpha'?")),
        ({"inners": [{}, {"wrd": "a"}]}, "inners[1].wrd: unknown key. Did you mean 'word'?"),
        ({"inner": 3}, "inner = 3: a mapping is needed. Its keys are: word"),
        ({"colour": "bleu"}, "colour = 'bleu': 'red' or 'blue' is needed. Did you mean 'blue'?"),
        ({"side": "lft"}, "side = 'lft': 'left' or 'right' is needed. Did you mean 'left'?"),
        ({"either": 1.5}, "either = 1.5: a whole number or text is needed"),
        ({"wait": 30}, ("wait = 30: a duration needs its unit. Write 30s, or for example 10m, "
                       "1.5s or 250ms")),
        ({"wait": "1ms"}, "wait = '1ms': must be at least 100ms"),
        ({"wait": "5 min"}, "wait = '5 min' is not a duration. Did you mean '5m'?"),
        ({"wait": "30"}, "wait = '30' is not a duration. Did you mean '30s'?"),
        ({"room": "4GB"}, "room = '4GB' is not an amount of memory. Did you mean '4GiB'?"),
        ({"room": 4096}, ("room = 4096: an amount of memory needs its unit. Write 4096MiB, or for "
                         "example 512MiB, 4GiB or 1TiB")),
        ({"room": "1.5KiB"}, "room = '1.5KiB': a whole number of MiB is needed"),
        ({"share": float("nan")}, "share = nan: a number is needed"),
        ({"anything": {"a": {1: 2}}}, 'anything.a: the key 1 is not text. Write it in quotes: "1"'),
    ],
)  # fmt: skip
def test_a_problem_says_path_value_and_what_is_right(plain: dict[str, Any], message: str) -> None:
    """One line that can be acted on."""
    assert said(plain) == [message]


def test_all_problems_are_found_at_once() -> None:
    """Nobody mends one to meet the next."""
    assert len(said({"count": "a", "text": 1, "wait": 2, "x": 3, "inner": {"word": "z"}})) == 5


def test_values_under_secret_names_are_not_shown() -> None:
    """Below env and options, a key that speaks of a secret hides its value."""

    @attrs.frozen
    class Holder:
        env: Mapping[str, str] = attrs.field(factory=dict)
        url: int = 0

    _, problems = structure(Holder, {"env": {"HF_TOKEN": 1234}, "url": "http://u:pw@host/"})
    text = " ".join(p.found + p.next_step for p in problems)
    assert "1234" not in text
    assert "pw" not in text


def test_data_that_contains_itself_is_a_problem_and_no_endless_loop() -> None:
    """A YAML alias can make such data."""
    loop: dict[str, Any] = {}
    loop["a"] = loop
    assert "nested too deeply" in said({"anything": loop})[0]


def test_a_field_that_plain_data_cannot_give_is_its_authors_fault() -> None:
    """A TypeError, not a problem of whoever wrote the file."""

    @attrs.frozen
    class Odd:
        number: complex = 0j

    with pytest.raises(TypeError, match="complex"):
        structure(Odd, {"number": 1})


def test_a_class_that_refuses_its_values_is_heard() -> None:
    """A validator that looks at two fields has its say when the instance is made."""

    @attrs.frozen
    class Range:
        low: int
        high: int = attrs.field()

        @high.validator
        def _check(self, _attribute: object, high: int) -> None:
            if high < self.low:
                raise ValueError("high is below low")

    assert structure(Range, {"low": 1, "high": 2})[0] == Range(1, 2)
    assert structure(Range, {"low": 3, "high": 2})[1][0].found == "high is below low"


def test_the_schema_carries_docs_units_bounds_and_words() -> None:
    """What an editor needs to help."""
    schema: Any = describe(Whole)
    wait = schema["properties"]["wait"]
    assert wait["description"] == "How long. (at least 100ms)"
    assert wait["type"] == "string"
    assert wait["default"] == "1s"
    assert schema["properties"]["count"]["minimum"] == 1
    assert schema["properties"]["inner"]["properties"]["word"]["enum"] == ["alpha", "beta", "a"]
    assert schema["properties"]["room"]["type"] == ["string", "null"]
    assert schema["additionalProperties"] is False
