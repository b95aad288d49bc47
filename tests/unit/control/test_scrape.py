"""Looking at instances, against fakes on real sockets."""

import asyncio
import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from raw_server import server

from tarn.control import port_watcher, probe
from tarn.control.http1 import ConnectionEnded, connect, request
from tarn.control.probe import Probe
from tarn.control.scrape import Families, ProbeTarget, Scraper, WarmupRequest
from tarn.control.warmup import warm_up
from tarn.domain import Endpoint, Known, ModelState, Reading, StubEnded, Unknown
from tarn.domain.outcomes import RequestCounts
from tarn.testing.fake_triton import FakeModel, FakeTriton

DEADLINE_S = 10.0
ECHO = WarmupRequest("/v2/models/echo/infer", b'{"inputs": []}')


class SystemClock:
    def now_s(self) -> float:
        return time.monotonic()

    def at(self) -> float:
        return time.time()


class Watcher:
    """A scraper, and a way to wait for what it sees."""

    def __init__(self, interval_s: float, timeout_s: float) -> None:
        self.woken = threading.Event()
        self.scraper = Scraper(
            SystemClock(),
            interval_s,
            timeout_s,
            self.woken.set,
            families=Families(("nv_extra",), ("nv_lines",)),
        )

    def until(self, holds: Callable[[Reading], bool], of: str = "a") -> Reading:
        """Return the first reading for which *holds* is true."""
        end_s = time.monotonic() + DEADLINE_S
        pause = threading.Event()
        while time.monotonic() < end_s:
            reading = self.scraper.readings().get(of)
            if reading is not None and holds(reading):
                return reading
            pause.wait(0.002)
        raise AssertionError(f"not seen: {self.scraper.readings()}")


@contextmanager
def watching(
    *, interval_s: float = 0.05, timeout_s: float = 2.0, **targets: ProbeTarget
) -> Iterator[Watcher]:
    watcher = Watcher(interval_s, timeout_s)
    watcher.scraper.start()
    try:
        watcher.scraper.watch(targets)
        yield watcher
    finally:
        watcher.scraper.close()
    assert watcher.scraper.crashes == 0


def is_live(reading: Reading) -> bool:
    return reading.live == Known(True, getattr(reading.live, "age_s", 0.0))


def is_gone(reading: Reading) -> bool:
    return bool(reading.gone)


def reason(sample: object) -> str:
    assert isinstance(sample, Unknown)
    return sample.reason


def test_reads_health_models_and_signals() -> None:
    """One look brings everything a decision needs."""
    with FakeTriton("b", "a") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        triton.model("a").extra_pending = 3
        reading = watcher.until(lambda r: is_live(r) and pending(r) == 3)
        assert reading.warm
    models = reading.models
    assert isinstance(models, Known)
    assert models.value == tuple(ModelState(name, "READY", versions=("1",)) for name in "ab")
    assert "no nv_extra" in reason(reading.metrics["nv_extra"])
    assert "no nv_lines" in reason(reading.metrics["nv_lines"])


def test_a_family_is_kept_as_its_sum_or_line_by_line() -> None:
    """As many of each as somebody asked for; a line by the name and labels that Triton wrote."""
    text = b'nv_extra{model="x"} 1\nnv_extra{model="y"} 2\nnv_lines{model="z",n="1"} 4\n'
    with FakeTriton("a") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        triton.state.metrics = text
        reading = watcher.until(lambda r: isinstance(r.metrics.get("nv_extra"), Known))
    assert reading.metrics["nv_extra"] == Known(3.0, pytest.approx(0.0, abs=DEADLINE_S))
    line = reading.metrics['nv_lines{model="z",n="1"}']
    assert isinstance(line, Known)
    assert line.value == 4.0
    assert 'nv_extra{model="x"}' not in reading.metrics


def test_a_triton_without_a_pending_gauge_becomes_quiet() -> None:
    """Version 2.37 of the fake, as the real ones before 23.09: it can be drained."""
    with FakeTriton("a") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        triton.state.version = "2.37.0"
        reading = watcher.until(lambda r: isinstance(r.busy, Known))
    assert isinstance(reading.busy, Known)
    assert reading.busy.value == 0


def pending(reading: Reading) -> float | None:
    sample = reading.metrics.get("pending")
    return sample.value if isinstance(sample, Known) else None


