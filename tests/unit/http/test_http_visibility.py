"""What somebody may not list is in no answer."""

import asyncio
import json
import re

import attrs
import pytest
from fake_master import instance, snapshot
from hypothesis import assume, given
from hypothesis import strategies as st

from tarn.domain import Issue
from tarn.http.pages import MOST_FILTERED, Exposition
from tarn.http.visibility import MASK, NOTHING, VisibilityFilter, models_in

NAMES = st.sampled_from(
    ["ocr", "ocr-large", "ocr_v2", "llama", "a", "a.b", "été", "-x", "_y_", "two words", "x/y", "7"]
)
SEPARATORS = st.sampled_from([" ", "", "-", "_", ".", "/", "'", '"', "(", "\n", "0", "z", ": "])
TEXTS = st.lists(st.one_of(NAMES, SEPARATORS, st.text(max_size=4)), max_size=14).map("".join)


def _stands(name: str, text: str) -> bool:
    """Whether *name* is in *text* with no letter or digit beside it; written another way."""
    return re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", text) is not None


@given(text=TEXTS, names=st.frozensets(NAMES, min_size=1), closed=st.frozensets(NAMES))
def test_no_hidden_name_is_left_in_any_text(
    text: str, names: frozenset[str], closed: frozenset[str]
) -> None:
    """Where nothing is shown and no instance is named, none stands there as a name.

    Nor one whose details are kept back: a text about it would be one.
    """
    masked = VisibilityFilter(names, closed=closed).text(text)
    assert [n for n in names | closed if _stands(n, masked)] == []


@given(text=TEXTS, shown=st.frozensets(NAMES), names=st.frozensets(NAMES))
def test_a_text_without_a_hidden_name_is_left_as_it_is(
    text: str, shown: frozenset[str], names: frozenset[str]
) -> None:
    """Nothing else is touched."""
    hidden = VisibilityFilter(frozenset(n for n in names if n not in text), shown)
    assume(len(text) <= 32)  # a longer word of dashes alone is masked as a whole
    assert hidden.text(text) == text


@given(name=NAMES, other=NAMES, tail=TEXTS)
def test_with_nothing_hidden_everything_passes_untouched(name: str, other: str, tail: str) -> None:
    """Without an authorizer that says no, rows are handed on as they are: the very same object."""
    row = {"name": name, "models": [{"name": other, "reason": tail}], "reason": tail}
    assert NOTHING.row(row) is row
    assert NOTHING.head(row) is row
    assert NOTHING.config(row) is row
    assert NOTHING.text(tail) is tail


def test_the_longest_name_counts_and_instances_keep_theirs() -> None:
    """A hidden name inside a shown one, or in what the master numbers by its cluster's name."""
    hidden = VisibilityFilter(
        frozenset({"ocr", "llama"}), frozenset({"ocr-large"}), cluster="llama"
    )
    said = "model ocr is unavailable on llama-0001: ocr-large waits for ocr_0_1; llama, ocr-large2"
    assert hidden.text(said) == (
        f"model {MASK} is unavailable on llama-0001: ocr-large waits for {MASK}_0_1; {MASK},"
        f" {MASK}-large2"
    )


def test_rows_keys_and_texts_of_hidden_models_are_gone() -> None:
    """Addresses and the master's own words stay, also where a model is called so."""
    hidden = VisibilityFilter(frozenset({"ocr", "ready", "n1"}), frozenset({"llama"}))
    row = {
        "name": "ocr",
        "id": "ocr-0001",
        "state": "ready",
        "node": "n1",
        "reason": "model ocr is unavailable",
        "models": [{"name": "ocr", "state": "READY", "reason": ""}, {"name": "llama"}],
        "serve": ["ocr", "llama"],
        "weights": {"ocr": 2, "llama": 3, 'queue{model="ocr"}': 4},
        "busy": 2.5,
        "pause": None,
    }
    assert hidden.head(row) == {
        **row,
        "reason": f"model {MASK} is unavailable",
        "models": [{"name": "llama"}],
        "serve": ["llama"],
        "weights": {"llama": 3},
    }
    assert hidden.config(row)["node"] == MASK


@given(
    names=st.frozensets(NAMES, min_size=1),
    value=st.recursive(
        TEXTS | st.none() | st.booleans() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    ),
)
def test_whatever_is_added_to_an_answer_later_is_looked_through(
    names: frozenset[str], value: object
) -> None:
    """Any nesting, any key that nobody knows yet: no hidden name in any text of it."""
    hidden = VisibilityFilter(names)
    seen = json.loads(json.dumps(hidden.config({"new": value})))

    def texts(part: object) -> list[str]:
        match part:
            case str():
                return [part]
            case dict():
                return [*part, *(t for each in part.values() for t in texts(each))]
            case list():
                return [t for each in part for t in texts(each)]
        return []

    if "new" in seen:
        assert [(n, t) for t in texts(seen["new"]) for n in names if _stands(n, t)] == []


