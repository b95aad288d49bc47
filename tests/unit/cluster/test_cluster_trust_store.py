"""What a client brings so that a master knows others: a keytab, and tokens of trusted proxies."""

import json
import struct
from pathlib import Path

import attrs
import pytest

from tarn import config
from tarn.cli.foreign import needs
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.start.uploads import trust_store_files
from tarn.domain import ClusterSpec
from tarn.domain.spec import SpnegoSpec, TrustedProxy
from tarn.errors import ConfigErrors
from tarn.testing.context import cluster_spec

TOKEN = "a-token-of-32-random-characters!"


def keytab(*principals: str) -> bytes:
    """Write a keytab with a key of zeros for each principal."""
    entries = b""
    for principal in principals:
        name, _, realm = principal.partition("@")
        parts = [realm, *name.split("/")]
        entry = struct.pack(">H", len(parts) - 1)
        entry += b"".join(struct.pack(">H", len(p)) + p.encode() for p in parts)
        entry += struct.pack(">IIBHH", 1, 0, 1, 18, 32) + bytes(32)
        entries += struct.pack(">i", len(entry)) + entry
    return b"\x05\x02" + entries


def asking(path: Path | None, *proxies: TrustedProxy) -> ClusterSpec:
    spec = cluster_spec()
    spnego = None if path is None else SpnegoSpec(str(path))
    return attrs.evolve(spec, api=attrs.evolve(spec.api, spnego=spnego, trusted_proxies=proxies))


def by_token(name: str, source: str) -> TrustedProxy:
    return TrustedProxy(name, "10.0.0.5", "token", token=source)


def test_who_asks_for_nothing_brings_nothing() -> None:
    """A proxy with a certificate has nothing that the master would have to keep."""
    assert trust_store_files(asking(None, TrustedProxy("g", "10.0.0.5")), {}) == {}


def test_a_keytab_and_tokens_are_brought(tmp_path: Path) -> None:
    """From files and variables of the client's machine."""
    path = tmp_path / "http.keytab"
    path.write_bytes(keytab("HTTP/n1@R", "HTTP/n2@R"))
    (tmp_path / "lb2").write_text(f"{TOKEN}2\n")
    proxies = by_token("lb1", "env:LB1"), by_token("lb2", f"file:{tmp_path}/lb2")
    files = trust_store_files(asking(path, *proxies), {"LB1": TOKEN})
    assert files["spnego.keytab"] == path.read_bytes()
    assert json.loads(files["proxy_tokens.json"]) == {"lb1": TOKEN, "lb2": f"{TOKEN}2"}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "cannot be read"),
        (b"", "not a keytab"),
        (b"-----BEGIN", "not a keytab"),
        (keytab(), "only of: nobody"),
        (keytab("hdfs/n1@R", "alice@R", "http/n1@R"), "only of: alice@R, hdfs/n1@R, http/n1@R"),
    ],
)
def test_a_keytab_of_no_use_is_refused(tmp_path: Path, content: bytes | None, word: str) -> None:
    """Missing, something else, or without a key of HTTP/<host>: nothing starts."""
    path = tmp_path / "some.keytab"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigErrors, match=word) as caught:
        trust_store_files(asking(path), {})
    assert [error.code for error in caught.value.errors] == ["TARN-3701"]
    assert caught.value.errors[0].where == "api.spnego.keytab"


def test_everything_is_said_at_once_and_no_token(tmp_path: Path) -> None:
    """Missing, empty, short, not ASCII, binary, doubled."""
    short, odd, raw = (tmp_path / name for name in ("short", "odd", "raw"))
    short.write_text("hunter2")
    odd.write_text("pässword-pässword")
    raw.write_bytes(b"\xff\xfe" * 20)
    spec = asking(
        tmp_path / "none.keytab",
        *(by_token(f"f{n}", f"file:{path}") for n, path in enumerate((short, odd, raw))),
        by_token("gone", f"file:{tmp_path}/gone"),
        by_token("unset", "env:UNSET"),
        by_token("a", "env:A"),
        by_token("b", "env:B"),
    )
    with pytest.raises(ConfigErrors) as caught:
        trust_store_files(spec, {"A": TOKEN, "B": TOKEN})
    text = str(caught.value)
    assert len(caught.value.errors) == 7
    assert "a and b have the same token" in text
    for secret in ("hunter2", "pässword", TOKEN):
        assert secret not in text


def test_a_master_of_this_python_needs_gssapi(tmp_path: Path) -> None:
    """Said before it starts; elsewhere it is that Python's, which `tarn pack` gives it."""
    path = tmp_path / "http.keytab"
    path.write_bytes(keytab("HTTP/n1@R"))
    assert set(trust_store_files(asking(path), {})) == {"spnego.keytab"}
    with pytest.raises(ConfigErrors, match=r"tarn-orchestrator\[kerberos\]"):
        trust_store_files(asking(path), {}, gssapi=False)


def test_a_relative_file_starts_at_the_spec(tmp_path: Path) -> None:
    """Wherever `tarn up` is called from."""
    path = tmp_path / "tarn.yaml"
    path.write_text(
        "name: c\nmodels: hdfs:///models\napi:\n  trusted_proxies:\n"
        "    - {name: lb1, address: 10.0.0.5, authenticated_by: token, token: 'file:lb1.token'}\n"
        "    - {name: lb2, address: 10.0.0.6, authenticated_by: token, token: 'env:LB2'}\n"
    )
    proxies = config.load(path, environ={}).spec.api.trusted_proxies
    assert [one.token for one in proxies] == [f"file:{tmp_path}/lb1.token", "env:LB2"]


def test_contradictions_stand_with_the_other_errors_of_a_file(tmp_path: Path) -> None:
    """With their place in it; a token that was written into it is not repeated."""
    path = tmp_path / "tarn.yaml"
    path.write_text(
        "name: c\nmodels: hdfs:///models\nreplicas: {min: 9, max: 2}\napi:\n  trusted_proxies:\n"
        "    - {name: lb1, address: lb1.example.com, authenticated_by: token, token: hunter2}\n"
        "    - {name: g, address: 10.0.0.6}\n"
    )
    with pytest.raises(ConfigErrors) as caught:
        config.load(path, environ={})
    text = str(caught.value)
    assert len(caught.value.errors) == 4
    for words in ("lb1.example.com", "does not say where the token is", "client_ca", "replicas"):
        assert words in text
    assert "hunter2" not in text
    assert "tarn.yaml:6" in text


def test_an_environment_for_the_nodes_gets_gssapi(tmp_path: Path) -> None:
    """`tarn pack` puts in what the spec's master needs."""
    path = tmp_path / "tarn.yaml"
    path.write_text("name: c\nmodels: /m\napi: {spnego: {keytab: http.keytab}}\n")
    assert "kerberos" in needs(ClusterEnvironment({}), path)[0]
    path.write_text("name: c\nmodels: /m\n")
    assert "kerberos" not in needs(ClusterEnvironment({}), path)[0]
