"""Where the scraper looks, for a fleet. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from tarn.control.scrape import ProbeTarget
from tarn.control.warmup import WarmupRequest
from tarn.domain import Instance, InstanceState, Launch, Reading
from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.domain.fleet import Fleet, HintCheck
from tarn.domain.hint_checks import answered_since, needed, peers_of
from tarn.triton.restricted import keys
from tarn.triton.test_requests import MADE, TestRequest
from tarn.triton.test_sources import KnownTests

__all__ = ["SentRequests", "scrape_targets", "tests_now"]


@attrs.frozen
class SentRequests:
    """What instances are sent apart from the looks at them."""

    warmup: tuple[WarmupRequest, ...] = ()
    """What each must answer before it is ready."""
    control: WantedCalls = NO_CALLS
    """The control calls that each one that serves must have had."""
    tests: Mapping[str, TestRequest] = MappingProxyType({})
    """Instance id to the test request that it gets, as `KnownTests.tests_for` finds it."""


def scrape_targets(
    instances: Iterable[Instance],
    before: Mapping[str, ProbeTarget],
    launch: Launch,
    sent: SentRequests,
) -> dict[str, ProbeTarget]:
    """Return what to scrape, by instance id; targets that did not change are the same objects.

    *before* is what was returned last, *launch* what the instances were started with.
    """
    aimed: dict[str, ProbeTarget] = {}
    for i in instances:
        if i.endpoint is None:
            continue
        old = before.get(i.id)
        calls = (
            sent.control if i.state in (InstanceState.STARTING, InstanceState.READY) else NO_CALLS
        )
        new = (i.endpoint, i.unloading, i.stop_posted, sent.tests.get(i.id))
        same = old is not None and (old.endpoint, old.unload, old.leaving, old.test) == new
        if old is None or not same or old.calls is not calls:
            old = ProbeTarget(
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
    fleet: Fleet,
    readings: Mapping[str, Reading],
    known: KnownTests,
    now_s: float,
    each_s: float,
) -> dict[str, TestRequest]:
    """Return which instances get a test request now, by id.

    One that is suspected gets one after another, *each_s* apart at least, each with a number of its
    own; while it is on its way it stays the same. Those that clients told of are checked, too.
    """
    tests: dict[str, TestRequest] = {}
    for suspect in fleet.instances:
        if not suspect.wants_test or suspect.unwell is None:
            continue
        model = suspect.unwell.model
        number = _number(readings.get(suspect.id), now_s, each_s)
        peer = next((i.id for i in peers_of(suspect.id, model, fleet.instances)), "")
        tests.update(known.tests_for(suspect.id, model, number, peer=peer))
    for check in fleet.hint_checks:
        test = None if check.over else known.test_for(check.model)
        if test is None:
            continue
        for id_ in _asked_for(check, test, fleet, readings, known):
            number = _number(readings.get(id_), now_s, each_s)
            tests.setdefault(id_, attrs.evolve(test, number=number))
    return tests


def _asked_for(
    check: HintCheck,
    test: TestRequest,
    fleet: Fleet,
    readings: Mapping[str, Reading],
    known: KnownTests,
) -> Iterator[str]:
    """Yield who gets *test* for *check*: the instance, and once another one to compare with."""
    if check.failed < needed(check):
        yield check.instance_id
    if check.failed or check.noticed or (test.source == MADE and not known.is_proven(test)):
        peers = [i.id for i in peers_of(check.instance_id, check.model, fleet.instances)]
        if not any(answered_since(readings.get(id_), check) for id_ in peers):
            yield from peers[:1]


def _number(reading: Reading | None, now_s: float, each_s: float) -> int:
    """Return the number of the test request for now; a new one only *each_s* after the old one."""
    tested = None if reading is None else reading.tested
    if tested is None:
        return 1
    return tested.number + (now_s - tested.asked_s >= each_s)
