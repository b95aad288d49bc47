"""What the ledger asks, starts, stops and tells, one case after another."""

import itertools

import attrs
import pytest
from fake_yarn import CRASH, STAGING, FakeYarn, names
from hand_driven_yarn import GOOD, HandDrivenMaster, spec_with

from tarn.domain import Ended, Endpoint, Pending, Running, RuntimeWish
from tarn.domain.spec import ClusterSpec, ModelsSpec, ResourcesSpec, TritonSpec
from tarn.errors import Superseded
from tarn.testing.fakes import FakeClock
from tarn_plugins.runtime.yarn.master.asks import LaunchDeadline
from tarn_plugins.runtime.yarn.messages import AllocatedContainer, Completed, Shape

A, B, C, D = (f"fleet-000{i}" for i in range(1, 5))


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def yarn():
    return FakeYarn(3)


@pytest.fixture
def master(yarn, clock):
    return HandDrivenMaster(yarn, clock)


def with_gpus(master, count):
    resources = ResourcesSpec(gpus=count)
    instance = attrs.evolve(master.launch.instance, resources=resources)
    return attrs.evolve(master.launch, instance=instance)


def test_a_grant_names_its_instance(master, yarn):
    """The allocationRequestId is the instance's number, whatever the order of grants."""
    master.want(A, B)
    master.step()
    assert {ask.number for ask in yarn.exchanges[0].asks} == {1, 2}
    assert yarn.running().keys() == {A, B}
    fact = master.fact(B)
    assert isinstance(fact, Running)
    assert fact.endpoint == Endpoint(fact.node, 8000, 8001, 8002)
    assert fact.started_at == master.clock.at()


def test_nothing_is_said_twice_when_it_was_heard(master, yarn):
    """One ask for one instance, however often it is wished for."""
    yarn.hold_grants = True
    for _ in range(3):
        master.want(A)
        master.step()
    assert [len(exchange.asks) for exchange in yarn.exchanges] == [1, 0, 0]


def test_what_failed_is_said_again(master, yarn):
    """Asks, cancels and releases, until a heartbeat was answered."""
    yarn.hold_grants = True
    yarn.odds = {"answer late": 1.0}
    master.want(A, B)
    master.step()
    master.want(B, stop=(A,))
    master.step()
    yarn.odds = {}
    master.step()
    master.step()
    assert [e.number for e in yarn.exchanges[1].cancels] == [1]
    assert [e.number for e in yarn.exchanges[2].cancels] == [1]
    assert [e.number for e in yarn.exchanges[2].asks] == [2]
    assert not yarn.exchanges[3].asks
    assert not yarn.exchanges[3].cancels
    assert set(yarn.asks) == {2}


def test_a_late_grant_for_a_cancelled_ask_goes_back(master, yarn):
    """It is never started, and its instance's end is told as asked for."""
    yarn.hold_grants = True
    master.want(A)
    master.step()
    shape = yarn.asks[1].shape
    master.want(stop=(A,))
    grant = yarn.grant_again(1, shape)
    master.steps(2)
    assert yarn.released == [grant.container_id]
    assert yarn.started == []
    assert master.fact(A).exit.expected


def test_a_second_grant_goes_back_and_a_repeated_one_does_not(master, yarn):
    """Another container for a running id is surplus; the same one told twice is the same one."""
    master.want(A)
    master.step()
    container = yarn.containers[yarn.running()[A]]
    yarn.say_granted(container.grant)
    second = yarn.grant_again(1, container.shape)
    master.steps(3)
    assert yarn.released == [second.container_id]
    assert yarn.running() == {A: container.id}


def test_a_rejected_ask_is_asked_again_in_growing_pauses(master, yarn, clock):
    """And the reason is told."""
    yarn.rejecting = {1: "COULD_NOT_PLACE_ON_NODE"}
    master.want(A)
    asked_s = []
    for _ in range(40):
        master.step(1.0)
        if yarn.exchanges[-1].asks:
            asked_s.append(clock.now_s())
    gaps = [b - a for a, b in itertools.pairwise(asked_s)]
    assert gaps == sorted(gaps)
    assert gaps[0] < gaps[-1]
    assert "COULD_NOT_PLACE_ON_NODE" in master.fact(A).waits_for
    yarn.rejecting = {}
    master.steps(60)
    assert isinstance(master.fact(A), Running)


