"""HAProxy's way to the master: what is told to it, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.clock import SystemClock
from tarn.errors import ConfigError, DiscoveryError
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver
from tarn_plugins.discovery.haproxy.master_server import MasterServer, move_commands
from tarn_plugins.discovery.haproxy.runtime_messages import BackendServer

STATE = """1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
srv_time_since_last_change srv_check_state srv_check_port srv_port srv_use_ssl
4 tarn_master 1 {name} {address} 2 {admin} 1 1 7 1 0 {port} {tls}
"""


class Api:
    """A HAProxy with that one server, as `MasterServer` sees it."""

    def __init__(self, name: str = "master") -> None:
        self.name, self.address, self.port, self.admin = name, "127.0.0.1", 1, 5
        self.told: list[str] = []
        self.refuses, self.tls = "", 0

    def ask(self, commands: list[str]) -> list[str]:
        return [self._one(command) for command in commands]

    def _one(self, command: str) -> str:
        words = command.split()
        if words[-1] == "tarn_master_api":
            return "Can't find backend."
        if words[0] == "show":
            state = {
                "address": self.address,
                "admin": self.admin,
                "port": self.port,
                "tls": self.tls,
            }
            return STATE.format(name=self.name, **state)
        self.told.append(command)
        if self.refuses:
            return self.refuses
        if words[3] == "addr":
            self.address, self.port = words[4], int(words[6])
            return "IP changed from '127.0.0.1' to something by 'stats socket command'"
        self.admin = 4
        return ""

    @staticmethod
    def error(found: str, *, next_step: str = "", code: str = "TARN-3309") -> DiscoveryError:
        return DiscoveryError("haproxy", found, code=code, next_step=next_step)


def _way(api: Api, said: list[str] | None = None) -> MasterServer:
    names = HostResolver(SystemClock(), {"gpu1": ("10.0.0.7",)}.__getitem__)
    heard = [] if said is None else said
    return MasterServer(api, SystemClock(), heard.append, names)


def test_it_goes_where_the_master_is_and_says_nothing_twice() -> None:
    """By a host name, too; after that nothing is written until the master moves."""
    api, said = Api(), []
    way = _way(api, said)
    way.keep()
    assert api.told == []
    way.note("http://10.0.0.9:40001")
    for _ in range(3):
        way.keep()
    assert (api.address, api.port, api.admin) == ("10.0.0.9", 40001, 4)
    assert len(api.told) == 2
    way.note("http://10.0.0.10:1")
    way.keep()
    assert (api.address, len(api.told)) == ("10.0.0.10", 3)
    assert len(said) == 2


def test_a_fault_that_nobody_expected_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, and HAProxy is led to the master all the same."""
    api, said, faults = Api(), [], []

    def faulty(commands: list[str]) -> list[str]:
        if not faults:
            faults.append(1)
            raise RuntimeError("nobody expected this")
        return Api.ask(api, commands)

    monkeypatch.setattr(api, "ask", faulty)
    way = _way(api, said)
    way.note("http://10.0.0.9:40001")
    way.start()
    until(lambda: api.address == "10.0.0.9", 10)
    way.close()
    assert said[0].endswith("RuntimeError: nobody expected this")


def test_what_somebody_else_changed_is_put_right() -> None:
    """A HAProxy that was restarted begins with its file again."""
    api = Api()
    way = _way(api)
    way.note("http://10.0.0.9:40001/")
    way.keep()
    api.address, api.admin = "127.0.0.1", 5
    way.keep()
    assert (api.address, api.admin) == ("10.0.0.9", 4)


@pytest.mark.parametrize(("url", "port"), [("http://10.0.0.9", 80), ("https://10.0.0.9", 443)])
def test_a_url_without_a_port_has_the_usual_one(url: str, port: int) -> None:
    """As every client takes it; a file that speaks otherwise to it is told."""
    api = Api()
    api.tls = int(port == 443)
    way = _way(api)
    way.note(url)
    way.keep()
    assert api.port == port
    api.tls = 1 - api.tls
    with pytest.raises(DiscoveryError, match="--master-ca"):
        way.keep()


def test_a_file_without_the_server_is_told() -> None:
    """With what renders one."""
    with pytest.raises(ConfigError, match="tarn_master/master") as raised:
        _way(Api("another")).check()
    assert raised.value.code == "TARN-3337"


def test_a_refusal_is_an_error() -> None:
    """What HAProxy answers is read."""
    api = Api()
    api.refuses = "Permission denied"
    way = _way(api)
    way.note("http://10.0.0.9:40001")
    with pytest.raises(DiscoveryError, match="Permission denied"):
        way.keep()


@given(
    address=st.ip_addresses(v=4).map(str),
    port=st.integers(1, 65535),
    admin=st.sampled_from([0, 1, 4, 5, 8, 9]),
    same=st.booleans(),
)
def test_orders_are_what_is_missing(address: str, port: int, admin: int, same: bool) -> None:
    """Nothing where it is right; an address where it is another; ready where it is not."""
    shown = BackendServer("master", address if same else "203.0.113.1", port, admin)
    moved = shown.address != address
    texts = [order.text for order in move_commands("tarn_master", shown, address, port)]
    assert any("addr" in text for text in texts) == moved
    assert any("state ready" in text for text in texts) == (admin not in {0, 4})
    assert len(texts) <= 2
