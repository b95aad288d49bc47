"""Where HAProxy stands next to the master, and while there is no master."""

import http.client
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from certificates import Authority
from fake_master import TOKEN, FakeMaster
from house import House, clear, until
from proxied_fleet import Fleet
from servers.haproxy import HAPROXY, RenderedHaproxy
from servers.lb_agent import fake_tritons
from triton_stub import TritonStub, fleet_of, stub_answers

from tarn.clock import SystemClock
from tarn.follow import Master
from tarn.http.grpc_service import GrpcListener
from tarn.tls.contexts import Trust, server_context
from tarn_plugins.discovery.haproxy.answers_keeper import AnswersKeeper
from tarn_plugins.discovery.haproxy.configuration import render
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi

pytestmark = [
    pytest.mark.one_triton,
    pytest.mark.timeout(240),
    pytest.mark.skipif(HAPROXY is None, reason="needs haproxy"),
]

NAME, SIZE, WITHIN_S = "near", 2, 60.0


@attrs.frozen
class Near:
    house: House
    haproxy: RenderedHaproxy

    def get(self, path: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.haproxy.http_port, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if body.strip() else None
        finally:
            connection.close()

    def answers(self) -> bool:
        return self.get("/v2/models/stats")[0] == 200


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Near]:
    house = House(tmp_path)
    try:
        with RenderedHaproxy(house.root, NAME) as haproxy:
            options = {
                "socket": str(haproxy.socket),
                "grpc_backend": haproxy.settings.grpc_backend,
            }
            spec = house.spec(
                NAME,
                replicas={"min": 1, "max": 4, "initial": SIZE},
                discovery=[{"use": "haproxy", "options": options, "required": True}],
                **fake_tritons(house.root),
            )
            done = house.tarn("up", "-f", spec, "--timeout", "60s")
            assert done.returncode == 0, done.stderr
            try:
                one = Near(house, haproxy)
                until(one.answers, WITHIN_S, "an answer of the master")
                yield one
            finally:
                clear(house)
    finally:
        clear(house)


def test_a_master_leads_haproxy_to_itself_and_the_next_one_too(near: Near) -> None:
    """Meanwhile one instance answers what it can, and what only all can is refused."""
    until(lambda: len(near.haproxy.taking()) == SIZE, WITHIN_S, "both instances")
    until(lambda: near.get("/v2")[0] == 200, WITHIN_S, "metadata")
    with Fleet(near.house, NAME) as fleet:
        assert len(fleet.ready()) == SIZE
    pid = int(near.house.ref(NAME)["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        until(
            lambda: near.haproxy.statistics("tarn_answers")["master"]["status"] == "DOWN",
            WITHIN_S,
            "HAProxy notices",
        )
        assert near.get("/v2")[0] == 200
        assert near.get("/v2/models/stats") == (503, {"error": "no master answers"})
    finally:
        os.kill(pid, signal.SIGKILL)
    until(near.answers, WITHIN_S, "an answer of the next master")


def test_a_reload_of_haproxy_takes_nothing_away(near: Near) -> None:
    near.haproxy.reload()
    until(near.answers, WITHIN_S, "an answer after the reload")
    assert near.get("/v2/models/echo/ready")[0] in (200, 400)


def test_without_a_master_grpc_says_what_is_missing(tmp_path: Path) -> None:
    """A master that lacks grpcio is told apart from one that is away."""
    client_module = pytest.importorskip("tritonclient.grpc", exc_type=ImportError)
    utils = pytest.importorskip("tritonclient.utils", exc_type=ImportError)
    with RenderedHaproxy(tmp_path, NAME) as haproxy:
        client = client_module.InferenceServerClient(haproxy.grpc_address)
        try:
            with pytest.raises(utils.InferenceServerException, match="no master answers") as away:
                client.get_inference_statistics()
            assert away.value.status() == "StatusCode.UNAVAILABLE"
            haproxy.command("experimental-mode on; set var proc.tarn_answers_grpc str(no)")
            with pytest.raises(utils.InferenceServerException, match="has no gRPC") as lacks:
                client.get_inference_statistics()
            assert lacks.value.status() == "StatusCode.UNIMPLEMENTED"
        finally:
            client.close()


def test_a_master_with_tls_is_asked_over_tls(tmp_path: Path) -> None:
    """Over both protocols, by the authority in the file; the keeper is the agent's own."""
    client_module = pytest.importorskip("tritonclient.grpc", exc_type=ImportError)
    authority = Authority(tmp_path / "tls")
    issued = authority.issue("127.0.0.1")
    pem = tmp_path / "tls.pem"
    pem.write_bytes(issued.key.read_bytes() + issued.cert.read_bytes())
    haproxy = RenderedHaproxy(tmp_path, NAME)
    settings = attrs.evolve(haproxy.settings, master_ca=str(authority.ca))
    haproxy.file.write_text(render(settings))
    said: list[str] = []
    with TritonStub(stub_answers(3)) as one, TritonStub(stub_answers(4)) as two:
        master = FakeMaster(
            fleet_of((one, two)),
            tls=server_context(pem),
            grpc=GrpcListener("127.0.0.1", proof=pem),
        )
        source = Master(master.url, TOKEN.decode(), Trust(ca=authority.ca))
        with master, haproxy:
            api = RuntimeApi(haproxy.socket, 5.0, "haproxy")
            keeper = AnswersKeeper(api, source, SystemClock(), said.append)
            keeper.start()
            near = Near(House(tmp_path), haproxy)
            client = client_module.InferenceServerClient(haproxy.grpc_address)
            try:
                until(near.answers, WITHIN_S, lambda: f"an answer: {said}")
                until(
                    lambda: haproxy.statistics("tarn_answers_grpc")["master"]["status"] == "UP",
                    WITHIN_S,
                    lambda: f"gRPC: {said}",
                )
                (row,) = client.get_inference_statistics().model_stats
                assert row.inference_count == 7
            finally:
                client.close()
                keeper.close()
