"""A client that follows a master."""

import threading
from contextlib import ExitStack

import attrs
import pytest
from client_stage import asks, publish
from fake_master import EPOCH, TOKEN, FakeMaster, snapshot

import tarn.client
from tarn.client.affinity import AffinityRouter
from tarn.client.master_link import NO_PUSH_FOR_S, PoolFollower
from tarn.client.pool import InstancePool
from tarn.client.targets import ServiceAddress
from tarn.domain import Endpoint, Epoch
from tarn.errors import NotAuthorizedError, TimedOutError, UnreachableError
from tarn.follow import Message
from tarn.testing.fake_triton import FakeTriton
from tarn.testing.fakes import FakeClock
from tarn.testing.wait import until

TOKEN_TEXT = TOKEN.decode()


@pytest.fixture
def fleet():
    """A master, three fake Tritons, and a view with the first two."""
    with ExitStack() as stack:
        tritons = [stack.enter_context(FakeTriton("echo")) for _ in range(3)]
        master = stack.enter_context(FakeMaster(snapshot()))
        publish(master, [t.endpoint for t in tritons[:2]], 4)
        yield master, tritons


def addresses(client):
    return [target.address for target in client.targets]


def test_follows_what_the_master_pushes(fleet):
    """Who joins gets requests, who leaves gets none, without a pause between."""
    master, (a, b, c) = fleet
    with tarn.client.http(master.url, api_token=TOKEN_TEXT) as client:
        assert [asks(client, n) for n in range(10)] == list(range(10))
        publish(master, [a.endpoint, b.endpoint, c.endpoint], 5)
        until(lambda: len(client.targets) == 3)
        publish(master, [c.endpoint], 6)
        until(lambda: addresses(client) == [c.endpoint.http])
        before = len(a.requests), len(b.requests)
        assert [asks(client, n) for n in range(10)] == list(range(10))
        assert (len(a.requests), len(b.requests)) == before
        assert len(c.requests) == 10


def test_a_withdrawn_triton_ends_at_once(fleet):
    """It waits for open connections at its exit: the idle ones were closed when it left."""
    master, (a, b, _) = fleet
    with tarn.client.http(master.url, api_token=TOKEN_TEXT) as client:
        for number in range(10):
            asks(client, number)
        assert a.http_connections == b.http_connections == 1
        publish(master, [b.endpoint], 5)
        until(lambda: a.http_connections == 0, what="the idle connection to close")
        assert a.exit(5.0)
        assert b.http_connections == 1


def test_a_request_in_flight_on_a_withdrawn_instance_ends_normally(fleet):
    """Draining cuts nothing."""
    master, (a, b, _) = fleet
    publish(master, [a.endpoint], 5)
    a.model("echo").latency_s = 1.0
    with tarn.client.http(master.url, api_token=TOKEN_TEXT) as client:
        got = []
        thread = threading.Thread(target=lambda: got.append(asks(client, 9)))
        thread.start()
        until(lambda: a.executing == 1)
        publish(master, [b.endpoint], 6)
        until(lambda: addresses(client) == [b.endpoint.http])
        thread.join(10)
        assert got == [9]
        until(lambda: a.http_connections == 0, what="its connection to close afterwards")


def test_calls_under_way_lose_nothing_while_the_view_changes(fleet):
    """Eight threads, thirty changes, connections that break: every answer is right."""
    master, (a, b, c) = fleet
    over, wrong, done = threading.Event(), [], []
    with tarn.client.http(master.url, api_token=TOKEN_TEXT, wait_s=10) as client:

        def work(first):
            number = first
            while not over.is_set():
                if asks(client, number) != number:
                    wrong.append(number)
                done.append(number)
                number += 8

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        views = [(a, b), (b, c), (a, c), (c,), (a, b, c)]
        for revision in range(5, 35):
            shown = views[revision % 5]
            publish(master, [t.endpoint for t in shown], revision)
            until(lambda shown=shown: len(client.targets) == len(shown))
            seen = len(done)
            until(lambda seen=seen: len(done) > seen + 20)
        for _ in range(5):
            b.drop_connections()
            seen = len(done)
            until(lambda seen=seen: len(done) > seen + 20)
        publish(master, [a.endpoint, c.endpoint], 40)
        until(lambda: len(client.targets) == 2)
        over.set()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
    assert wrong == []


