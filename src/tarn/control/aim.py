"""Where the scraper looks, for a fleet. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import attrs

from tarn.control.scrape import Target
from tarn.control.warmup import WarmupRequest
from tarn.domain import Instance, Launch, Reading, State
from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.triton.restricted import keys
from tarn.triton.test_requests import TestRequest
from tarn.triton.test_sources import KnownTests

__all__ = ["Sent", "aim", "tests_now"]


@attrs.frozen
class Sent:
    """What instances are sent beside the looks at them."""

    warmup: tuple[WarmupRequest, ...] = ()
    """What each must answer before it is ready."""
    control: WantedCalls = NO_CALLS
    """The control calls that each one that serves must have had."""
    tests: Mapping[str, TestRequest] = MappingProxyType({})
    """Instance id to the test request that it gets, as `KnownTests.tests_for` finds it."""


def aim(
    instances: Iterable[Instance],
    before: Mapping[str, Target],
    launch: Launch,
    sent: Sent,
) -> dict[str, Target]:
    """Return what to scrape, by instance id; targets that did not change are the same objects.

    *before* is what was returned last, *launch* what the instances were started with.
    """
    aimed: dict[str, Target] = {}
    for i in instances:
        if i.endpoint is None:
            continue
        old = before.get(i.id)
        calls = sent.control if i.state in (State.STARTING, State.READY) else NO_CALLS
        new = (i.endpoint, i.unloading, i.stop_posted, sent.tests.get(i.id))
        same = old is not None and (old.endpoint, old.unload, old.leaving, old.test) == new
        if old is None or not same or old.calls is not calls:
            old = Target(
                i.endpoint,
                sent.warmup,
                unload=i.unloading,
                leaving=i.stop_posted,
                keys=keys(launch, i.id) if old is None else old.keys,
                fresh=not i.adopted,
                calls=calls,
                had=i.calls,
                load_within_s=launch.instance.start_timeout_s,
                test=sent.tests.get(i.id),
            )
        aimed[i.id] = old
    return aimed


def tests_now(
    instances: Sequence[Instance],
    readings: Mapping[str, Reading],
    known: KnownTests,
    now_s: float,
    each_s: float,
) -> dict[str, TestRequest]:
    """Return which instances get a test request now, by id.

    One that is suspected gets one after another, *each_s* apart at least, each with a number of its
    own; while it is on its way it stays the same.
    """
    tests: dict[str, TestRequest] = {}
    for suspect in instances:
        if not suspect.wants_test or suspect.unwell is None:
            continue
        model, reading = suspect.unwell.model, readings.get(suspect.id)
        tested = None if reading is None else reading.tested
        number = 1 if tested is None else tested.number
        if tested is not None and now_s - tested.asked_s >= each_s:
            number += 1
        peers = (i.id for i in instances if i.in_view and i.id != suspect.id and _has(i, model))
        tests.update(known.tests_for(suspect.id, model, number, peer=next(peers, "")))
    return tests


def _has(instance: Instance, model: str) -> bool:
    return any(name == model and state == "READY" for name, state, _ in instance.models)
