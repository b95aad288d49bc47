"""The runtime with its threads: what waits, what does not, and how it leaves."""

import contextlib
import threading

import attrs
import fake_yarn
import pytest
from fake_yarn import FakeYarn

from tarn.clock import SystemClock
from tarn.domain import Ended, Endpoint, Epoch, Pending, Running, RuntimeWish, SavedState
from tarn.errors import LaunchError, PluginError, ProviderError, Superseded, TimedOutError
from tarn.testing.context import cluster_spec, launch_of, master_context
from tarn.testing.wait import until, within
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.keytab import Renewal
from tarn_plugins.runtime.yarn.master import runtime as module
from tarn_plugins.runtime.yarn.master.ledger import Ledger
from tarn_plugins.runtime.yarn.master.node_pool import ContainerOps, NodePool
from tarn_plugins.runtime.yarn.master.runtime import YarnRuntime
from tarn_plugins.runtime.yarn.master.slots import Stop
from tarn_plugins.runtime.yarn.master.state import HadoopStateStore
from tarn_plugins.runtime.yarn.messages import AllocatedContainer, Submitted
from tarn_plugins.runtime.yarn.staging import Layout
from tarn_plugins.runtime.yarn.tokens import TOKENS_ENDED

A, B = "fleet-0001", "fleet-0002"
GOOD = "aaaaaaaaaaaa"
OWNER = Layout(fake_yarn.STAGING).owner
SUBMITTED = Submitted(fake_yarn.STAGING, "python3")


@pytest.fixture
def yarn():
    made = FakeYarn(3)
    yield made
    made.answering.set()


@pytest.fixture
def make(yarn, tmp_path):
    made = []

    def runtime(attempt=1, submitted=SUBMITTED, heartbeat_s=0.02, wake=lambda: None, renewal=None):
        yarn.attempt = max(yarn.attempt, attempt)
        context = master_context(tmp_path, epoch=Epoch(1, attempt), wake=wake)
        services = yarn.services(attempt, GOOD)
        if renewal is not None:
            services = attrs.evolve(services, renewal=renewal)
        made.append(
            YarnRuntime(context, YarnSettings(heartbeat_s=heartbeat_s), submitted, services)
        )
        return made[-1]

    yield runtime
    yarn.answering.set()
    for one in made:
        one.close()


def wish(*ids, stop=(), attempt=1, spec_hash=GOOD, gone=()):
    launch = attrs.evolve(launch_of(cluster_spec()), spec_hash=spec_hash)
    want = frozenset((i, spec_hash) for i in ids)
    return RuntimeWish(Epoch(1, attempt), 1, want, frozenset(stop), (launch,), frozenset(gone))


def fact(runtime, instance_id):
    return next((f for f in runtime.facts() if f.instance_id == instance_id), None)


def running(runtime, instance_id):
    until(lambda: isinstance(fact(runtime, instance_id), Running), 10, f"{instance_id} running")
    return fact(runtime, instance_id)


def test_registers_where_the_api_listens(make, yarn):
    """Host and port apart, and the whole URL for people."""
    runtime = make()
    runtime.start("http://nm-7:4567")
    assert runtime._services.rm.address == ("nm-7", 4567, "http://nm-7:4567")


def test_a_wish_is_on_its_way_at_once(make, yarn):
    """However long the rest between two heartbeats is."""
    runtime = make(heartbeat_s=3600.0)
    runtime.start("http://h:1")
    within(6.0, lambda: runtime.apply(wish(A)), "apply")
    running(runtime, A)


def test_the_end_of_an_instance_that_was_seen_gone_is_heard_soon(make, yarn):
    """Not only at the next heartbeat, which may be an hour away."""
    runtime = make(heartbeat_s=3600.0)
    runtime.start("http://h:1")
    runtime.apply(wish(A))
    container_id = running(runtime, A).container_id
    yarn.end(container_id, 137)
    runtime.apply(wish(A, gone=(A,)))
    until(lambda: isinstance(fact(runtime, A), Ended), 10, "its end")


