"""What a user writes for the discovery ``zookeeper``."""

import os
from pathlib import Path

import pytest

from tarn.errors import ConfigError
from tarn.plain import structure
from tarn_plugins.discovery.zookeeper import ZooKeeperSettings, ZooKeeperTlsSettings
from tarn_plugins.discovery.zookeeper.discovery import login, owner


def _read(**options: object) -> tuple[ZooKeeperSettings | None, str]:
    """Read them as the spec is read; return what was wrong, too."""
    made, problems = structure(ZooKeeperSettings, {"ensemble": "zk1:2181", **options}, "options")
    said = "; ".join(f"{p.found} {p.right} {p.next_step}" for p in problems)
    return made, said


def _good(**options: object) -> ZooKeeperSettings:
    made, said = _read(**options)
    assert not said
    assert isinstance(made, ZooKeeperSettings)
    return made


def test_only_the_ensemble_must_be_given() -> None:
    """Everything else is as the Java TARN had it."""
    made = _good()
    assert (made.path, made.payload) == ("/services/triton/instances", "hostport")
    assert (made.session_timeout_s, made.acl, made.digest, made.tls) == (10.0, None, "", None)


def test_durations_have_units_and_files_are_a_mapping() -> None:
    """As in every other settings."""
    made = _good(session_timeout="4s", tls={"ca": "/ca.pem"}, acl=["world:anyone:cdrwa"])
    assert (made.session_timeout_s, made.tls) == (4.0, ZooKeeperTlsSettings("/ca.pem"))


def test_without_a_ca_the_authorities_of_the_system_are_believed() -> None:
    """An empty mapping is an encrypted connection, too."""
    assert _good(tls={}).tls == ZooKeeperTlsSettings()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "/a/b/"}, "path of ZooKeeper"),
        ({"path": "/zookeeper/a"}, "ZooKeeper itself"),
        ({"path": "relative"}, "path of ZooKeeper"),
        ({"path": "/services/fleets"}, "masters"),
        ({"ensemble": ""}, "host:port"),
        ({"ensemble": "zk1:2181,,zk2:2181"}, "host:port"),
        ({"ensemble": "/only/a/chroot"}, "host:port"),
        ({"ensemble": "zk1:99999"}, "host:port"),
        ({"ensemble": "zk1:2181/a//b"}, "chroot"),
        ({"payload": "xml"}, "hostport"),
        ({"session_timeout": "10ms"}, "1s"),
        ({"acl": ["everybody"]}, "scheme:id:permissions"),
        ({"acl": ["world:anyone:x"]}, "scheme:id:permissions"),
        ({"tls": {"ca": "/ca", "cert": "/c"}}, "key"),
        ({"tls": {"ca": "ca.pem"}}, "relative path 'ca.pem'"),
        ({"digest": "file:zk"}, "digest names a relative path"),
        ({"jaas": "/etc/jaas.conf"}, "digest: file:PATH"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, object], said: str) -> None:
    """When the spec is read, with what would be right."""
    assert said in _read(**options)[1]


@pytest.mark.parametrize(
    "ensemble", ["zk1:2181,zk2:2181/services/a", "zk1", "[::1]:2181", "10.0.0.1:1"]
)
def test_ensembles_as_clients_write_them(ensemble: str) -> None:
    """Ports may be left out, a chroot stands at the end."""
    assert _good(ensemble=ensemble).ensemble == ensemble


def test_a_password_in_the_wrong_place_is_not_repeated() -> None:
    """Somebody will write it where its place should stand."""
    said = _read(digest="tarn:my-secret")[1]
    assert "my-secret" not in said
    assert "file:PATH" in said


def test_a_digest_is_read_from_its_place(tmp_path: Path) -> None:
    """A file or a variable; the password shows in no picture of it."""
    (tmp_path / "zk").write_text("tarn:pass:word\n")
    for found in (
        login(f"file:{tmp_path}/zk", {}),
        login("env:ZK", {"ZK": "tarn:pass:word"}),
    ):
        assert found is not None
        assert found.text == "tarn:pass:word"
        assert "pass:word" not in repr(found)
    assert login("", {}) is None


def test_a_digest_that_is_not_there_is_told_without_its_content(tmp_path: Path) -> None:
    """Missing, unreadable or of another form."""
    (tmp_path / "bad").write_text("only-a-secret")
    (tmp_path / "binary").write_bytes(b"\xff\xfe:\xff")
    for source in (
        f"file:{tmp_path}/none",
        f"file:{tmp_path}/bad",
        f"file:{tmp_path}/binary",
        "env:X",
    ):
        with pytest.raises(ConfigError) as caught:
            login(source, {})
        assert "only-a-secret" not in str(caught.value)
        assert "digest" in str(caught.value)


def test_the_owner_is_who_submitted() -> None:
    """``USER``, then as Hadoop does it; never nobody."""
    assert owner({"USER": "alice", "HADOOP_USER_NAME": "bob"}) == "alice"
    assert owner({"HADOOP_USER_NAME": "bob"}) == "bob"
    assert owner({"USER": ""}) == owner({}) != ""


def test_a_process_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As containers run it."""
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
    assert owner({}) == "4000000000"
