"""Where the scraper looks, for a fleet. Pure."""

from collections.abc import Iterable, Mapping

from tarn.control.scrape import Target
from tarn.control.warmup import WarmupRequest
from tarn.domain import Instance, Launch, State
from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.triton.restricted import keys

__all__ = ["aim"]


def aim(
    instances: Iterable[Instance],
    before: Mapping[str, Target],
    launch: Launch,
    warmup: tuple[WarmupRequest, ...],
    control: WantedCalls = NO_CALLS,
) -> dict[str, Target]:
    """Return what to scrape, by instance id; targets that did not change are the same objects."""
    aimed: dict[str, Target] = {}
    for i in instances:
        if i.endpoint is None:
            continue
        old = before.get(i.id)
        calls = control if i.state in (State.STARTING, State.READY) else NO_CALLS
        new = (i.endpoint, i.unloading, i.stop_posted)
        same = old is not None and (old.endpoint, old.unload, old.leaving) == new
        if old is None or not same or old.calls is not calls:
            old = Target(
                i.endpoint,
                warmup,
                unload=i.unloading,
                leaving=i.stop_posted,
                keys=keys(launch, i.id) if old is None else old.keys,
                fresh=not i.adopted,
                calls=calls,
                had=i.calls,
                load_within_s=launch.instance.start_timeout_s,
            )
        aimed[i.id] = old
    return aimed
