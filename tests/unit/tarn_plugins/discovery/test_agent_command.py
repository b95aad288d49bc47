"""The command line of `tarn lb haproxy`, with a master, and a discovery in memory for HAProxy."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_master import TOKEN, FakeMaster, instance, snapshot

from tarn.cli import run
from tarn.cluster import ClusterEnvironment
from tarn.domain import Acknowledge
from tarn.errors import DiscoveryError, NotAuthorizedError
from tarn.testing.fakes import FakeDiscovery
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy import commands
from tarn_plugins.discovery.haproxy import servers as haproxy_servers


class Servers(FakeDiscovery):
    """What the command makes in place of HAProxy's servers."""

    closed: bool | None = None
    reachable: DiscoveryError | None = None

    def reach(self, within_s: float) -> None:
        if self.reachable is not None:
            raise self.reachable

    def follow(self, answer: object) -> None:
        assert answer == {"rules": [], "complete": False}  # no Triton has told of its models

    def statistics(self) -> None:
        raise AssertionError("there are instances")

    def close(self, *, withdraw: bool) -> None:
        self.closed = withdraw
        super().close(withdraw=withdraw)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    made = Servers()
    monkeypatch.setattr(haproxy_servers, "HAProxyServers", lambda *_: made)
    return made


@pytest.fixture
def around(tmp_path: Path) -> ClusterEnvironment:
    return ClusterEnvironment({"TARN_HOME": str(tmp_path), "TARN_TOKEN": TOKEN.decode()})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_all_as_it_is(
    servers: Servers, around: ClusterEnvironment, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """With exit code 0; who had the signals before has them again."""
    before = signal.getsignal(number)
    with FakeMaster(snapshot(instance(1), instance(2))) as master:

        def end() -> None:
            until(lambda: any(isinstance(c, Acknowledge) for c in master.commands))
            os.kill(os.getpid(), number)

        thread = threading.Thread(target=end, name="ends")
        thread.start()
        words = ["--socket", "/run/haproxy.sock", "--url", master.url, "--name", "lb1"]
        assert run(["lb", "haproxy", *words], around) == 0
        thread.join(10)
        assert {c.applied.name for c in master.commands if isinstance(c, Acknowledge)} == {"lb1"}
    assert servers.closed is False
    assert len(servers.registry.members) == 2
    assert signal.getsignal(number) is before
    said = capsys.readouterr()
    assert said.out == ""
    assert "of llama: 2 servers, acknowledged" in said.err
    assert TOKEN.decode() not in said.err


def test_a_signal_never_waits_for_what_it_interrupted(
    servers: Servers, around: ClusterEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main thread may hold the lock of the event that it waits for: setting it would hang."""
    set_news: list[Callable[[], None]] = []
    monkeypatch.setattr(
        haproxy_servers, "HAProxyServers", lambda *given: set_news.append(given[2]) or servers
    )
    on_main: list[str] = []
    real = threading.Event.set

    def noted(event: threading.Event) -> None:
        news = set_news and event is getattr(set_news[0], "__self__", None)
        if news and threading.current_thread() is threading.main_thread():
            on_main.append("news")
        real(event)

    monkeypatch.setattr(threading.Event, "set", noted)
    with FakeMaster(snapshot(instance(1))) as master:

        def end() -> None:
            until(lambda: any(isinstance(c, Acknowledge) for c in master.commands))
            os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=end, name="ends")
        thread.start()
        words = ["--socket", "/s", "--url", master.url, "--name", "lb1"]
        assert run(["lb", "haproxy", *words], around) == 0
        thread.join(10)
    assert len(set_news) == 1
    assert on_main == []


def test_what_stands_before_config_holds_for_it(
    around: ClusterEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-c X config` is `config -c X`; what config is told itself goes before."""
    words = ["lb", "haproxy", "-c", "ocr", "--socket", "/run/a.sock", "--backend", "b", "config"]
    assert run([*words, "--backend", "other"], around) == 0
    said = capsys.readouterr().out
    assert "in front of the TARN fleet ocr" in said
    assert "tarn lb haproxy -c ocr --socket /run/a.sock --backend other" in said


def test_what_haproxy_says_at_the_start_has_an_exit_code(
    servers: Servers, around: ClusterEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 where it is away, 2 where the backend is a slip; the parts of the message stay."""
    with FakeMaster(snapshot()) as master:
        words = ["lb", "haproxy", "--socket", "/run/haproxy.sock", "--url", master.url]
        for code, expected in (("", 3), ("TARN-3305", 2), ("TARN-3308", 2)):
            servers.reachable = DiscoveryError(
                "haproxy", "nobody there", code=code, next_step="Do this."
            )
            assert run(words, around) == expected
            assert "nobody there. Do this." in capsys.readouterr().err
    assert servers.closed is False


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "Missing option '--socket'"),
        (["--socket", "s", "--name", "a/b"], "'a/b' is not a valid follower name"),
        (["--socket", "s", "--url", "gpu1:40001"], "http://HOST:PORT"),
        (["--socket", "s", "--url", "http://x", "--zookeeper", "zk:1"], "both say where"),
        (["--socket", "s", "--url", "http://127.0.0.1:1", "-c", "x", "--backend", "a b"], "'a b'"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_is_asked(
    around: ClusterEnvironment, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    """Exit code 2."""
    assert run(["lb", "haproxy", *words], around) == 2
    assert text in capsys.readouterr().err


def test_a_wrong_token_names_where_it_is_given(
    servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever starts an agent sends no header. Exit code 5."""
    around = ClusterEnvironment({"TARN_HOME": str(tmp_path), "TARN_TOKEN": "another"})
    with FakeMaster(snapshot()) as master:
        words = ["lb", "haproxy", "--socket", "/s", "--url", master.url, "-c", "llama"]
        assert run(words, around) == 5
    said = capsys.readouterr().err
    assert "--token-file" in said
    assert "TARN_TOKEN" in said
    assert "another" not in said
    assert servers.closed is False


def test_a_master_that_takes_tickets_says_itself_what_to_do() -> None:
    """Its next step is about the ticket; where it takes none, the api token is missing."""
    asked = NotAuthorizedError("anonymous", "follow", next_step="Send a ticket.", negotiates=True)
    with pytest.raises(NotAuthorizedError, match="Send a ticket") as caught, commands._starting():
        raise asked
    assert caught.value.negotiates
    other = NotAuthorizedError("anonymous", "follow", next_step="Send a ticket.")
    with pytest.raises(NotAuthorizedError, match="--token-file"), commands._starting():
        raise other


MISSING = {
    "haproxy": ("tarn_plugins.discovery.haproxy.servers", ["--url", "http://x", "-c", "x"]),
    "zookeeper": ("tarn.zk.session", ["--zookeeper", "zk1:2181", "-c", "x"]),
}


@pytest.mark.parametrize("extra", MISSING)
def test_a_missing_module_names_the_extra_that_brings_it(
    around: ClusterEnvironment,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    extra: str,
) -> None:
    """Exit code 6."""
    module, words = MISSING[extra]
    monkeypatch.setitem(sys.modules, module, None)
    assert run(["lb", "haproxy", "--socket", "s", *words], around) == 6
    assert f"pip install 'tarn-orchestrator[{extra}]'" in capsys.readouterr().err
