"""The door to a real ResourceManager: what is asked comes, once, and where it may be."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from house import until
from servers.yarn import java
from unmanaged import Application

from tarn.errors import Superseded
from tarn_plugins.cli.sandbox.sandbox import Sandbox
from tarn_plugins.runtime.yarn.messages import Ask, ContainerLaunch, Shape

pytestmark = pytest.mark.yarn

NODES = 3
APART = Shape(256, 1, tag="tarn-test-apart", scope="all")


@pytest.fixture(autouse=True)
def jvm(hadoop: Sandbox) -> None:
    java(hadoop.environ)


@contextlib.contextmanager
def two(mode: str = "scheduling") -> Iterator[tuple[Application, Application]]:
    with Application(mode) as one, Application(mode) as other:
        yield one, other


def asks(shape: Shape, *numbers: int) -> tuple[Ask, ...]:
    return tuple(Ask(number, shape) for number in numbers)


def test_registration_says_what_the_largest_container_is() -> None:
    """Every resource type by its name, and how many nodes there are."""
    with Application() as app:
        assert app.registered.recovered == ()
        assert app.registered.maximum["memory-mb"] >= 1024
        assert app.registered.maximum["vcores"] >= 1
        assert "yarn.io/gpu" in app.registered.maximum
        app.beat(lambda: app.answer.nodes == NODES)
        assert app.answer.free_mib is not None


def test_two_applications_never_share_a_node() -> None:
    """Scope all: the fourth on three nodes waits until one is free, whoever frees it."""
    with two() as (one, other):
        one.say(asks=asks(APART, 1, 2))
        one.beat(lambda: len(one.held()) == 2)
        other.say(asks=asks(APART, 1, 2))
        other.beat(lambda: len(other.held()) == 1)
        other.rest()
        assert len({*one.held().values(), *other.held().values()}) == 3
        freed = one.held()[1]
        one.say(releases=(one.of(1).container_id,))
        other.beat(lambda: len(other.held()) == 2)
        assert freed in other.held().values()
        assert one.exit_code(1) == -100


def test_scope_cluster_keeps_only_our_own_apart() -> None:
    """Another application may use the same nodes; a fourth of ours may not."""
    shape = Shape(256, 1, tag="tarn-test-own", scope="cluster")
    with two() as (one, other):
        for app in (one, other):
            app.say(asks=asks(shape, 1, 2, 3, 4))
        for app in (one, other):
            app.beat(lambda app=app: len(app.held()) == NODES)
            app.rest(1)
            assert len(set(app.held().values())) == NODES


def test_no_scope_shares_nodes() -> None:
    """More instances than nodes, and each number once."""
    with Application() as app:
        app.say(asks=asks(Shape(256, 1), *range(1, 6)))
        app.beat(lambda: len(app.held()) == 5)
        app.rest(1)
        assert sorted(each.number for each in app.granted) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("shape", [APART, Shape(256, 1)], ids=["apart", "anywhere"])
@pytest.mark.parametrize("mode", ["scheduling", "plain"])
def test_what_is_cancelled_does_not_come(mode: str, shape: Shape) -> None:
    """Also when it was cancelled in the same breath, and twice; others are not touched."""
    with Application(mode) as app:
        huge = Shape(8192, 16, tag="tarn-test-huge", scope=shape.scope)
        waiting = asks(huge, 1, 2, 3, 4)
        app.say(asks=waiting)
        app.beat(lambda: len(app.held()) == NODES)
        left = next(ask for ask in waiting if ask.number not in app.held())
        app.say(cancels=(left,))
        app.say(cancels=(left,))
        app.say(asks=asks(shape, 9), cancels=asks(shape, 9))
        app.say(releases=tuple(each.container_id for each in app.granted))
        app.rest(2)
        assert app.held() == {}
        assert len(app.granted) == NODES
        # this client is still good
        app.say(asks=asks(shape, 10))
        app.beat(lambda: list(app.held()) == [10])


def test_asking_twice_is_asking_once() -> None:
    """The number is absolute; and asks with and without a scope come in one heartbeat."""
    with Application() as app:
        for _ in range(3):
            app.say(asks=(*asks(APART, 1), *asks(Shape(256, 1), 2)))
        app.beat(lambda: len(app.held()) == 2)
        app.rest(1)
        assert len(app.granted) == 2


def test_a_number_with_another_shape_is_rejected_and_harms_nothing() -> None:
    """YARN would refuse every later heartbeat of this master."""
    with Application() as app:
        app.say(asks=asks(APART, 1))
        app.beat(lambda: 1 in app.held())
        app.say(releases=(app.of(1).container_id,))
        app.beat(lambda: app.held() == {})
        answer = app.say(asks=asks(Shape(512, 1, tag=APART.tag, scope="all"), 1))
        assert [each.number for each in answer.rejected] == [1]
        assert "another size" in answer.rejected[0].reason
        app.say(asks=asks(APART, 2))
        app.beat(lambda: 2 in app.held())


def test_an_unknown_resource_type_is_rejected_in_words() -> None:
    """It never reaches the RM; the others of the same heartbeat do."""
    with Application() as app:
        odd = Shape(256, 1, accelerators=(("acme.com/tpu", 1),))
        app.say(asks=(*asks(odd, 1), *asks(Shape(256, 1), 2)))
        app.beat(lambda: 2 in app.held())
        assert [each.number for each in app.rejected] == [1]
        assert "acme.com/tpu" in app.rejected[0].reason


@pytest.mark.parametrize("mode", ["scheduling", "plain"])
def test_an_avoided_node_gets_nothing_until_it_is_welcome(mode: str) -> None:
    """The blacklist holds for every kind of request."""
    with Application(mode) as app:
        app.say(asks=asks(APART, 1))
        app.beat(lambda: 1 in app.held())
        bad = app.held()[1]
        app.say(releases=(app.of(1).container_id,), avoid=(bad,))
        app.beat(lambda: app.held() == {})
        shape = Shape(5000, 1, tag="tarn-test-big", scope="all")
        app.say(asks=asks(shape, 2, 3, 4))
        app.beat(lambda: len(app.held()) == 2)
        app.rest(2)
        assert bad not in app.held().values()
        assert len(app.held()) == 2
        app.say(welcome=(bad,))
        app.beat(lambda: len(app.held()) == NODES)
        assert bad in app.held().values()


def test_plain_mode_gives_each_ask_its_own_container() -> None:
    """No scope is kept by YARN; every grant bears the number that was asked for."""
    with Application("plain") as app:
        app.say(asks=asks(APART, 1, 2, 3, 4, 5))
        app.beat(lambda: len(app.held()) == 5)
        app.rest(2)
        assert sorted(each.number for each in app.granted) == [1, 2, 3, 4, 5]
        app.say(asks=asks(APART, 6))
        app.beat(lambda: 6 in app.held())
        app.rest(2)
        assert len(app.granted) == 6


def test_an_ended_application_supersedes_its_master() -> None:
    """No matter what the RM calls it: this master may do nothing more."""
    with Application() as app:
        app.say()
        app.yarn.killApplication(app.id)
        with pytest.raises(Superseded):
            app.rest(10)
        with pytest.raises(Superseded):
            app.say()


def test_a_service_that_ends_has_succeeded() -> None:
    """`tarn down` is a success, with its words in YARN's list."""
    with Application() as app:
        app.rm.unregister("ended by alice")
        report = until(lambda: _finished(app), 10, "the end of the application")
        assert str(report.getFinalApplicationStatus()) == "SUCCEEDED"
        assert str(report.getDiagnostics()).strip() == "ended by alice"
        app.rm.close()
        app.rm.close()


