"""Waiting until a whole fleet has had a control call."""

from typing import Any

import pytest

from tarn.errors import RefusedError, TarnError, TimedOutError
from tarn.follow.everywhere import AWAY_S, load, wait_everywhere
from tarn.testing.fakes import FakeClock

ROW = {"call": 1, "kind": "load", "model": "second", "has": 1, "of": 2}


def instance(number: int, state: str = "ready", *, in_view: bool = True) -> dict[str, Any]:
    return {"id": f"w-000{number}", "state": state, "in_view": in_view, "why": "no weights"}


def row(*not_yet: dict[str, Any], refuses: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"calls": [{**ROW, "not_yet": list(not_yet), "refuses": list(refuses)}], "over": []}


def over(**more: Any) -> dict[str, Any]:
    plain = {"call": 1, "kind": "load", "model": "second", "refuses": [], "overtaken_by": None}
    return {"calls": [], "over": [{**plain, **more}]}


class Master:
    """Answers one after the other; the last one stays."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers, self.clock, self.asked = list(answers), FakeClock(), 0

    def look(self, _number: int) -> dict[str, Any]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def wait(self, limit_s: float = 60.0) -> float:
        """Wait for call 1; return how long that took."""
        began_s = self.clock.now_s()
        wait_everywhere(1, self.look, self.clock, limit_s, self.clock.advance)
        return self.clock.now_s() - began_s


def test_returns_once_everybody_in_the_view_has_it() -> None:
    """Who starts has it before it serves."""
    master = Master(row(instance(1), instance(2)), row(instance(2)), row(instance(3, "starting")))
    master.wait()
    assert master.asked == 3


def test_who_is_out_of_the_view_is_waited_for_a_little_longer() -> None:
    """Most come back at once; one that does not has it before it serves again."""
    away = row(instance(1, in_view=False))
    assert Master(row(instance(1)), away, row()).wait() < 1.0
    assert AWAY_S <= Master(away).wait() < AWAY_S + 3.0


def error_of(master: Master, kind: type[TarnError]) -> TarnError:
    with pytest.raises(kind) as caught:
        master.wait()
    return caught.value


def test_who_has_not_had_it_in_time_is_named_and_why() -> None:
    """The master goes on, and the error says where to look."""
    error = error_of(Master(row(instance(1))), TimedOutError)
    assert "w-0001: no weights" in str(error)


def test_who_refuses_is_named_with_tritons_words() -> None:
    """After everybody else has answered."""
    master = Master(row(instance(1)), row(refuses=(instance(2),)))
    error = error_of(master, RefusedError)
    assert "1 of 2 instances refuse the load of second: w-0002: no weights" in str(error)
    error = error_of(Master(over(refuses=[instance(1)])), RefusedError)
    assert "no instance could do the load of second" in str(error)
    assert error.code == "TARN-1145"


def test_a_call_that_another_overtook_is_told_or_followed() -> None:
    """A newer load of the same model brings the same; an unload does not."""
    newer = row()
    newer["calls"][0]["call"] = 2
    newer["over"] = over(overtaken_by=2)["over"]
    Master(newer).wait()
    newer["calls"][0]["kind"] = "unload"
    assert "overtaken by call 2, the unload of second" in str(error_of(Master(newer), RefusedError))
    Master(over()).wait()  # done, and not needed any more
    assert "restarted" in str(error_of(Master({"calls": [], "over": []}), RefusedError))


def test_a_load_that_one_with_other_parameters_overtook_is_told() -> None:
    """Two admins at once: the first one's configuration is nowhere any more."""
    newer = row()
    newer["calls"][0] |= {"call": 2, "digest": "b"}
    newer["over"] = over(overtaken_by=2, digest="a")["over"]
    assert "with other parameters" in str(error_of(Master(newer), RefusedError))
    newer["over"][0]["digest"] = "b"
    Master(newer).wait()
    settings = {"kind": "trace", "model": ""}  # they are added up
    newer["calls"][0] |= settings
    newer["over"][0] |= {**settings, "digest": "a"}
    Master(newer).wait()


def test_what_is_larger_than_a_master_keeps_is_not_sent() -> None:
    """A configuration of 1 MiB: the master would close the connection meanwhile."""
    with pytest.raises(RefusedError, match="At most 196608 bytes") as caught:
        load("second", {"config": "x" * (1 << 20)})
    assert caught.value.code == "TARN-1165"
    assert "model repository" in str(caught.value)
    load("second", {"config": "x" * 100_000})


def test_each_call_has_a_name_of_its_own() -> None:
    """So that it may be sent twice, and two loads are two."""
    assert load("a").request != load("a").request
