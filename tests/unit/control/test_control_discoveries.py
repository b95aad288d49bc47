"""Discoveries of a spec: their names, who follows from afar, and whether they can be reached."""

import threading
from collections.abc import Callable

import pytest
from desk import Desk

from tarn.clock import SystemClock
from tarn.control import discoveries
from tarn.control.discoveries import named, reach
from tarn.control.loop import ControlResult
from tarn.domain import Applied, Epoch
from tarn.domain.spec import DiscoverySpec
from tarn.errors import DiscoveryError, Superseded
from tarn.testing.fakes import FakeDiscovery
from tarn.testing.wait import until


class Asked(FakeDiscovery):
    """Does *act* when it is to be reached."""

    def __init__(self, act: Callable[[float], None] = lambda _within_s: None) -> None:
        super().__init__()
        self.act = act

    def reach(self, within_s: float) -> None:
        if within_s:
            self.act(within_s)


def asked(stop: threading.Event | None = None, /, *, within_s: float = 5.0, **who: Asked) -> None:
    reach(who, SystemClock(), stop or threading.Event(), within_s)


def test_the_second_of_a_kind_has_a_number() -> None:
    """And agents elsewhere give their word by their own names."""
    lbs = DiscoverySpec("haproxy", {"followers": ["lb1", "lb2"]})
    some = tuple(named((DiscoverySpec("zookeeper"), lbs, DiscoverySpec("zookeeper"))))
    assert [one.name for one in some] == ["zookeeper", "haproxy", "zookeeper-2"]
    assert [one.words for one in some] == [("zookeeper",), ("lb1", "lb2"), ("zookeeper-2",)]
    assert [bool(one.followers) for one in some] == [False, True, False]


def test_all_are_asked_at_once() -> None:
    """Each waits here until the other was asked."""
    both = threading.Barrier(2, timeout=5)
    given: list[float] = []

    def act(within_s: float) -> None:
        given.append(within_s)
        both.wait()

    asked(a=Asked(act), b=Asked(act), within_s=4.0)
    assert given == [4.0, 4.0]
    asked()


def test_one_that_cannot_be_reached_is_named_with_its_words() -> None:
    """At once, though another one is still at it."""
    going = threading.Event()

    def fails(_within_s: float) -> None:
        found = "no server of zk1:2181,zk2:2181 answers"
        raise DiscoveryError("zookeeper", found, code="TARN-3301")

    with pytest.raises(DiscoveryError, match=r"discovery b: .*zk1:2181,zk2:2181 answers") as said:
        asked(a=Asked(lambda _: going.wait(10) and None), b=Asked(fails))
    assert "required: false" in said.value.next_step
    assert said.value.code == "TARN-3301"
    going.set()


def test_what_foreign_code_raises_is_an_answer_too() -> None:
    """With the name of the exception."""

    def fails(_within_s: float) -> None:
        raise ValueError("odd")

    with pytest.raises(DiscoveryError, match="ValueError: odd"):
        asked(a=Asked(fails))


def test_one_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told its deadline, and did not keep it."""
    monkeypatch.setattr(discoveries, "GRACE_S", 0.1)
    going = threading.Event()
    with pytest.raises(DiscoveryError, match=r"no answer in 0\.1 s"):
        asked(a=Asked(lambda _: going.wait(10) and None), within_s=0.1)
    going.set()


def test_a_start_that_is_given_up_does_not_wait() -> None:
    """SIGTERM counts while an ensemble is away, too."""
    stop, going = threading.Event(), threading.Event()
    stop.set()
    with pytest.raises(DiscoveryError, match="the start was given up"):
        asked(stop, a=Asked(lambda _: going.wait(10) and None), within_s=30.0)
    going.set()


class Mute(FakeDiscovery):
    """Publishes, and cannot say so."""

    def applied(self) -> Applied | None:
        raise OSError("no such node")


class Stuck(FakeDiscovery):
    """Never comes back from its first view."""

    going = threading.Event()

    def sync(self, view: object) -> None:
        self.going.wait(60)


def test_neither_one_that_fails_nor_one_that_hangs_holds_up_the_others() -> None:
    """Two of a kind are two followers; each is shown with its revision and its own words."""
    broken, mute, stuck, well = FakeDiscovery(name="zookeeper"), Mute(), Stuck(), FakeDiscovery()
    broken.broken = "no quorum"
    every = {"zookeeper": broken, "zookeeper-2": well, "mute": mute, "stuck": stuck}
    with Desk(discoveries=every) as desk:
        desk.reach(2)
        until(lambda: len(well.registry.members) == len(mute.registry.members) == 2)
        desk.tick(0.5)
        until(
            lambda: {"mute", "zookeeper"} <= {f.name for f in desk.tick(0.1).followers if f.error}
        )
        shown = {f.name: f for f in desk.now.followers}
        assert (shown["zookeeper-2"].revision, shown["zookeeper-2"].error) == (
            desk.now.view.revision,
            "",
        )
        assert (shown["zookeeper"].revision, shown["zookeeper"].age_s) == (-1, None)
        assert "no quorum" in shown["zookeeper"].error
        assert shown["mute"].error == "OSError: no such node"
        assert shown["stuck"].revision == -1
        assert "discovery mute does not say what it applied" in desk.now.faults
        assert "discovery zookeeper failed and is tried again" in desk.now.faults
        rows = {i.followers for i in desk.now.issues if i.code == "TARN-1303"}
        assert rows == {("mute",), ("zookeeper",)}
        desk.tick(10.0)
        assert any(f.startswith("discovery stuck has been at work") for f in desk.tick(1.0).faults)
        assert desk.now.event_totals.get("TARN-1013", 0) == 0
        stuck.going.set()


def test_the_word_of_a_discovery_comes_under_the_specs_name() -> None:
    """Whatever it calls itself."""
    with Desk(discoveries={"zookeeper-2": FakeDiscovery(name="zookeeper")}) as desk:
        desk.reach(2)
        until(lambda: "zookeeper-2" in {f.name for f in desk.tick(0.1).followers})
        assert "zookeeper" not in {f.name for f in desk.now.followers}
        assert desk.now.view.epoch == Epoch(1, 1)


class Overtaken(FakeDiscovery):
    """Its own thread found a newer master; no new view will tell."""

    def applied(self) -> Applied | None:
        raise Superseded("1-1", "1-2")


def test_a_discovery_that_found_a_newer_master_ends_this_one() -> None:
    """Also while the view does not move: nothing is posted that could be refused."""
    with Desk(discoveries={"zookeeper": Overtaken()}) as desk:
        until(lambda: desk.control.wait(0.1), 5.0)
        assert desk.control.outcome is ControlResult.SUPERSEDED
