"""What clients say of instances that answer them badly: kept for a while, and bounded. Pure.

A hint and no proof: whoever may follow the fleet may say it. It marks at most who is to be tried.
"""

from collections import Counter
from collections.abc import Mapping

import attrs

from tarn.domain.command import Demand
from tarn.domain.fleet import Fleet, ToldFailures

__all__ = ["HOLDS_S", "MOST_TOLD", "hear_failures", "told_failures"]

HOLDS_S = 30.0
"""For so long a word counts: a client tries an instance again each five seconds, and says so."""
MOST_TOLD = 1000
"""Words that are kept; the newest."""


def hear_failures(fleet: Fleet, demand: Demand, now_s: float) -> Fleet:
    """Return *fleet* with what *demand* says of its instances; others are passed over."""
    known = {instance.id for instance in fleet.instances}
    new = tuple(
        ToldFailures(demand.source, id_, count, now_s)
        for id_, count in demand.failures
        if count and id_ in known
    )
    if not new:
        return fleet
    said = {(one.source, one.instance_id) for one in new}
    old = (
        one
        for one in fleet.told_failures
        if now_s - one.heard_s < HOLDS_S and (one.source, one.instance_id) not in said
    )
    return attrs.evolve(fleet, told_failures=(*old, *new)[-MOST_TOLD:])


def told_failures(fleet: Fleet, now_s: float) -> Mapping[str, int]:
    """Return instance id to the bad answers that clients told of it lately."""
    counts: Counter[str] = Counter()
    for one in fleet.told_failures:
        if now_s - one.heard_s < HOLDS_S:
            counts[one.instance_id] += one.count
    return counts
