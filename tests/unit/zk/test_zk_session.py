"""One session, where no server answers."""

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo import exceptions as theirs

from tarn.errors import ConfigError, DiscoveryError
from tarn.tls.contexts import Trust
from tarn.zk.kazoo_handler import silent_logger
from tarn.zk.nodes import AclEntry, CheckVersion, Create, Delete, Login, SetData, size
from tarn.zk.session import NodesChangedError, ZooKeeperSession, translated


@pytest.fixture
def hole() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_nothing_starts_before_the_first_use(hole: str) -> None:
    """A process may fork after it imported and made one."""
    before = set(threading.enumerate())
    session = ZooKeeperSession(hole, login=Login("tarn", "secret"))
    assert set(threading.enumerate()) == before
    assert (session.connected, session.id) == (False, 0)
    session.close()
    assert set(threading.enumerate()) == before


def test_a_process_that_forked_after_the_import_works() -> None:
    """kazoo#554: threads do not survive a fork, so none may run before."""
    code = """
import os, sys, threading
import tarn, tarn.zk.session
from tarn.errors import DiscoveryError
assert threading.active_count() == 1
pid = os.fork()
session = tarn.zk.session.ZooKeeperSession("127.0.0.1:1")
try:
    session.connect(0.3)
except DiscoveryError:
    session.close()
else:
    sys.exit(3)
if pid == 0:
    os._exit(0)
sys.exit(os.waitpid(pid, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == 0


def test_silence_ends_at_the_deadline(hole: str) -> None:
    """However long the session's timeout is; leaving takes no longer."""
    session = ZooKeeperSession(hole, timeout_s=30.0)
    began_s = time.monotonic()
    with pytest.raises(DiscoveryError, match=hole) as caught:
        session.read("/x", 0.3)
    assert caught.value.code == "TARN-3301"
    session.close()
    assert time.monotonic() - began_s < 6.0
    with pytest.raises(DiscoveryError, match="closed"):
        session.connect(0.1)
    session.close()


def test_a_cut_line_lets_nothing_pass(hole: str) -> None:
    """What is abandoned connects nowhere any more."""
    session = ZooKeeperSession(hole)
    with pytest.raises(DiscoveryError):
        session.connect(0.1)
    line = session._line
    session.abandon()
    assert line is not None
    with pytest.raises(ConnectionAbortedError):
        line.create_connection(("127.0.0.1", 1), "localhost", 1.0)


def test_a_server_that_swallows_everything_costs_its_share_only() -> None:
    """Of a session of 9 s, each of three servers gets less than three to connect."""
    assert ZooKeeperSession("a:1,b:1,c:1", timeout_s=9.0)._connect_s < 3.0


def test_a_client_that_gave_up_is_replaced(hole: str) -> None:
    """Kazoo may end for good, as when the servers refuse a digest; a later call begins anew."""
    session = ZooKeeperSession(hole)
    with pytest.raises(DiscoveryError):
        session.connect(0.1)
    first = session._line
    assert first is not None

    def refuse(**_options: object) -> socket.socket:
        raise theirs.AuthFailedError("a secret")

    first.create_connection = refuse
    assert first._socket is not None
    first._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(DiscoveryError) as caught:
        session.connect(5.0)
    assert "a secret" not in str(caught.value)
    with pytest.raises(DiscoveryError):
        session.connect(0.1)
    assert session._line is not first
    session.close()


def test_files_of_tls_are_looked_at_when_it_is_made(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Not when the first instance is ready."""
    odd = tmp_path_factory.mktemp("tls") / "odd.pem"
    odd.write_text("nothing of use")
    for tls in (Trust(Path("/missing.pem")), Trust(odd)):
        with pytest.raises(ConfigError):
            ZooKeeperSession("zk:2281", tls=tls)


def test_kazoos_errors_become_ours() -> None:
    """Each kind with its code; only those that a second try may mend say so."""
    changed = translated(theirs.BadVersionError(), "zk:1", "write")
    assert isinstance(changed, NodesChangedError)
    refused = translated(theirs.NoAuthError(), "zk:1", "write")
    assert (refused.code, refused.retry_after_s) == ("TARN-3302", None)
    assert translated(theirs.AuthFailedError(), "zk:1", "write").code == "TARN-3302"
    lost = translated(theirs.ConnectionLoss("some secret"), "zk:1", "write", tls=True)
    assert (lost.code, lost.retry_after_s) == ("TARN-3301", 1.0)
    assert "TLS" in str(lost)
    assert "some secret" not in str(lost)


def test_kazoo_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """At its debug level it would log the password."""
    with caplog.at_level(logging.DEBUG):
        silent_logger().critical("x")
        silent_logger().debug("x")
    assert not caplog.records


@pytest.mark.parametrize("text", ["", "world", "world:anyone", "world:anyone:", "world:anyone:rx"])
def test_a_line_of_an_acl_is_read_or_refused(text: str) -> None:
    """As ``setAcl`` takes it; an id may hold colons."""
    with pytest.raises(ConfigError):
        AclEntry.parse(text)
    assert AclEntry.parse("digest:tarn:hash=:cdrwa") == AclEntry("digest", "tarn:hash=", "cdrwa")
    assert AclEntry.parse("auth::r") == AclEntry("auth", "", "r")


def test_sizes_are_not_underestimated() -> None:
    """A path, the data, and what stands around them."""
    for operation in (
        Create("/a", b"xx"),
        Delete("/a"),
        SetData("/a", b"xx"),
        CheckVersion("/a", 1),
    ):
        assert size(operation) >= len(operation.path) + len(operation.data) + 40