def test_the_control_thread_is_woken_by_what_changes(make):
    """And by nothing else."""
    woken = threading.Event()
    runtime = make(wake=woken.set)
    runtime.start("http://h:1")
    woken.clear()
    runtime.apply(wish(A))
    running(runtime, A)
    assert woken.wait(1.0)
    woken.clear()
    runtime.apply(wish(A))
    assert not woken.wait(0.2)


def test_an_rm_that_is_away_blocks_nobody(make, yarn):
    """Facts, wishes and the end of a master go on; the silence is told."""
    runtime = make()
    runtime.start("http://h:1")
    runtime.apply(wish(A))
    running(runtime, A)
    yarn.answering.clear()
    heard_s = runtime.heard_s()
    within(6.0, lambda: runtime.apply(wish(A, B)), "apply")
    assert isinstance(fact(runtime, B), Pending)
    assert isinstance(fact(runtime, A), Running)
    assert runtime.heard_s() - heard_s < 3.0
    within(3.0, runtime.close, "close")
    yarn.answering.set()


def test_a_start_is_told_while_the_rm_is_away(make, yarn):
    """The node answers the pool, not the heartbeat."""
    runtime = make()
    runtime.start("http://h:1")
    started = threading.Event()
    real = runtime._pool._ops.nodes.start

    def slow(grant, launch):
        yarn.answering.clear()
        started.set()
        real(grant, launch)

    runtime._pool._ops.nodes.start = slow
    runtime.apply(wish(A))
    assert started.wait(5.0)
    running(runtime, A)
    assert not yarn.answering.is_set()


def test_an_answer_after_the_end_is_not_acted_on(make, yarn):
    """A master that left starts nothing."""
    runtime = make()
    runtime.start("http://h:1")
    yarn.answering.clear()
    runtime.apply(wish(A))
    runtime.close()
    yarn.answering.set()
    until(lambda: yarn.asks or yarn.surplus(), 5, "the last heartbeat")
    assert yarn.started == []


def test_a_superseded_master_says_so_for_good(make, yarn):
    """Whatever is asked of it, and nothing is done."""
    old = make(1)
    old.start("http://h:1")
    old.apply(wish(A))
    running(old, A)
    new = make(2)
    assert [f.instance_id for f in new.start("http://h:2").running] == [A]
    for asked in (wish(A, B), wish(stop=(A,)), wish(A)):
        with pytest.raises(Superseded):
            old.apply(asked)
    with pytest.raises(Superseded):
        old.finish()
    assert yarn.violations == []
    assert yarn.running().keys() == {A}


def test_an_older_attempt_cannot_register(make):
    """It is told as such, at the start."""
    make(2).start("http://h:2")
    with pytest.raises(Superseded):
        make(1).start("http://h:1")


def test_one_failed_heartbeat_is_an_outage_and_no_more(make, yarn):
    """What was said is said again."""
    runtime = make()
    runtime.start("http://h:1")
    yarn.odds = {"exchange lost": 1.0}
    runtime.apply(wish(A))
    yarn.odds = {}
    running(runtime, A)


def test_finish_unregisters_and_removes_the_staging_directory(make, yarn):
    """Nothing of the cluster stays."""
    yarn.files.write(OWNER, fake_yarn.APPLICATION_ID.encode())
    runtime = make()
    runtime.start("http://h:1")
    runtime.apply(wish(A))
    running(runtime, A)
    runtime.finish()
    assert yarn.finished
    assert yarn.files.content == {}


def test_finish_leaves_the_directory_of_the_next_one(make, yarn):
    """Another `up` took the name over between our last word and now."""
    runtime = make()
    runtime.start("http://h:1")
    yarn.files.write(OWNER, b"application_1700000000000_0002")
    runtime.finish()
    assert yarn.finished
    assert yarn.files.content == {OWNER: b"application_1700000000000_0002"}


