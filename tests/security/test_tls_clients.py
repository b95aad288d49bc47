"""What clients of a master say when HTTPS does not come about, and how they know the right one."""

import json
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from certificates import Authority, Issued
from fake_master import TOKEN, FakeMaster

from tarn.cluster.entries import trust
from tarn.errors import ConfigError, TarnError, UnreachableError
from tarn.follow import MasterApi, Trust
from tarn.tls.contexts import server_context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def master(authority: Authority) -> Iterator[FakeMaster]:
    """It is for this machine, and asks clients for a certificate."""
    with FakeMaster(tls=server_context(whole(authority.issue("master")), authority.ca)) as one:
        yield one


def whole(issued: Issued) -> Path:
    """Return the file that a master has: key and certificate in one."""
    path = issued.cert.with_suffix(".pem")
    path.write_bytes(issued.key.read_bytes() + issued.cert.read_bytes())
    return path


def asked(url: str, known: Trust | None) -> TarnError:
    """Return what a client says that cannot ask."""
    with MasterApi(url, TOKEN.decode(), trust=known) as api, pytest.raises(TarnError) as caught:
        api.status()
    return caught.value


def test_who_knows_the_authority_asks(master: FakeMaster, authority: Authority) -> None:
    """Questions and streams, with and without a certificate of one's own."""
    own = authority.issue("client", (), client=True)
    for known in (Trust(authority.ca), Trust(authority.ca, own.cert, own.key)):
        with MasterApi(master.url, TOKEN.decode(), trust=known) as api:
            assert api.cluster() == "llama"
            assert next(api.stream("stream")).event


def test_who_does_not_says_by_what_it_knows_nobody(master: FakeMaster, tmp_path: Path) -> None:
    """The authorities of the system, or the file that was named, and what to do."""
    error = asked(master.url, None)
    assert (type(error), error.code) == (UnreachableError, "TARN-3728")
    assert "not trusted by the authorities of this system" in error.found
    assert "tls_ca.pem" in error.next_step
    other = Authority(tmp_path, "other")
    assert str(other.ca) in asked(master.url, Trust(other.ca)).found


def test_another_host_is_said_with_what_the_certificate_names(authority: Authority) -> None:
    """So that a person sees at once which name to use, or which is missing."""
    elsewhere = authority.issue("gpus", ("gpu1.example.org", "*.gpu.example.org"))
    with FakeMaster(tls=server_context(whole(elsewhere))) as master:
        error = asked(master.url, Trust(authority.ca))
    assert error.code == "TARN-3727"
    assert "not for '127.0.0.1'; it names gpu1.example.org, *.gpu.example.org" in error.found


def test_an_expired_certificate_is_said_so(authority: Authority) -> None:
    """It was good at `up`, and a client sees what became of it."""
    late = authority.issue("late", days=(-9, -1))
    with FakeMaster(tls=server_context(whole(late))) as master:
        error = asked(master.url, Trust(authority.ca))
    assert error.code == "TARN-3723"
    assert "expired" in error.found


def test_our_own_certificate_refused_is_said_so(
    master: FakeMaster, authority: Authority, tmp_path: Path
) -> None:
    """Signed by another, or made for a server."""
    own = Authority(tmp_path, "stranger").issue("client", (), client=True)
    for wrong in (own, authority.issue("server", (), file="wrong")):
        error = asked(master.url, Trust(authority.ca, wrong.cert, wrong.key))
        assert error.code == "TARN-3729"
        assert "api.tls.client_ca" in error.right


def test_http_where_https_is_spoken_and_the_other_way_round(authority: Authority) -> None:
    """Both are said in words."""
    with FakeMaster() as plain:
        error = asked(plain.url.replace("http:", "https:"), Trust(authority.ca))
        assert (error.found, error.code) == ("speaks no TLS", "TARN-3728")
    with FakeMaster(tls=server_context(whole(authority.issue("master")))) as secured:
        error = asked(secured.url.replace("https:", "http:"), None)
        assert error.found == "this port speaks HTTPS only"
        assert secured.url in error.right


@pytest.mark.parametrize("part", ["ca", "cert", "key"])
def test_files_of_no_use_are_named(authority: Authority, tmp_path: Path, part: str) -> None:
    """Missing ones, and ones that hold something else."""
    own = authority.issue("client", (), client=True)
    good = Trust(authority.ca, own.cert, own.key)
    (tmp_path / "else").write_text("nothing")
    for path in (tmp_path / "gone", tmp_path / "else"):
        with pytest.raises(ConfigError) as caught:
            MasterApi("https://127.0.0.1:1", None, trust=attrs.evolve(good, **{part: path}))
        assert caught.value.code == "TARN-3720"


def test_a_cluster_is_known_by_what_was_kept_of_it(tmp_path: Path, authority: Authority) -> None:
    """The file of `up`; else that of the spec, where it is on this machine; else the system's."""
    url = "https://gpu1:4000"
    spec = {"name": "w", "models": {"repository": "/m"}, "api": {"tls": {"cert": "/c"}}}
    assert trust(tmp_path, url) == Trust()
    spec["api"] = {"tls": {"cert": "/c", "ca": str(authority.ca)}}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    assert trust(tmp_path, url) == Trust(authority.ca)
    (tmp_path / "tls_ca.pem").write_bytes(authority.ca.read_bytes())
    assert trust(tmp_path, url) == Trust(tmp_path / "tls_ca.pem")
    assert trust(tmp_path, "http://gpu1:4000") == Trust()
