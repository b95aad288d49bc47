"""What HAProxy says and is told, how host names are found, and what the options may be."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tarn import plugins
from tarn.domain import DiscoveryView, Epoch
from tarn.errors import ConfigErrors
from tarn.testing.context import master_context
from tarn.testing.fakes import FakeClock
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy import HaproxySettings, tarn_discoveries
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver
from tarn_plugins.discovery.haproxy.runtime_messages import (
    ExpectedReply,
    Load,
    RuntimeCommand,
    complaint,
    loads_in,
    servers_in,
)
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

_STATE = """\
1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state \
srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl \
srv_check_port srv_check_addr srv_agent_addr srv_agent_port
4 slots 1 triton-1 127.0.0.1 2 4 1 1 0 1 0 1 6 0 0 0 - 9202 - 0 0 - - 0
4 slots 2 triton-2 0.0.0.0 0 5 1 1 2 1 0 0 14 0 0 0 - 8000 - 0 0 - - 0
4 slots 3 a FE80:0::1 2 8 100 100 0 15 3 3 6 0 0 0 - 9201 - 0 9200 - - 0
"""
_STAT = """\
# pxname,svname,qcur,qmax,scur,smax,slim,stot,econ,status,
b,fleet-0001,2,0,3,1,,3,1,UP,
b,BACKEND,0,0,,1,,3,7,UP,
"""


def test_reads_the_states_of_servers() -> None:
    """By the names of the columns; a slot that began disabled keeps a bit, and serves."""
    ready, unused, drained = servers_in(_STATE)
    assert (ready.name, ready.address, ready.port) == ("triton-1", "127.0.0.1", 9202)
    assert ready.serves
    assert ready.works
    assert ready.is_checked
    assert unused.in_maintenance
    assert not unused.serves
    assert drained.drains
    assert not drained.serves
    assert (drained.address, drained.check_port, drained.weight) == ("fe80::1", 9200, 100)
    assert [one.unchanged_s for one in (ready, unused, drained)] == [0, 2, 0]


@pytest.mark.parametrize("said", ["", "Can't find backend.", "1", "2\n# be_id\n", "1\n# a b\n1 2"])
def test_what_is_no_state_is_refused(said: str) -> None:
    """HAProxy's errors are texts, and must not pass for an empty backend."""
    with pytest.raises(ValueError):
        servers_in(said)


