"""Who may use which model, from end to end on a Kerberized YARN.

Clients prove themselves to HAProxy by certificates; it asks the master, where Ranger decides.
Its agent proves itself by its own keytab; by another one the fleet belongs to its user.
"""

import contextlib
import re
import shutil
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import attrs
import httpx
import pytest
from certificates import Authority, Issued
from house import MODELS, ids, until
from servers.guarded_haproxy import TOKEN, GuardedHaproxy
from servers.haproxy import HAPROXY
from servers.kerberos import ME, keytab, login, run
from servers.lb_agent import AgentProcess, agent
from servers.ranger import PolicyServer, item, options, policy
from servers.yarn import Hadoop, YarnHouse
from yarn_fleet import Fleet, SteadyLoad

pytestmark = [
    pytest.mark.yarn,
    pytest.mark.triton,
    pytest.mark.timeout(300),
    pytest.mark.skipif(HAPROXY is None, reason="no haproxy on this machine"),
]
NAME, PROXY, AGENT = "door", "lb1", "edge"
INFER = {"inputs": [{"name": "IN", "shape": [2], "datatype": "FP32", "data": [7, 8]}]}
GRACE_S = 90
"""Longer than a busy machine needs for the next master."""


def policies(*users: str) -> list[dict[str, Any]]:
    """Return who may: *users* infer with echo, bob with other and see echo's metadata."""
    seen = item(["metadata"], ["alice", "bob"])
    return [
        policy(1, ["echo"], [item(["infer"], users), seen]),
        policy(2, ["other"], [item(["infer"], ["bob"])]),
    ]