def test_an_idle_instance_becomes_quiet() -> None:
    """Busy is Known and 0 after some scrapes without movement."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        reading = watcher.until(lambda r: isinstance(r.busy, Known) and r.busy.value == 0)
        assert reading.instance_id == "a"


def test_nothing_is_known_before_the_first_look() -> None:
    """An entry is there at once, and says that nobody looked yet."""
    watcher = Watcher(1.0, 1.0)
    assert watcher.scraper.readings() == {}
    with server(lambda connection: None) as endpoint:
        watcher.scraper.watch({"a": ProbeTarget(endpoint)})
        watcher.scraper.start()
        first = watcher.until(lambda r: True)
        assert isinstance(first.live, Unknown)
        watcher.scraper.close()


def test_a_death_between_two_looks_is_noticed_at_once() -> None:
    """The kept connection ends: known gone in a moment, though the next look is 30 s away."""
    with (
        FakeTriton() as triton,
        watching(interval_s=30.0, a=ProbeTarget(triton.endpoint)) as watcher,
    ):
        watcher.until(is_live)
        watcher.woken.clear()
        began_s = time.monotonic()
        triton.crash()
        assert watcher.woken.wait(DEADLINE_S)
        took_s = time.monotonic() - began_s
        reading = watcher.until(is_gone)
        assert "connection refused" in reading.gone
        assert "connection refused" in reason(reading.live)
        assert took_s < 3.0


def test_dropped_connections_alone_are_no_death() -> None:
    """Something between closed them: looked again at once, and all is well."""
    with (
        FakeTriton() as triton,
        watching(interval_s=30.0, a=ProbeTarget(triton.endpoint)) as watcher,
    ):
        watcher.until(is_live)
        looks = triton.looks
        triton.drop_connections()
        watcher.until(lambda r: triton.looks >= looks + 3)
        assert is_live(watcher.until(is_live))
        assert not watcher.until(lambda r: True).gone


def test_a_server_that_closes_after_each_answer_is_not_asked_in_a_hurry() -> None:
    """One hurried look an interval, no hot loop."""
    count = 0
    pause = threading.Event()

    def serve(connection: socket.socket) -> None:
        nonlocal count
        count += 1
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with (
        server(serve) as endpoint,
        watching(interval_s=0.2, a=ProbeTarget(endpoint)) as watcher,
    ):
        watcher.until(lambda r: count > 0)
        pause.wait(1.0)
        assert count < 60  # 5 intervals, 3 questions each, at most each look doubled


def test_refused_is_gone_and_wakes_the_control_thread() -> None:
    """Nothing listens: certain, and said at once."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with watching(interval_s=30.0, a=ProbeTarget(Endpoint("127.0.0.1", port, 1, port))) as watcher:
        assert watcher.woken.wait(DEADLINE_S)
        reading = watcher.until(is_gone)
        assert reading.gone == f"connection refused by 127.0.0.1:{port}"
        assert "connection refused" in reason(reading.metrics["executing"])


def test_a_name_that_refuses_at_each_of_its_addresses_is_gone() -> None:
    """``localhost`` may be two addresses."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with watching(a=ProbeTarget(Endpoint("localhost", port, 1, port))) as watcher:
        assert "connection refused" in watcher.until(is_gone).gone


def test_one_that_hangs_is_unknown_and_not_gone_and_delays_nobody() -> None:
    """A time-out says nothing about death; the neighbour is read all the while."""
    with FakeTriton() as stuck, FakeTriton() as well:
        stuck.hang()
        targets = {"a": ProbeTarget(stuck.endpoint), "b": ProbeTarget(well.endpoint)}
        with watching(timeout_s=1.0, **targets) as watcher:
            looks = well.looks
            reading = watcher.until(
                lambda r: isinstance(r.live, Unknown) and "no answer for" in r.live.reason
            )
            assert "no answer for 1.0 s" in reason(reading.live)
            assert not reading.gone
            assert well.looks - looks >= 6
            assert is_live(watcher.until(is_live, of="b"))
            stuck.thaw()
            watcher.until(is_live)


def test_hanging_metrics_delay_no_health() -> None:
    """The two ports stand for themselves."""
    with FakeTriton() as triton, FakeTriton() as stuck:
        stuck.hang()
        mixed = Endpoint("127.0.0.1", triton.endpoint.http_port, 1, stuck.endpoint.metrics_port)
        with watching(timeout_s=0.3, a=ProbeTarget(mixed)) as watcher:
            reading = watcher.until(lambda r: "pending" in r.metrics)
            assert is_live(reading)
            assert "no answer" in reason(reading.metrics["pending"])
            assert "no answer" in reason(reading.busy)


def test_an_answer_that_is_slow_but_in_time_counts() -> None:
    """Slow is not silent."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        triton.state.delay_s = 0.1
        watcher.until(is_live)


