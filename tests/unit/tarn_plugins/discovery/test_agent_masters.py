"""Where an agent finds its master without a cluster beside it, and its api token."""

from pathlib import Path

import attrs
import pytest
from fake_master import TOKEN, FakeMaster, snapshot

from tarn.domain import Epoch
from tarn.errors import ConfigError, NotAuthorizedError, NotFoundError, UnreachableError
from tarn.zk.nodes import FleetNode
from tarn_plugins.discovery.haproxy.masters import AtUrl, InZooKeeper, kept_token, only_cluster


@attrs.define
class Kept:
    """What a ZooKeeper holds."""

    nodes: dict[str, bytes] = attrs.field(factory=dict)
    ensemble: str = "zk1:2181"

    def read(self, path: str) -> bytes | None:
        return self.nodes.get(path)

    def children(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(n.rpartition("/")[2] for n in self.nodes if n.startswith(f"{path}/")))


def test_a_token_comes_from_the_file_then_systemd_then_the_variable(tmp_path: Path) -> None:
    """And is read at each connection."""
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), "TARN_TOKEN": " from-variable "}
    file = tmp_path / "mine"
    file.write_text("from-file\n")
    token = kept_token(file, environ, variable=True)
    assert token is not None
    assert token() == "from-file"
    file.write_text("changed\n")
    assert token() == "changed"
    last = kept_token(None, environ, variable=True)
    assert last is not None
    assert last() == "from-variable"
    assert kept_token(None, environ, variable=False) is None
    assert kept_token(None, {}, variable=True) is None
    (tmp_path / "api_token").write_text("from-systemd")
    second = kept_token(None, environ, variable=True)
    assert second is not None
    assert second() == "from-systemd"


def test_a_token_that_cannot_be_read_names_the_file_and_not_the_token(tmp_path: Path) -> None:
    """Missing, empty, or no text."""
    file = tmp_path / "token"
    token = kept_token(file, {}, variable=False)
    assert token is not None
    with pytest.raises(ConfigError, match="No such file"):
        token()
    file.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        token()
    file.write_bytes(b"geheim\xff")
    with pytest.raises(ConfigError, match="not ASCII text") as caught:
        token()
    assert str(file) in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_url_leads_to_its_master() -> None:
    """Whoever answers must be the cluster that was named, where one was."""
    with FakeMaster(snapshot()) as master:
        token = TOKEN.decode
        with AtUrl(master.url, "", token).open() as api:
            assert api.cluster() == "llama"
        assert AtUrl(master.url, "llama", token).name == "llama"
        AtUrl(master.url, "llama", token).open().close()
        with pytest.raises(UnreachableError, match="answers for cluster 'llama'"):
            AtUrl(master.url, "other", token).open()
        with pytest.raises(NotAuthorizedError):
            AtUrl(master.url).open()
        assert "correct-horse" not in repr(AtUrl(master.url, "", lambda: "correct-horse"))


def test_zookeeper_leads_to_whoever_published_last() -> None:
    """The node is read at each look: a master may be elsewhere the next time."""
    kept = Kept()
    source = InZooKeeper(kept, "/services/triton/instances", "llama", TOKEN.decode)
    with pytest.raises(NotFoundError, match="/services/triton/fleets/llama"):
        source.open()
    kept.nodes["/services/triton/fleets/llama"] = FleetNode(Epoch(1, 1), 1, 0).render()
    with pytest.raises(UnreachableError, match="does not say where it listens"):
        source.open()
    for _ in range(2):
        with FakeMaster(snapshot()) as master:
            node = FleetNode(Epoch(1, 1), 1, 0, master.url)
            kept.nodes["/services/triton/fleets/llama"] = node.render()
            with source.open() as api:
                assert api.url == master.url


def test_the_only_cluster_needs_no_name() -> None:
    """None and several are errors that say what there is."""
    path = "/services/triton/instances"
    with pytest.raises(NotFoundError, match="no cluster has published"):
        only_cluster(Kept(), path)
    kept = Kept({"/services/triton/fleets/a": b"", "/services/triton/instances/c1": b""})
    assert only_cluster(kept, path) == "a"
    kept.nodes["/services/triton/fleets/b"] = b""
    with pytest.raises(ConfigError, match=r"a, b.*-c a"):
        only_cluster(kept, path)
