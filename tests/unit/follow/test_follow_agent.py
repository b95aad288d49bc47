"""An agent that keeps a discovery in step with a master."""

import contextlib
import threading
import time
from collections.abc import Iterator

import attrs
import pytest
from client_stage import publish
from fake_master import EPOCH, TOKEN, FakeMaster, snapshot

from tarn.clock import SystemClock
from tarn.domain import Acknowledge, Applied, DiscoveryView, Endpoint, Epoch, Member
from tarn.errors import ConfigError, DiscoveryError, NotAuthorizedError, UnreachableError
from tarn.follow import Agent, Master, Message, UnservedRequests
from tarn.follow import agent as agents
from tarn.http import feed as feeds
from tarn.testing.fakes import FakeDiscovery
from tarn.testing.wait import until

NEXT = Epoch(EPOCH.incarnation, EPOCH.attempt + 1)


def place(number: int) -> Endpoint:
    return Endpoint("127.0.0.1", 8000 + number, 9000 + number, 10000 + number)


class Moving:
    """A source whose master may be elsewhere the next time."""

    name = "llama"

    def __init__(self, url: str, api_token: str | None = TOKEN.decode()) -> None:
        self.url, self.api_token = url, api_token
        self.opened = 0

    def open(self):
        self.opened += 1
        return Master(self.url, self.api_token).open()


@contextlib.contextmanager
def running(agent: Agent) -> Iterator[None]:
    """Run *agent* meanwhile; no thread of it is left."""
    before, stop = set(threading.enumerate()), threading.Event()
    thread = threading.Thread(target=agent.run, args=(stop,), name="tarn-agent")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(15)
    assert not thread.is_alive()
    left = {t.name for t in set(threading.enumerate()) - before if t.name.startswith("tarn-")}
    assert not left


@pytest.fixture
def master():
    with FakeMaster(snapshot()) as one:
        publish(one, [place(1), place(2)], 4)
        yield one


def words(master: FakeMaster) -> list[Applied]:
    return [one.applied for one in master.commands if isinstance(one, Acknowledge)]


def said_revision(master: FakeMaster) -> int:
    heard = words(master)
    return heard[-1].revision if heard else -1


def ports(discovery: FakeDiscovery) -> set[int]:
    return {member.endpoint.http_port for member in discovery.registry.members.values()}


def test_applies_what_is_pushed_and_gives_its_word(master):
    """Under the agent's name, with the epoch and revision that the discovery applied."""
    discovery, lines = FakeDiscovery(), []
    agent = Agent(Moving(master.url), discovery, "lb1", SystemClock(), say=lines.append)
    with running(agent):
        until(lambda: said_revision(master) == 4)
        publish(master, [place(2), place(3), place(4)], 5)
        until(lambda: said_revision(master) == 5)
        assert ports(discovery) == {8002, 8003, 8004}
        publish(master, [], 6)
        until(lambda: said_revision(master) == 6)
        assert ports(discovery) == set()
    heard = words(master)[-1]
    assert (heard.name, heard.epoch, heard.error) == ("lb1", EPOCH, "")
    assert all(one.lease_s == 15.0 for one in master.commands if isinstance(one, Acknowledge))
    assert lines == [
        f"follows the master {EPOCH} of llama",
        "revision 4 of llama: 2 servers, acknowledged",
        "revision 5 of llama: 3 servers (+2 -1), acknowledged",
        "revision 6 of llama: 0 servers (+0 -3), acknowledged",
    ]


def test_a_master_that_has_no_stream_left_is_asked_instead(master, monkeypatch):
    """Its streams may be taken by others: the view is heard all the same, a moment later."""
    monkeypatch.setattr(feeds, "MOST_STREAMS", 0)
    discovery = FakeDiscovery()
    with running(Agent(Moving(master.url), discovery, "lb1", SystemClock())):
        until(lambda: said_revision(master) == 4)
        publish(master, [place(3)], 5)
        until(lambda: said_revision(master) == 5)
    assert ports(discovery) == {8003}


