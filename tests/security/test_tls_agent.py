"""What runs next to a load balancer, and what infers, know a master that speaks HTTPS."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority
from fake_master import TOKEN, FakeMaster, instance, snapshot

import tarn.client
from tarn.cli import run
from tarn.cluster import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.cluster.operate.probing import reach
from tarn.domain import Acknowledge, Epoch
from tarn.errors import UnreachableError
from tarn.interfaces import ClusterRef
from tarn.testing.fakes import FakeDiscovery
from tarn.testing.wait import until
from tarn.tls.contexts import server_context
from tarn_plugins.discovery.haproxy import servers


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def master(authority: Authority) -> Iterator[FakeMaster]:
    issued = authority.issue("master")
    whole = issued.cert.with_suffix(".pem")
    whole.write_bytes(issued.key.read_bytes() + issued.cert.read_bytes())
    first = snapshot(instance(1), instance(2))
    with FakeMaster(first, tls=server_context(whole, authority.ca)) as one:
        yield one


class Servers(FakeDiscovery):
    """What the command makes in place of HAProxy's servers."""

    def reach(self, within_s: float) -> None:
        """They are there."""

    def follow(self, answer: object) -> None:
        assert answer == {"rules": [], "complete": False}  # no Triton has told of its models

    def statistics(self) -> None:
        raise AssertionError("there are instances")


@pytest.fixture
def around(tmp_path: Path) -> ClusterEnvironment:
    return ClusterEnvironment({"TARN_HOME": str(tmp_path / "home"), "TARN_TOKEN": TOKEN.decode()})


def test_the_agent_follows_over_https(
    master: FakeMaster,
    authority: Authority,
    around: ClusterEnvironment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `--ca`, and a certificate of its own; its acknowledgement arrives."""
    monkeypatch.setattr(servers, "HAProxyServers", lambda *_: Servers())

    def end() -> None:
        until(lambda: any(isinstance(c, Acknowledge) for c in master.commands))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=end, name="ends")
    thread.start()
    own = authority.issue("lb1", (), client=True)
    words = ["--socket", "/run/haproxy.sock", "--url", master.url, "--name", "lb1"]
    files = ["--ca", str(authority.ca), "--cert", str(own.cert), "--key", str(own.key)]
    assert run(["lb", "haproxy", *words, *files], around) == 0
    thread.join(10)


def test_an_agent_that_knows_nobody_says_so_and_does_nothing(
    master: FakeMaster,
    around: ClusterEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the authority, with a file that is none, with a key and no certificate."""
    monkeypatch.setattr(servers, "HAProxyServers", lambda *_: Servers())
    words = ["lb", "haproxy", "--socket", "/s", "--url", master.url, "--name", "lb1"]
    assert run(words, around) == UnreachableError.exit_code
    assert "[TARN-3728]" in capsys.readouterr().err
    assert run([*words, "--ca", str(tmp_path / "gone")], around) == 2
    assert "[TARN-3720]" in capsys.readouterr().err
    assert run([*words, "--key", "k.pem"], around) == 2
    assert "--key belongs to --cert" in capsys.readouterr().err
    assert master.commands == []


def test_a_client_of_inferences_finds_instances_over_https(
    master: FakeMaster, authority: Authority
) -> None:
    """`ca=` names by whom the master is known."""
    token = TOKEN.decode()
    with tarn.client.http(master.url, api_token=token, ca=authority.ca, wait_s=0) as client:
        assert client is not None
    with pytest.raises(UnreachableError, match="not trusted"):
        tarn.client.http(master.url, api_token=token, wait_s=0).close()


class Known:
    """A deployer that knows one master."""

    def __init__(self, url: str, proxy_url: str = "") -> None:
        self.url, self.proxy_url = url, proxy_url or None

    def find(self, name: str) -> ClusterRef:
        return ClusterRef(name, "fake", Epoch(1, 1), self.url, self.proxy_url)


def test_who_is_not_believed_is_not_asked_by_another_way(
    master: FakeMaster, around: ClusterEnvironment
) -> None:
    """A wrong certificate is shown to a person; a proxy that knows no better covers nothing up."""
    with FakeMaster(api_token=None) as proxy:
        known = Known(master.url, proxy.url)
        link = Link("llama", around, lambda: known)  # type: ignore[arg-type, return-value]
        with pytest.raises(UnreachableError) as caught:
            link.ask(lambda api: api.status())
        assert caught.value.code == "TARN-3728"
        known.url = "https://127.0.0.1:1"  # nobody is there: a firewall may be in between
        another = Link("llama", around, lambda: known)  # type: ignore[arg-type, return-value]
        assert another.ask(lambda api: api.cluster()) == "llama"
        another.close()
        link.close()


def test_the_doctor_sees_whether_a_master_is_believed(
    master: FakeMaster, authority: Authority, around: ClusterEnvironment
) -> None:
    """By what is kept of the cluster; without it the reason is the certificate."""
    link = Link("llama", around, lambda: Known(master.url))  # type: ignore[arg-type, return-value]
    directory = around.paths.cluster("llama")
    directory.mkdir(parents=True)
    (directory / "api_token").write_bytes(TOKEN)
    seen = reach(link, around)
    assert "its certificate is not trusted" in seen.findings[0].found
    assert seen.findings[0].where.startswith("https://")
    (directory / "tls_ca.pem").write_bytes(authority.ca.read_bytes())
    assert reach(link, around).seen == f"{master.url} answers"