def test_chunked_answers_are_understood() -> None:
    """A proxy in between may re-frame what Triton sends."""
    with FakeTriton() as triton:
        triton.state.chunked = True
        with watching(a=ProbeTarget(triton.endpoint)) as watcher:
            reading = watcher.until(lambda r: is_live(r) and "pending" in r.metrics)
            assert isinstance(reading.models, Known)
            assert isinstance(reading.metrics["pending"], Known)


def test_garbage_is_unknown_with_what_came() -> None:
    """Something else listens there."""
    with FakeTriton() as triton:
        triton.state.garbage = b"SSH-2.0-OpenSSH_9.6\r\n"
        with watching(a=ProbeTarget(triton.endpoint)) as watcher:
            reading = watcher.until(lambda r: "HTTP" in getattr(r.live, "reason", ""))
            assert "does not speak HTTP: not HTTP: b'SSH-2.0" in reason(reading.live)
            assert not reading.gone


def test_metrics_that_are_no_metrics_are_unknown() -> None:
    """HTTP 200 with something else as body."""
    with FakeTriton() as triton:
        triton.state.metrics = b"<html>hello</html>"
        with watching(a=ProbeTarget(triton.endpoint)) as watcher:
            reading = watcher.until(lambda r: "pending" in r.metrics)
            assert isinstance(reading.metrics["pending"], Unknown)


def test_a_server_that_is_not_live_is_known_to_be_not_live() -> None:
    """400 is an answer."""
    with FakeTriton() as triton:
        triton.state.live = False
        with watching(a=ProbeTarget(triton.endpoint)) as watcher:
            watcher.until(lambda r: isinstance(r.live, Known) and not r.live.value)


def test_a_connection_taken_and_closed_without_answer_is_gone() -> None:
    """So does a Triton that ends: new connections are reset while old ones are served."""
    with server(lambda connection: None) as endpoint, watching(a=ProbeTarget(endpoint)) as watcher:
        assert "closed the connection" in watcher.until(is_gone).gone


def test_another_instance_at_its_port_does_not_pass_for_it() -> None:
    """Two clusters may want one port; who has it first is not both. A name is no matter."""
    with FakeTriton("echo") as triton:
        triton.state.server_id = "other-0007"
        with watching(**{"demo-0001": ProbeTarget(triton.endpoint)}) as watcher:
            reading = watcher.until(lambda r: "'other-0007', answers" in str(r.live), "demo-0001")
            assert isinstance(reading.models, Unknown)
            assert not reading.gone
            for name in ("demo-0001", "a-name"):
                triton.state.server_id = name
                watcher.until(is_live, "demo-0001")


def test_loading_is_seen_and_a_change_wakes() -> None:
    """READY is told when it happens, not at the next tick."""
    with (
        FakeTriton(FakeModel("slow", load_s=1.5)) as triton,
        watching(a=ProbeTarget(triton.endpoint)) as watcher,
    ):
        watcher.until(lambda r: "LOADING" in str(r.models))
        watcher.woken.clear()
        assert watcher.woken.wait(DEADLINE_S)
        watcher.until(lambda r: "READY" in str(r.models))


def test_a_stub_that_ended_is_read_from_the_index_and_wakes() -> None:
    """What the watcher beside Triton shows is no model, and goes as it came."""
    with FakeTriton("a") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        assert watcher.until(is_live).stub_ended is None
        watcher.woken.clear()
        triton.state.models["word"] = FakeModel("tarn.stub-ended:7:-9:1700000000:m:m_0_0")
        reading = watcher.until(lambda r: r.stub_ended is not None)
        assert watcher.woken.wait(DEADLINE_S)
        said = (
            "process m_0_0 (pid 7) of the Python model 'm' was killed by signal 9 (SIGKILL): "
            "probably out of memory"
        )
        assert reading.stub_ended == StubEnded("a", said, 1.7e9, "m")
        assert isinstance(reading.models, Known)
        assert [model.name for model in reading.models.value] == ["a"]
        del triton.state.models["word"]
        watcher.until(lambda r: r.stub_ended is None)


