"""Whether the instances of a fleet serve different things, and which. Pure.

A repository may change under a running fleet: an instance serves what was there when it started.
"""

from collections.abc import Iterable, Mapping

import attrs

from tarn.domain.fleet import Fleet
from tarn.domain.instance import Instance

__all__ = ["MIXED_AFTER_S", "Mixture", "mixture", "watch_mixture"]

MIXED_AFTER_S = 10.0
"""A load that a person asked for reaches one instance after the other: shorter is no news."""
NAMED = 3
"""Models, and instances of each, that are named."""


@attrs.frozen
class Mixture:
    """How instances in the view differ."""

    said: str
    """In words."""
    missing: bool
    """Some do not serve a model at all: requests for it fail there."""


def watch_mixture(fleet: Fleet, now_s: float) -> Fleet:
    """Return *fleet* with the moment noted since which its instances serve different things."""
    if _is_mixed(fleet) == (fleet.mixed_s is not None):
        return fleet
    return attrs.evolve(fleet, mixed_s=now_s if fleet.mixed_s is None else None)


def mixture(fleet: Fleet, now_s: float) -> Mixture | None:
    """Return how the instances differ; None where they do not, or not for long."""
    if fleet.mixed_s is None or now_s - fleet.mixed_s < MIXED_AFTER_S:
        return None
    serving = [i for i in fleet.instances if i.in_view]
    differing = dict(_differing(serving))
    if not differing:
        return None
    told = [_told(model, by) for model, by in sorted(differing.items())[:NAMED]]
    more = len(differing) - len(told)
    said = "; ".join(told) + (f"; and {more} more models" if more else "")
    return Mixture(said, any(() in by for by in differing.values()))


def _is_mixed(fleet: Fleet) -> bool:
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
    """Yield each model that is not the same everywhere: READY versions to who serves them."""
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
