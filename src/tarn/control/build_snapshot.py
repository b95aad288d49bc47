"""Make the snapshot that readers see. Pure; what did not change is not rendered again."""

from collections.abc import Mapping

import attrs

from tarn.control.render import render_instances
from tarn.control.signal_status import SignalStatus
from tarn.control.snapshot import Follower, Snapshot
from tarn.domain import ClusterState, DiscoveryView, Epoch, Reading, Sample, Unknown, Wish
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.model_totals import ModelTotalsHistory
from tarn.domain.outlook import Prospect, holds, prospect
from tarn.domain.sizing import fresh_demand
from tarn.domain.standing import standing
from tarn.domain.tally import Tally

__all__ = ["SnapshotInputs", "blank_snapshot", "build_snapshot"]


@attrs.frozen
class SnapshotInputs:
    """What a snapshot shows that is not the fleet itself."""

    now_s: float
    at: float
    stale: bool = False
    readings: Mapping[str, Reading] = attrs.field(factory=dict, hash=False)
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    troubles: tuple[tuple[str, str, str], ...] = ()
    failing: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Discovery to why it could not publish the newest view."""
    wish: Sample[Wish] = attrs.field(default=Unknown("the policy has not answered yet"))
    signals: tuple[SignalStatus, ...] = ()
    tally: Tally = attrs.field(factory=lambda: Tally(0.0))
    models: ModelTotalsHistory = attrs.field(factory=ModelTotalsHistory)


def build_snapshot(
    fleet: Fleet, rules: Rules, around: SnapshotInputs, old: Snapshot | None
) -> Snapshot:
    """Return the snapshot of *fleet*; bytes that cannot have changed are taken from *old*."""
    state, reason = standing(fleet, rules, around.now_s)
    snapshot = Snapshot(
        at=around.at,
        name=fleet.name,
        runtime=rules.spec.runtime.use,
        epoch=fleet.epoch,
        state=state,
        reason=reason,
        spec_revision=fleet.spec_revision,
        desired=fleet.desired,
        limits=fleet.limits(rules),
        manual=fleet.manual,
        pause=fleet.pause,
        instances=fleet.instances,
        ended=fleet.ended,
        view=fleet.view,
        followers=_followers(fleet, rules, around),
        events=fleet.events,
        decisions=fleet.decisions,
        faults=around.faults,
        warnings=around.warnings,
        stale=around.stale,
        readings=around.readings,
        event_totals=fleet.event_totals,
        troubles=around.troubles,
        holds=holds(fleet, rules, around.wish, around.now_s, around.at),
        signals=around.signals,
        tally=around.tally,
        models=around.models,
        now_s=around.now_s,
        prospects=_prospects(fleet, rules),
        demand=fresh_demand(fleet, around.now_s),
        control=fleet.control,
    )
    if old is None or old.view is not fleet.view:
        text = render_instances(snapshot)
    else:
        text = old.instances_text
    return attrs.evolve(snapshot, instances_text=text)


def _prospects(fleet: Fleet, rules: Rules) -> dict[str, Prospect]:
    found = ((i.id, prospect(i, fleet, rules)) for i in fleet.instances)
    return {id_: each for id_, each in found if each is not None}


def _followers(fleet: Fleet, rules: Rules, around: SnapshotInputs) -> tuple[Follower, ...]:
    names = sorted({*fleet.followers, *rules.required, *rules.followers})
    return tuple(_follower(name, fleet, rules, around) for name in names)


def _follower(name: str, fleet: Fleet, rules: Rules, around: SnapshotInputs) -> Follower:
    known = fleet.followers.get(name)
    required = name in rules.required
    error = around.failing.get(name, "")
    if known is None:
        return Follower(name, required, -1, None, error=error)
    age_s = None if known.heard_s is None else around.now_s - known.heard_s
    return Follower(
        name,
        required,
        known.revision,
        age_s,
        known.lost,
        known.error or error,
        behind_s=max(0.0, around.now_s - around.tally.behind.get(name, around.now_s)),
        sessions=sum(known.sessions.values()) if known.sessions else None,
    )


def blank_snapshot(epoch: Epoch, rules: Rules, at: float) -> Snapshot:
    """Return what is shown before the first tick: nothing is known, nothing is ready.

    Its state is none in which a cluster could be taken for one that serves, and its view removes
    nothing: who follows may ask before this master has looked at what an earlier one left.
    """
    empty = Fleet(rules.spec.name, epoch, 0, view=DiscoveryView(epoch, 0, complete=False))
    shown = build_snapshot(empty, rules, SnapshotInputs(0.0, at, stale=True), None)
    return attrs.evolve(shown, state=ClusterState.SUBMITTED, reason="the master takes up its work")
