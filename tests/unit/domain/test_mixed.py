"""Instances that serve different things: told once it lasts, with who serves what."""

from typing import Any

import attrs
import pytest
from given import NOW_S, RULES, fleet, read, reading, ready, running, starting, step
from hypothesis import given
from hypothesis import strategies as st

from tarn.control.issues import of_fleet
from tarn.domain import ModelState
from tarn.domain.fleet import Fleet
from tarn.domain.reading import NOT_LOADED
from tarn.domain.spec import ModelsSpec
from tarn.domain.standing import mixture, standing

OLD = (ModelState("m", "READY", versions=("1",)),)
NEW = (ModelState("m", "READY", versions=("2",)),)
MORE = (*OLD, ModelState("second", "READY", versions=("1",)))
LATE = (*OLD, ModelState("second", "UNAVAILABLE", NOT_LOADED))


def watched(*models: tuple[ModelState, ...], for_s: float = 10.0, **more: Any) -> Fleet:
    """Return a fleet of instances with these *models* after it was looked at for *for_s*."""
    some = fleet(*(ready(n, **more) for n in range(1, len(models) + 1)))
    for now_s in (NOW_S, NOW_S + for_s):
        facts = tuple(running(n) for n in range(1, len(models) + 1))
        live = [reading(n, now_s, models=listed) for n, listed in enumerate(models, 1)]
        some = step(some, RULES, now_s, facts, *live)
    return some


def test_another_version_is_told_with_the_way_out() -> None:
    """All of it serves, so the state is ready; an alert names who serves what."""
    some = watched(OLD, OLD, NEW)
    said = "model 'm': version 2 on w-0003; version 1 on w-0001, w-0002"
    found = mixture(some, NOW_S + 10.0)
    assert found is not None
    assert (found.said, found.missing) == (said, False)
    (trouble,) = of_fleet(some, RULES, NOW_S + 10.0)
    assert (trouble.code, trouble.subject) == ("TARN-1147", "w")
    assert trouble.found.startswith(f"instances serve different models: {said}. `tarn drain`")
    assert standing(some, RULES, NOW_S + 10.0) == ("ready", "", ())


@pytest.mark.parametrize("old", [OLD, LATE])
def test_a_model_that_some_do_not_serve_makes_the_fleet_degraded(
    old: tuple[ModelState, ...],
) -> None:
    """Requests for it fail there; no word blames the model."""
    some = watched(old, MORE)
    said = "model 'second': version 1 on w-0002; not served by w-0001"
    assert standing(some, RULES, NOW_S + 10.0)[:2] == ("degraded", said)
    assert not any(event.code == "TARN-1111" for event in some.events)


def test_what_is_equal_or_short_is_no_news() -> None:
    """A load reaches one after the other; equal again, it is over."""
    for some in (watched(OLD, OLD), watched(OLD, NEW, for_s=9.9), watched(LATE, LATE)):
        assert mixture(some, NOW_S + 9.9) is None
    some = step(
        watched(OLD, NEW),
        RULES,
        NOW_S + 11.0,
        (running(1), running(2)),
        reading(1, NOW_S + 11.0, models=NEW),
        reading(2, NOW_S + 11.0, models=NEW),
    )
    assert (some.mixed_s, mixture(some, NOW_S + 60.0)) == (None, None)


def test_a_model_that_came_later_takes_no_instance_out() -> None:
    """With `require: all`, too; one that starts must have all of them."""
    strict = attrs.evolve(RULES.spec, models=ModelsSpec("/models", require="all"))
    every = attrs.evolve(RULES, spec=strict)
    live = (reading(1, models=LATE), reading(2, models=LATE))
    some = step(fleet(ready(1), starting(2)), every, NOW_S, (running(1), running(2)), *live)
    assert [member.instance_id for member in some.view.members] == ["w-0001"]


def test_many_are_named_in_part() -> None:
    """Three models, and three instances of each."""
    listed = [
        tuple(ModelState(f"m{k}", "READY", versions=(v,)) for k in range(5))
        for v in ("1", "1", "1", "1", "2")
    ]
    found = mixture(watched(*listed), NOW_S + 10.0)
    assert found is not None
    assert found.said.count("model '") == 3
    assert "version 1 on w-0001, w-0002, w-0003 and 1 more" in found.said
    assert found.said.endswith("; and 2 more models")


@given(st.lists(st.sampled_from((OLD, NEW, MORE, LATE)), min_size=1, max_size=6))
def test_a_fleet_is_mixed_exactly_where_two_serve_different_versions(
    models: list[tuple[ModelState, ...]],
) -> None:
    """And is degraded exactly where one lacks a model that another serves."""
    some = watched(*models)
    served = [{m.name: m.versions for m in listed if m.state == "READY"} for listed in models]
    found = mixture(some, NOW_S + 10.0)
    assert (found is not None) is any(one != served[0] for one in served)
    lacking = any(one.keys() != served[0].keys() for one in served)
    assert (found is not None and found.missing) is lacking


def test_a_look_that_tells_nothing_new_keeps_the_very_same_instance() -> None:
    """A tick that sees nothing new makes nothing."""
    some = read(fleet(ready(1)), reading(1, models=OLD))
    assert read(some, reading(1, models=OLD)) is some
