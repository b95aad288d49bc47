"""Who else works on the same HAProxy: an earlier agent, a second one, another fleet, a person."""

import contextlib
import threading
from collections.abc import Iterator

import attrs
import pytest
from haproxy_tritons import Triton, member, served_by, view
from servers.haproxy import SLOTS_BACKEND, ThreeBackendHaproxy
from servers.process import free_port

from tarn.clock import SystemClock
from tarn.domain import Endpoint, Epoch
from tarn.errors import DiscoveryError
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = pytest.mark.discovery


@contextlib.contextmanager
def engine_of(
    haproxy: ThreeBackendHaproxy, fleet: str = "fleet", **target: str
) -> Iterator[HAProxyServers]:
    engine = HAProxyServers(HaproxyTarget(haproxy.socket, fleet=fleet, **target), SystemClock())
    try:
        yield engine
    finally:
        engine.close(withdraw=False)


@contextlib.contextmanager
def triton() -> Iterator[Triton]:
    with contextlib.closing(Triton(1)) as one:
        yield one


def test_an_agent_knows_whose_slots_drain_that_another_has_filled(
    haproxy: ThreeBackendHaproxy,
) -> None:
    """Else it acknowledges the slot: the master knows no such instance, and ends it at once."""
    slots = {"backend": SLOTS_BACKEND, "slots": "triton-"}
    with triton() as one:
        with engine_of(haproxy, **slots) as before:
            before.sync(view(1, one.member))
            until(lambda: served_by(haproxy, haproxy.slots_port) == "1", 5)
            asked = threading.Thread(target=haproxy.get, args=("/slow", haproxy.slots_port))
            asked.start()
            one.begun.wait(5)
            before.sync(view(2))
        with engine_of(haproxy, **slots) as after:
            after.sync(view(2))
            word = after.applied()
            one.go_on.set()
            asked.join(5)
    assert word is not None
    assert word.sessions == (("fleet-0001", 1),)


def test_two_agents_on_one_haproxy_are_no_trouble(haproxy: ThreeBackendHaproxy) -> None:
    """What one added or took out, while the other was about to, is not an error."""
    views = [
        view(number, *(member(n, 9) for n in range(1, 30) if (n + number) % 3))
        for number in range(20)
    ]
    failed: list[Exception] = []
    both = threading.Barrier(2, timeout=10)

    def drive(engine: HAProxyServers) -> None:
        try:
            for one in views:
                both.wait()
                engine.sync(one)
        except DiscoveryError as error:
            both.abort()
            failed.append(error)

    with engine_of(haproxy) as first, engine_of(haproxy) as second:
        threads = [threading.Thread(target=drive, args=(one,)) for one in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert failed == []
        until(lambda: set(haproxy.servers()) == {m.instance_id for m in views[-1].members}, 5)


def test_epochs_of_two_fleets_are_never_compared(haproxy: ThreeBackendHaproxy) -> None:
    """Neither where backend and fleet, joined, are the same text."""
    with haproxy.file.open("a") as file:
        file.write("backend triton\n  option httpchk GET /v2/health/ready\n")
    haproxy.restart()
    newer = attrs.evolve(view(1), epoch=Epoch(1_800_000_000_000, 1))
    with (
        engine_of(haproxy, fleet="grpc-b", backend="triton") as first,
        engine_of(haproxy, fleet="b", backend="triton_grpc") as second,
    ):
        first.sync(newer)
        second.sync(view(1))


def test_a_server_that_a_person_closed_opens_again_without_a_gap(
    haproxy: ThreeBackendHaproxy,
) -> None:
    """It works since long: were it declared down, who asks would meet nobody, 503."""
    with triton() as one, engine_of(haproxy) as engine:
        engine.sync(view(1, one.member))
        until(lambda: served_by(haproxy) == "1", 5)
        until(lambda: haproxy.servers()["fleet-0001"].unchanged_s > 5, 10)
        haproxy.ask("set server triton_backend/fleet-0001 weight 0")
        engine.sync(view(1, one.member))
        assert haproxy.servers()["fleet-0001"].works


def test_slots_for_grpc_need_no_port_of_a_check(haproxy: ThreeBackendHaproxy) -> None:
    """They are asked at the instance's port for HTTP, whatever stands in the file."""
    with haproxy.file.open("a") as file:
        file.write(
            "backend grpc_slots\n  option httpchk GET /v2/health/ready\n"
            "  server triton-1 127.0.0.1:1 check inter 100ms proto h2 check-proto h1 disabled\n"
        )
    haproxy.restart()
    with (
        triton() as one,
        engine_of(
            haproxy, backend=SLOTS_BACKEND, slots="triton-", grpc_backend="grpc_slots"
        ) as engine,
    ):
        endpoint = Endpoint("127.0.0.1", one.port, free_port(), one.port)
        engine.sync(view(1, attrs.evolve(one.member, endpoint=endpoint)))
        until(lambda: haproxy.servers("grpc_slots")["triton-1"].works, 5)
        given = engine.orders_given
        engine.sync(view(1, attrs.evolve(one.member, endpoint=endpoint)))
        assert engine.orders_given == given