def test_finish_is_done_although_the_tokens_ended(make, yarn):
    """The directory stays, and the application is over all the same."""
    runtime = make()
    runtime.start("http://h:1")
    yarn.files.refuses = "token is expired"
    runtime.finish()
    assert yarn.finished


def left_running(make):
    """Have a master start one instance, and leave; return the instance as it knew it."""
    old = make(1)
    old.start("http://h:1")
    old.apply(wish(A))
    before = running(old, A)
    old.close()
    return before


def test_instances_are_known_without_their_records(make, yarn):
    """Where the tokens ended: by number, with the ports of the spec."""
    before = left_running(make)
    yarn.files.refuses, yarn.files.code = "token is expired", TOKENS_ENDED
    found = make(2).start("http://h:2")
    (after,) = found.running
    assert (after.endpoint, after.container_id) == (before.endpoint, before.container_id)
    assert (after.spec_hash, after.adopted) == (GOOD, True)
    assert "token is expired" in found.notes[0]


def test_instances_without_records_are_asked_where_they_listen(make, yarn):
    """Another fleet holds the ports of the spec there: what listens on them is not ours."""
    before = left_running(make)
    host = before.endpoint.host
    yarn.servers |= {(host, 8000): "other-0007", (host, 8003): A}
    yarn.files.refuses, yarn.files.code = "token is expired", TOKENS_ENDED
    found = make(2).start("http://h:2")
    (after,) = found.running
    assert after.endpoint == Endpoint(host, 8003, 8004, 8005)
    assert after.container_id == before.container_id
    assert "1 reported where they listen" in found.notes[0]


def test_what_a_master_was_writing_is_cleared_away(make, yarn):
    """It is no launch file, and nothing to tell of."""
    leftover = f"{fake_yarn.LAUNCHES}/.x.0123abcd.tmp"
    yarn.files.write(leftover, b"secret")
    yarn.files.write(f"{fake_yarn.LAUNCHES}/mine.txt", b"")
    found = make().start("http://h:1")
    assert leftover not in yarn.files.content
    assert len(found.notes) == 1
    assert "mine.txt" in found.notes[0]


def test_launch_files_that_cannot_be_listed_are_waited_for(make, yarn, monkeypatch):
    """Nothing is guessed and given back; at last the attempt ends, and the next one looks."""
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.01)
    before = left_running(make)
    yarn.files.refuses = "the NameNode is in safe mode"
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    with pytest.raises(ProviderError, match="safe mode"):
        make(2).start("http://h:2")
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    threading.Timer(0.1, lambda: setattr(yarn.files, "refuses", "")).start()
    (after,) = make(3).start("http://h:3").running
    assert after.container_id == before.container_id
    assert yarn.released == []


def test_a_state_that_cannot_be_read_now_is_not_passed_over(yarn):
    """The older one would bring back what is over."""
    store = HadoopStateStore(yarn.files, fake_yarn.PRIVATE)
    store.save(SavedState(1), Epoch(7, 1))
    store.save(SavedState(2), Epoch(7, 1))
    real = yarn.files.read

    def away(uri):
        raise ProviderError("yarn", "no data node answers", retry_after_s=1.0)

    yarn.files.read = away
    with pytest.raises(ProviderError, match="data node"):
        store.load()
    yarn.files.read = real
    assert store.load() == (SavedState(2), ())


def test_warnings_name_their_codes(make):
    """Placement that is second best, and the day on which the tokens end."""
    assert make().warnings() == ()
    submitted = attrs.evolve(
        SUBMITTED, placement="plain", placement_reason="its handler is off", tokens_end_at=4e9
    )
    plain, tokens = make(submitted=submitted).warnings()
    assert plain.code == "TARN-1015"
    assert "its handler is off" in plain.found
    assert tokens.code == "TARN-1016"
    assert tokens.found.startswith("the delegation tokens end at 2096-10-02 07:06 UTC")
    (past,) = make(submitted=attrs.evolve(SUBMITTED, tokens_end_at=1e9)).warnings()
    assert "ended at 2001-09-09" in past.found


