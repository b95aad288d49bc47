"""Where the scraper looks, for a fleet. Pure."""

from collections.abc import Iterable, Mapping

from tarn.control.scrape import Target
from tarn.control.warmup import WarmupRequest
from tarn.domain import Instance, Launch
from tarn.triton.restricted import keys

__all__ = ["aim"]


def aim(
    instances: Iterable[Instance],
    before: Mapping[str, Target],
    launch: Launch,
    warmup: tuple[WarmupRequest, ...],
) -> dict[str, Target]:
    """Return what to scrape, by instance id; targets that did not change are the same objects."""
    aimed: dict[str, Target] = {}
    for i in instances:
        if i.endpoint is None:
            continue
        old = before.get(i.id)
        new = (i.endpoint, i.unloading, i.stop_posted)
        if old is None or (old.endpoint, old.unload, old.leaving) != new:
            old = Target(
                i.endpoint,
                warmup,
                unload=i.unloading,
                leaving=i.stop_posted,
                keys=keys(launch, i.id) if old is None else old.keys,
                fresh=not i.adopted,
            )
        aimed[i.id] = old
    return aimed