def test_warm_up_waits_for_the_models_and_is_sent_once() -> None:
    """Not while one is LOADING; then each request once, and warm."""
    with FakeTriton("echo", FakeModel("slow", load_s=1.5)) as triton:
        target = ProbeTarget(triton.endpoint, warmup=(ECHO, ECHO))
        with watching(a=target) as watcher:
            assert not watcher.until(lambda r: "LOADING" in str(r.models)).warm
            assert not any(path.endswith("/infer") for _, path, _ in triton.requests)
            watcher.until(lambda r: r.warm)
            looks = triton.looks
            watcher.until(lambda r: triton.looks > looks + 6)
    sent = [path for _, path, _ in triton.requests if path.endswith("/infer")]
    assert sent == [ECHO.path, ECHO.path]


def test_a_warm_up_that_fails_leaves_it_cold_with_the_reason() -> None:
    """The answer of Triton is shown."""
    wrong = WarmupRequest("/v2/models/nothing/infer")
    with (
        FakeTriton() as triton,
        watching(a=ProbeTarget(triton.endpoint, warmup=(wrong,))) as watcher,
    ):
        reading = watcher.until(lambda r: r.cold != "")
        assert not reading.warm
        assert "POST /v2/models/nothing/infer: 404" in reading.cold
        assert "unknown model" in reading.cold


def test_a_leaving_instance_is_let_go_on_http_and_still_watched() -> None:
    """Its exit waits for no connection of ours, and its end is told by the metrics port."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        watcher.until(lambda r: is_live(r) and "pending" in r.metrics)
        assert triton.http_connections == 1
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, leaving=True)})
        watcher.until(lambda r: triton.http_connections == 0)
        watcher.until(lambda r: "is leaving" in str(r.live))
        assert triton.exit(timeout_s=5.0)
        assert "connection refused" in watcher.until(is_gone).gone


def test_a_held_connection_delays_the_exit_of_one_that_does_not_leave() -> None:
    """Why ``leaving`` exists: this is what Triton 2.51 does."""
    with (
        FakeTriton() as triton,
        watching(interval_s=30.0, a=ProbeTarget(triton.endpoint)) as watcher,
    ):
        watcher.until(is_live)
        assert not triton.exit(timeout_s=0.2)


def test_one_that_ends_by_itself_is_seen_although_it_answers_old_connections() -> None:
    """Its old connections say live while new clients are turned away."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        watcher.until(is_live)
        triton.state.exiting = True
        assert "closed the connection" in watcher.until(is_gone).gone


def test_leaving_can_be_taken_back() -> None:
    """A drain that is cancelled: health is asked again."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint, leaving=True)) as watcher:
        watcher.until(lambda r: "pending" in r.metrics)
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint)})
        watcher.until(is_live)


def test_what_is_not_watched_any_more_is_let_go() -> None:
    """Its reading vanishes and its connections end."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        watcher.until(is_live)
        watcher.scraper.watch({"b": ProbeTarget(triton.endpoint)})
        watcher.until(is_live, of="b")
        assert set(watcher.scraper.readings()) == {"b"}
        watcher.until(lambda r: triton.http_connections == 1, of="b")


def test_a_moved_endpoint_is_looked_at_anew() -> None:
    """Nothing of the old place is kept."""
    with (
        FakeTriton("old") as old,
        FakeTriton("new") as new,
        watching(a=ProbeTarget(old.endpoint)) as watcher,
    ):
        watcher.until(lambda r: "old" in str(r.models))
        watcher.scraper.watch({"a": ProbeTarget(new.endpoint)})
        watcher.until(lambda r: "new" in str(r.models))


