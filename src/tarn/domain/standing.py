"""Decide the state of a cluster, and the reason for it.

``docs/reference/states.md`` explains the states to users; they are decided only here.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.reading import first_line, is_broken
from tarn.domain.renewal import lacks
from tarn.domain.sizing import fresh_demand
from tarn.domain.state import ClusterState

__all__ = ["MIXED_AFTER_S", "Mixture", "Standing", "mixture", "standing", "watch_mixture"]

MIXED_AFTER_S = 10.0
"""A load that a person asked for reaches one instance after the other: shorter is no news."""
# Models, and instances of each, that are named.
NAMED = 3


@attrs.frozen
class Mixture:
    """A difference between the instances in the view."""

    said: str
    """The difference in words."""
    models: tuple[str, ...]
    """Names of the models that are not the same everywhere."""
    missing: bool
    """An instance does not serve one of the models at all, so requests for it fail there."""


def watch_mixture(fleet: Fleet, now_s: float) -> Fleet:
    """Return *fleet* with the time since which its instances differ."""
    if _is_mixed(fleet) == (fleet.mixed_s is not None):
        return fleet
    return attrs.evolve(fleet, mixed_s=now_s if fleet.mixed_s is None else None)


def mixture(fleet: Fleet, now_s: float) -> Mixture | None:
    """Return how the instances differ; None if they do not, or only for a short time."""
    if fleet.mixed_s is None or now_s - fleet.mixed_s < MIXED_AFTER_S:
        return None
    serving = [i for i in fleet.instances if i.in_view]
    differing = dict(_differing(serving))
    if not differing:
        return None
    told = [_told(model, by) for model, by in sorted(differing.items())[:NAMED]]
    more = len(differing) - len(told)
    said = "; ".join(told) + (f"; and {more} more models" if more else "")
    missing = any(() in by for by in differing.values())
    return Mixture(said, tuple(sorted(differing)), missing)


def _is_mixed(fleet: Fleet) -> bool:
    if fleet.update is not None:  # they are to differ
        return False
    first = None
    for instance in fleet.instances:
        if not instance.in_view:
            continue
        if first is None:
            first = instance.versions
        elif instance.versions is not first and instance.versions != first:
            return True
    return False


def _differing(
    serving: Iterable[Instance],
) -> Iterable[tuple[str, Mapping[tuple[str, ...], list[str]]]]:
    """Yield each model that is not the same everywhere, and READY versions to instance ids."""
    serves = {i.id: dict(i.versions) for i in serving}
    for model in {model for versions in serves.values() for model in versions}:
        by: dict[tuple[str, ...], list[str]] = {}
        for id_, versions in serves.items():
            by.setdefault(versions.get(model, ()), []).append(id_)
        if len(by) > 1:
            yield model, by


def _told(model: str, by: Mapping[tuple[str, ...], list[str]]) -> str:
    parts = []
    for versions, ids in sorted(by.items(), reverse=True):
        names = ", ".join(ids[:NAMED]) + (f" and {len(ids) - NAMED} more" if ids[NAMED:] else "")
        what = f"version {', '.join(versions)} on" if versions else "not served by"
        parts.append(f"{what} {names}")
    return f"model '{model}': {'; '.join(parts)}"


# Why, in words, and the models that this is about.
Reason = tuple[str, tuple[str, ...]]


class Standing(NamedTuple):
    """A cluster's state, and why."""

    state: ClusterState
    reason: str = ""
    """Empty when there is nothing to say."""
    models: tuple[str, ...] = ()
    """The models that the reason is about."""