def test_a_start_that_could_not_be_prepared_is_no_failure(master, yarn, clock):
    """The container goes back, the instance is asked for again, and the reason is told."""
    yarn.odds = {"unprepared": 1.0}
    master.want(A)
    asked_s = []
    for _ in range(40):
        master.step(1.0)
        if yarn.exchanges[-1].asks:
            asked_s.append(clock.now_s())
    gaps = [b - a for a, b in itertools.pairwise(asked_s)]
    assert gaps == sorted(gaps)
    assert 1.0 <= gaps[0] < gaps[-1]
    fact = master.fact(A)
    assert isinstance(fact, Pending)
    assert fact.waits_for.startswith("its start could not be prepared (yarn: the NameNode")
    assert yarn.surplus() == []
    assert not names(yarn.files)
    yarn.odds = {}
    master.steps(60)
    assert isinstance(master.fact(A), Running)
    assert yarn.avoided == set()


def test_an_ask_larger_than_the_maximum_is_never_sent(master, yarn):
    """YARN would answer it with an error for every later heartbeat."""
    master.want(A, launch=with_gpus(master, 2))
    master.step()
    ended = master.fact(A)
    assert isinstance(ended, Ended)
    assert ended.exit.permanent
    assert ended.exit.reason.startswith(
        "asks 2 yarn.io/gpu; the ResourceManager grants at most 0 to one container; "
        "see yarn.resource-types"
    )
    assert not any(exchange.asks for exchange in yarn.exchanges)


def test_a_stop_is_posted_only_after_a_heartbeat_that_knew_of_it(master, yarn):
    """A master that was superseded meanwhile stops nothing."""
    master.want(A)
    master.step()
    successor = HandDrivenMaster(yarn, master.clock)
    master.want(stop=(A,))
    assert not master.pool.jobs
    master.step()
    with pytest.raises(Superseded):
        master.want(stop=(A,))
    assert yarn.stopped == []
    assert [f.instance_id for f in successor.recovered.running] == [A]


def test_an_expected_end_has_no_code(master, yarn):
    """137 or 143 is how YARN's stop looks; a receipt would count it as a cut."""
    master.want(A)
    master.step()
    master.want(stop=(A,))
    master.steps(2)
    ended = master.fact(A)
    assert (ended.exit.expected, ended.exit.code) == (True, None)
    assert isinstance(ended, Ended)
    master.want()
    assert master.fact(A) is None


def test_a_lost_completion_is_noticed(master, yarn):
    """The container goes back through the ResourceManager, and is over in the end."""
    master.want(A)
    master.step()
    yarn.odds = {"completion lost": 1.0}
    master.want(stop=(A,))
    master.steps(10, 2.0)
    assert yarn.released
    assert isinstance(master.fact(A), Running)
    master.steps(10, 2.0)
    assert master.fact(A).exit.expected


def test_a_node_that_takes_no_stop_is_overruled(master, yarn):
    """YARN takes the container back."""
    master.want(A)
    master.step()
    yarn.nodes[master.fact(A).node].reachable = False
    master.want(stop=(A,))
    master.steps(3)
    assert master.fact(A).exit.expected
    assert yarn.running() == {}


def test_a_start_that_the_node_refuses_is_released_and_told(master, yarn):
    """The node is to blame, and the launch can be tried elsewhere."""
    for node in yarn.nodes.values():
        node.reachable = False
    master.want(A)
    master.steps(2)
    exit_ = master.fact(A).exit
    assert exit_.node_fault
    assert not exit_.permanent
    assert yarn.surplus() == []


def test_a_slow_file_system_is_not_the_nodes_fault(master, yarn, clock):
    """What is not ready in time is given back, and its late start comes to nothing."""
    master.want(A)
    master.step(jobs=0)
    late = master.pool.jobs.popleft()
    for _ in range(121):
        master.step(1.0, jobs=0)
    fact = master.fact(A)
    assert isinstance(fact, Pending)
    assert "its files were not ready in 120 s" in fact.waits_for
    master.beating.told(late, master.pool.hands.do(late, master.beating.calling))
    assert yarn.started == []
    master.steps(10)
    assert isinstance(master.fact(A), Running)
    assert yarn.surplus() == []


def test_a_node_that_never_answers_a_start_is_to_blame(master, yarn):
    """From the moment on which it was called."""
    master.want(A)
    master.step(jobs=0)
    start = master.pool.jobs.popleft()
    for _ in range(100):
        master.step(1.0, jobs=0)
    assert master.beating.calling(start)
    for _ in range(100):
        master.step(1.0, jobs=0)
    assert isinstance(master.fact(A), Pending)
    for _ in range(30):
        master.step(1.0, jobs=0)
    assert master.fact(A).exit.node_fault