def test_a_picture_of_readings_never_changes() -> None:
    """Readers may keep it; writing to it is an error."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        watcher.until(is_live)
        picture = watcher.scraper.readings()
        before = dict(picture)
        looks = triton.looks
        watcher.until(lambda r: triton.looks > looks + 6)
        assert picture == before
        with pytest.raises(TypeError):
            picture["a"] = before["a"]  # type: ignore[index]


def test_an_error_of_ours_is_counted_and_shown_and_does_not_end_the_others() -> None:
    """A host that is no host at all breaks its own lines only."""
    broken = ProbeTarget(Endpoint("a" * 70 + ".x", 1, 1, 1))
    watcher = Watcher(0.05, 1.0)
    watcher.scraper.start()
    try:
        with FakeTriton() as triton:
            watcher.scraper.watch({"a": broken, "b": ProbeTarget(triton.endpoint)})
            reading = watcher.until(lambda r: "error in the scraper" in str(r.live))
            assert "Unicode" in reason(reading.live)
            watcher.until(lambda r: watcher.scraper.crashes >= 4)
            watcher.until(is_live, of="b")
    finally:
        watcher.scraper.close()


def test_close_ends_the_thread_within_a_second_whatever_hangs() -> None:
    """Twice, and before the start, too."""
    with FakeTriton() as triton:
        triton.hang()
        watcher = Watcher(0.05, 30.0)
        watcher.scraper.start()
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, warmup=(ECHO,))})
        watcher.until(lambda r: True)
        began_s = time.monotonic()
        watcher.scraper.close()
        watcher.scraper.close()
        watcher.scraper.watch({})
        assert time.monotonic() - began_s < 3.0
        assert "scraper" not in {thread.name for thread in threading.enumerate()}
    Watcher(1.0, 1.0).scraper.close()


def reply(status: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\n" + more + b"Content-Length: 2\r\n\r\n[]"


def test_an_answer_that_is_no_success_is_unknown_with_its_status() -> None:
    """The index and the metrics of something that is no Triton; warm-up waits for ever."""

    def serve(connection: socket.socket) -> None:
        while connection.recv(1000):
            connection.sendall(reply(b"404 Not Found"))

    with (
        server(serve, threads=2) as endpoint,
        watching(a=ProbeTarget(endpoint, warmup=(ECHO,))) as watcher,
    ):
        reading = watcher.until(lambda r: isinstance(r.live, Known) and "pending" in r.metrics)
        assert reading.live == Known(False, getattr(reading.live, "age_s", 0.0))
        assert "index answered 404" in reason(reading.models)
        assert "/metrics answered 404" in reason(reading.metrics["pending"])
        assert not reading.warm


@pytest.mark.parametrize(
    "answer",
    [reply(b"200 OK", b"Connection: close\r\n"), b"HTTP/1.0 200 OK\r\n\r\n[]"],
)
def test_a_server_that_does_not_keep_connections_is_read_all_the_same(answer: bytes) -> None:
    """By ``Connection: close``, or HTTP/1.0 where the end of the stream ends the body."""

    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(answer)

    with server(serve, threads=2) as endpoint, watching(a=ProbeTarget(endpoint)) as watcher:
        reading = watcher.until(lambda r: isinstance(r.models, Known))
        assert is_live(reading)


def test_a_connection_that_ends_while_it_is_asked_is_opened_anew() -> None:
    """The second question meets a closed door: asked again over a new connection, no death."""

    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(reply(b"200 OK"))
        connection.recv(1000)

    with server(serve, threads=2) as endpoint, watching(a=ProbeTarget(endpoint)) as watcher:
        reading = watcher.until(lambda r: isinstance(r.models, Known))
        assert is_live(reading)
        assert not reading.gone


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    """It would be taken for the next one."""
    connections = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        connection.recv(1000)
        connection.sendall(reply(b"200 OK"))
        for _ in range(2):
            connection.recv(1000)
            connection.sendall(reply(b"200 OK"))
        threading.Event().wait(0.05)
        connection.sendall(b"more")
        assert connection.recv(1000) == b""

    with (
        server(serve, threads=2) as endpoint,
        watching(interval_s=0.5, a=ProbeTarget(endpoint)) as watcher,
    ):
        watcher.until(is_live)
        watcher.until(lambda r: len(connections) >= 3)
        assert not watcher.until(lambda r: True).gone


def test_a_place_that_cannot_be_reached_is_unknown() -> None:
    """No route is no proof of death."""
    nowhere = Endpoint("255.255.255.255", 80, 1, 80)
    with watching(a=ProbeTarget(nowhere)) as watcher:
        reading = watcher.until(lambda r: "cannot reach" in str(r.live))
        assert not reading.gone


def test_a_warm_up_that_cannot_be_sent_is_an_error_of_ours() -> None:
    """Counted, shown as the reason why it stays cold."""
    watcher = Watcher(0.05, 1.0)
    watcher.scraper.start()
    try:
        with FakeTriton() as triton:
            broken = WarmupRequest("/\u20ac")
            watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, warmup=(broken,))})
            assert "error in the scraper" in watcher.until(lambda r: bool(r.cold)).cold
            assert watcher.scraper.crashes >= 1
    finally:
        watcher.scraper.close()


def test_a_warm_up_that_is_refused_says_so_and_is_sent_again() -> None:
    """For as long as it takes."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    heard: list[str] = []

    def hear(reason: str, *, wrong: bool) -> None:
        assert not wrong
        heard.append(reason)

    async def try_for_a_while() -> None:
        async with asyncio.timeout(0.2):
            await warm_up(Endpoint("127.0.0.1", port, 1, port), (ECHO,), hear, 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(try_for_a_while())
    assert len(heard) > 1
    assert f"connection refused by 127.0.0.1:{port}" in heard[0]


def test_a_closed_connection_cannot_be_asked() -> None:
    """Nor does a question of the past wait for ever."""

    async def ask_after_close(port: int) -> None:
        connection = await connect("127.0.0.1", port, lambda: None)
        connection.close()
        with pytest.raises(ConnectionEnded):
            await connection.ask(request("GET", "/v2", "x"))

    with FakeTriton() as triton:
        asyncio.run(ask_after_close(triton.endpoint.http_port))


def test_a_connection_that_did_not_answer_in_time_is_never_asked_again() -> None:
    """Its late answer would be taken for the next one."""

    async def ask_in_vain(port: int) -> bool:
        connection = await connect("127.0.0.1", port, lambda: None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connection.ask(request("GET", "/v2/health/live", "x"))
        usable = connection.usable
        connection.close()
        return usable

    with FakeTriton() as triton:
        triton.hang()
        assert not asyncio.run(ask_in_vain(triton.endpoint.http_port))


def test_an_error_in_a_callback_is_counted() -> None:
    """Which asyncio would only log."""
    watcher = Watcher(1.0, 1.0)
    watcher.scraper.start()
    watcher.scraper._loop.call_soon_threadsafe(lambda: 1 / 0)
    pause = threading.Event()
    end_s = time.monotonic() + DEADLINE_S
    while watcher.scraper.crashes == 0:
        assert time.monotonic() < end_s
        pause.wait(0.005)
    watcher.scraper.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_scraper_that_ends_by_an_error_says_so_in_every_reading() -> None:
    """Old readings must not be taken for new ones."""
    with FakeTriton() as triton:
        watcher = Watcher(0.05, 1.0)
        watcher.scraper.start()
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint)})
        watcher.until(is_live)
        watcher.woken.clear()
        watcher.scraper._loop.call_soon_threadsafe(watcher.scraper._loop.stop)
        reading = watcher.until(lambda r: "has ended with an error" in str(r.live))
        assert isinstance(reading.busy, Unknown)
        assert watcher.woken.wait(DEADLINE_S)
        watcher.scraper.close()


