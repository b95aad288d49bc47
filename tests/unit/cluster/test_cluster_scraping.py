"""What the doctor says of metrics: the master's, and those of each Triton."""

import contextlib
import http.server
import socket
import threading
from collections.abc import Iterator

import pytest
from fake_fleet import URL, FakeApi, FakeFleet, instance, status

from tarn.cluster import Cluster
from tarn.cluster.operate.probing import scrapable
from tarn.errors import NotAuthorizedError, UnreachableError

SPEC = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
TEXT = "# TYPE tarn_target_containers gauge\ntarn_target_containers 2\ntarn_faults 0\n"


class Metrics(http.server.BaseHTTPRequestHandler):
    """Answers as a Triton."""

    def do_GET(self) -> None:
        self.send_response_only(200 if self.path == "/metrics" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Nobody listens."""


@contextlib.contextmanager
def triton() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def cluster(fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose master gives metrics."""
    monkeypatch.setattr(FakeApi, "text", lambda _self, _path: TEXT)
    return Cluster(SPEC, environment=fleet.environment).up()


def test_who_is_silent_is_named(cluster: Cluster, fleet: FakeFleet) -> None:
    """One refuses, one takes the connection and says nothing; a starting one is not asked."""
    with triton() as address, socket.create_server(("127.0.0.1", 0)) as mute:
        said = f"127.0.0.1:{mute.getsockname()[1]}"
        fleet.statuses = [
            status("ready", (
                instance(1, metrics=address),
                instance(2, metrics="127.0.0.1:1"),
                instance(3, metrics=said),
                instance(4, "starting", metrics="127.0.0.1:1"),
            ))
        ]  # fmt: skip
        looked = scrapable(cluster.source, within_s=0.2)
    (finding,) = looked.findings
    assert (finding.code, finding.fatal) == ("TARN-3846", False)
    assert finding.found.startswith("2 of 3 instances do not give")
    assert f"demo-0003 at {said}: no answer within 0.2 s" in finding.found


def test_all_is_well_in_one_line(cluster: Cluster, fleet: FakeFleet) -> None:
    """How many series there are, and how many instances give theirs."""
    with triton() as address:
        fleet.statuses = [status("ready", (instance(1, metrics=address),))]
        looked = scrapable(cluster.source)
    assert looked.seen == "2 series of the master; 1 instances give theirs"


def test_a_master_that_refuses_its_metrics_is_an_error(
    cluster: Cluster, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Prometheus with this token would be refused, too."""

    def refuse(_self: FakeApi, _path: str) -> str:
        raise NotAuthorizedError("somebody", "view")

    monkeypatch.setattr(FakeApi, "text", refuse)
    (finding,) = scrapable(cluster.source).findings
    assert (finding.code, finding.fatal) == ("TARN-3845", True)
    monkeypatch.setattr(FakeApi, "text", lambda _self, _path: "<html>")
    (finding,) = scrapable(cluster.source).findings
    assert "does not come from a master" in finding.found


def test_no_cluster_and_no_answer_are_no_findings(cluster: Cluster, fleet: FakeFleet) -> None:
    """Another check tells of them."""
    fleet.answers[URL] = UnreachableError("nothing listens")
    looked = scrapable(cluster.source)
    assert (looked.known, looked.findings) == (False, ())
    fleet.ref = None
    assert "nothing to measure" in scrapable(cluster.source).seen