def standing(fleet: Fleet, rules: Rules, now_s: float) -> Standing:
    """Return the cluster's state, and why.

    A cluster is degraded if it serves less than it did or should: fewer models, or fewer instances.
    One that grows still serves what it did, so it is ready.
    """
    ready = len(fleet.view.members)
    if fleet.ending:
        left = len(fleet.instances)
        over = ClusterState.STOPPING if left else ClusterState.STOPPED
        return Standing(over, f"{left} instances still drain or stop" if left else "")
    if fleet.halted:
        state = ClusterState.DEGRADED if ready else ClusterState.FAILED
        last = (i for i in fleet.ended if i.id == fleet.halted_by)
        return Standing(state, fleet.halted, next(map(_about, last), ()))
    if bad := _unavailable(fleet):
        return Standing(ClusterState.DEGRADED if ready else ClusterState.STARTING, *bad)
    held, mixed = _held(fleet), mixture(fleet, now_s)
    if held is None and mixed is not None and mixed.missing:
        held = mixed.said, mixed.models
    if held:
        return Standing(ClusterState.DEGRADED, *held)
    if ready < fleet.desired:
        return _short(fleet, rules, now_s, ready)
    return Standing(ClusterState.READY)


def _short(fleet: Fleet, rules: Rules, now_s: float, ready: int) -> Standing:
    short_for_s = 0.0 if fleet.short_s is None else now_s - fleet.short_s
    counted = f"{ready} of {fleet.desired} ready"
    why, models = _first_reason(fleet) or (_asked_for(fleet, now_s), ())
    if fleet.strikes and ready:
        why, models = _last_failure(fleet) or (why, models)
        return Standing(ClusterState.DEGRADED, counted + why, models)
    reason = counted + why
    if ready < fleet.served and not fleet.unprobed:
        return Standing(ClusterState.DEGRADED, reason, models)
    if ready and short_for_s >= rules.spec.instance.start_timeout_s:
        return Standing(ClusterState.DEGRADED, f"{reason}, for {short_for_s:.0f} s", models)
    return Standing(ClusterState.READY if ready else ClusterState.STARTING, reason, models)


def _held(fleet: Fleet) -> Reason | None:
    """Say why an instance that is to drain is kept although no replacement is on its way."""
    retiring = [i for i in fleet.of(InstanceState.READY) if i.retiring is not None]
    if not retiring:
        return None
    staying = [
        i for i in fleet.instances if i.retiring is None and i.state is not InstanceState.DRAINING
    ]
    kept = f"{retiring[0].id} is kept although its drain was requested"
    if fleet.strikes:
        why, models = _last_failure(fleet) or ("", ())
        return kept + why, models
    if sum(i.in_view for i in staying) < fleet.desired:
        return None
    why = lacks(retiring[0], fleet.instances, fleet.desired)
    return (f"{kept}: {why}", retiring[0].model_names) if why else None


def _last_failure(fleet: Fleet) -> Reason | None:
    failed = [i for i in fleet.ended if i.state is InstanceState.FAILED]
    if not failed:
        return None
    return f"; {failed[-1].id} failed: {first_line(failed[-1].reason)}", _about(failed[-1])


def _first_reason(fleet: Fleet) -> Reason | None:
    for instance in fleet.instances:
        why = instance.out_for or instance.reason
        if not instance.in_view and why and instance.state is not InstanceState.DRAINING:
            return f"; {instance.id}: {why}", _about(instance)
    return None


def _about(instance: Instance) -> tuple[str, ...]:
    """Return the models that the instance's reason or symptom is about."""
    unwell = instance.unwell.model if instance.unwell is not None else ""
    return tuple(sorted({instance.blamed, unwell} - {""}))


def _asked_for(fleet: Fleet, now_s: float) -> str:
    """Say which requests wait, if an instance is started for them."""
    if fresh_demand(fleet, now_s) is None:
        return ""  # the last decision may be days old, and the cause another one
    last = fleet.decisions[-1] if fleet.decisions else None
    return f"; {last.reason}" if last is not None and last.by == "demand" else ""


def _unavailable(fleet: Fleet) -> Reason | None:
    for instance in fleet.instances:
        if instance.state not in (InstanceState.READY, InstanceState.STARTING):
            continue
        for name, state, reason in instance.models:
            if is_broken(state, reason):
                said = f"model {name} is unavailable on {instance.id}: {first_line(reason)}"
                return said, (name,)
    return None