def test_a_launch_that_never_works_is_permanent(master, yarn):
    """Nobody tries it on another node."""
    master.pool.hands.launcher.hopeless = {GOOD}
    master.want(A)
    master.steps(2)
    exit_ = master.fact(A).exit
    assert exit_.permanent
    assert not exit_.node_fault
    assert yarn.surplus() == []


def test_a_crash_is_told_with_tritons_own_word(master, yarn):
    """From the end of its log in the diagnostics."""
    master.want(A)
    master.step()
    yarn.end(yarn.running()[A], 1, CRASH)
    master.step()
    exit_ = master.fact(A).exit
    assert exit_.reason == "exited with code 1: no such GPU"
    assert exit_.code == 1
    assert not exit_.expected


def test_a_port_that_a_stranger_holds_is_not_tried_again_on_its_node(master, yarn):
    """The next one there listens three further on; elsewhere the usual ports stay."""
    taken = 'E1127 23:52:37.2 2510 main.cc:345] "failed to start HTTP: Socket already in use"'
    master.want(A)
    master.step()
    node = master.fact(A).node
    yarn.end(yarn.running()[A], 1, taken)
    master.step()
    master.want(B, C, D)
    master.steps(2)
    ports = {master.fact(i).node: master.fact(i).endpoint.http_port for i in (B, C, D)}
    assert ports.pop(node) == 8003
    assert set(ports.values()) == {8000}


def test_completions_of_unknown_containers_are_normal(master, yarn):
    """Those of an earlier attempt, for example."""
    yarn.say_completed(Completed("container_e01_1_0001_01_000099", -100))
    master.want(A)
    master.step()
    assert isinstance(master.fact(A), Running)


def test_what_yarn_will_take_is_told(master, yarn):
    """So that it is drained while there is time."""
    master.want(A)
    master.step()
    yarn.leaving = {yarn.running()[A]: "preempted in 30 s"}
    master.step()
    assert master.fact(A).leaving == "preempted in 30 s"


def test_the_launch_file_of_an_ended_instance_is_removed(master, yarn):
    """It holds secrets."""
    master.want(A)
    master.step()
    assert len(names(yarn.files)) == 1
    yarn.end(yarn.running()[A])
    master.step()
    assert names(yarn.files) == {}
    assert STAGING


def test_several_on_a_node_get_ports_of_their_own(yarn, clock):
    """Three further on for each, and free ones again when one has ended."""
    yarn.nodes = {"nm-1": yarn.nodes["nm-1"]}
    master = HandDrivenMaster(yarn, clock, spec_with(spread="none"))
    master.want(A, B, C)
    master.step()
    assert {f.endpoint.http_port for f in master.facts()} == {8000, 8003, 8006}
    yarn.end(yarn.running()[B])
    master.step()
    master.want(A, C, D)
    master.step()
    assert sorted(f.endpoint.http_port for f in master.facts()) == [8000, 8003, 8006]


def test_exact_ports_of_the_spec_are_used(yarn, clock):
    """One instance a node: what is written is what it listens on."""
    spec = ClusterSpec("fleet", ModelsSpec("/m"), triton=TritonSpec(http_port=9000, grpc_port=0))
    master = HandDrivenMaster(yarn, clock, spec)
    master.want(A)
    master.step()
    endpoint = master.fact(A).endpoint
    assert (endpoint.http_port, endpoint.metrics_port) == (9000, 8002)
    assert 20_000 <= endpoint.grpc_port < 32_768


def test_a_node_that_fails_again_and_again_is_avoided(yarn, clock):
    """And welcomed again when nothing else is left, or after a while."""
    yarn.nodes["nm-1"].breaks = True
    yarn.nodes["nm-2"].label = yarn.nodes["nm-3"].label = "away"
    master = HandDrivenMaster(yarn, clock)
    for number in range(1, 4):
        master.want(f"fleet-{number:04d}")
        master.steps(3)
    assert yarn.avoided == {"nm-1"}
    yarn.nodes["nm-2"].label = ""
    master.want(D)
    master.steps(3)
    assert master.fact(D).node == "nm-2"
    yarn.nodes["nm-1"].breaks = False
    master.steps(4, 250.0)
    assert yarn.avoided == set()


def test_the_next_master_goes_on_avoiding_and_then_welcomes(yarn, clock):
    """YARN keeps its list over attempts, so somebody must know what to take from it."""
    yarn.nodes["nm-1"].breaks = True
    yarn.nodes["nm-2"].label = yarn.nodes["nm-3"].label = "away"
    master = HandDrivenMaster(yarn, clock)
    for number in range(1, 4):
        master.want(f"fleet-{number:04d}")
        master.steps(3)
    master.want()
    master.steps(3)
    heir = HandDrivenMaster(yarn, clock)
    yarn.nodes["nm-2"].label = ""
    yarn.nodes["nm-1"].breaks = False
    heir.want(D)
    heir.steps(3)
    assert heir.fact(D).node == "nm-2"
    assert yarn.avoided == {"nm-1"}
    heir.steps(4, 250.0)
    assert yarn.avoided == set()
    assert not [name for name in names(yarn.files) if name.startswith("avoided")]


