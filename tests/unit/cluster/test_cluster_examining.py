"""What the core of `tarn doctor` looks at: TARN's directory, the models, the master's API."""

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate

import attrs
import pytest
from fake_fleet import API_TOKEN, FakeFleet

from tarn.clock import SystemClock
from tarn.cluster.examining import around_spec, home, repository
from tarn.cluster.link import Link
from tarn.cluster.operate.probing import reach
from tarn.doctor import CheckState
from tarn.domain import Epoch
from tarn.errors import NotAuthorizedError, UnreachableError
from tarn.interfaces import CheckResult, ClusterRef, Paths, RuntimeCapabilities
from tarn.testing.context import cluster_spec

PROXY = "http://127.0.0.1:2/proxy/application_1_1"


class Health(http.server.BaseHTTPRequestHandler):
    """Answers ``/health`` as a master whose clock is off by so many seconds."""

    off_s = 0.0

    def do_GET(self) -> None:
        self.send_response_only(503)
        self.send_header("Date", formatdate(time.time() + self.off_s, usegmt=True))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Nobody listens."""


@contextlib.contextmanager
def master(off_s: float = 0.0) -> Iterator[str]:
    handler = type("Handler", (Health,), {"off_s": off_s})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def seen(fleet: FakeFleet) -> Callable[..., CheckResult]:
    """Return what is seen of the way to a master at an address."""

    def look(url: str | None, proxy_url: str | None = None, within_s: float = 5.0) -> CheckResult:
        fleet.ref = ClusterRef("demo", "fake", Epoch(1, 1), url, proxy_url)
        around = attrs.evolve(fleet.environment, clock=SystemClock())
        return reach(Link("demo", around, lambda: fleet), around, within_s)

    return look


def test_a_master_that_answers_is_reached(seen):
    """Whatever its health: that is for `tarn why`."""
    with master() as url:
        looked = seen(url)
    assert looked.findings == ()
    assert looked.seen == f"{url} answers"


@pytest.mark.parametrize(("off_s", "way"), [(3600, "ahead of"), (-3600, "behind")])
def test_a_master_whose_clock_is_off_is_named(seen, off_s, way):
    """Its answer tells the time of its machine."""
    with master(off_s) as url:
        (found,) = seen(url).findings
    assert (found.code, found.fatal) == ("TARN-3603", False)
    assert way in found.found
    assert "127.0.0.1" in found.where


def test_a_master_that_only_the_proxy_reaches_is_a_warning(seen, fleet):
    """With host and port, and the three things to look at."""
    fleet.answers = {PROXY: None}
    (found,) = seen("http://127.0.0.1:1", PROXY).findings
    assert (found.code, found.fatal) == ("TARN-3604", False)
    assert PROXY in found.found
    assert found.where == "http://127.0.0.1:1"
    for word in ("getent hosts 127.0.0.1", "tarn logs -c demo", "nc -vz 127.0.0.1 1", "api.port"):
        assert word in found.next_step


def test_a_master_that_nothing_reaches_is_an_error(seen, fleet):
    """Both ways are named with what was heard there."""
    fleet.answers = {PROXY: UnreachableError("the proxy answers 502")}
    (found,) = seen("http://127.0.0.1:1", PROXY).findings
    assert (found.code, found.fatal) == ("TARN-3605", True)
    assert "Connection refused" in found.found
    assert "502" in found.found


def test_a_port_behind_a_firewall_is_said(seen, fleet):
    """Nobody answers: neither yes nor no."""
    fleet.answers = {}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        (found,) = seen(f"http://127.0.0.1:{port}", within_s=0.2).findings
    assert "no answer within 0.2 s" in found.found
    assert f"nc -vz 127.0.0.1 {port}" in found.next_step


def test_a_name_that_leads_nowhere_is_said(seen, fleet):
    """It is no firewall."""
    fleet.answers = {}
    (found,) = seen("http://no-such-host.invalid:8888").findings
    assert "'no-such-host.invalid' has no address" in found.found


def test_a_proxy_that_lets_no_token_through_is_said_too(seen, fleet):
    """The master cannot be used from here: an error, with both ways out."""
    fleet.answers = {PROXY: NotAuthorizedError("anonymous", "look")}
    (found,) = seen("http://127.0.0.1:1", PROXY).findings
    assert (found.code, found.fatal) == ("TARN-5000", True)
    assert "Connection refused" in found.found
    assert "token: none" in found.next_step
    assert "getent hosts" in found.next_step


def test_without_a_master_at_work_nothing_is_known(seen, fleet):
    """None runs: that is well; instances without a master: it is unknown."""
    assert seen(None).known is False
    fleet.ref = None
    looked = reach(Link("demo", fleet.environment, lambda: fleet), fleet.environment)
    assert looked.known
    assert "no cluster 'demo' runs" in looked.seen


def test_a_home_that_is_not_there_yet_is_well(tmp_path):
    """The first `up` makes it; nothing is made by looking."""
    looked = home(Paths(tmp_path / "a" / "b", tmp_path))
    assert looked.findings == ()
    assert "first `tarn up`" in looked.seen
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_of_the_home_is_an_error(tmp_path):
    """What is in the way is named."""
    (tmp_path / "home").write_text("")
    (found,) = home(Paths(tmp_path / "home", tmp_path)).findings
    assert (found.code, found.fatal) == ("TARN-3600", True)
    assert str(tmp_path / "home") in found.where
    assert "is not a directory" in found.found


@pytest.mark.parametrize(("mode", "warned"), [(0o700, False), (0o755, False), (0o775, True)])
def test_a_home_that_others_may_write_is_a_warning(tmp_path, mode, warned):
    """They could put a reference there that leads to a master of theirs."""
    clusters = tmp_path / "clusters"
    clusters.mkdir()
    clusters.chmod(mode)
    looked = home(Paths(tmp_path, tmp_path))
    assert [one.code for one in looked.findings] == (["TARN-3601"] if warned else [])


@pytest.mark.parametrize(
    ("uri", "capabilities", "state", "said"),
    [
        ("/nowhere", RuntimeCapabilities(), CheckState.ERROR, ""),
        ("/nowhere", RuntimeCapabilities(remote=True), CheckState.WARNING, ""),
        (
            "hdfs:///m",
            RuntimeCapabilities(remote=True, reads=frozenset({"hdfs"})),
            CheckState.OK,
            "hdfs:///m, which the nodes fetch",
        ),
    ],
)
def test_the_models_are_looked_at_as_far_as_they_are_seen(fleet, uri, capabilities, state, said):
    """A path of other machines cannot be judged from here; it is said who looks at a URI."""
    fleet.capabilities = capabilities
    spec = attrs.evolve(
        cluster_spec("demo", uri), runtime=attrs.evolve(cluster_spec().runtime, use="fake")
    )
    looked = repository(spec, fleet.environment.plugins(), {})
    assert said in looked.seen
    fatal = any(one.fatal for one in looked.findings)
    assert (
        CheckState.ERROR if fatal else CheckState.WARNING if looked.findings else CheckState.OK
    ) is state


def test_a_path_of_the_nodes_that_python_models_cannot_be_loaded_from_is_refused(fleet, tmp_path):
    """Where this machine sees it too; which back ends the nodes have is not known here."""
    fleet.capabilities = RuntimeCapabilities(remote=True)
    for name, backend in (("echo", "python"), ("net", "onnxruntime")):
        (tmp_path / "josé" / name / "1").mkdir(parents=True)
        (tmp_path / "josé" / name / "config.pbtxt").write_text(f'backend: "{backend}"')
    spec = attrs.evolve(
        cluster_spec("demo", str(tmp_path / "josé")),
        runtime=attrs.evolve(cluster_spec().runtime, use="fake"),
    )
    looked = repository(spec, fleet.environment.plugins(), {})
    assert [(one.code, one.fatal) for one in looked.findings] == [("TARN-2205", True)]


def test_no_secret_is_shown(fleet):
    """Neither the api token nor a password in the repository's address."""
    fleet.run({"api_token": API_TOKEN.encode()})
    fleet.capabilities = RuntimeCapabilities(remote=True, reads=frozenset({"s3"}))
    spec = attrs.evolve(
        cluster_spec("demo", "s3://me:hidden@host/m"),
        runtime=attrs.evolve(cluster_spec().runtime, use="fake"),
    )
    found = around_spec(spec, fleet.environment, probe=False)
    told = f"{found!r}{found._repr_html_()}{found.plain()}"
    assert "s3://" in told
    assert "hidden" not in told
    assert API_TOKEN not in told