class Clients:
    """Who comes to the door for certificates: each with its own, on a connection that is kept."""

    def __init__(self, port: int, authority: Authority) -> None:
        self._url, self._authority = f"https://localhost:{port}", authority
        self._open: dict[str, httpx.Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for one in self._open.values():
            one.close()

    def client(self, name: str) -> httpx.Client:
        """Return the client of *name*; '': one without a certificate."""
        if name not in self._open:
            context = ssl.create_default_context(cafile=str(self._authority.ca))
            if name:
                own = self._authority.issue(name, (), client=True)
                context.load_cert_chain(own.cert, own.key)
            forged = {"X-TARN-User": "alice", "X-TARN-Token": "mine"}
            self._open[name] = httpx.Client(
                base_url=self._url, verify=context, trust_env=False, headers=forged
            )
        return self._open[name]

    def may(self, name: str, model: str = "echo") -> int:
        """Infer; return the status, once a 200 brought back what was sent."""
        answer = self.client(name).post(f"/v2/models/{model}/infer", json=INFER)
        if answer.status_code == 200:
            assert answer.json()["outputs"][0]["data"] == [7, 8]
        return answer.status_code

    def infer(self, instance: dict[str, Any]) -> None:
        """Infer as `Steady` wants it: what is not answered as it should be raises."""
        status = self.may(instance["id"])
        assert status == 200, status


@attrs.frozen
class Stand:
    """All of it."""

    fleet: Fleet
    door: GuardedHaproxy
    clients: Clients
    ranger: PolicyServer
    agent: AgentProcess

    def servers(self) -> set[str]:
        """Return the servers to which HAProxy sends requests."""
        rows = self.door.command("show stat triton_backend 4 -1").splitlines()[1:]
        shown = [row.split(",") for row in rows if row]
        return {row[1] for row in shown if row[17].startswith("UP")}

    def why(self, user: str, model: str = "echo") -> Counter[str]:
        """Return how often each reason was given for *user* and infer."""
        text = self.door.log.read_text()
        return Counter(re.findall(f"user={user} by=certificate model={model} .*why=(.+)", text))

    def everywhere(self, count: int) -> set[str]:
        """Wait until HAProxy has exactly the *count* instances that are ready."""
        ready = ids(self.fleet.settled(count))
        until(lambda: self.servers() == ready, 30, f"{count} servers of HAProxy")
        return ready


@pytest.fixture
def stand(kerberos_house: YarnHouse, kerberized: Hadoop, tmp_path: Path) -> Iterator[Stand]:
    """A fleet of one instance with two models, and its door with everybody's papers."""
    authority = Authority(tmp_path / "papers")
    served = authority.issue("localhost")
    with contextlib.ExitStack() as stack:
        ranger = stack.enter_context(PolicyServer(policies("alice")))
        fleet = Fleet(kerberos_house, kerberized, NAME)
        fleet.up(_spec(kerberos_house, kerberized, ranger.url))
        door = _rendered(fleet, authority, served)
        stack.callback(door.stop)
        clients = stack.enter_context(Clients(door.certificate_port, authority))
        lb = ("--keytab", str(keytab(kerberized, "lb")), "--principal", "lb")
        follows = ("-c", NAME, "--socket", str(door.socket), "--name", AGENT, "--authz", *lb)
        yield Stand(
            fleet, door, clients, ranger, stack.enter_context(agent(kerberos_house, *follows))
        )


def _spec(house: YarnHouse, hadoop: Hadoop, ranger: str) -> str:
    models = house.root / "models"
    for name in ("echo", "other"):
        shutil.copytree(MODELS / "echo", models / name)
    told = models / "other" / "config.pbtxt"
    told.write_text(told.read_text().replace('name: "echo"', 'name: "other"'))
    token = house.root / "lb1.token"
    token.touch(0o600)
    token.write_text(TOKEN)
    asks = {"name": PROXY, "authenticated_by": "token", "token": "file:lb1.token"}
    follows = {"name": "lb", "authenticated_by": "kerberos"}
    return house.spec(
        NAME,
        options=login(ME, keytab(hadoop, "user")),
        models={"repository": str(models), "serve": ["echo", "other"]},
        replicas={"min": 1, "max": 2, "initial": 1},
        discovery=[{"use": "haproxy", "options": {"followers": [AGENT]}, "required": True}],
        authorizer={"use": "ranger", "options": options(house.root / "site", ranger)},
        api={
            "spnego": {"keytab": str(keytab(hadoop, "spnego"))},
            "trusted_proxies": [{**one, "address": "127.0.0.0/8"} for one in (asks, follows)],
        },
    )


def _rendered(fleet: Fleet, authority: Authority, served: Issued) -> GuardedHaproxy:
    """Start HAProxy with what the command line writes."""
    root = fleet.house.root / "haproxy"
    root.mkdir()
    both = root / "lb.pem"
    both.touch(0o600)
    both.write_bytes(served.cert.read_bytes() + served.key.read_bytes())
    door = GuardedHaproxy(root, None, 0)
    words = {
        "--certificate": both,
        "--client-ca": authority.ca,
        "--certificate-port": door.certificate_port,
        "--http-port": door.http_port,
        "--ask-port": door.ask_port,
        "--stats-port": 0,
        "--socket": door.socket,
        "--grace": GRACE_S,
        "--address": "127.0.0.1",
        "--user": "",
        "--group": "",
        "--output": root,
    }
    said = (str(word) for pair in words.items() for word in pair)
    fleet.tarn("lb", "haproxy", "config", "--authz", *said)
    del door.environ["TARN_KNOX_GATE"]
    door.start()
    return door


def test_rights_to_models_hold_through_the_life_of_a_fleet(stand: Stand) -> None:
    """They are kept while it is scaled and its master killed, when no request is lost."""
    fleet, clients = stand.fleet, stand.clients
    stand.everywhere(1)
    until(lambda: clients.may("alice") == 200, 60, "a first yes")
    _each_may_what_they_may(stand)
    _the_master_says_the_same_to_tickets(stand)
    with SteadyLoad(clients, [{"id": "alice"}]) as load:
        fleet.tarn("scale", "2")
        two = stand.everywhere(2)
        stand.ranger.stop()
        url, epoch = fleet.url, fleet.kill_master()
        for _ in fleet.without_master():
            assert stand.servers() == two
            assert clients.may("bob") in {403, 503}
        fleet.after(epoch)
        assert fleet.url != url
        _the_new_master_has_no_policies_yet(stand)
        stand.ranger.change(policies("alice", "bob"))
        stand.ranger.start()
        until(lambda: clients.may("bob") == 200, 60, "the new master's answer")
        assert stand.everywhere(2) == two
        fleet.tarn("scale", "1")
        assert stand.everywhere(1) < two
    assert not load.failed, (load.failed[:5], stand.why("alice"))
    assert load.answered > 50
    assert stand.why("alice")["grace"] > 0
    assert stand.why("bob")["grace"] == 0
    stand.ranger.change(policies("bob"))
    until(lambda: clients.may("alice") == 403, 15, "the right's end")
    _each_may_what_they_may(stand, "bob")
    assert "Traceback" not in stand.agent.said()
    fleet.down()


def _the_new_master_has_no_policies_yet(stand: Stand) -> None:
    """Whom it was not known about before is told to come again; that is not a no."""
    stand.agent.heard(f"the master at {stand.fleet.url.removeprefix('http://')}")
    asked = [stand.clients.may(f"new{number}") for number in range(3)]
    assert asked == [503] * 3
    assert not {"silent", "false"} & set(stand.why("new2"))


def _each_may_what_they_may(stand: Stand, of_echo: str = "alice") -> None:
    """By certificate, at the door for those; nobody by a header, and nobody rules a Triton."""
    clients = stand.clients
    of = {
        name: (clients.may(name), clients.may(name, "other")) for name in ("alice", "bob", "carol")
    }
    wanted = {"alice": (403, 403), "bob": (403, 200), "carol": (403, 403)}
    wanted[of_echo] = (200, wanted[of_echo][1])
    assert of == wanted
    assert clients.client("bob").get("/v2/models/echo").status_code == 200
    assert clients.client("carol").get("/v2/models/echo").status_code == 403
    for path in ("/v2/repository/models/echo/unload", "/v2/repository/index", "/v2/logging"):
        assert clients.client(of_echo).post(path, json={}).status_code == 403, path
    with pytest.raises(httpx.TransportError):
        clients.may("")
    context = ssl.create_default_context(cafile=str(clients._authority.ca))
    open_door = f"https://localhost:{stand.door.http_port}/v2/models/echo"
    assert httpx.get(open_door, verify=context, trust_env=False).status_code == 403


def _the_master_says_the_same_to_tickets(stand: Stand) -> None:
    """Alice asks about herself; nobody's token or ticket is needed to be told who one is not."""
    hadoop, url = stand.fleet.hadoop, f"{stand.fleet.url}/authorize?action=infer&model="
    own = {**hadoop.environ, "KRB5CCNAME": f"FILE:{stand.door.root / 'alice'}"}
    run(["kinit", "-kt", str(keytab(hadoop, "alice")), "alice"], own)
    words = ["curl", "-s", "--negotiate", "-u", ":"]
    assert [run([*words, url + model], own) for model in ("echo", "other")] == ["true", "false"]
    assert httpx.get(f"{url}echo", trust_env=False).status_code == 401
