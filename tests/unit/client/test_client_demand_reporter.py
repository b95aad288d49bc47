"""A request at a cluster that sleeps: it waits, the master is told, and it is answered."""

import asyncio
import threading
import time
from contextlib import ExitStack

import pytest
from client_stage import asks, publish, tensor
from fake_master import TOKEN, FakeAuthorizer, FakeMaster, snapshot

import tarn.client
from tarn.client.master_link import DemandReporter
from tarn.client.pool import InstancePool
from tarn.client.targets import ServiceAddress
from tarn.domain import Demand, Verdict
from tarn.errors import ConfigError, UnreachableError
from tarn.follow import MasterApi
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.testing.fake_triton import FakeTriton
from tarn.testing.fakes import FakeClock
from tarn.testing.wait import until

TOKEN_TEXT = TOKEN.decode()


@pytest.fixture
def asleep():
    """A master whose view is empty, and a Triton that is not in it yet."""
    with ExitStack() as stack:
        triton = stack.enter_context(FakeTriton("echo"))
        master = stack.enter_context(FakeMaster(snapshot()))
        publish(master, [], 4)
        yield master, triton


def demands(master):
    return [c for c in master.commands if isinstance(c, Demand)]


def test_a_request_waits_and_says_so_and_is_answered(asleep):
    """The master is told at once, by a name that says whose client it is."""
    master, triton = asleep
    with tarn.client.http(master.url, api_token=TOKEN_TEXT) as client:
        got = []
        thread = threading.Thread(target=lambda: got.append(asks(client, 7)))
        thread.start()
        until(lambda: demands(master))
        assert (demands(master)[0].waiting, demands(master)[0].source[:7]) == (1, "client-")
        publish(master, [triton.endpoint], 5)
        thread.join(10)
        assert got == [7]
        until(lambda: "tarn-client-demand" not in {t.name for t in threading.enumerate()})


def test_it_is_said_again_each_second_and_counts_who_waits(asleep):
    """However many wait."""
    master, triton = asleep
    with tarn.client.http(master.url, api_token=TOKEN_TEXT) as client:
        threads = [threading.Thread(target=asks, args=(client, n)) for n in range(3)]
        began_s = time.monotonic()
        for thread in threads:
            thread.start()
        until(lambda: len(demands(master)) >= 3)
        assert time.monotonic() - began_s > 1.9
        assert {d.waiting for d in demands(master)[1:]} == {3}
        publish(master, [triton.endpoint], 5)
        for thread in threads:
            thread.join(10)


def test_a_request_that_waits_in_vain_says_that_none_was_ready(asleep):
    """As without any demand."""
    master, _ = asleep
    with (
        tarn.client.http(master.url, api_token=TOKEN_TEXT, wait_s=0.3) as client,
        pytest.raises(UnreachableError, match=r"no instance was ready within 0\.3 s"),
    ):
        asks(client, 1)


class OnlyLooks(FakeAuthorizer):
    """Lets everybody look, and nobody follow."""

    def check(self, principal, action, model):
        super().check(principal, action, model)
        return Verdict(allowed=action == "view", reason="fake")


def test_who_may_not_report_gets_no_error_for_it():
    """And does not ask again at once: the request waits as before."""
    authorizer = OnlyLooks()
    gate = DirectAuthorizer(authorizer)
    with FakeTriton("echo") as triton, FakeMaster(api_token=None, gate=gate) as master:
        publish(master, [], 4)
        with tarn.client.http(master.url) as client:
            authorizer.verdict = Verdict(allowed=False, reason="no")
            got = []
            thread = threading.Thread(target=lambda: got.append(asks(client, 7)))
            thread.start()
            until(lambda: "follow" in [action for _, action, _ in authorizer.asked])
            publish(master, [triton.endpoint], 5)
            thread.join(10)
            assert got == [7]
            assert [action for _, action, _ in authorizer.asked].count("follow") == 1


def test_on_an_event_loop(asleep):
    """While others go on."""
    master, triton = asleep

    async def main():
        async with tarn.client.aio(master.url, api_token=TOKEN_TEXT) as client:
            asked = asyncio.create_task(client.infer("echo", tensor(7)))
            await asyncio.to_thread(until, lambda: demands(master))
            publish(master, [triton.endpoint], 5)
            return float((await asked).as_numpy("OUT")[0])

    assert asyncio.run(main()) == 7


def test_over_grpc(asleep):
    """A stream waits like a request."""
    grpc = pytest.importorskip("tritonclient.grpc", reason="needs the extra 'grpc'")
    inputs = [grpc.InferInput("IN", [1], "FP32")]
    master, _ = asleep
    with tarn.client.grpc(master.url, api_token=TOKEN_TEXT, wait_s=1.0) as client:
        with pytest.raises(UnreachableError, match="no instance was ready"):
            next(client.stream("echo", inputs))
        with pytest.raises(UnreachableError, match="no instance was ready"):
            client.infer("echo", inputs)
    assert demands(master)


def test_with_no_master_to_tell_and_with_instances_nobody_is_told():
    """A list of Tritons has no master; an instance that refuses is there all the same."""
    fleet = InstancePool(FakeClock())
    alone = DemandReporter(None, fleet)
    with alone.one():
        assert alone._thread is None
    fleet.set_members([ServiceAddress("127.0.0.1", 1)])
    full = DemandReporter(_NoMaster(), fleet)
    with full.one():
        assert full._thread is None
    alone.close()
    full.close()


class _NoMaster:
    """A source that finds nobody; counts how often it was asked."""

    name = "nobody"

    def __init__(self):
        self.asked = 0

    def open(self) -> MasterApi:
        self.asked += 1
        raise UnreachableError("no master")


def test_a_master_that_is_away_is_tried_again_and_close_ends_it():
    """Whoever waits learns of it by its own time-out."""
    source, fleet = _NoMaster(), InstancePool(FakeClock())
    waiters = DemandReporter(source, fleet)
    with waiters.one():
        until(lambda: source.asked >= 2)
        waiters.close()
        assert "tarn-client-demand" not in {t.name for t in threading.enumerate()}


class OldMaster:
    """An API of a master that does not know the failures of instances."""

    def __init__(self):
        self.heard = []

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        return None

    def open(self):
        return self

    def demand(self, source, waiting, failures):
        self.heard.append((waiting, failures))
        if failures:
            raise ConfigError("is not a field of this request", where="failures")


def test_a_master_that_knows_no_failures_is_told_of_them_once():
    """And goes on hearing who waits."""
    master = OldMaster()
    waiters = DemandReporter(master, InstancePool(FakeClock()))
    waiters.failing("llama-0001", "m", 3)
    with waiters.one():
        until(lambda: len(master.heard) == 2)
    waiters.close()
    assert [failures for _, failures in master.heard] == [{"llama-0001": {"m": 3}}, {}]
    assert master.heard[1][0] == 1


def test_failures_without_a_master_or_without_a_name_are_nobodys_to_hear():
    master = OldMaster()
    DemandReporter(None, InstancePool(FakeClock())).failing("llama-0001", "m", 3)
    waiters = DemandReporter(master, InstancePool(FakeClock()))
    waiters.failing("", "m", 3)
    waiters.close()
    assert master.heard == []
