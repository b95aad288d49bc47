"""The control thread takes another edition: its rules, its policy, its launches; and goes back."""

import attrs
from desk import Desk, edition, spec

from tarn.domain import BeginUpdate, ClusterSpec, Rollback, Wish
from tarn.domain.fleet import Rules
from tarn.domain.spec import ReplicasSpec, UpdateSpec
from tarn.testing.wait import until

NEW = "bbbbbbbbbbbb"


class Second:
    """Another policy, which counts its questions."""

    def __init__(self) -> None:
        self.asked = 0

    def wanted(self, _fleet: object) -> Wish:
        self.asked += 1
        return Wish(None, "no opinion")


def another(desk: Desk, spec_hash: str, policy: object = None, **parts: object):
    """Return an edition that the desk has, with some other *parts* of the spec."""
    given: ClusterSpec = attrs.evolve(desk.rules.spec, **parts)
    made = edition(Rules(given, spec_hash), policy or desk.policy, digest=f"{spec_hash}-2")
    return desk.editions.add(made)


def quick(**parts: object) -> ClusterSpec:
    return spec(update=UpdateSpec(watch_s=0.0), **parts)


def test_a_live_change_takes_the_rules_and_the_policy_at_once() -> None:
    """And replaces no instance."""
    second = Second()
    with Desk(quick()) as desk:
        desk.reach(2)
        before = {i.id for i in desk.now.instances}
        wider = another(desk, desk.rules.spec_hash, second, replicas=ReplicasSpec(min=0, max=9))
        done = desk.ask(BeginUpdate(wider.files, ("replicas.max: 8 -> 9",)))
        assert "no instance has to be replaced" in done.message
        desk.tick(1.0)
        until(lambda: second.asked, 10, "the new policy")
        assert desk.tick(1.0).limits.max == 9
        assert {i.id for i in desk.now.instances} == before
        assert desk.now.updated is not None


def test_a_rolling_one_launches_the_new_edition_until_all_have_it() -> None:
    """Each instance is launched as its own edition says; the state has both meanwhile."""
    with Desk(quick()) as desk:
        desk.reach(2)
        rolled = another(desk, NEW)
        desk.ask(BeginUpdate(rolled.files, ("models.repository: a -> b",)))
        until(lambda: desk.tick(1.0).update is None, 30, "the end of the update")
        assert {i.spec_hash for i in desk.now.instances} == {NEW}
        assert desk.now.spec_hash == NEW
        assert "TARN-1182" in desk.codes()
        desk.ask(Rollback())
        until(lambda: desk.tick(1.0).update is None, 30, "the way back")
        assert {i.spec_hash for i in desk.now.instances} == {desk.rules.spec_hash}