def test_waits_for_the_first_instance(fleet):
    """A cluster that starts costs patience; the call goes on as soon as one is in the view."""
    master, (a, *_) = fleet
    publish(master, [], 5)
    with tarn.client.http(master.url, api_token=TOKEN_TEXT, wait_s=20) as client:
        assert client.targets == ()
        assert not client.is_server_ready()
        assert not client.is_server_live()
        assert not client.is_model_ready("echo")
        assert client.get_inference_statistics() == {"model_stats": []}
        got = []
        thread = threading.Thread(target=lambda: got.append(asks(client, 3)))
        thread.start()
        publish(master, [a.endpoint], 6)
        thread.join(10)
        assert got == [3]


def test_says_that_none_was_ready_after_its_patience(fleet):
    """And not that something was refused: nothing was tried."""
    master, _ = fleet
    publish(master, [], 5)
    with (
        tarn.client.http(master.url, api_token=TOKEN_TEXT, wait_s=0.2) as client,
        pytest.raises(UnreachableError, match=r"no instance was ready within 0\.2 s"),
    ):
        asks(client, 1)


def test_an_incomplete_view_of_a_new_master_removes_nothing(fleet):
    """It has not yet probed what it recovered; the complete one is obeyed, even when empty."""
    master, (a, b, c) = fleet
    newer = Epoch(EPOCH.incarnation, 2)
    with tarn.client.http(master.url, api_token=TOKEN_TEXT) as client:
        publish(master, [], 1, epoch=newer, complete=False)
        publish(master, [a.endpoint, b.endpoint, c.endpoint], 2, epoch=newer, complete=False)
        until(lambda: len(client.targets) == 3)
        publish(master, [], 3, epoch=newer, complete=True)
        until(lambda: client.targets == ())


def test_a_lost_master_removes_nothing_and_another_one_is_found(fleet):
    """The last view stands; the source says where the next master is."""
    master, (a, b, _) = fleet

    class Moving:
        name = "llama"
        url = master.url

        def open(self):
            return tarn.client.Master(self.url, TOKEN_TEXT).open()

    source = Moving()
    with tarn.client.http(source) as client:
        assert asks(client, 1) == 1
        master.server.close()
        until(lambda: client._link.following.trouble, what="the loss to be noticed")
        assert [asks(client, n) for n in range(10)] == list(range(10))
        with FakeMaster(snapshot()) as second:
            publish(second, [b.endpoint], 1, epoch=Epoch(EPOCH.incarnation, 2))
            source.url = second.url
            until(lambda: addresses(client) == [b.endpoint.http])
            until(lambda: not client._link.following.trouble)
            publish(second, [a.endpoint], 2, epoch=Epoch(EPOCH.incarnation, 2))
            until(lambda: addresses(client) == [a.endpoint.http])


def test_a_wrong_token_is_said_at_once(fleet):
    """Not after the patience of the first call; and the token is in no message."""
    master, _ = fleet
    with pytest.raises(NotAuthorizedError) as caught:
        tarn.client.http(master.url, api_token="wrong-horse")
    assert "wrong-horse" not in str(caught.value)
    assert "wrong-horse" not in repr(tarn.client.Master(master.url, "wrong-horse"))


def test_a_url_that_is_no_master_says_how_a_triton_is_named(fleet):
    """The scheme makes the difference."""
    _, (a, *_) = fleet
    with pytest.raises(UnreachableError, match="without: 'host:port'"):
        tarn.client.http(f"http://{a.endpoint.http}")


def test_one_thread_follows_and_none_is_left(fleet):
    """The stream's own watcher beside it; both end with the client, also in the middle."""
    master, _ = fleet
    before = set(threading.enumerate())
    client = tarn.client.http(master.url, api_token=TOKEN_TEXT)
    until(lambda: any(t.name == "stream-stop" for t in threading.enumerate()))
    mine = {t.name for t in threading.enumerate() if t not in before}
    assert mine - {"http", "stream-stop"} == {"tarn-client-view"}
    client.close()
    left = [t for t in threading.enumerate() if t.name in {"tarn-client-view", "stream-stop"}]
    assert left == []


class ScriptedApi:
    """A master's API whose stream and answers are given."""

    def __init__(self, master):
        self.master = master

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        return None

    def affinity(self):
        return None

    def instances(self):
        self.master.polls += 1
        if isinstance(self.master.answer, Exception):
            raise self.master.answer
        return self.master.answer

    def stream(self, path, last_id, stop, *, give_up_s):
        self.master.streams += 1
        yield from self.master.messages
        raise self.master.ends


