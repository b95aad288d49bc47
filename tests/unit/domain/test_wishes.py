"""What the runtime is asked for."""

import pytest
from given import asked, draining, fleet, name, ready
from world import launch_of
from world import rules as world_rules

from tarn.domain import RuntimeWish
from tarn.domain.tick import runtime_wish

LAUNCH = launch_of(world_rules())


def wants(wish: RuntimeWish) -> set[str]:
    return {instance_id for instance_id, _ in wish.want}


def test_everything_is_wanted_until_its_stop_is_posted() -> None:
    """A drain still serves; nothing is in both sets."""
    some = fleet(asked(1), ready(2), draining(3), draining(4, stop_posted=True), wish_revision=9)
    wish = runtime_wish(some, (LAUNCH,), some.next_number)
    assert wants(wish) == {name(1), name(2), name(3)}
    assert wish.stop == {name(4)}
    assert (wish.epoch, wish.revision) == (some.epoch, 9)
    assert wish.launch("hash") is LAUNCH


def test_a_runtime_is_told_who_was_seen_gone() -> None:
    """So that it looks for the reason; it knows the end of what it stops itself."""
    some = fleet(ready(1), ready(2, gone=True), draining(3, stop_posted=True, gone=True))
    assert runtime_wish(some, (LAUNCH,), some.next_number).gone == {name(2)}


@pytest.mark.parametrize(("below", "wanted"), [(5, {1, 4}), (4, {1}), (1, set())])
def test_an_id_is_held_back_until_its_number_is_safe(below: int, wanted: set[int]) -> None:
    """A master that dies now must not let the next one use it again."""
    some = fleet(asked(1), asked(4))
    assert wants(runtime_wish(some, (LAUNCH,), below)) == {name(n) for n in wanted}
