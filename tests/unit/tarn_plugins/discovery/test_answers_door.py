"""The lines for the master's answers, and the commands that lead HAProxy to the master."""

import re
from pathlib import Path
from typing import Self

import pytest
from house import until
from hypothesis import given
from hypothesis import strategies as st

from tarn.clock import SystemClock
from tarn.errors import DiscoveryError
from tarn.triton.server_questions import QuestionKind, question_at
from tarn_plugins.discovery.haproxy import answers_door
from tarn_plugins.discovery.haproxy.answers_keeper import (
    AnswersKeeper,
    AnswersState,
    MasterPlace,
    OwnMaster,
    ServersWithAnswers,
    keep_commands,
)
from tarn_plugins.discovery.haproxy.authz import Authz
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render
from tarn_plugins.discovery.haproxy.runtime_messages import BackendServer

PLAIN = render(HaproxyCfgSettings())
PLACE = MasterPlace("gpu1", 40001, tls=False, token="a1", grpc_port=40002)
ONE_ANSWERS = {QuestionKind.SERVER, QuestionKind.MODEL, QuestionKind.CONFIG, QuestionKind.READY}


def matched(path: str) -> set[str]:
    """Return the names of the rules for HTTP that match *path*."""
    lines = re.findall(r"acl (tarn_whole|tarn_each) path -m reg (\S+)", PLAIN)[:2]
    return {name for name, pattern in lines if re.search(pattern, path)}


_PART = st.sampled_from(
    (
        *("v2", "models", "m", "stats", "versions", "1", "config", "ready", "trace", "setting"),
        *("infer", "logging", "repository", "index", "load", "unload", "health", "live", ""),
    )
)


@given(st.lists(_PART, max_size=6))
def test_haproxy_sends_to_the_master_what_the_master_answers(parts: list[str]) -> None:
    """Both read each path alike."""
    path = "/" + "/".join(parts)
    found, question = matched(path), question_at(path)
    assert bool(found) == (question is not None)
    if question is not None:
        alone = question.kind in ONE_ANSWERS
        assert ("tarn_whole" in found) == (not alone)


@pytest.mark.parametrize("path", ["/v2/models/m/infer", "/v2/models/m/generate_stream", "/v2x"])
def test_inference_stays_at_the_instances(path: str) -> None:
    assert matched(path) == set()


def test_they_can_be_left_out() -> None:
    text = render(HaproxyCfgSettings(answers=False))
    assert "tarn_answers" not in text
    assert "tarn_answers_grpc" not in render(HaproxyCfgSettings(grpc_port=0))


def test_without_authz_only_the_agents_token_is_sent_and_with_it_the_users_name() -> None:
    assert f"%[var({answers_door.TOKEN})]" in PLAIN
    assert PLAIN.count("del-header Cookie if { var(txn.tarn_answers) -m bool }") == 2
    authz = Authz(lua="/etc/l.lua", client_ca="/etc/ca.pem", grpc_all_models=True)
    text = render(HaproxyCfgSettings(authz=authz, certificate="/etc/c.pem", grpc_port=8081))
    assert f"var({answers_door.TOKEN})" not in text
    assert text.count("acl tarn_whole") == 3
    assert text.count("del-header Authorization if { var(txn.tarn_answers) -m bool }") == 3
    assert "setenv TARN_AUTHZ_ANSWERS yes" in text


def test_a_master_with_tls_needs_its_authority() -> None:
    text = render(HaproxyCfgSettings(master_ca="/etc/master.pem"))
    servers = [line for line in text.splitlines() if line.startswith("  server master")]
    assert len(servers) == 2
    assert all("ssl verify required ca-file /etc/master.pem" in line for line in servers)


def test_the_servers_and_variables_are_set() -> None:
    servers = {
        "tarn_answers": BackendServer("master", "127.0.0.1", 1, admin=0x05),
        "tarn_answers_grpc": BackendServer("master", "127.0.0.1", 1, admin=0x05, check_port=1),
    }
    assert [one.text for one in keep_commands(PLACE, "10.0.0.7", AnswersState(servers))] == [
        "set var proc.tarn_answers str(a1)",
        "set var proc.tarn_answers_grpc str(yes)",
        "set server tarn_answers/master addr 10.0.0.7 port 40001",
        "set server tarn_answers/master state ready",
        "enable health tarn_answers/master",
        "set server tarn_answers_grpc/master check-port 40001",
        "set server tarn_answers_grpc/master addr 10.0.0.7 port 40002",
        "set server tarn_answers_grpc/master state ready",
        "enable health tarn_answers_grpc/master",
    ]


def test_a_master_without_grpc_is_in_maintenance_there() -> None:
    up = BackendServer("master", "10.0.0.7", 40002, admin=0, check=6, check_port=40001)
    place = MasterPlace("gpu1", 40001, tls=False, token="a1")
    state = AnswersState({"tarn_answers_grpc": up})
    assert not state.leads_to(PLACE)
    assert state.leads_to(place)
    commands = [one.text for one in keep_commands(place, "10.0.0.7", state)]
    assert commands == [
        "set var proc.tarn_answers str(a1)",
        "set var proc.tarn_answers_grpc str(no)",
        "set server tarn_answers_grpc/master state maint",
    ]