def test_a_large_text_does_not_hold_up_the_others() -> None:
    """Five megabytes are read in pieces."""
    with FakeTriton() as large, FakeTriton() as small:
        line = 'nv_inference_count{model="m%d",version="1"} 1\n'
        large.state.metrics = "".join(line % n for n in range(100_000)).encode()
        targets = {"a": ProbeTarget(large.endpoint), "b": ProbeTarget(small.endpoint)}
        with watching(**targets) as watcher:
            watcher.until(lambda r: "pending" in r.metrics)
            watcher.until(is_live, of="b")


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whatever error number stands here, is what opening a connection raises."""
    numbers: list[int] = []
    open_one = port_watcher.connect

    async def connect_or_not(*where: object) -> object:
        if numbers:
            raise OSError(numbers[0], os.strerror(numbers[0]))
        return await open_one(*where)  # type: ignore[arg-type]

    monkeypatch.setattr(port_watcher, "connect", connect_or_not)
    return numbers


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_no_descriptor_is_our_own_fault(lacking: list[int], number: int) -> None:
    """What it said last stands, and the reading says what we lacked, until we can look again."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        watcher.until(is_live)
        lacking.append(number)
        probe = watcher.scraper._probes["a"]
        watcher.scraper._loop.call_soon_threadsafe(probe._http.close)
        blind = watcher.until(lambda r: bool(r.blind))
        assert "files open" in blind.blind
        assert is_live(blind)
        assert not blind.gone
        lacking.clear()
        assert is_live(watcher.until(lambda r: not r.blind))


