"""What the strategies draw is legal."""

from tarn.domain import ALIVE, DiscoveryView, Fact, FleetView, InstanceState, Running, StubEnded
from tarn.read.snapshot import Snapshot
from tarn.testing import strategies


@strategies.for_any(examples=100, snapshot=strategies.snapshots())
def test_a_snapshot_agrees_with_itself(snapshot: Snapshot):
    """Its view holds the instances in the view, in the order of their ids."""
    shown = [i.id for i in snapshot.instances if i.in_view]
    assert [member.instance_id for member in snapshot.view.members] == shown == sorted(shown)
    assert snapshot.ready == len(shown)
    assert all(i.state in ALIVE for i in snapshot.instances)
    assert not any(i.state in ALIVE for i in snapshot.ended)


@strategies.for_any(examples=100, fleet=strategies.fleet_views(("a", "b")))
def test_a_fleet_has_unique_ids_and_ordered_histories(fleet: FleetView):
    """Oldest first, and nothing from the future."""
    ids = [i.id for i in fleet.instances]
    assert len(set(ids)) == len(ids)
    assert set(fleet.signals) == {"a", "b"}
    for history in fleet.signals.values():
        times = [at_s for at_s, _ in history]
        assert times == sorted(times)
        assert all(at_s <= fleet.now_s for at_s in times)
    assert fleet.limits.min <= fleet.limits.max


@strategies.for_any(examples=100, facts=strategies.facts())
def test_facts_are_at_most_one_for_an_id(facts: tuple[Fact, ...]):
    """As a runtime promises; that of a stub is one more, of one that runs."""
    ids = [fact.instance_id for fact in facts if not isinstance(fact, StubEnded)]
    stubs = [fact.instance_id for fact in facts if isinstance(fact, StubEnded)]
    assert len(set(ids)) == len(ids)
    assert len(set(stubs)) == len(stubs)
    assert set(stubs) <= {fact.instance_id for fact in facts if isinstance(fact, Running)}


@strategies.for_any(examples=100, view=strategies.discovery_views())
def test_a_view_is_sorted_by_unique_ids(view: DiscoveryView):
    """As a master promises."""
    ids = [member.instance_id for member in view.members]
    assert ids == sorted(set(ids))


@strategies.for_any(examples=100, instance=strategies.instances(frozenset({InstanceState.READY})))
def test_an_instance_is_drawn_in_the_state_that_was_asked_for(instance):
    """A ready one has an address, and serves."""
    assert instance.state is InstanceState.READY
    assert instance.endpoint is not None
    assert instance.serving