@pytest.mark.parametrize(
    "said",
    [{}, {"token": "a b", "grpc_port": 1}, {"token": "a1", "grpc_port": "x"}, {"grpc_port": 1}],
)
def test_an_answer_that_is_not_valid_is_refused(said: dict[str, object]) -> None:
    """A token becomes part of a command, so it may be letters and digits only."""
    with pytest.raises(ValueError, match="not valid"):
        MasterPlace.read("http://gpu1:1", said)


def test_the_place_of_a_master_is_read() -> None:
    said = {"token": "a1", "grpc_port": 40002, "grpc_lack": ""}
    assert MasterPlace.read("http://gpu1:40001", said) == PLACE
    assert MasterPlace.read("https://gpu1", said).port == 443
    assert "a1" not in repr(PLACE)


def test_what_is_led_there_gets_no_command() -> None:
    """Also its variables are only read then."""
    up = {
        "tarn_answers": BackendServer("master", "10.0.0.7", 40001, admin=0, check=6, state=2),
        "tarn_answers_grpc": BackendServer(
            "master", "10.0.0.7", 40002, admin=0, check=6, check_port=40001, state=2
        ),
    }
    state = AnswersState(up, answers_door.variables("a1", grpc=True))
    assert keep_commands(PLACE, "10.0.0.7", state) == ()
    assert state.leads_to(PLACE)
    assert "a1" not in repr(state)


class SaidApi:
    """As much of HAProxy's Runtime API as the keeper uses."""

    def __init__(self, *backends: str) -> None:
        self.backends = backends
        self.asked: list[str] = []

    def ask(self, commands: list[str]) -> list[str]:
        self.asked += commands
        return [self._answer(command) for command in commands]

    def _answer(self, command: str) -> str:
        if command.startswith("show"):
            name = command.rpartition(" ")[2]
            return STATE if name in self.backends else "Can't find backend."
        return "Variable not found." if command.startswith("get") else ""

    def error(self, found: str, **_more: str) -> DiscoveryError:
        return DiscoveryError("haproxy", found)


STATE = """1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state \
srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl \
srv_check_port srv_check_addr srv_agent_addr srv_agent_port
7 tarn_answers 1 master 10.0.0.7 2 0 1 1 2 1 0 0 14 0 0 0 - 40001 - 0 0 - - 1
"""


class SaidMaster:
    """A source whose master says what a load balancer needs."""

    name = "ocr"

    def __init__(self, said: object, url: str = "http://10.0.0.7:40001") -> None:
        self.said, self.url = said, url

    def open(self) -> "SaidMaster":
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def load_balancer(self, *, grpc: bool) -> object:
        return self.said


def keeper(api: SaidApi, master: SaidMaster, said: list[str]) -> AnswersKeeper:
    return AnswersKeeper(api, master, SystemClock(), said.append)


def test_a_file_without_these_backends_is_left_alone() -> None:
    """And its master is not asked."""
    api, said = SaidApi(), []
    keeper(api, SaidMaster(None), said).keep()
    assert said == []
    assert all(command.startswith(("show ", "get ")) for command in api.asked)


def test_it_sets_the_token_and_says_once_where_haproxy_asks() -> None:
    api, said = SaidApi("tarn_answers"), []
    one = keeper(api, SaidMaster({"token": "a1", "grpc_port": 0, "grpc_lack": "none"}), said)
    one.keep()
    one.keep()
    assert said == ["HAProxy asks the master at 10.0.0.7:40001 for the whole fleet"]
    assert "set var proc.tarn_answers str(a1)" in api.asked


def test_a_master_with_tls_is_not_asked_in_clear_text() -> None:
    api, said = SaidApi("tarn_answers"), []
    master = SaidMaster({"token": "a1", "grpc_port": 0}, "https://10.0.0.7:40001")
    with pytest.raises(DiscoveryError, match="speaks HTTPS"):
        keeper(api, master, said).keep()
    assert not any(command.startswith("set") for command in api.asked)
    with pytest.raises(DiscoveryError, match="token is not valid"):
        keeper(api, SaidMaster({}), said).keep()


class SaidServers:
    """A discovery that keeps what it was told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def reach(self, within_s: float) -> None:
        self.said.append("reach")

    def sync(self, view: object) -> None:
        self.said.append("sync")

    def applied(self) -> None:
        self.said.append("applied")

    def close(self, *, withdraw: bool) -> None:
        self.said.append(f"close {withdraw}")


def test_a_master_next_to_haproxy_keeps_its_own_answers_there() -> None:
    """From its first view on, and until it is closed."""
    servers, api, said = SaidServers(), SaidApi("tarn_answers"), []
    one = keeper(api, SaidMaster({"token": "a1", "grpc_port": 0}), said)
    both = ServersWithAnswers(servers, one)
    both.reach(1.0)
    assert api.asked == []
    both.sync(None)
    both.sync(None)
    both.applied()
    until(lambda: said, 10)
    both.close(withdraw=True)
    both.close(withdraw=True)
    assert servers.said == ["reach", "sync", "sync", "applied", "close True", "close True"]


def test_its_own_token_is_read_when_it_is_needed(tmp_path: Path) -> None:
    own = OwnMaster("http://127.0.0.1:1", tmp_path)
    for token in ("", "first", "second"):
        if token:
            (tmp_path / "api_token").write_text(f"{token}\n")
        with own.open() as api:
            assert api.url == own.name
