"""With ``--authz`` HAProxy asks first, then the master decides again, by the same user."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from fake_master import FakeMaster, PolicyAuthorizer
from house import until
from servers.guarded_haproxy import TOKEN, GuardedHaproxy
from servers.haproxy import HAPROXY
from triton_stub import TritonStub, fleet_of, stub_answers

from tarn.domain import ControlRequest
from tarn.domain.control_calls import CallKind, CallOutcome, ControlCall, WantedCalls
from tarn.http.authenticator import KnownProxy, Proofs
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.tls.contexts import network

pytestmark = [
    pytest.mark.one_triton,
    pytest.mark.skipif(HAPROXY is None, reason="needs haproxy"),
]

RIGHTS = {
    *(("alice", action, model) for action in ("list", "metadata") for model in ("echo", "*")),
    ("carol", "admin", ""),
    ("carol", "view", ""),
}


@attrs.frozen
class Authorized:
    master: FakeMaster
    triton: TritonStub
    door: GuardedHaproxy

    def ask(self, path: str, method: str = "GET", user: str = "alice", **more: str) -> Any:
        return self.door.knox(path, method, user, **more)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authorized]:
    root: Path = tmp_path_factory.mktemp("answers")
    trusted = KnownProxy(
        "lb", network("127.0.0.0/8"), "token", TOKEN.encode(), users=frozenset({"*"})
    )
    policy = PolicyAuthorizer()
    policy.rights = RIGHTS
    with TritonStub(stub_answers(3)) as one, TritonStub(stub_answers(4)) as two:
        master = FakeMaster(
            fleet_of((one, two)),
            gate=DirectAuthorizer(policy),
            proofs=Proofs(trusted=(trusted,)),
        )
        place = SimpleNamespace(port=master.server.port)
        with master, GuardedHaproxy(root, place, one.endpoint.http_port, answers=True) as door:
            move = f"set server tarn_answers/master addr 127.0.0.1 port {place.port}"
            for command in (move, "set server tarn_answers/master state ready"):
                door.command(command)
            door.command("enable health tarn_answers/master")
            until(lambda: door.statistics("tarn_answers")["BACKEND"]["status"] == "UP", 20)
            until(lambda: door.statistics("tarn_answers")["master"]["status"] == "UP", 20)
            yield Authorized(master, one, door)


def test_who_has_the_rights_gets_the_sum(guarded: Authorized) -> None:
    answer = guarded.ask("/v2/models/stats")
    assert answer.status == 200, answer
    (row,) = json.loads(answer.body)["model_stats"]
    assert row["inference_count"] == 7
    assert guarded.ask("/v2/models/echo/stats").status == 200
    assert guarded.ask("/v2/models/echo").status == 200
    assert guarded.ask("/v2").status == 200


@pytest.mark.parametrize("path", ["/v2", "/v2/models/stats", "/v2/models/echo/config"])
def test_who_has_none_gets_none(guarded: Authorized, path: str) -> None:
    assert guarded.ask(path, user="bob").status == 403
    assert guarded.door.ask(path).status == 403  # nobody is named


@pytest.mark.parametrize(
    "path",
    ["/v2/repository/models/echo/load", "/v2/logging", "/v2/models/echo/trace/setting"],
)
def test_the_master_decides_who_changes_the_fleet(guarded: Authorized, path: str) -> None:
    """A reader is refused by it; a client's own proofs are taken away."""
    over = (CallOutcome(ControlCall(1, CallKind.LOAD, "echo")),)
    guarded.master.publish(control=WantedCalls(1, over=over))
    guarded.master.commands.clear()
    for more in ({}, {"Authorization": "Bearer correct-horse"}, {"X_TARN_Token": "correct-horse"}):
        refused = guarded.ask(path, "POST", **more)
        assert refused.status == 403, (more, refused)
    assert guarded.door.ask(path, "POST").status == 403
    assert guarded.master.commands == []
    if path.endswith("load"):
        assert guarded.ask(path, "POST", "carol").status == 200
        (command,) = guarded.master.commands
        assert isinstance(command, ControlRequest)
        assert "carol" in str(guarded.master.askers[-1])


def test_inference_still_goes_to_an_instance(guarded: Authorized) -> None:
    guarded.triton.asked.clear()
    assert guarded.ask("/v2/health/ready").status in (200, 404)
    assert [path for _, path, _ in guarded.triton.asked] == ["/v2/health/ready"]
