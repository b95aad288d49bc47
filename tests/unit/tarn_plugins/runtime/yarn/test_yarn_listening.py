"""Where instances listen whose launch files cannot be read: real sockets, and what they tell."""

import socket
import threading

import attrs
import pytest

from tarn.domain import Endpoint
from tarn.domain.spec import TritonSpec
from tarn.testing.fake_triton import FakeTriton
from tarn_plugins.runtime.yarn.master import recovery as module
from tarn_plugins.runtime.yarn.master.recovery import candidates, listening, server_id
from tarn_plugins.runtime.yarn.messages import AllocatedContainer

ONE = AllocatedContainer("container_1", 7, "127.0.0.1", 1, "x:1")


def at(port: int) -> Endpoint:
    return Endpoint("127.0.0.1", port, 1, 2)


def test_a_triton_tells_its_id():
    """As it was started with."""
    with FakeTriton() as triton:
        triton.state.server_id = "fleet-0007"
        assert server_id(triton.endpoint) == "fleet-0007"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 403 Forbidden\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n[1]",
        b'HTTP/1.1 200 OK\r\n\r\n{"name": 7}',
        b"HTTP/1.1 200 OK\r\n\r\n\xff{",
        b"220 mail\r\n",
    ],
)
def test_what_is_no_triton_tells_none(said: bytes):
    """Nor does a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as hadoop:
        port = hadoop.getsockname()[1]

        def answer() -> None:
            line, _ = hadoop.accept()
            with line:
                line.recv(65_536)
                line.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        assert server_id(at(port)) == ""
        thread.join(5)
    assert server_id(at(port)) == ""


def test_who_says_nothing_holds_nobody_up(monkeypatch: pytest.MonkeyPatch):
    """A server that hangs counts as none, and one of many ports is not waited for for ever."""
    monkeypatch.setattr(module, "_ANSWER_WITHIN_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as hadoop:
        assert server_id(at(hadoop.getsockname()[1])) == ""
    monkeypatch.setattr(module, "WITHIN_S", 0.0)
    asked: list[Endpoint] = []

    def ask(endpoint: Endpoint) -> str:
        asked.append(endpoint)
        return ""

    assert listening("fleet", TritonSpec(), [ONE], ask) == {}
    assert asked == [Endpoint("127.0.0.1", 8000, 8001, 8002)]


def test_nodes_that_hang_hold_up_neither_the_others_nor_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred answers that never end, and one that comes: it is found, and nobody waits."""
    monkeypatch.setattr(module, "ALL_WITHIN_S", 2.0)
    over = threading.Event()
    grants = [attrs.evolve(ONE, container_id=f"c{n}", number=n) for n in range(1, 101)]
    awake = attrs.evolve(ONE, container_id="awake", number=101, node="awake")

    def ask(endpoint: Endpoint) -> str:
        if endpoint.host != "awake":
            over.wait(60)
            return ""
        return "fleet-0101"

    try:
        found = listening("fleet", TritonSpec(), [*grants, awake], ask)
        assert list(found) == ["awake"]
        assert not over.is_set()
    finally:
        over.set()


def test_each_finds_its_own_among_those_of_others():
    """By its whole id; a container that no instance was asked for under a number is nobody's."""
    two = attrs.evolve(ONE, container_id="container_2", number=8)
    nameless = attrs.evolve(ONE, container_id="container_3", number=0)
    told = {8000: "other-0007", 8003: "fleet-0008", 8006: "fleet-0007"}
    found = listening(
        "fleet", TritonSpec(), [ONE, two, nameless], lambda e: told.get(e.http_port, "")
    )
    assert {id_: endpoint.http_port for id_, endpoint in found.items()} == {
        "container_1": 8006,
        "container_2": 8003,
    }


def test_sets_are_tried_in_the_order_in_which_they_are_given():
    """A bounded number of them, and none where there is none."""
    ports = [endpoint.http_port for endpoint in candidates(ONE, TritonSpec())]
    assert ports == list(range(8000, 8000 + 3 * module.MOST_SETS, 3))
    assert list(candidates(ONE, TritonSpec(http_port=65_535, grpc_port=65_535))) == []