def test_a_kept_connection_is_not_given_up_for_one_that_cannot_be_had(lacking: list[int]) -> None:
    """Its renewal is put off: what it held might be taken by somebody else."""
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        watcher.until(lambda r: is_live(r) and pending(r) is not None)
        kept = watcher.scraper._probes["a"]._http._connection
        lacking.append(errno.EMFILE)
        watcher.until(lambda r: bool(r.blind))
        looks = watcher.scraper._probes["a"]._http._looks
        watcher.until(lambda r: watcher.scraper._probes["a"]._http._looks > looks + 6)
        assert is_live(watcher.scraper.readings()["a"])
        assert watcher.scraper._probes["a"]._http._connection.usable
        lacking.clear()
        watcher.until(lambda r: not r.blind)
        assert watcher.scraper._probes["a"]._http._connection is not kept


def test_a_name_service_that_is_away_is_our_own_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that does not exist is the instance's."""
    again = port_watcher._unreachable("a:1", socket.gaierror(socket.EAI_AGAIN, "again"))
    never = port_watcher._unreachable("a:1", socket.gaierror(socket.EAI_NONAME, "unknown"))
    assert (again.own, never.own) == (True, False)


def test_crashed_tasks_leave_no_timers_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that crashes again and again has one timer, not one for each time."""
    crashes: list[int] = []

    async def crash(_probe: Probe, _line: object) -> None:
        crashes.append(1)
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Probe, "_look_metrics", crash)
    watcher = Watcher(0.01, 1.0)
    watcher.scraper.start()
    with FakeTriton() as triton:
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint)})
        watcher.until(lambda _r: len(crashes) > 20)
        assert len(watcher.scraper._looks._queue) == 2
        watcher.scraper.close()


def test_without_metrics_the_statistics_tell_what_executes() -> None:
    """The port is switched off, or cannot be reached: said, and the counters come over HTTP."""
    with FakeTriton("echo") as triton, watching(a=without_metrics(triton)) as watcher:
        reading = watcher.until(lambda r: bool(r.unmeasured))
        assert reading.unmeasured.startswith("connection refused by 127.0.0.1:")
        reading = watcher.until(lambda r: r.known("pending") == 0)
        assert isinstance(reading.busy, Known)
        assert (reading.busy.value, reading.known("requests_total")) == (0, 0)
        assert reading.outcomes == {"echo": RequestCounts()}, "it does not say what waits"
        assert isinstance(reading.metrics["gpu_utilization"], Unknown)


def test_outcomes_count_what_the_server_failed_and_not_what_callers_did() -> None:
    with FakeTriton("echo") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        model = triton.model("echo")
        model.failures |= {"BACKEND": 3, "REJECTED": 50}
        model.extra_pending = 4
        reading = watcher.until(lambda r: bool(r.outcomes.get("echo", RequestCounts()).failed))
        assert (reading.outcomes["echo"].failed, reading.outcomes["echo"].pending) == (3.0, 4.0)
        assert reading.known("failures_total") == 53.0
        assert reading.counted_s is not None


def test_metrics_that_come_back_are_read_again() -> None:
    """Nothing is said of it any more."""
    with FakeTriton("echo") as triton:
        target = without_metrics(triton)
        with watching(a=target) as watcher:
            watcher.until(lambda r: bool(r.unmeasured))
            with FakeTriton("echo", metrics_port=target.endpoint.metrics_port):
                watcher.until(lambda r: not r.unmeasured)


def test_a_model_that_does_not_say_what_it_is_costs_no_health_and_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else one slow answer would make an ensemble a model for as long as the master lives."""
    monkeypatch.setattr(probe, "KIND_AGAIN_S", 0.1)
    asked, index = list[bytes](), b'[{"name": "e", "version": "1", "state": "READY"}]'

    def serve(connection: socket.socket) -> None:
        while question := connection.recv(4096):
            path, body = question.split()[1], b"{}"
            if path == b"/v2/repository/index":
                body = index
            elif path == b"/v2/models/e/config":
                asked.append(path)
                body = b'{"platform": "ensemble"}'
                if len(asked) == 1:
                    connection.recv(1)  # until we are given up
                    return
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)

    looks = list[bool]()
    with (
        server(serve, threads=3) as endpoint,
        watching(timeout_s=1.0, a=ProbeTarget(endpoint)) as seen,
    ):

        def told(reading: Reading) -> bool:
            looks.append(isinstance(reading.models, Known))
            return bool(seen.scraper._kinds.ensembles)

        reading = seen.until(told)
        assert isinstance(reading.live, Known)
    assert asked == [b"/v2/models/e/config"] * 2
    assert looks[looks.index(True) :] == [True] * looks.count(True)


