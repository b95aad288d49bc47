"""32: after a reconnect the Java TARN deleted and made every node; its ACLs were open."""

from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError
from servers.zookeeper import Ensemble, client, watched
from zookeeper_masters import masters, names, view

from tarn.testing.wait import until

pytestmark = pytest.mark.discovery


def test_a_connection_that_comes_back_deletes_nothing(zookeeper: Ensemble, tmp_path: Path) -> None:
    """The session goes on, and so do its nodes, which only their creator may change."""
    (tmp_path / "digest").write_text("tarn:not-to-be-told\n")
    with masters(tmp_path, zookeeper.address) as some, client(zookeeper.address) as other:
        discovery = some.make(session_timeout_s=6.0, digest=f"file:{tmp_path}/digest")
        discovery.sync(view(1, 1, 2))
        session, node = discovery._session.id, f"{some.path}/container_1"
        before = other.get(node)[1].czxid
        states: list[str] = []
        discovery._session._client.add_listener(states.append)  # type: ignore[union-attr]
        with watched(zookeeper.address, some.path, *names(1, 2)):
            discovery._session._line._socket.shutdown(2)  # type: ignore[union-attr]
            until(lambda: states[-1:] == ["CONNECTED"], 10)
            discovery.sync(view(2, 1, 2))
        assert "SUSPENDED" in states
        assert discovery._session.id == session
        assert other.get(node)[1].czxid == before
        with pytest.raises(NoAuthError):
            other.set(node, b"evil:80")