def test_what_was_only_received_is_not_acknowledged(master):
    """A discovery that is late holds the word back; the last one is given meanwhile."""
    discovery, news = FakeDiscovery(), threading.Event()
    agent = Agent(Moving(master.url), discovery, "lb1", SystemClock(), news=news)
    with running(agent):
        until(lambda: said_revision(master) == 4)
        discovery.late = True
        publish(master, [place(3)], 5)
        until(lambda: discovery.views[-1].revision == 5)
        news.set()
        threading.Event().wait(2 * agents.LOOK_EVERY_S)
        assert {word.revision for word in words(master)} == {4}
        discovery.late = False
        news.set()
        until(lambda: said_revision(master) == 5)


def test_a_word_is_given_again_before_its_lease_ends(master, monkeypatch):
    """And not at every look."""
    monkeypatch.setattr(agents, "RENEW_EVERY_S", 0.6)
    agent = Agent(Moving(master.url), FakeDiscovery(), "lb1", SystemClock())
    with running(agent):
        until(lambda: len(words(master)) >= 3)
    assert len(set(words(master))) == 1
    assert len(words(master)) <= 4


def test_a_discovery_that_looks_again_has_no_news(master):
    """Its time moves, and what it says does not."""

    class Looking(FakeDiscovery):
        def applied(self):
            applied = super().applied()
            return applied and attrs.evolve(applied, at=time.time())

    news = threading.Event()
    with running(Agent(Moving(master.url), Looking(), "lb1", SystemClock(), news=news)):
        until(lambda: said_revision(master) == 4)
        for _ in range(20):
            news.set()
            threading.Event().wait(0.02)
        assert len(words(master)) == 1


def test_sessions_are_told_as_soon_as_the_discovery_says_so(master):
    """Its ``wake`` is the agent's news."""

    class Counting(FakeDiscovery):
        sessions = ()

        def applied(self):
            applied = super().applied()
            return applied and attrs.evolve(applied, sessions=self.sessions)

    discovery, news = Counting(), threading.Event()
    agent = Agent(Moving(master.url), discovery, "lb1", SystemClock(), news=news)
    with running(agent):
        until(lambda: said_revision(master) == 4)
        discovery.sessions = (("llama-0001", 3),)
        news.set()
        until(lambda: words(master)[-1].sessions == (("llama-0001", 3),), within_s=1.0)


def test_a_failure_is_told_and_tried_again(master):
    """The word names what stands, and why the newest does not; nothing is forgotten."""
    discovery, lines = FakeDiscovery(), []
    agent = Agent(Moving(master.url), discovery, "lb1", SystemClock(), say=lines.append)
    with running(agent):
        until(lambda: said_revision(master) == 4)
        discovery.broken = "HAProxy is away"
        publish(master, [place(3)], 5)
        until(lambda: words(master)[-1].error)
        assert words(master)[-1].revision == 4
        discovery.broken = ""
        until(lambda: said_revision(master) == 5)
        assert words(master)[-1].error == ""
        assert ports(discovery) == {8003}
    assert [line for line in lines if "not applied" in line] == [
        "revision 5 of llama is not applied: fake: HAProxy is away"
    ]


def test_a_failure_before_the_first_success_is_told_too(master):
    """Under revision 0, which is no view's."""
    discovery = FakeDiscovery()
    discovery.broken = "HAProxy is away"
    with running(Agent(Moving(master.url), discovery, "lb1", SystemClock())):
        until(lambda: words(master))
    assert {(word.epoch, word.revision) for word in words(master)} == {(EPOCH, 0)}
    assert all("HAProxy is away" in word.error for word in words(master))


def test_follows_the_next_master_and_changes_nothing_without_one(master):
    """The loss is said once; the word goes to the new master under its own epoch only."""
    discovery, lines = FakeDiscovery(), []
    source = Moving(master.url)
    with running(Agent(source, discovery, "lb1", SystemClock(), say=lines.append)):
        until(lambda: said_revision(master) == 4)
        master.server.close()
        until(lambda: any("no master of llama answers" in line for line in lines))
        opened = source.opened
        until(lambda: source.opened > opened + 1)
        assert ports(discovery) == {8001, 8002}
        with FakeMaster(snapshot()) as second:
            publish(second, [place(2)], 1, epoch=NEXT, complete=False)
            source.url = second.url
            until(lambda: said_revision(second) == 1)
            assert ports(discovery) == {8001, 8002}
            publish(second, [place(2)], 2, epoch=NEXT)
            until(lambda: said_revision(second) == 2)
            assert ports(discovery) == {8002}
            assert {word.epoch for word in words(second) if word.revision in {1, 2}} == {NEXT}
            assert {word.epoch for word in words(second) if word.revision == 4} <= {EPOCH}
    assert sum("no master of llama answers" in line for line in lines) == 1
    assert "the master of llama answers again" in lines