@pytest.mark.parametrize("path", [b"/v2/repository/index", b"/v2/models/e/config"])
def test_an_answer_that_is_nested_without_end_ends_no_look(path: bytes) -> None:
    """The index is then unknown, and such a model is no ensemble."""
    index, asked = b'[{"name": "e", "version": "1", "state": "READY"}]', set[bytes]()

    def serve(connection: socket.socket) -> None:
        while question := connection.recv(4096):
            asked.add(question.split()[1])
            body = index if question.split()[1] == b"/v2/repository/index" else b"{}"
            if question.split()[1] == path:
                body = b"[" * 200_000
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)

    with server(serve, threads=3) as endpoint, watching(a=ProbeTarget(endpoint)) as watcher:
        watcher.until(lambda r: path in asked and isinstance(r.live, Known))
        watcher.until(lambda r: isinstance(r.models, Known) is (path != b"/v2/repository/index"))


def without_metrics(triton: FakeTriton) -> ProbeTarget:
    """Return *triton* with a port for its metrics at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = closed.getsockname()[1]
    there = triton.endpoint
    return ProbeTarget(Endpoint(there.host, there.http_port, there.grpc_port, nowhere))


def test_an_answer_that_lies_there_counts_however_late_the_loop_reads_it() -> None:
    """A starved master must not take its instances for silent."""

    async def look(port: int) -> port_watcher.ProbeFailure | None:
        async def ask() -> None:
            connection = await connect("127.0.0.1", port, lambda: None)
            await connection.ask(request("GET", "/v2/health/live", "x"))
            connection.close()

        asyncio.get_running_loop().call_later(0.02, threading.Event().wait, 1.0)
        return await port_watcher.attempt("it", 0.3, ask())

    with FakeTriton() as triton:
        triton.state.delay_s = 0.1
        assert asyncio.run(look(triton.endpoint.http_port)) is None
        triton.hang()
        failure = asyncio.run(look(triton.endpoint.http_port))
        assert failure is not None
        assert failure.reason == "no answer for 0.3 s from it"


def test_a_scraper_that_stands_still_accuses_nobody() -> None:
    """What was not asked is no silence, also of one that had not answered before."""
    with FakeTriton() as triton, watching(timeout_s=0.3, a=ProbeTarget(triton.endpoint)) as watcher:
        assert watcher.until(is_live).silence is None
        before_s = time.monotonic()
        watcher.scraper._loop.call_soon_threadsafe(threading.Event().wait, 1.0)
        reading = watcher.until(lambda r: is_live(r) and r.taken_s > before_s + 1.0)
        assert reading.silence is None
        triton.hang()
        first = watcher.until(lambda r: r.silence is not None).silence
        watcher.scraper._loop.call_soon_threadsafe(threading.Event().wait, 2.0)
        assert first is not None
        later = watcher.until(
            lambda r: r.silence is not None and r.silence.until_s > first.until_s + 2
        )
    assert later.silence is not None
    assert (
        later.silence.until_s - later.silence.since_s < later.silence.until_s - first.since_s - 1.0
    )


def test_a_loop_that_stands_still_is_behind() -> None:
    with FakeTriton() as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        watcher.until(is_live)
        held = threading.Event()
        watcher.scraper._loop.call_soon_threadsafe(held.wait, DEADLINE_S)
        watcher.until(lambda _: watcher.scraper.looks().behind_s > 0.5)
        assert watcher.scraper.looks().interval_s == 0.05
        held.set()
        watcher.until(lambda _: watcher.scraper.looks().behind_s == 0)
