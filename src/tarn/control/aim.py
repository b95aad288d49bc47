"""Where the scraper looks, for a fleet. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import attrs

from tarn.control.scrape import Target
from tarn.control.warmup import WarmupRequest
from tarn.domain import Instance, Launch, State
from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.triton.restricted import keys
from tarn.triton.test_requests import TestRequest

__all__ = ["Sent", "aim"]


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
