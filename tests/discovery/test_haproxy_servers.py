"""The engine on a real HAProxy: what clients meet while servers come, leave, and HAProxy dies."""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from haproxy_tritons import EPOCH, Triton, member, served_by, view
from servers.haproxy import ThreeBackendHaproxy
from servers.process import free_port

from tarn.clock import SystemClock
from tarn.domain import Epoch
from tarn.errors import DiscoveryError, Superseded
from tarn.testing.wait import until, within
from tarn_plugins.discovery.haproxy.backends import HaproxyBackends
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = pytest.mark.discovery


@pytest.fixture
def tritons() -> Iterator[list[Triton]]:
    three = [Triton(number) for number in (1, 2, 3)]
    yield three
    for one in three:
        one.close()


Make = Callable[..., HAProxyServers]


@pytest.fixture
def make(haproxy: ThreeBackendHaproxy) -> Iterator[Make]:
    """Return how an engine over the test's HAProxy is made; the fixture closes it."""
    made: list[HAProxyServers] = []

    def one(
        wake: Callable[[], None] = lambda: None, names: HostResolver | None = None, **target: object
    ):
        where = HaproxyTarget(**{"socket": haproxy.socket, "fleet": "fleet", **target})  # type: ignore[arg-type]
        made.append(HAProxyServers(where, SystemClock(), wake, names=names))
        return made[-1]

    yield one
    for engine in made:
        engine.close(withdraw=False)


