"""Where the scraper looks, for a fleet. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tarn.control.scrape import Target
from tarn.control.warmup import WarmupRequest
from tarn.domain import Instance, Launch
from tarn.triton.restricted import keys
from tarn.triton.test_requests import TestRequest

__all__ = ["aim"]


def aim(
    instances: Iterable[Instance],
    before: Mapping[str, Target],
    launch: Launch,
    warmup: tuple[WarmupRequest, ...],
    tests: Mapping[str, TestRequest] = MappingProxyType({}),
) -> dict[str, Target]:
    """Return what to scrape, by instance id; targets that did not change are the same objects.

    Args:
        instances: Those of the fleet.
        before: What was returned last.
        launch: What they were started with.
        warmup: What each must answer before it is ready.
        tests: Instance id to the test request that it gets, as `KnownTests.tests_for` finds it.
    """
    aimed: dict[str, Target] = {}
    for i in instances:
        if i.endpoint is None:
            continue
        old = before.get(i.id)
        new = (i.endpoint, i.unloading, i.stop_posted, tests.get(i.id))
        if old is None or (old.endpoint, old.unload, old.leaving, old.test) != new:
            old = Target(
                i.endpoint,
                warmup,
                unload=i.unloading,
                leaving=i.stop_posted,
                keys=keys(launch, i.id) if old is None else old.keys,
                fresh=not i.adopted,
                test=tests.get(i.id),
            )
        aimed[i.id] = old
    return aimed
