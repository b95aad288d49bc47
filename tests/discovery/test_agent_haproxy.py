"""``tarn lb haproxy`` next to a real HAProxy, with a real local cluster of fake Tritons."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import ask
from house import House, clear, kill, until
from servers.haproxy import OneBackendHaproxy, SocketTap
from servers.lb_agent import agent, argv_of, fake_tritons

from tarn.follow import MasterApi

pytestmark = pytest.mark.discovery
NAME = "lbs"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A home with one cluster of two fake Tritons, for the whole module."""
    root = tmp_path_factory.mktemp("agents")
    one = House(root)
    spec = one.spec(NAME, **fake_tritons(root), drain={"timeout": "5s", "quiesce": "100ms"})
    try:
        done = one.tarn("up", "-f", spec)
        assert done.returncode == 0, done.stderr
        done = one.tarn("wait", "-c", NAME, "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        yield one
    finally:
        clear(one)


@pytest.fixture
def proxy(tmp_path) -> Iterator[OneBackendHaproxy]:
    with OneBackendHaproxy(tmp_path) as one:
        yield one


@pytest.fixture
def wire(proxy) -> Iterator[SocketTap]:
    with SocketTap(proxy.socket) as one:
        yield one


@pytest.fixture
def api(house) -> Iterator[MasterApi]:
    with master_of(house) as one:
        yield one


def master_of(house: House) -> MasterApi:
    token = (house.directory(NAME) / "api_token").read_text().strip()
    return MasterApi(house.ref(NAME)["url"], token)


def view(api: MasterApi) -> dict[str, str]:
    return {row["id"]: row["http"] for row in api.instances()["instances"] if row["in_view"]}


def scaled(api: MasterApi, size: int) -> dict[str, str]:
    """Scale to *size*, and return the view once it is so."""
    api.scale(size)
    until(lambda: len(view(api)) == size, 30, f"{size} instances in the view")
    return view(api)


def acknowledged(api: MasterApi, name: str) -> bool:
    status = api.status()
    words = {one["name"]: one["revision"] for one in status["followers"]}
    return words.get(name) == status["view_revision"]


def test_follows_a_cluster_by_its_name_within_a_second(house, proxy, api):
    """HAProxy has just the instances of the view, and the master has the agent's word."""
    scaled(api, 2)
    with agent(house, "-c", NAME, "--socket", str(proxy.socket), "--name", "lb1") as one:
        until(lambda: proxy.servers() == view(api), 20)
        late_s = []
        for size in (3, 1, 2):
            shown = scaled(api, size)
            began_s = time.monotonic()
            until(lambda shown=shown: proxy.servers() == shown, 10, f"{size} servers")
            late_s.append(time.monotonic() - began_s)
            until(lambda: acknowledged(api, "lb1"), 10, "the agent's word")
        assert max(late_s) < 3.0
        one.heard("of lbs: 2 servers (+1 -0), acknowledged")
        assert one.end() == 0
        assert proxy.servers() == view(api)
        assert "Traceback" not in one.said()


def test_a_killed_agent_comes_back_and_changes_nothing(house, proxy, wire, api):
    """Zero write commands: what HAProxy shows is what should be."""
    shown = scaled(api, 2)
    words = ("-c", NAME, "--socket", str(wire.socket), "--name", "lb2")
    with agent(house, *words) as one:
        until(lambda: proxy.servers() == shown, 20)
        one.heard("acknowledged")
        assert wire.writes
        kill(one.process.pid)
        one.process.wait(10)
    assert proxy.servers() == shown
    wire.forget()
    with agent(house, *words) as one:
        one.heard("2 servers, acknowledged")
        threading.Event().wait(2.5)
        assert wire.heard
        assert wire.writes == []
        assert one.end() == 0
    assert wire.writes == []


def test_a_killed_master_is_followed_by_the_next_and_no_server_changes(house, proxy, wire, api):
    """The keeper starts another one; the agent finds it, and acknowledges to it."""
    shown = scaled(api, 2)
    with agent(house, "-c", NAME, "--socket", str(wire.socket), "--name", "lb3") as one:
        until(lambda: proxy.servers() == shown, 20)
        one.heard("acknowledged")
        wire.forget()
        before = house.ref(NAME)
        kill(before["pid"])
        seen = []

        def next_master() -> bool:
            seen.append(proxy.servers())
            return house.ref(NAME)["epoch"] != before["epoch"]

        until(next_master, 30, "the next master")
        one.heard(f"follows the master {house.ref(NAME)['epoch']} of lbs")
        assert "no master of lbs answers" in one.said()
        with master_of(house) as second:
            until(lambda: len(view(second)) == 2, 20)
            until(lambda: acknowledged(second, "lb3"), 20, "the agent's word")
            assert all(servers == shown for servers in [*seen, proxy.servers()])
            # only who is at work is noted
            assert [w for w in wire.writes if "tarn_epoch" not in w] == []
            shown = scaled(second, 3)
            until(lambda: proxy.servers() == shown, 10)
        assert one.end() == 0


def test_a_wrong_token_ends_the_start_with_a_clear_line(house, proxy, tmp_path):
    """Fault 26: no loop, and the token is in no word; a good one works, and is not in `ps`."""
    url = house.ref(NAME)["url"]
    good = (house.directory(NAME) / "api_token").read_text().strip()
    file = tmp_path / "token"
    file.write_text("wrong-horse\n")
    words = ("--url", url, "--socket", str(proxy.socket), "--token-file", str(file))
    by_name = ("-c", NAME, *words[2:])
    for wrong in (words, by_name):
        with agent(house, *wrong) as one:
            assert one.process.wait(30) == 5
            assert "TARN-5000" in one.said()
            assert "wrong-horse" not in one.said()
            assert len(one.said().splitlines()) == 1
    file.write_text(f"{good}\n")
    for right in (words, by_name):
        with agent(house, *right, "--name", "lb4") as one:
            one.heard("acknowledged")
            assert good not in argv_of(one.process.pid)
            assert good not in one.said()
            assert one.end() == 0


@pytest.mark.parametrize("where", ["credentials", "variable"])
def test_the_token_may_come_from_systemd_or_the_environment(house, proxy, tmp_path, where):
    """``$CREDENTIALS_DIRECTORY/api_token``, or ``TARN_TOKEN``."""
    good = (house.directory(NAME) / "api_token").read_text().strip()
    (tmp_path / "api_token").write_text(good)
    environ = {
        "credentials": {"CREDENTIALS_DIRECTORY": str(tmp_path), "TARN_TOKEN": "wrong-horse"},
        "variable": {"TARN_TOKEN": good},
    }[where]
    words = ("--url", house.ref(NAME)["url"], "--socket", str(proxy.socket), "--name", "lb5")
    with agent(house, *words, **environ) as one:
        one.heard("acknowledged")
        assert one.end() == 0


def test_the_script_of_the_java_tarn_runs_the_agent(house, tmp_path, api):
    """Its call and its placeholders, with a token of which `ps` sees no more than it did."""
    shown = scaled(api, 2)
    good = (house.directory(NAME) / "api_token").read_text().strip()
    script = Path(__file__).parents[2] / "scripts" / "update_haproxy.sh"
    path = f"{Path(house.python).parent}:{house.environ['PATH']}"
    with OneBackendHaproxy(tmp_path, slots=4) as proxy:
        words = (str(proxy.socket), good)
        with agent(house, *words, program=script, TARN_CLUSTER=NAME, PATH=path) as one:
            one.heard("2 servers, acknowledged")
            assert set(proxy.servers().values()) == set(shown.values())
            assert set(proxy.servers()) <= {f"triton-{n}" for n in range(1, 5)}
            assert good not in argv_of(one.process.pid)
            shown = scaled(api, 3)
            until(lambda: set(proxy.servers().values()) == set(shown.values()), 10)
            assert one.end() == 0
        with agent(house, words[0], "wrong", program=script, TARN_CLUSTER=NAME, PATH=path) as one:
            assert one.process.wait(30) == 5


def test_what_is_wrong_at_the_start_has_its_exit_code(house, proxy, tmp_path):
    """3: no socket, no cluster, no master; 2: no such backend, or another cluster is meant."""
    url = house.ref(NAME)["url"]
    good = ("-c", NAME, "--socket", str(proxy.socket))
    for words, code, text in [
        (("-c", NAME, "--socket", str(tmp_path / "none.sock")), 3, "no such socket"),
        (("-c", "another", "--socket", str(proxy.socket)), 3, "cluster 'another' does not run"),
        (("--url", "http://127.0.0.1:1", "--socket", str(proxy.socket)), 3, "nobody listens"),
        (("-c", "another", "--url", url, "--socket", str(proxy.socket)), 5, "may not"),
        ((*good, "--backend", "nobody"), 2, "no backend 'nobody'"),
        ((*good, "--slots", "triton-"), 2, "begins with 'triton-'"),
        ((*good, "--backend", "a b"), 2, "'a b'"),
        (("-c", NAME), 2, "--socket"),
    ]:
        with agent(house, *words) as one:
            assert (one.process.wait(60), text in one.said()) == (code, True), (words, one.said())
            assert "Traceback" not in one.said()


def test_requests_that_find_nobody_wake_a_cluster_that_sleeps(house, proxy):
    """HAProxy answers 503, the agent says how many want a server, and one is started."""
    models = {"repository": str(house.root / "models")}
    triton = {"binary": str(house.root / "tritonserver"), "exit_timeout": "5s"}
    sizes = {"min": 0, "max": 2, "initial": 0}
    spec = house.spec(
        "sleeper", models=models, triton=triton, replicas=sizes, scaling={"use": "fixed"}
    )
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    with agent(house, "-c", "sleeper", "--socket", str(proxy.socket), "--name", "lb6") as one:
        one.heard("of sleeper: 0 servers, acknowledged")
        threading.Event().wait(2.0)
        assert house.status("sleeper")["desired"] == 0
        assert ask(proxy.port, "GET", "/v2/health/ready")[0] == 503

        def served() -> bool:
            return ask(proxy.port, "GET", "/v2/health/ready")[0] == 200

        until(served, 30, "an instance that was woken")
        assert house.status("sleeper")["desired"] == 1
        one.heard("of sleeper: 1 server (+1 -0), acknowledged")
        assert one.end() == 0