def test_with_a_keytab_the_end_of_the_first_tokens_ends_nothing(make, yarn):
    """Whoever is asked for after it is started; `status` says until when, and why it goes on."""
    over = attrs.evolve(SUBMITTED, tokens_end_at=1e9, principal="svc@R")
    runtime = make(submitted=over, renewal=Renewal("svc@R"))
    runtime.start("http://h:1")
    runtime.apply(wish(A))
    until(lambda: isinstance(fact(runtime, A), Running), 5, "it runs")
    (said,) = runtime.warnings()
    assert said.code == "TARN-3760"
    assert "2001-09-09" in said.found
    assert "keytab of svc@R" in said.found


def test_a_broken_launch_is_told_and_its_container_is_over(make, yarn):
    """Nothing of it stays."""
    yarn.broken = {"bbbbbbbbbbbb"}
    runtime = make()
    runtime.start("http://h:1")
    runtime.apply(wish(A, spec_hash="bbbbbbbbbbbb"))
    until(lambda: isinstance(fact(runtime, A), Ended), 5, "its end")
    assert fact(runtime, A).exit.last_error == "no such GPU"
    assert yarn.surplus() == []


class Gate:
    """NodeManagers of which one does not answer until it is opened."""

    def __init__(self):
        self.opened = threading.Event()
        self.log = []

    def stop(self, grant):
        if grant.node == "dead" and not self.opened.wait(10.0):
            raise TimedOutError("never opened")
        self.log.append(grant.container_id)

    def start(self, grant, launch):
        raise LaunchError("yarn", "no")

    def close(self):
        pass


def test_a_start_that_was_prepared_for_long_does_not_outlive_its_master(make, yarn):
    """It is no longer this master's when its files are ready at last."""
    runtime = make()
    runtime.start("http://h:1")
    preparing, prepared = threading.Event(), threading.Event()
    real = runtime._services.files.write

    def slow(*given, **named):
        preparing.set()
        assert prepared.wait(10.0)
        real(*given, **named)

    runtime._services.files.write = slow
    runtime.apply(wish(A))
    assert preparing.wait(5.0)
    runtime.close()
    prepared.set()
    for thread in runtime._pool._threads:
        thread.join(5.0)
    assert yarn.started == []


def test_finish_ends_at_once_when_the_master_is_superseded(make, yarn):
    """There will be no answer to wait for."""
    old = make()
    old.start("http://h:1")
    yarn.answering.clear()
    failures = []

    def finish():
        try:
            old._beat.finish("over", 30.0)
        except Superseded as error:
            failures.append(error)

    until(lambda: old._beat._begun > old._beat._done, 5, "an exchange under way")
    thread = threading.Thread(target=finish)
    thread.start()
    until(lambda: old._beat._farewell, 5, "the farewell")
    yarn.registered = 2
    yarn.answering.set()
    thread.join(5.0)
    assert len(failures) == 1


def test_a_dead_node_delays_nobody_else():
    """And its own calls stay in order."""
    gate, told = Gate(), []
    pool = NodePool(
        ContainerOps(gate, None, None, ""),
        lambda job, failed: told.append((job, failed)),
        threads=2,
    )
    jobs = [
        Stop(AllocatedContainer(f"{node}-{i}", 1, node, 1, "x"))
        for i in range(3)
        for node in ("dead", "nm-1", "nm-2")
    ]
    pool.post(tuple(jobs))
    until(lambda: len(gate.log) == 6, 5, "the living nodes")
    assert [c for c in gate.log if c.startswith("nm-1")] == ["nm-1-0", "nm-1-1", "nm-1-2"]
    gate.opened.set()
    until(lambda: len(told) == 9, 5, "all")
    assert gate.log[-3:] == ["dead-0", "dead-1", "dead-2"]
    pool.close()
    pool.post(tuple(jobs))
    assert len(told) == 9