def _finished(app: Application) -> Any:
    report = app.yarn.getApplicationReport(app.id)
    return report if str(report.getYarnApplicationState()) == "FINISHED" else None


@pytest.fixture
def labelled(hadoop: Sandbox) -> Iterator[str]:
    """The one node of the partition `gpu`."""
    hadoop.label("nm3", "gpu")
    try:
        yield next(
            str(node["nodeHostName"])
            for node in hadoop.nodes()
            if str(node["nodeHostName"]).startswith("nm3.")
        )
    finally:
        hadoop.label("nm3", "")


@pytest.mark.parametrize("mode", ["scheduling", "plain"])
def test_a_label_is_kept_with_and_without_a_scope(mode: str, labelled: str) -> None:
    """Labelled asks go to the partition, the others stay out of it."""
    for scope in ("none", "cluster", "all"):
        inside = Shape(256, 1, tag=f"tarn-test-{scope}", scope=scope, node_label="gpu")
        outside = Shape(256, 1, tag=f"tarn-test-{scope}", scope=scope)
        with Application(mode) as app:
            app.say(asks=(*asks(inside, 1), *asks(outside, 2, 3)))
            app.beat(lambda app=app: len(app.held()) == 3)
            assert app.held()[1] == labelled
            assert labelled not in (app.held()[2], app.held()[3])
            app.say(asks=asks(inside, 4))
            app.rest(1.5)
            apart = mode == "scheduling" and scope != "none"
            assert (4 in app.held()) is not apart


@pytest.mark.breaks
@pytest.mark.parametrize("mode", ["scheduling", "plain"])
def test_a_restarted_rm_is_told_again_what_was_wanted(hadoop: Sandbox, mode: str) -> None:
    """One heartbeat blocks; held containers stay, the ask still comes, the cancelled one does not.

    A cancel that crossed a grant must not be told as less than nothing.
    """
    with Application(mode) as app:
        shape = Shape(5000, 1, tag="tarn-test-restart", scope="all")
        app.say(asks=asks(shape, 1, 2, 3, 4, 5))
        app.beat(lambda: len(app.held()) == NODES)
        for grant in app.granted:
            app.nodes.start(grant, ContainerLaunch("exec sleep 600", {}))
        app.rest(1)
        waiting = sorted({1, 2, 3, 4, 5} - set(app.held()))
        app.say(cancels=asks(shape, waiting[0]))
        before = app.held()
        hadoop.kill("rm")
        hadoop.start("rm")
        app.say()
        app.beat(lambda: app.answer.nodes == NODES, within_s=60)
        assert app.held() == before
        assert len(app.granted) == NODES
        first = app.granted[0]
        app.nodes.stop(first)
        app.beat(lambda: waiting[1] in app.held(), within_s=60)
        app.rest(2)
        assert set(app.held()) == {*before, waiting[1]} - {first.number}
        assert app.rejected == []