def test_a_closed_model_has_a_name_and_nothing_else() -> None:
    """Also where the cluster, or a follower, is called like it."""
    hidden = VisibilityFilter(closed=frozenset({"ocr"}))
    row = {
        "name": "ocr",
        "models": [
            {"name": "ocr", "state": "UNAVAILABLE", "reason": "slow", "age_s": 3, "code": "TARN-1"}
        ],
        "followers": [{"name": "ocr", "revision": 3}],
        "reason": "ocr is slow",
    }
    assert hidden.head(row) == {
        "name": "ocr",
        "models": [{"name": "ocr", "state": "", "reason": "", "age_s": None}],
        "followers": [{"name": MASK, "revision": 3}],
        "reason": f"{MASK} is slow",
    }
    assert hidden.config({"models": {"serve": ["ocr"]}}) == {"models": {"serve": ["ocr"]}}


SEEN = {"subject": "llama-0001", "message": "it loads llama", "models": ["llama"], "code": ""}


@pytest.mark.parametrize("hidden", [{"names": {"ocr"}}, {"closed": {"ocr"}}])
@pytest.mark.parametrize(
    ("record", "told"),
    [
        (
            {"subject": "ocr", "message": "it failed", "models": ["llama", "ocr"]},
            {"subject": "w", "message": MASK, "models": []},
        ),
        (
            {"subject": "w-0001", "message": "cold", "models": ["ocr"], "code": "TARN-1111"},
            {"subject": "w-0001", "message": "model unavailable", "models": []},
        ),
        (
            {"model": "ocr", "message": "it failed", "next_step": "of the table"},
            {"model": MASK, "message": MASK, "next_step": "of the table"},
        ),
        (
            {"blamed": "ocr", "reason": "it has no version", "suspect": "", "id": "w-0001"},
            {"blamed": "", "reason": "model unavailable", "suspect": "", "id": "w-0001"},
        ),
        (SEEN, SEEN),
    ],
)
def test_a_record_about_a_hidden_model_goes_by_what_it_is_about(
    hidden: dict[str, set[str]], record: dict[str, object], told: dict[str, object]
) -> None:
    """Not by its text, which may say so in other words; what everybody may know is told."""
    sets = {key: frozenset(names) for key, names in hidden.items()}
    row = VisibilityFilter(cluster="w", **sets).row(record)
    assert {key: row[key] for key in told} == told


def test_an_issue_about_a_hidden_model_is_what_health_says_of_it() -> None:
    """With its code; without one it is what the table of codes calls it, or nothing."""
    hidden = VisibilityFilter(frozenset({"ocr"}), cluster="w")
    issue = Issue("ocr", "ocr failed", "Fix it", "TARN-1152", public="one fails", models=("ocr",))
    assert hidden.issue(issue) == Issue("w", "one fails", code="TARN-1152", public="one fails")
    other = attrs.evolve(issue, subject="w-0001", public="")
    assert hidden.issue(other) == Issue("w-0001", "model fails everywhere", code="TARN-1152")
    assert hidden.issue(attrs.evolve(other, code="")).found == MASK
    seen = attrs.evolve(issue, models=("llama",))
    assert hidden.issue(seen) is seen
    assert NOTHING.issue(issue) is issue


def test_a_word_with_too_many_places_is_masked_as_a_whole() -> None:
    """Who writes ten thousand dashes makes nobody count them."""
    assert VisibilityFilter(frozenset({"ocr"})).text("-" * 10_000) == MASK


def test_samples_of_hidden_models_leave_the_metrics() -> None:
    """The label decides, with the escapes of the format."""
    text = b'a{model="ocr"} 1\na{model="ocr-large"} 2\na{model="q\\"q",x="y"} 3\nb 4\n'
    hidden = VisibilityFilter(frozenset({"ocr", 'q"q'}))
    assert hidden.metrics(text) == b'a{model="ocr-large"} 2\nb 4\n'
    assert NOTHING.metrics(text) is text


def test_the_models_of_a_spec_are_those_it_serves() -> None:
    """Whatever else stands there is none."""
    assert list(models_in({"models": {"serve": ["a", 3, "b"]}})) == ["a", "b"]
    for odd in (None, {}, {"models": "a"}, {"models": {"serve": "a"}}, ["models"]):
        assert list(models_in(odd)) == []


def test_readers_with_equal_rights_get_one_text_of_a_snapshot() -> None:
    """The filter runs once for them; how many kinds of readers are kept is bounded."""
    picture = snapshot(instance(1))

    async def scene() -> None:
        made = Exposition()

        async def text(hidden: VisibilityFilter) -> bytes:
            return await made.text(picture, hidden, openmetrics=False)

        whole = await text(NOTHING)
        assert await text(VisibilityFilter(shown=frozenset({"a"}))) is whole
        same = [await text(VisibilityFilter(frozenset({"echo"}))) for _ in range(2)]
        assert same[0] is same[1]
        assert same[0] is not whole
        for number in range(3 * MOST_FILTERED):
            await text(VisibilityFilter(frozenset({f"m{number}"})))
        assert len(made._made[False][1]) == MOST_FILTERED + 1
        assert await text(NOTHING) is whole

    asyncio.run(scene())
