"""`tarn up` with all kinds of proofs: what the client brings, and a master that knows it."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from house import House, clear
from servers.kerberos import KerberosRealm

pytestmark = pytest.mark.security

LB_TOKEN = "the-own-token-of-one-load-balancer"


@pytest.fixture
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    one = KerberosRealm(tmp_path_factory.mktemp("realm"))
    one.start()
    yield one
    one.stop()


@pytest.fixture
def secured(tmp_path: Path, kdc: KerberosRealm) -> Iterator[House]:
    """A house whose programs find the realm."""
    one = House(tmp_path)
    replays = f"file2:{kdc.root}/replays"
    one.environ |= {"KRB5_CONFIG": kdc.environ["KRB5_CONFIG"], "KRB5RCACHENAME": replays}
    yield one
    clear(one)


def curl(house: House, cache: Path, url: str) -> str:
    argv = ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--noproxy", "*"]
    done = subprocess.run(
        [*argv, "--negotiate", "-u", ":", url],
        env={**house.environ, "KRB5CCNAME": f"FILE:{cache}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_cluster_whose_master_takes_tickets_and_trusts_a_proxy(
    secured: House, kdc: KerberosRealm
) -> None:
    """Keytab and token reach the master, 0600; alice is an admin, carol may look, bob not."""
    keytab = kdc.keytab("http", "HTTP/localhost")
    (secured.root / "lb.token").write_text(LB_TOKEN)
    proxy = {"name": "lb1", "address": "127.0.0.2", "authenticated_by": "token"}
    spec = secured.spec(
        "who",
        replicas={"min": 0, "max": 1, "initial": 0},
        admins={"users": ["alice"]},
        viewers={"users": ["carol"]},
        api={
            "spnego": {"keytab": str(keytab)},
            "trusted_proxies": [{**proxy, "token": "file:lb.token", "users": ["alice", "carol"]}],
        },
    )
    done = secured.tarn("up", "-f", spec, "--no-wait")
    assert done.returncode == 0, done.stderr
    for name in ("spnego.keytab", "proxy_tokens.json", "api_token"):
        mode = (secured.directory("who") / name).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    url = secured.ref("who")["url"]
    here = url.replace("127.0.0.1", "localhost")
    for principal, status in (("alice", "200"), ("bob", "403")):
        assert curl(secured, kdc.ticket(principal), f"{here}/api/v1/status") == status
    own = {"X-TARN-Token": LB_TOKEN}
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(base_url=url, transport=transport, trust_env=False) as client:
        alice = {**own, "X-TARN-User": "alice"}
        assert client.put("/api/v1/resume", headers=alice).status_code == 200
        assert client.put("/api/v1/resume", headers=own).status_code == 403
        carol = {**own, "X-TARN-User": "carol"}
        assert client.get("/api/v1/status", headers=carol).status_code == 200
        assert client.put("/api/v1/resume", headers=carol).status_code == 403
        assert client.get("/instances", headers={**own, "X-TARN-User": "bob"}).status_code == 403
    assert httpx.get(f"{url}/instances", headers=own, trust_env=False).status_code == 401
    places = [path for path in secured.home.rglob("*") if path.is_file()]
    holders = {path.name for path in places if LB_TOKEN.encode() in path.read_bytes()}
    assert holders == {"proxy_tokens.json"}


def test_what_cannot_work_is_refused_all_at_once(secured: House, kdc: KerberosRealm) -> None:
    """A keytab without HTTP/, a token that is missing: both are said, and nothing runs."""
    keytab = kdc.keytab("wrong", "hdfs/localhost")
    proxy = {"name": "lb1", "address": "127.0.0.2", "authenticated_by": "token"}
    spec = secured.spec(
        "not",
        api={
            "spnego": {"keytab": str(keytab)},
            "trusted_proxies": [{**proxy, "token": "env:NO_SUCH_VARIABLE"}],
        },
    )
    done = secured.tarn("up", "-f", spec)
    assert done.returncode == 2
    assert "HTTP/<host>" in done.stderr
    assert "NO_SUCH_VARIABLE" in done.stderr
    assert secured.processes("not") == {}