def test_at_most_half_of_the_nodes_are_avoided(yarn, clock):
    """When every node fails, the nodes are not to blame."""
    for node in yarn.nodes.values():
        node.breaks = True
    master = HandDrivenMaster(yarn, clock)
    for number in range(1, 30):
        master.want(f"fleet-{number:04d}")
        master.steps(3)
        assert len(yarn.avoided) <= 1


def test_plain_mode_avoids_the_hosts_that_hold_an_instance(clock):
    """And refuses a second grant on one."""
    yarn = FakeYarn(3, plain=True)
    master = HandDrivenMaster(yarn, clock)
    master.want(A)
    master.step()
    master.want(A, B, C, D)
    master.steps(20)
    nodes = [f.node for f in master.facts() if isinstance(f, Running)]
    assert sorted(nodes) == ["nm-1", "nm-2", "nm-3"]
    assert yarn.avoided == set(nodes)
    assert yarn.violations == []
    assert yarn.surplus() == []
    master.want(B, C, D, stop=(A,))
    master.steps(5)
    assert yarn.running().keys() == {B, C, D}


def test_a_new_master_welcomes_what_earlier_ones_avoided(clock):
    """YARN keeps an application's list over attempts, and would never grant there again."""
    yarn = FakeYarn(3, plain=True)
    master = HandDrivenMaster(yarn, clock)
    master.want(A, B, C)
    master.steps(10)
    assert len(yarn.avoided) == 3
    yarn.end(yarn.running()[A])
    master = HandDrivenMaster(yarn, clock)
    master.want(B, C, D)
    master.steps(5)
    assert yarn.running().keys() == {B, C, D}
    assert yarn.violations == []


def test_a_fourth_on_three_nodes_says_what_it_waits_for(master, yarn):
    """And the words stay the same."""
    master.want(A, B, C)
    master.step()
    master.want(A, B, C, D)
    master.step()
    assert master.fact(D).waits_for == ""
    master.steps(6)
    words = master.fact(D).waits_for
    assert words == "no node without tag 'nvidia' is free (3 of 3 nodes hold an instance)"
    woken = master.woken
    master.steps(20)
    assert master.woken == woken


def test_while_yarn_is_silent_asks_wait_for_it(master, yarn, clock):
    """In steps, so that a snapshot is not made every second."""
    yarn.hold_grants = True
    master.want(A)
    master.step()
    clock.advance(12.0)
    assert master.fact(A) == Pending(A, GOOD, "the ResourceManager has not answered for 10 s")


def test_a_new_master_adopts_by_the_records(master, yarn, clock):
    """Same container, address and start; what was only asked for is asked anew."""
    master.want(A, B)
    master.step()
    before = {f.instance_id: f for f in master.facts()}
    successor = HandDrivenMaster(yarn, clock)
    assert {f.instance_id: attrs.evolve(f, adopted=False) for f in successor.facts()} == before
    assert all(f.adopted for f in successor.facts())


def test_a_late_node_manager_brings_its_container_back(master, yarn, clock):
    """Nothing was asked for in its place meanwhile."""
    master.want(A)
    master.step()
    yarn.odds = {"recovered late": 1.0, "recovered later still": 1.0, "grant later": 1.0}
    successor = HandDrivenMaster(yarn, clock)
    assert successor.facts() == ()
    successor.want(A)
    successor.step()
    assert isinstance(successor.fact(A), Pending)
    yarn.odds = {}
    yarn.hold_grants = True
    successor.step()
    assert isinstance(successor.fact(A), Running)
    successor.step()
    assert yarn.asks == {}
    assert yarn.running().keys() == {A}


def test_stale_launch_files_are_removed_after_a_while(master, yarn, clock):
    """Not at once: a late NodeManager may still bring their container."""
    master.want(A)
    master.step()
    yarn.containers.clear()
    successor = HandDrivenMaster(yarn, clock)
    successor.step()
    assert len(names(yarn.files)) == 1
    successor.steps(4, 60.0)
    assert names(yarn.files) == {}


def test_a_grant_for_nobody_goes_back(master, yarn):
    """Whatever number it carries."""
    master.step()
    grant = yarn.grant_again(77, Shape(1024, 1))
    master.steps(2)
    assert yarn.released == [grant.container_id]