def test_the_state_store_keeps_two_files_of_any_attempt(yarn):
    """Those of an older master go when a newer one saves."""
    store = HadoopStateStore(yarn.files, fake_yarn.PRIVATE)
    for desired, attempt in ((1, 1), (2, 1), (3, 1), (4, 2)):
        store.save(SavedState(desired), Epoch(7, attempt))
    found = sorted(u.rpartition("/")[2] for u in yarn.files.content)
    assert found == ["state-1-3.json", "state-2-1.json"]
    assert store.load() == (SavedState(4), ())
    before = dict(yarn.files.content)
    with pytest.raises(Superseded):
        store.save(SavedState(5), Epoch(7, 1))
    assert yarn.files.content == before


def test_a_state_that_cannot_be_saved_says_so(yarn):
    """With the code that `status` shows, and the old one stays."""
    store = HadoopStateStore(yarn.files, fake_yarn.PRIVATE)
    store.save(SavedState(1), Epoch(7, 1))
    yarn.files.refuses = "the quota of the directory is used up"
    with pytest.raises(ProviderError, match="quota") as caught:
        store.save(SavedState(2), Epoch(7, 1))
    assert caught.value.code == "TARN-1005"
    yarn.files.refuses = ""
    assert store.load() == (SavedState(1), ())


def test_an_old_masters_late_write_is_never_read(yarn):
    """It passed the look for a newer one, and slept before the renaming."""
    store = HadoopStateStore(yarn.files, fake_yarn.PRIVATE)
    real = yarn.files.rename

    def late(source, target):
        yarn.files.rename = real
        store.save(SavedState(9), Epoch(7, 2))
        real(source, target)

    yarn.files.rename = late
    with pytest.raises(Superseded):
        store.save(SavedState(1), Epoch(7, 1))
    assert store.load() == (SavedState(9), ())


def test_a_superseded_master_hears_of_it_without_a_wish(make, yarn):
    """A fenced master posts none, and must end all the same."""
    old = make()
    old.start("http://h:1")
    make(attempt=2).start("http://h:2")

    def superseded():
        try:
            old.heard_s()
        except Superseded:
            return True
        return False

    until(superseded, 5, "word of the newer master")


def test_an_error_of_ours_ends_the_master_and_is_told_once(make, yarn, caplog):
    """The control thread is woken, and hears of it at once; wishes are refused."""
    woken = threading.Event()
    runtime = make(wake=woken.set)
    runtime.start("http://h:1")
    woken.clear()

    def wrong(said):
        raise KeyError("nm-1")

    runtime._services.rm.exchange = wrong
    assert woken.wait(5.0)
    for ask in (runtime.heard_s, lambda: runtime.apply(wish(A))):
        with pytest.raises(PluginError, match="KeyError: 'nm-1'"):
            ask()
    with pytest.raises(PluginError):
        within(3.0, runtime.finish, "finish")
    assert len([r for r in caplog.records if r.exc_info]) == 1


def test_an_error_of_ours_in_a_result_is_not_lost(make, monkeypatch):
    """It is raised on a thread of the pool, where nobody would see it."""
    runtime = make()
    runtime.start("http://h:1")

    def wrong(ledger, container_id, now_s):
        raise ValueError(container_id)

    monkeypatch.setattr(Ledger, "started", wrong)
    with contextlib.suppress(PluginError):
        runtime.apply(wish(A))

    def broken():
        try:
            runtime.heard_s()
        except PluginError:
            return True
        return False

    until(broken, 5, "the error")


def test_time_is_the_systems(make):
    """The last good word is never in the future."""
    runtime = make()
    runtime.start("http://h:1")
    assert runtime.heard_s() <= SystemClock().now_s()
