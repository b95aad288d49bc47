"""10: the Java TARN asked for another container every 15 s for ever, whatever was wrong with it."""

from unit.control.desk import Desk, spec

from tarn.domain import ExitStatus
from tarn.domain.spec import ReplicasSpec

TYPO = ExitStatus("no such image: nvcr.io/nvidia/tritonsrver:24.09-py3", 125)


def test_five_fast_exits_wait_longer_each_and_then_the_cluster_has_failed() -> None:
    """One is asked for after 1, 2, 4 and 8 s more; then none, and the status tells why."""
    desk = Desk(spec(replicas=ReplicasSpec(1, 4, 1)))
    desk.runtime.world.fail("aaaaaaaaaaaa", TYPO)
    began_s = desk.clock.now_s()
    asked_s: dict[int, float] = {}
    with desk:
        for _ in range(160):
            now = desk.tick(0.25)
            asked_s.setdefault(len(desk.runtime.world.launched), desk.clock.now_s() - began_s)
    asked_s.pop(0, None)  # the first tick may end before the runtime has heard of its wish
    assert sorted(asked_s) == [1, 2, 3, 4, 5]
    gaps_s = [asked_s[n + 1] - asked_s[n] for n in range(1, 5)]
    assert [round(gap_s) for gap_s in gaps_s] == [1, 2, 4, 8]
    assert now.state == "failed"
    assert "5 instances in a row failed quickly" in now.reason
    assert TYPO.reason in now.reason