@attrs.define
class Scripted:
    answer: object
    ends: Exception
    messages: list = attrs.field(factory=list)
    polls: int = 0
    streams: int = 0
    name: str = "scripted"

    def open(self):
        return ScriptedApi(self)


def view_of(revision, *ports):
    rows = [
        {
            "id": f"a-{port}",
            "container_id": None,
            "spec_hash": "h",
            "http": f"127.0.0.1:{port}",
            "grpc": "127.0.0.1:1",
            "metrics": "127.0.0.1:2",
            "in_view": True,
            "weight": 100,
        }
        for port in ports
    ]
    away = {"id": "a-0", "http": None, "grpc": None, "in_view": False}
    return {"epoch": "1-1", "revision": revision, "complete": True, "instances": [*rows, away]}


def followed(source, clock):
    targets = InstancePool(clock)
    following = PoolFollower(source, targets, AffinityRouter(clock), clock, poll_every_s=0.02)
    following.start()
    return targets, following


def test_asks_while_nothing_is_pushed_and_does_not_try_a_swallowed_stream_again():
    """A proxy that collects streams: the view is asked for each second."""
    source = Scripted(view_of(1, 8000), TimedOutError("silence"))
    clock = FakeClock()
    targets, following = followed(source, clock)
    try:
        until(lambda: len(targets.slots) == 1)
        source.answer = view_of(2, 8000, 8010)
        until(lambda: len(targets.slots) == 2)
        assert source.streams == 1
        clock.advance(NO_PUSH_FOR_S)
        until(lambda: source.streams == 2)
    finally:
        following.close()


def test_asks_nothing_while_it_is_pushed():
    """A client costs its master one open stream."""
    pushing = threading.Event()

    class Endless(list):
        def __iter__(self):
            pushing.set()
            while not over.wait(0.01):
                yield Message("", "status", {})

    over = threading.Event()
    source = Scripted(view_of(1, 8000), UnreachableError("broken"), Endless())
    targets, following = followed(source, FakeClock())
    try:
        assert pushing.wait(5)
        assert not over.wait(0.2)
        assert (source.polls, source.streams) == (0, 1)
        over.set()
        until(lambda: targets.slots)
    finally:
        over.set()
        following.close()


def test_an_older_view_is_not_obeyed():
    """A stream that was slow must not undo what is known since."""
    member = {
        "instance_id": "a-1",
        "container_id": "c-1",
        "host": "127.0.0.1",
        "http_port": 1,
        "grpc_port": 2,
        "metrics_port": 3,
        "spec_hash": "h",
        "weight": 100,
    }
    old = {"epoch": "1-1", "revision": 3, "complete": True, "members": [member, member]}
    older = {**old, "epoch": "0-9", "revision": 99, "members": []}
    messages = [Message("", "reset", {}), Message("", "instances", old), Message("", "status", {})]
    messages.append(Message("", "instances", older))
    source = Scripted(view_of(2), UnreachableError("broken"), messages)
    targets, following = followed(source, FakeClock())
    try:
        until(lambda: source.polls >= 1)
        assert [slot.target for slot in targets.slots] == [ServiceAddress("127.0.0.1", 1, "a-1", 2)]
    finally:
        following.close()


@pytest.mark.parametrize(
    "answer", [{}, {"epoch": "x"}, {"epoch": "1-1", "instances": 3}, UnreachableError("gone")]
)
def test_a_master_that_talks_nonsense_is_a_trouble_and_not_the_end(answer):
    """The thread lives, the last good view stands, and an error can say why it may be old."""
    source = Scripted(view_of(1, 8000), UnreachableError("broken"))
    targets, following = followed(source, FakeClock())
    try:
        until(lambda: targets.slots)
        source.answer = answer
        until(lambda: following.trouble)
        assert len(targets.slots) == 1
        source.answer = view_of(2)
        until(lambda: not targets.slots)
        assert not following.trouble
    finally:
        following.close()


def test_reads_addresses_as_the_master_writes_them():
    """An IPv6 host stands in what is pushed without brackets."""
    assert Endpoint("127.0.0.1", 1, 2, 3).http == ServiceAddress("127.0.0.1", 1).address
    assert ServiceAddress("::1", 8000).address == "[::1]:8000"
