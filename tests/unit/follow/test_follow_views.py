"""A view as it is pushed, and as it is asked for."""

import json

import attrs
import pytest
from fake_master import instance, snapshot, view

from tarn.domain import DiscoveryView, Endpoint, InstanceState
from tarn.follow.views import asked, pushed
from tarn.http.render import render_instances_json, view_json
from tarn.testing.strategies import discovery_views, for_any


@for_any(view=discovery_views())
def test_both_ways_say_the_same_view(view: DiscoveryView) -> None:
    """Member for member, weight and container included."""
    assert pushed(json.loads(json.dumps(view_json(view)))) == view
    fleet = tuple(
        instance(
            number,
            id=member.instance_id,
            container_id=member.container_id,
            endpoint=member.endpoint,
            spec_hash=member.spec_hash,
        )
        for number, member in enumerate(view.members)
    )
    shown = snapshot(*fleet, instance(9999, InstanceState.DRAINING), view=view, epoch=view.epoch)
    assert asked(json.loads(render_instances_json(shown, 1000.0))) == view


def test_an_instance_without_a_container_is_named_by_itself() -> None:
    """As the master does it for its own discoveries."""
    shown = snapshot(instance(1, container_id=None))
    said = json.loads(render_instances_json(shown, 1000.0))
    assert [m.container_id for m in asked(said).members] == ["llama-0001"]


def test_an_address_of_ipv6_keeps_its_host() -> None:
    """Ports are behind the last colon."""
    fleet = (instance(1, endpoint=Endpoint("fe80::1", 1, 2, 3)),)
    said = json.loads(render_instances_json(snapshot(*fleet, view=view(fleet)), 1000.0))
    assert asked(said).members[0].endpoint == Endpoint("fe80::1", 1, 2, 3)


@pytest.mark.parametrize("gone", ["epoch", "revision", "complete", "members"])
def test_what_no_master_says_is_an_error_and_no_view(gone: str) -> None:
    """Never an empty view, which would be obeyed."""
    said = view_json(attrs.evolve(snapshot(instance(1)).view))
    with pytest.raises((KeyError, TypeError, ValueError)):
        pushed({key: value for key, value in said.items() if key != gone})