def test_a_grant_whose_container_is_over_already_is_not_started(master, yarn):
    """Both words came with one heartbeat."""
    yarn.hold_grants = True
    master.want(A)
    master.step()
    grant = AllocatedContainer("container_e01_1_0001_01_000042", 1, "nm-1", 1, "nm-1:1")
    yarn.say_granted(grant)
    yarn.say_completed(Completed(grant.container_id, -100))
    master.step()
    assert yarn.started == []
    assert isinstance(master.fact(A), Pending)
    yarn.hold_grants = False
    master.steps(3)
    assert isinstance(master.fact(A), Running)


def test_a_heartbeat_under_way_does_not_prove_a_later_stop(master, yarn, monkeypatch):
    """Only one that began after the wish shows that no newer master is at work."""
    master.want(A)
    master.step()
    real = yarn.exchange

    def meanwhile(said):
        monkeypatch.setattr(yarn, "exchange", real)
        master.want(stop=(A,))
        return real(said)

    monkeypatch.setattr(yarn, "exchange", meanwhile)
    master.beating.beat()
    assert not master.pool.jobs
    master.beating.beat()
    assert len(master.pool.jobs) == 1


def test_a_container_that_comes_back_too_late_is_surplus(master, yarn, clock):
    """Its instance has another one by now, which serves."""
    yarn.nodes["nm-9"] = attrs.evolve(yarn.nodes["nm-1"], name="nm-9")
    master.want(A)
    master.step()
    old = yarn.running()[A]
    yarn.odds = {"recovered late": 1.0, "recovered later still": 1.0}
    successor = HandDrivenMaster(yarn, clock)
    yarn.containers[old].record = attrs.evolve(yarn.containers[old].record, instance_id="old")
    successor.want(A)
    successor.step()
    assert A not in yarn.running(), "its first container may still come back"
    successor.step(200.0)
    new = yarn.running()[A]
    yarn.odds = {}
    successor.steps(3)
    assert yarn.released == [old]
    assert successor.fact(A).container_id == new


def test_yarn_is_spoken_to_often_only_while_something_may_change_soon(master, yarn, clock):
    """An ask that waits for a free node waits for hours, maybe."""
    soon = master.ledger.outstanding
    assert not soon(clock.now_s())
    yarn.hold_grants = True
    master.want(A)
    assert soon(clock.now_s())
    master.steps(31)
    assert not soon(clock.now_s())
    yarn.hold_grants = False
    master.step(jobs=0)
    assert soon(clock.now_s())
    master.steps(2)
    assert not soon(clock.now_s())
    master.want(B)
    assert soon(clock.now_s())
    master.ledger.closing = LaunchDeadline(0.0, "the tokens ended")
    assert not soon(clock.now_s())
    master.want(B, stop=(A,))
    assert soon(clock.now_s())


def test_an_instance_that_was_seen_gone_is_asked_after_for_a_while(master, clock):
    """YARN will soon tell its end, or it is only its server that is gone."""
    soon = master.ledger.outstanding
    master.want(A, B)
    master.steps(3)
    master.want(A, B, gone=(A, "unknown"))
    assert soon(clock.now_s())
    master.step(11.0)
    master.want(A, B, gone=(A,))
    assert not soon(clock.now_s(), 10.0)
    assert soon(clock.now_s(), 20.0)
    master.want(A, B)
    assert not soon(clock.now_s(), 20.0)


def test_a_release_is_said_once(master, yarn):
    """Also when its completion is lost."""
    master.step()
    grant = yarn.grant_again(77, Shape(1024, 1))
    yarn.odds = {"completion lost": 1.0}
    master.steps(5)
    assert yarn.released == [grant.container_id]


def test_an_end_is_not_presumed_while_yarn_is_away(master, yarn):
    """What it did not hear, it cannot have lost."""
    master.want(A)
    master.step()
    yarn.odds = {"stop ignored": 1.0}
    master.want(stop=(A,))
    master.steps(2)
    yarn.odds = {"exchange lost": 1.0}
    master.steps(10, 10.0)
    yarn.odds = {"completion lost": 1.0}
    master.steps(2)
    assert isinstance(master.fact(A), Running)
    master.steps(2, 10.0)
    assert master.fact(A).exit.expected


def test_an_instance_of_a_spec_that_nobody_carries_is_over(master):
    """A wish may name what an earlier master started; it is never started anew."""
    wish = RuntimeWish(master.epoch, 1, frozenset({(A, "old")}), frozenset(), ())
    master.take(wish)
    assert isinstance(master.fact(A), Ended)
    assert not master.fact(A).exit.permanent
