"""What clients say of instances that answer them badly: kept for a while, and bounded. Pure.

It is a hint and no proof: anybody who may infer can say it of any instance. What becomes of hints
is in `tarn.domain.hint_checks`.
"""

from collections import Counter
from collections.abc import Mapping

import attrs

from tarn.domain.command import Demand
from tarn.domain.fleet import Fleet, ReportedFailures

__all__ = ["HOLDS_S", "MOST_TOLD", "MOST_TOLD_BY_ONE", "hear_failures", "told_failures"]

HOLDS_S = 30.0
"""How long a hint counts. A client tries an instance again every five seconds, and tells again."""
MOST_TOLD, MOST_TOLD_BY_ONE = 1000, 300
"""Hints that are kept, the newest; in all, and of one principal."""


def hear_failures(fleet: Fleet, demand: Demand, principal: str, now_s: float) -> Fleet:
    """Return *fleet* with what *demand* says of models that its instances have."""
    known = {(i.id, name) for i in fleet.instances for name, *_ in i.models}
    new = tuple(
        ReportedFailures(demand.source, principal, id_, model, count, now_s)
        for id_, model, count in demand.failures
        if count and (id_, model) in known
    )
    if not new:
        return fleet
    said = {(one.source, one.instance_id, one.model) for one in new}
    mine: list[ReportedFailures] = []
    others: list[ReportedFailures] = []
    for one in fleet.told_failures:
        if now_s - one.heard_s < HOLDS_S:
            if one.principal != principal:
                others.append(one)
            elif (one.source, one.instance_id, one.model) not in said:
                mine.append(one)
    mine = [*mine, *new][-MOST_TOLD_BY_ONE:]
    return attrs.evolve(fleet, told_failures=(*others, *mine)[-MOST_TOLD:])


def told_failures(fleet: Fleet, now_s: float) -> Mapping[str, int]:
    """Return instance id to the bad answers that clients told of it lately."""
    counts: Counter[str] = Counter()
    for one in fleet.told_failures:
        if now_s - one.heard_s < HOLDS_S:
            counts[one.instance_id] += one.count
    return counts
