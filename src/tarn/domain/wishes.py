"""What the runtime is asked for, read off the fleet."""

from tarn.domain.facts import Launch, RuntimeWish
from tarn.domain.fleet import Fleet

__all__ = ["runtime_wish"]


def runtime_wish(fleet: Fleet, launches: tuple[Launch, ...], below: int) -> RuntimeWish:
    """Return the whole truth about what should run, at the fleet's wish revision.

    Ids numbered *below* or higher are held back: their numbers are not yet safely saved, and an
    id must never be used twice.
    """
    some_held = below < fleet.next_number
    want = frozenset(
        (i.id, i.spec_hash)
        for i in fleet.instances
        if not i.stop_posted and not (some_held and i.number >= below)
    )
    stop = frozenset(i.id for i in fleet.instances if i.stop_posted)
    return RuntimeWish(fleet.epoch, fleet.wish_revision, want, stop, launches)