def test_superseded_does_not_end_it(master):
    """An older master's views are refused; the newer one's are obeyed."""
    discovery, lines = FakeDiscovery(), []
    discovery.registry.epoch = NEXT
    with running(Agent(Moving(master.url), discovery, "lb1", SystemClock(), say=lines.append)):
        until(lambda: any("superseded" in line for line in lines))
        publish(master, [place(5)], 1, epoch=NEXT)
        until(lambda: said_revision(master) == 1)
    assert ports(discovery) == {8005}
    assert discovery.views[0].epoch == NEXT
    assert sum("superseded" in line for line in lines) == 1


def test_a_wrong_token_is_said_once_and_not_tried_in_a_loop(master):
    """Fault 26 of the Java TARN: it span, and said nothing."""
    lines, source = [], Moving(master.url, "wrong-horse")
    agent = Agent(source, FakeDiscovery(), "lb1", SystemClock(), say=lines.append)
    with pytest.raises(NotAuthorizedError):
        agent.check()
    opened = source.opened
    with running(agent):
        until(lambda: lines)
        threading.Event().wait(2.5)
    assert source.opened - opened == 1
    assert len(lines) == 1
    assert "access to the master of" in lines[0]
    assert "wrong-horse" not in lines[0]


class Placed(FakeDiscovery):
    places: int | None = 7

    def capacity(self):
        return self.places


def test_fewer_places_than_replicas_are_an_error_at_the_start(master):
    """Both numbers are named; the fake master's most is 8."""
    discovery = Placed()
    agent = Agent(Moving(master.url), discovery, "lb1", SystemClock())
    with pytest.raises(ConfigError, match=r"for 7 servers.*replicas\.max is 8"):
        agent.check()
    discovery.places = 0
    with pytest.raises(ConfigError, match=r"Provide at least 8 places\.$"):
        agent.check()
    for enough in (8, None):
        discovery.places = enough
        agent.check()


def test_the_check_reaches_discovery_and_master(master):
    """What is away is said before anything is followed."""
    discovery = FakeDiscovery()
    discovery.broken = "HAProxy is away"
    with pytest.raises(DiscoveryError, match="away"):
        Agent(Moving(master.url), discovery, "lb1", SystemClock()).check()
    with pytest.raises(UnreachableError):
        Agent(Moving("http://127.0.0.1:1"), FakeDiscovery(), "lb1", SystemClock()).check()


class ScriptedApi:
    """A master whose stream holds one view, and that keeps what it is told."""

    def __init__(self, source):
        self.source = source

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        return None

    def close(self):
        return None

    def stream(self, path, last_id, stop, *, give_up_s):
        seen = None
        while not stop.is_set():
            if self.source.view is not seen:
                seen = self.source.view
                yield Message("", "instances", seen)
                self.source.heard = seen["revision"]  # who asks for more has taken this one in
            stop.wait(0.02)

    def instances(self):
        raise UnreachableError("over")

    def acknowledge(self, applied, lease_s):
        if self.source.refuses:
            raise self.source.refuses
        self.source.words.append(applied)

    def status(self):
        return {"limits": {"max": 1}}

    def affinity(self):
        return self.source.rules

    def demand(self, source, waiting, refused):
        self.source.demands.append((source, waiting, refused))


@attrs.define
class Scripted:
    view: dict
    refuses: Exception | None = None
    words: list = attrs.field(factory=list)
    demands: list = attrs.field(factory=list)
    opened: int = 0
    heard: int = 0
    """Revision of the last view that was taken in."""
    name: str = "llama"
    rules: dict | None = None

    def open(self):
        self.opened += 1
        return ScriptedApi(self)


