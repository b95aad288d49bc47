"""The table, each cell asked of a real master: over HTTP, with tickets of a real KDC.

The doors are addresses of this machine. The ResourceManager's proxy has a stand-in, which passes on
what the real one does: that is asked in tests/yarn, as Knox is where Knox runs.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import httpx
import pytest
from cells import ask
from matrix_master import API_TOKEN, LB_TOKEN, PROXY, RM, Alices, matrix_master
from servers.kerberos import KerberosRealm
from test_matrix_table import ACTIONS, PROOFS
from truth import table

from tarn.http.issued_tokens import Sessions
from tarn.testing.context import cluster_spec

pytestmark = pytest.mark.security

Headers = Mapping[str, str]
COOKIE = {"Cookie": "proxy-user=alice"}
ALICE = {"X-TARN-User": "alice"}
WRONG = {"X-TARN-Token": "a-token-that-is-nobody-s"}


@attrs.frozen
class Scene:
    """A master, whoever asks it, and what its authorizer heard."""

    url: str
    realm: KerberosRealm
    cache: Path
    authorizer: Alices

    def client(self, address: str) -> httpx.Client:
        transport = httpx.HTTPTransport(local_address=address)
        return httpx.Client(base_url=self.url, transport=transport, trust_env=False)

    def ticket(self) -> Headers:
        from tickets import Caller  # noqa: PLC0415 (it finds the realm by the environment)

        return Caller(self.cache).header()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root = tmp_path_factory.mktemp("realm")
    one = KerberosRealm(root)
    one.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", one.environ["KRB5_CONFIG"])
        patch.setenv("KRB5RCACHENAME", f"file2:{root}/replays")
        try:
            keytab = one.keytab("http", "HTTP/localhost")
            cache = one.ticket("alice")
            with matrix_master(tmp_path_factory.mktemp("master"), keytab) as (url, authorizer):
                yield Scene(url, one, cache, authorizer)
        finally:
            one.stop()


TOKEN, OWN = {"X-TARN-Token": API_TOKEN}, {"X-TARN-Token": LB_TOKEN}
SENT: Mapping[str, tuple[str, Mapping[str, Headers]]] = {
    "direct": (
        "127.0.0.1",
        {"header": ALICE, "forged header": {**OWN, **ALICE}, "cookie": COOKIE},
    ),
    "trusted proxy": (
        PROXY,
        {
            "none": OWN,
            "header": {**OWN, **ALICE},
            "forged header": {**WRONG, **ALICE},
            "cookie": {**OWN, **COOKIE},
        },
    ),
    # it has checked tickets itself, and of all that its users send passes on nothing of this
    "RM proxy": (RM, {"SPNEGO": COOKIE, "cookie": COOKIE}),
}


def sent(scene: Scene, door: str, proof: str) -> tuple[str, Headers]:
    """Return from where a request comes, and what it brings."""
    address, own = SENT[door]
    if proof in own or door == "RM proxy":
        return address, own.get(proof, {})
    if proof == "SPNEGO":
        return address, scene.ticket()
    session = Sessions(API_TOKEN.encode(), cluster_spec().name, time.time).begin()
    plain = {"none": {}, "token": TOKEN, "wrong token": WRONG}
    return address, {**plain, "session": {"X-TARN-Session": session}}[proof]


@pytest.mark.parametrize("proof", PROOFS)
@pytest.mark.parametrize("door", SENT)
def test_a_row_of_the_table(scene: Scene, door: str, proof: str) -> None:
    """Seven answers; a ticket proves somebody once, so each question has its own."""
    expected = {action: table()[door, proof, action] for action in ACTIONS}
    whom = "bob" if expected["authorize other"] == "403" else "alice"
    found = {}
    with scene.client(SENT[door][0]) as client:
        for action in ACTIONS:
            found[action] = ask(client, action, sent(scene, door, proof)[1], whom)
    assert found == expected


def test_a_user_of_the_resource_managers_proxy_is_nobody_by_a_header(scene: Scene) -> None:
    """Even if the proxy let one through: by its cookie alone it names users."""
    with scene.client(RM) as client:
        for headers in (ALICE, {**ALICE, "X-Forwarded-User": "alice"}):
            assert client.get("/api/v1/status", headers=headers).status_code == 401