def test_a_new_server_gets_its_first_request_within_150_ms(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """From the view to the first request, median of nine: two steps of 50 ms are enough."""
    engine, took = make(), []
    for revision in range(0, 18, 2):
        began_s = time.perf_counter()
        engine.sync(view(revision, tritons[0].member))
        until(lambda: served_by(haproxy) == "1", 5)
        took.append(time.perf_counter() - began_s)
        engine.sync(view(revision + 1))
    print(f"view to first request: {sorted(took)[4] * 1000:.0f} ms (median of 9)")
    assert sorted(took)[4] < 0.45


def test_a_server_that_was_never_ready_gets_nothing(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """Under load, neither one that refuses nor one that is not ready gets a single request."""
    engine, stop, answers = make(), threading.Event(), []
    engine.sync(view(1, tritons[0].member))
    until(lambda: served_by(haproxy) == "1", 5)

    def load() -> None:
        while not stop.is_set():
            answers.append(served_by(haproxy))

    threads = [threading.Thread(target=load) for _ in range(3)]
    for one in threads:
        one.start()
    tritons[1].ready = False
    dead = member(9, free_port())
    for revision in range(2, 22, 2):
        engine.sync(view(revision, tritons[0].member, tritons[1].member, dead))
        stop.wait(0.03)
        engine.sync(view(revision + 1, tritons[0].member))
    engine.sync(view(99, tritons[0].member, tritons[1].member, dead))
    stop.wait(0.3)
    stop.set()
    for one in threads:
        one.join(10)
    assert set(answers) == {"1"}
    assert [haproxy.column(name, "stot") for name in ("fleet-0002", "fleet-0009")] == ["0", "0"]


def test_nothing_is_written_in_a_steady_state(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """Ticks without a change give no command; doubled views neither."""
    engine = make(grpc_backend="triton_grpc")
    now = view(1, *(one.member for one in tritons))
    engine.sync(now)
    given, asked = engine.orders_given, engine._api.round_trips
    engine.sync(now)
    until(lambda: engine._api.round_trips >= asked + 3, 10)
    assert engine.orders_given == given
    assert engine.applied().error == ""


@pytest.mark.parametrize("how", ["restart", "reload"])
def test_a_new_haproxy_is_filled_again_at_once(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton], how: str
) -> None:
    """What was told to the old process is told to the new one, without a new view."""
    engine = make(grpc_backend="triton_grpc")
    engine.sync(view(1, *(one.member for one in tritons)))
    before = haproxy.serving()
    getattr(haproxy, how)()
    began_s = time.perf_counter()
    until(lambda: haproxy.serving() == haproxy.serving("triton_grpc") == before, 3)
    print(f"{how}: full again after {time.perf_counter() - began_s:.2f} s")


def test_a_haproxy_is_filled_again_after_a_fault_that_nobody_expected(
    haproxy: ThreeBackendHaproxy,
    make: Make,
    tritons: list[Triton],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told once, in the log and to the master, and costs a look, not the thread."""
    engine, faults = make(), []
    engine.sync(view(1, tritons[0].member))
    before, settle = haproxy.serving(), HaproxyBackends.settle

    def faulty(*given: Any, **named: Any) -> Any:
        if len(faults) < 3:
            faults.append(1)
            raise RuntimeError("nobody expected this")
        return settle(*given, **named)

    monkeypatch.setattr(HaproxyBackends, "settle", faulty)
    haproxy.restart()
    until(lambda: "nobody expected this" in engine.applied().error, 10)
    until(lambda: haproxy.serving() == before, 10)
    until(lambda: engine.applied().error == "", 5)
    assert len([one for one in caplog.records if one.exc_info]) == 1


def test_a_view_that_came_while_haproxy_was_away_is_applied_when_it_is_back(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """The error says so, `applied` stays behind, then moves by itself and wakes."""
    woken = threading.Event()
    engine = make(woken.set)
    engine.sync(view(1, tritons[0].member))
    haproxy.stop()
    with pytest.raises(DiscoveryError, match=r"does not answer.*Start HAProxy"):
        engine.sync(view(2, tritons[1].member))
    assert engine.applied().revision == 1
    woken.clear()
    haproxy.start()
    assert woken.wait(3)
    assert engine.applied().revision == 2
    assert set(haproxy.serving()) == {"fleet-0002"}


def test_that_haproxy_is_away_is_said_without_a_new_view(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """Its clients get no answer meanwhile, so nobody may call it in step."""
    woken = threading.Event()
    engine = make(woken.set)
    engine.sync(view(1, tritons[0].member))
    woken.clear()
    haproxy.stop()
    assert woken.wait(5)
    assert engine.applied().revision == 1
    assert "Start HAProxy" in engine.applied().error
    haproxy.start()
    until(lambda: engine.applied().error == "", 5)


def test_a_silent_haproxy_is_given_up_in_time(haproxy: ThreeBackendHaproxy, make: Make) -> None:
    """A stopped process takes connections and says nothing: two seconds, then an error."""
    engine = make()
    engine.sync(view(1))
    with haproxy.stopped():
        with pytest.raises(DiscoveryError, match=r"silent for 2 s|does not answer"):
            within(8, lambda: engine.sync(view(2)))
        within(3, lambda: engine.close(withdraw=True), "close")


def test_an_open_request_ends_well_and_then_its_server_is_deleted(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """Drained: nothing new, the open request counted until its end; wakes when it is zero."""
    woken, answers = threading.Event(), []
    engine = make(woken.set)
    engine.sync(view(1, tritons[0].member))
    until(lambda: served_by(haproxy) == "1", 5)
    request = threading.Thread(target=lambda: answers.append(haproxy.get("/slow", timeout_s=30)))
    request.start()
    assert tritons[0].begun.wait(5)
    engine.sync(view(2, tritons[1].member))
    until(lambda: engine.applied().sessions == (("fleet-0001", 1),), 2)
    until(lambda: served_by(haproxy) == "2", 5)
    assert {served_by(haproxy) for _ in range(20)} == {"2"}
    assert "fleet-0001" in haproxy.servers()
    woken.clear()
    tritons[0].go_on.set()
    assert woken.wait(2)
    until(lambda: "fleet-0001" not in haproxy.servers(), 2)
    request.join(5)
    assert answers == [(200, b"1")]
    assert engine.applied().sessions == ()


def test_closing_with_withdraw_lets_an_open_request_end(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """Back within a second, its thread has ended, and what is open stays in drain."""
    engine, answers = make(), []
    engine.sync(view(1, tritons[0].member, tritons[1].member))
    until(lambda: {served_by(haproxy) for _ in range(4)} == {"1", "2"}, 5)
    requests = [
        threading.Thread(target=lambda: answers.append(haproxy.get("/slow", timeout_s=30)))
        for _ in range(2)
    ]
    for one in requests:
        one.start()
    assert all(triton.begun.wait(5) for triton in tritons[:2])
    within(3, lambda: engine.close(withdraw=True), "close")
    assert not engine._thread.is_alive()
    assert all(server.drains for server in haproxy.servers().values())
    for triton in tritons:
        triton.go_on.set()
    for one in requests:
        one.join(5)
    assert sorted(answers) == [(200, b"1"), (200, b"2")]


def test_a_new_server_that_never_works_keeps_the_old_one_for_two_seconds(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """Then the view is obeyed, and acknowledged."""
    engine = make()
    engine.sync(view(1, tritons[0].member))
    until(lambda: served_by(haproxy) == "1", 5)
    engine.sync(view(2, member(9, free_port())))
    assert engine.applied().revision == 1
    assert served_by(haproxy) == "1"
    until(lambda: engine.applied().revision == 2, 4)
    assert set(haproxy.servers()) == {"fleet-0009"}


@pytest.mark.parametrize("slots", ["", "triton-"])
def test_replacing_all_at_once_loses_no_request(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton], slots: str
) -> None:
    """The old one is kept until the new one had its first check, and only then acknowledged."""
    target = {"backend": "slots_backend", "slots": slots} if slots else {}
    port = haproxy.slots_port if slots else haproxy.http_port
    engine, answers = make(**target), []
    engine.sync(view(1, tritons[0].member))
    until(lambda: served_by(haproxy, port) == "1", 5)
    for revision in range(2, 6):
        new = tritons[revision % 2]
        engine.sync(view(revision, new.member))
        while answers[-1:] != [new.member.instance_id[-1]]:
            answers.append(served_by(haproxy, port))
        until(lambda now=revision: engine.applied().revision == now, 5)
    assert "503" not in answers


def test_a_grpc_server_is_checked_over_http(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """Its service speaks HTTP/2, its check HTTP/1.1 at Triton's HTTP port."""
    endpoint = attrs.evolve(tritons[0].member.endpoint, grpc_port=free_port())
    engine = make(grpc_backend="triton_grpc")
    engine.sync(view(1, attrs.evolve(tritons[0].member, endpoint=endpoint)))
    until(lambda: haproxy.column("fleet-0001", "status", "triton_grpc") == "UP", 2)
    assert haproxy.servers("triton_grpc")["fleet-0001"].port == endpoint.grpc_port


def test_connections_to_an_added_server_are_used_again(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """An added server has no pool unless it is given one; and idle ones do not hold up its end."""
    engine = make()
    engine.sync(view(1, tritons[0].member))
    until(lambda: served_by(haproxy) == "1", 5)
    connection = http.client.HTTPConnection("127.0.0.1", haproxy.http_port)
    with contextlib.closing(connection):
        for _ in range(10):
            connection.request("GET", "/v2")
            assert connection.getresponse().read() == b"1"
        assert int(haproxy.column("fleet-0001", "reuse")) >= 8
        engine.sync(view(2))
        until(lambda: not haproxy.servers(), 3)


def test_another_engine_goes_on_with_a_drain(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """The drained state lives in HAProxy: a restarted agent ends it, or takes it back."""
    first = make()
    first.sync(view(1, tritons[0].member))
    until(lambda: served_by(haproxy) == "1", 5)
    request = threading.Thread(target=lambda: haproxy.get("/slow", timeout_s=30))
    request.start()
    assert tritons[0].begun.wait(5)
    first.sync(view(2, tritons[1].member))
    first.close(withdraw=False)
    second = make()
    second.sync(view(2, tritons[1].member))
    until(lambda: second.applied() is not None, 2)
    assert second.applied().sessions == (("fleet-0001", 1),)
    second.sync(view(3, tritons[0].member))
    assert served_by(haproxy) == "1"  # ready again at once: its check never stopped
    second.sync(view(4))
    tritons[0].go_on.set()
    request.join(5)
    until(lambda: not haproxy.servers(), 3)


def test_a_dead_server_is_out_of_rotation_within_a_second(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """By HAProxy's own checks, with no word from a master."""
    engine = make()
    engine.sync(view(1, tritons[0].member, tritons[1].member))
    until(lambda: {served_by(haproxy) for _ in range(4)} == {"1", "2"}, 5)
    tritons[0].close()
    began_s = time.perf_counter()
    until(lambda: haproxy.column("fleet-0001", "status") == "DOWN", 5)
    took_s = time.perf_counter() - began_s
    print(f"down {took_s:.2f} s after its end")
    assert took_s < 3.0


def test_a_host_name_becomes_an_address(haproxy: ThreeBackendHaproxy, make: Make) -> None:
    """One that has none is an error of that instance; the others are served."""
    engine = make()
    known, unknown = member(1, 4000, "localhost"), member(2, 4000, "no-such-host.invalid")
    engine.sync(view(1, known, unknown))
    assert haproxy.serving() == {"fleet-0001": ("127.0.0.1", 4000)}
    error = engine.applied().error
    assert "fleet-0002" in error
    assert "no-such-host.invalid" in error
    assert "fleet-0001" not in error


def test_a_hung_name_service_holds_up_only_its_own_instances(
    haproxy: ThreeBackendHaproxy, make: Make
) -> None:
    """Two seconds are waited; the instance comes when the answer does."""
    answer = threading.Event()

    def look_up(host: str) -> tuple[str, ...]:
        answer.wait(30)
        return ("127.0.0.7",)

    engine = make(names=HostResolver(SystemClock(), look_up))
    try:
        within(5, lambda: engine.sync(view(1, member(1, 4000), member(2, 4000, "slow-host"))))
        assert set(haproxy.serving()) == {"fleet-0001"}
        assert "slow-host" in engine.applied().error
    finally:
        answer.set()
    until(lambda: haproxy.serving().get("fleet-0002") == ("127.0.0.7", 4000), 5)
    until(lambda: engine.applied().error == "", 5)


def test_servers_of_the_operator_are_left_alone(tmp_path: Path) -> None:
    """A static server stays as it is when the fleet comes, goes, and is withdrawn."""
    stage = ThreeBackendHaproxy(tmp_path, static="  server spare 127.0.0.1:9 check")
    stage.start()
    try:
        before = stage.servers()["spare"]
        engine = HAProxyServers(HaproxyTarget(stage.socket, fleet="fleet"), SystemClock())
        engine.sync(view(1, member(1, 4000)))
        engine.sync(view(2))
        engine.close(withdraw=True)
        left = stage.servers()
        assert set(left) == {"spare"}
        assert (left["spare"].admin, left["spare"].weight) == (before.admin, before.weight)
    finally:
        stage.stop()


def test_another_fleet_in_the_same_backend_is_left_alone(
    haproxy: ThreeBackendHaproxy, make: Make
) -> None:
    """Ownership goes by the cluster's name."""
    other = attrs.evolve(member(1, 4001), instance_id="other-0001")
    make(fleet="other").sync(view(7, other))
    ours = make()
    ours.sync(view(1, member(1, 4000)))
    ours.sync(view(2))
    assert set(haproxy.serving()) == {"other-0001"}


def test_slots_are_used_and_given_back(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """The seeds' placeholders: no command in a steady state, though their admin bits differ."""
    engine = make(backend="slots_backend", slots="triton-", grpc_backend="")
    assert engine.capacity() == 4
    now = view(1, *(one.member for one in tritons))
    engine.sync(now)
    until(lambda: {served_by(haproxy, haproxy.slots_port) for _ in range(6)} == {"1", "2", "3"}, 5)
    given = engine.orders_given
    engine.sync(now)
    assert engine.orders_given == given
    engine.sync(view(2, tritons[1].member))
    until(lambda: len(haproxy.serving("slots_backend")) == 1, 2)
    assert served_by(haproxy, haproxy.slots_port) == "2"
    engine.close(withdraw=True)
    assert haproxy.serving("slots_backend") == {}
    assert len(haproxy.servers("slots_backend")) == 4


def test_an_open_request_in_a_slot_ends_well(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """It is counted under the instance's id, and the slot is free after it."""
    engine, answers = make(backend="slots_backend", slots="triton-"), []
    engine.sync(view(1, tritons[0].member))
    port = haproxy.slots_port
    until(lambda: served_by(haproxy, port) == "1", 5)
    request = threading.Thread(target=lambda: answers.append(haproxy.get("/slow", port, 30)))
    request.start()
    assert tritons[0].begun.wait(5)
    engine.sync(view(2))
    assert engine.applied().sessions == (("fleet-0001", 1),)
    tritons[0].go_on.set()
    request.join(5)
    assert answers == [(200, b"1")]
    until(lambda: all(s.in_maintenance for s in haproxy.servers("slots_backend").values()), 2)


def test_nobody_is_said_to_have_left_a_slot_that_cannot_be_told_apart(
    haproxy: ThreeBackendHaproxy, make: Make
) -> None:
    """A slot is known by its address: while one is missing the word is of the view before."""
    answer = threading.Event()

    def look_up(host: str) -> tuple[str, ...]:
        answer.wait(30)
        return ("127.0.0.7",)

    names = HostResolver(SystemClock(), look_up)
    engine = make(backend="slots_backend", slots="triton-", names=names)
    try:
        engine.sync(view(1, member(1, 4000), member(2, 4000, "127.0.0.2")))
        within(5, lambda: engine.sync(view(2, member(1, 4000), member(3, 4000, "slow-host"))))
        assert engine.applied().revision == 1
        assert "slow-host" in engine.applied().error
        assert len(haproxy.serving("slots_backend")) == 2
    finally:
        answer.set()
    until(lambda: engine.applied().revision == 2, 5)
    assert set(haproxy.serving("slots_backend").values()) == {
        ("127.0.0.1", 4000),
        ("127.0.0.7", 4000),
    }


def test_too_few_slots_are_said(haproxy: ThreeBackendHaproxy, make: Make) -> None:
    """Four serve and the fifth is named; at the start fewer than the fleet's largest size raise."""
    engine = make(backend="slots_backend", slots="triton-", at_least=5)
    engine.sync(view(1, *(member(n, 4000 + n) for n in range(1, 6))))
    assert len(haproxy.serving("slots_backend")) == 4
    assert engine.applied().error == "no free placeholder server for fleet-0005"
    with pytest.raises(DiscoveryError, match="4 placeholder servers 'triton-…' for 5 instances"):
        within(3, lambda: engine.reach(30))  # it would not get more by waiting


def test_a_thousand_servers_from_scratch(haproxy: ThreeBackendHaproxy, make: Make) -> None:
    """In both backends, in few round trips."""
    engine = make(grpc_backend="triton_grpc")
    many = [member(n, 10_000 + n) for n in range(1, 1001)]
    began_s = time.perf_counter()
    engine.sync(view(1, *many))
    took_s = time.perf_counter() - began_s
    trips = engine._api.round_trips
    print(f"1,000 servers in two backends: {took_s:.2f} s, {trips} round trips")
    assert len(haproxy.serving()) == len(haproxy.serving("triton_grpc")) == 1000
    assert took_s < 9.0
    assert trips < 40
    began_s = time.perf_counter()
    engine.sync(view(2))
    print(f"and out again: {time.perf_counter() - began_s:.2f} s")
    assert haproxy.servers() == {}


def test_errors_are_sentences(haproxy: ThreeBackendHaproxy, make: Make, tmp_path: Path) -> None:
    """No socket, no socket's file, no right, no backend: each says what to do."""
    with pytest.raises(DiscoveryError, match=r"gone: there is no such socket.*stats socket"):
        make(socket=tmp_path / "gone").reach(0.1)
    with pytest.raises(DiscoveryError, match="this file is not a socket"):
        make(socket=haproxy.file).reach(0.1)
    with pytest.raises(DiscoveryError, match=r"level admin.*reload HAProxy"):
        make(socket=haproxy.operator_socket).reach(0.1)
    with pytest.raises(DiscoveryError, match=r"level admin.*reload HAProxy"):
        make(socket=haproxy.operator_socket).sync(view(1, member(1, 4000)))
    with pytest.raises(DiscoveryError, match=r"no backend 'none'.*slots_backend, triton_backend"):
        make(backend="none").reach(0.1)


def test_a_refused_command_is_an_error_and_the_others_are_done(
    haproxy: ThreeBackendHaproxy, make: Make
) -> None:
    """The command and HAProxy's own words stand in it."""
    engine = make()
    with pytest.raises(
        DiscoveryError, match=r"about 1 server: 'add server.*fleet-0001.*invalid port"
    ):
        engine.sync(view(1, member(1, 70_000), member(2, 4000)))
    assert "fleet-0002" in haproxy.serving()
    with pytest.raises(DiscoveryError, match="about 1 server"):
        engine.sync(view(2, member(1, 70_000), member(3, 4001)))
    assert set(haproxy.servers()) == {"fleet-0003"}  # the drain came to its end


def test_requests_that_find_no_server_are_counted(
    haproxy: ThreeBackendHaproxy, make: Make, tritons: list[Triton]
) -> None:
    """What a fleet at size zero goes by."""
    engine = make(grpc_backend="triton_grpc")
    before = engine.statistics()
    assert [served_by(haproxy) for _ in range(3)] == ["503"] * 3
    assert engine.statistics().refused - before.refused == 3
    engine.sync(view(1, tritons[0].member))
    until(lambda: served_by(haproxy) == "1", 5)
    request = threading.Thread(target=lambda: haproxy.get("/slow", timeout_s=30))
    request.start()
    assert tritons[0].begun.wait(5)
    assert engine.statistics().open == 1
    tritons[0].go_on.set()
    request.join(5)


def test_an_old_master_elsewhere_is_kept_out(haproxy: ThreeBackendHaproxy, make: Make) -> None:
    """HAProxy itself remembers the epoch, so another process's engine is refused too."""
    later = Epoch(EPOCH.incarnation + 1, 1)
    make().sync(attrs.evolve(view(1, member(1, 4000)), epoch=later))
    with pytest.raises(Superseded):
        make().sync(view(50))
    assert set(haproxy.serving()) == {"fleet-0001"}