def pushed_view(revision, *numbers, complete=True):
    members = [
        {
            "instance_id": f"llama-{number:04d}",
            "container_id": f"c{number}",
            "host": "127.0.0.1",
            "http_port": 8000 + number,
            "grpc_port": 9000 + number,
            "metrics_port": 10000 + number,
            "spec_hash": "h",
            "weight": 100,
        }
        for number in numbers
    ]
    return {"epoch": "1-1", "revision": revision, "complete": complete, "members": members}


def test_rules_are_read_at_the_start_with_each_view_and_now_and_then(monkeypatch):
    """Also those of an older master, which has none."""
    monkeypatch.setattr(agents, "RULES_EVERY_S", 0.2)
    source, heard = Scripted(pushed_view(1, 1)), []
    agent = Agent(source, FakeDiscovery(), "lb1", SystemClock(), affinity=heard.append)
    with contextlib.suppress(UnreachableError):  # of the first view, which this master only streams
        agent.check()
    assert heard == [None]
    source.rules = {"complete": True, "rules": []}
    with running(agent):
        until(lambda: len(heard) >= 4)
    assert heard[-1] == source.rules


def test_demand_is_told_only_while_there_is_nobody(monkeypatch):
    """At most once in its interval, and not when nothing waits or nothing is known."""
    monkeypatch.setattr(agents, "DEMAND_EVERY_S", 0.3)
    source, answers = Scripted(pushed_view(1, 1)), iter([])
    asked = []

    def demand():
        asked.append(1)
        found = next(answers, UnservedRequests())
        if found is None:
            raise DiscoveryError("haproxy", "does not answer")
        return found

    with running(Agent(source, FakeDiscovery(), "lb1", SystemClock(), demand=demand)):
        until(lambda: source.words)
        threading.Event().wait(0.5)
        assert asked == []
        source.view = pushed_view(2, complete=False)
        until(lambda: source.words[-1].revision == 2)
        assert asked == []
        answers = iter(
            [UnservedRequests(3, 1), UnservedRequests(), None, UnservedRequests(refused=2)]
        )
        source.view = pushed_view(3)
        until(lambda: len(asked) >= 5)
        assert source.demands == [("lb1", 3, 1), ("lb1", 0, 2)]


@pytest.mark.parametrize(
    "refuses", [NotAuthorizedError("lb1", "configure"), UnreachableError("gone")]
)
def test_a_word_that_is_not_taken_is_tried_again_slowly_and_said_once(refuses, monkeypatch):
    """While the view still arrives."""
    monkeypatch.setattr(agents, "POLL_EVERY_S", 0.3)
    monkeypatch.setattr(agents, "REFUSED_EVERY_S", 0.3)
    lines, source = [], Scripted(pushed_view(1, 1), refuses)
    with running(Agent(source, FakeDiscovery(), "lb1", SystemClock(), say=lines.append)):
        until(lambda: lines)
        threading.Event().wait(1.0)
        assert source.opened <= 10
        source.refuses = None
        until(lambda: source.words)
    assert [line for line in lines if "rejects the acknowledgement" in line] == lines[:1]


def test_a_view_in_work_is_never_cut_and_the_newest_wins():
    """What came meanwhile and was overtaken is never applied."""
    inside, go_on = threading.Event(), threading.Event()

    class Slow(FakeDiscovery):
        def sync(self, view):
            inside.set()
            go_on.wait(10)
            super().sync(view)

    source, discovery = Scripted(pushed_view(1, 1)), Slow()
    with running(Agent(source, discovery, "lb1", SystemClock())):
        inside.wait(5)
        for revision in range(2, 6):
            source.view = pushed_view(revision, revision)
            until(lambda wanted=revision: source.heard == wanted)
        assert discovery.views == []
        go_on.set()
        until(lambda: source.words and source.words[-1].revision == 5)
    assert [view.revision for view in discovery.views] == [1, 5]
    member = Member("llama-0005", "c5", place(5), "h", 100)
    assert discovery.views[-1] == DiscoveryView(Epoch(1, 1), 5, complete=True, members=(member,))