def test_reads_loads() -> None:
    """Empty columns are zero."""
    loads = loads_in(_STAT)
    assert loads == {"fleet-0001": Load(3, 2, 1), "BACKEND": Load(0, 0, 7)}
    with pytest.raises(ValueError, match="No such proxy"):
        loads_in("No such proxy.")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "no answer"),
        ("# pxname,svname,qcur,\nb,a,1,\n", "scur"),
        ("# pxname,svname,qcur,scur,econ,\nb,a,1\n", "a row is cut short: b,a,1"),
        ("# pxname,svname,qcur,scur,econ,\nb,a,1,x,0\n", "invalid literal"),
    ],
)
def test_a_table_that_cannot_be_read_is_an_error_of_its_value(answer: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        loads_in(answer)


def test_only_servers_are_asked_for_and_no_load_of_the_backend_is_made_up() -> None:
    assert loads_in("# pxname,svname,qcur,scur,econ,\nb,a,1,2,0,\n") == {"a": Load(2, 1, 0)}


@pytest.mark.parametrize(
    ("good", "answer", "said"),
    [
        (ExpectedReply.NOTHING, "", ""),
        (ExpectedReply.NOTHING, "No such server.", "No such server."),
        (ExpectedReply.ADDED, "New server registered.", ""),
        (ExpectedReply.ADDED, "unknown keyword 'x'.", "unknown keyword 'x'."),
        (ExpectedReply.ADDED, "", "no answer"),
        (ExpectedReply.DELETED, "Server deleted.", ""),
        (
            ExpectedReply.DELETED,
            "Server still has connections attached to it, cannot remove it.",
            "",
        ),
        (
            ExpectedReply.DELETED,
            "Only servers in maintenance mode can be deleted.",
            "Only servers in maintenance mode can be deleted.",
        ),
        (ExpectedReply.MOVED, "no need to change the addr, no need to change the port", ""),
        (ExpectedReply.MOVED, "Invalid addr 'x'", "Invalid addr 'x'"),
    ],
)
def test_every_answer_is_read(good: ExpectedReply, answer: str, said: str) -> None:
    """Only the words of a success are one."""
    assert complaint(RuntimeCommand("s", "command", good), answer) == said


class NameService:
    """Answers what the test says."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, tuple[str, ...]] = {}
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        assert self.go_on.wait(10)
        if host not in self.answers:
            raise OSError(-2, "Name or service not known")
        return self.answers[host]


def test_addresses_are_never_looked_up() -> None:
    """They are brought to one form."""
    service = NameService()
    found = HostResolver(FakeClock(), service).find(["10.0.0.1", "FE80:0::1"], 0.0)
    assert found.addresses == {"10.0.0.1": "10.0.0.1", "FE80:0::1": "fe80::1"}
    assert service.asked == []


def test_a_name_is_asked_once_and_keeps_its_address() -> None:
    """Of several addresses the one given before is given again, whatever their order."""
    clock, service = FakeClock(), NameService()
    names = HostResolver(clock, service)
    service.answers["nm-1"] = ("10.0.0.1", "10.0.0.2")
    assert names.find(["nm-1", "nm-1"], 5).addresses == {"nm-1": "10.0.0.1"}
    assert names.find(["nm-1"], 5).addresses == {"nm-1": "10.0.0.1"}
    assert service.asked == ["nm-1"]
    service.answers["nm-1"] = ("10.0.0.2", "10.0.0.1")
    clock.advance(60)
    names.find(["nm-1"], 5)
    until(lambda: len(service.asked) == 2 and not names._asked)
    assert names.find(["nm-1"], 5).addresses == {"nm-1": "10.0.0.1"}
    service.answers["nm-1"] = ("10.0.0.2",)
    clock.advance(60)
    names.find(["nm-1"], 5)
    until(lambda: len(service.asked) == 3 and not names._asked)
    assert names.find(["nm-1"], 5).addresses == {"nm-1": "10.0.0.2"}


def test_an_old_address_serves_while_the_name_service_is_away() -> None:
    """A name that had an address never loses it to a failure."""
    clock, service = FakeClock(), NameService()
    names = HostResolver(clock, service)
    service.answers["nm-1"] = ("10.0.0.1",)
    names.find(["nm-1"], 5)
    service.answers.clear()
    clock.advance(60)
    names.find(["nm-1"], 5)
    until(lambda: len(service.asked) == 2 and not names._asked)
    assert names.find(["nm-1"], 5).addresses == {"nm-1": "10.0.0.1"}


def test_a_name_without_an_address_says_why_and_is_asked_again() -> None:
    """After a second, not sooner."""
    clock, service = FakeClock(), NameService()
    names = HostResolver(clock, service)
    assert names.find(["nope"], 5).missing == {"nope": "Name or service not known"}
    names.find(["nope"], 5)
    assert service.asked == ["nope"]
    service.answers["nope"] = ("10.0.0.9",)
    clock.advance(1.5)
    names.find(["nope"], 5)
    until(lambda: names.find(["nope"], 5).addresses == {"nope": "10.0.0.9"})


def test_a_hung_name_service_is_not_waited_for() -> None:
    """Whoever asks has its answer in time, and the address when it comes; threads end."""
    service = NameService()
    service.answers["nm-1"] = ("10.0.0.1",)
    service.go_on.clear()
    names = HostResolver(FakeClock(), service)
    try:
        assert names.find(["nm-1"], 0.01).missing == {"nm-1": "no answer in 0.01 s"}
    finally:
        service.go_on.set()
    assert names.find(["nm-1"], 5).addresses == {"nm-1": "10.0.0.1"}
    until(lambda: names._workers == 0)
    assert service.asked == ["nm-1"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "neither followers nor a socket"),
        ({"followers": ["lb1"], "socket": "/run/ha.sock"}, "followers and a socket"),
        ({"followers": ["lb1", "a/b"]}, "'a/b' is not a valid follower name"),
        ({"socket": "ha.sock"}, "not an absolute path"),
        ({"socket": "/ha.sock", "backend": "a b"}, "not a valid HAProxy backend name"),
        ({"socket": "/ha.sock", "grpc_backend": "a;b"}, "not a valid HAProxy backend name"),
        ({"socket": "/ha.sock", "slots": "tri ton"}, "not a valid server-name prefix"),
        ({"socket": "/ha.sock", "check_interval_s": 0}, "check_interval_s"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any], words: str) -> None:
    """Each is refused with what would be right."""
    with pytest.raises(ConfigErrors, match=words):
        plugins.load({}).settings(tarn_discoveries()["haproxy"], options, "discovery.options")


def test_options_become_a_target() -> None:
    """The cluster's name and largest size come from its spec."""
    target = HaproxySettings(socket="/run/ha.sock", slots="triton-").target("fleet", 8)
    assert target == HaproxyTarget(Path("/run/ha.sock"), slots="triton-", fleet="fleet", at_least=8)


def test_with_followers_the_master_publishes_nothing_itself(tmp_path: Path) -> None:
    """The agents' words arrive over HTTP, under their own names."""
    settings = HaproxySettings(followers=("lb1",))
    made = tarn_discoveries()["haproxy"].create(settings, master_context(tmp_path))
    made.reach(0.1)
    made.sync(DiscoveryView(Epoch(1, 1), 1, complete=True))
    assert made.applied() is None
    made.close(withdraw=True)
