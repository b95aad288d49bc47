"""Clients that prove by Kerberos who asks, against a real KDC."""

import base64
import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import httpx
import pytest
from click.testing import CliRunner
from servers.kerberos import KerberosRealm

from tarn.errors import ConfigError, NotAuthorizedError, UnreachableError
from tarn.follow import KerberosTickets, MasterApi
from tarn.follow.request_signer import RequestSigner
from tarn_plugins.discovery.haproxy.commands import haproxy
from tarn_plugins.discovery.haproxy.masters import AtUrl

gssapi = pytest.importorskip("gssapi")

REFUSED = {
    "error": {
        "found": "anonymous may not view",
        "principal": "anonymous",
        "action": "view",
        "next_step": "Send the api token.",
    }
}


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    one = KerberosRealm(tmp_path_factory.mktemp("kdc"))
    one.start()
    yield one
    one.stop()


@pytest.fixture
def kerberos(kdc: KerberosRealm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> KerberosRealm:
    """The realm, in this process's environment; nobody has a ticket yet."""
    monkeypatch.setenv("KRB5_CONFIG", kdc.environ["KRB5_CONFIG"])
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'nothing'}")
    return kdc


@attrs.define
class Acceptor:
    """A small master that wants a ticket; it remembers what it was sent."""

    keytab: Path
    proves: str = "right"
    """``right``, ``nothing`` or ``wrong``: its own half of the proof."""
    said: list[tuple[str, str]] = attrs.field(factory=list)
    """(method, proof or '') of each request."""
    users: list[str] = attrs.field(factory=list)
    tokens: list[str | None] = attrs.field(factory=list)

    def take(self, request: http.server.BaseHTTPRequestHandler) -> None:
        scheme, _, proof = request.headers.get("Authorization", "").partition(" ")
        self.said.append((request.command, proof))
        self.tokens.append(request.headers.get("X-TARN-Token"))
        request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if scheme != "Negotiate":
            answer(request, 401, REFUSED, "Bearer realm=tarn, Negotiate")
            return
        keys = gssapi.Credentials(usage="accept", store={"keytab": f"FILE:{self.keytab}"})
        context = gssapi.SecurityContext(creds=keys, usage="accept")
        mine = context.step(base64.b64decode(proof, validate=True))
        self.users.append(str(context.initiator_name))
        made = {
            "right": f"Negotiate {base64.b64encode(mine).decode()}",
            "wrong": "Negotiate bm9ib2R5",
            "nothing": "",
        }[self.proves]
        answer(request, 200, {"name": "llama"}, made)


def answer(request, status, body, challenge):
    data = json.dumps(body).encode()
    request.send_response(status)
    if challenge:
        request.send_header("WWW-Authenticate", challenge)
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)


@pytest.fixture
def acceptor(kerberos: KerberosRealm) -> Iterator[tuple[Acceptor, str]]:
    """The acceptor, and its URL."""
    one = Acceptor(kerberos.keytab("http", "HTTP/localhost"))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            one.take(self)

        do_PUT = do_GET  # noqa: N815 (the library's names)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield one, f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_ticket_is_shown_where_the_master_asks_for_one(acceptor, kerberos, monkeypatch) -> None:
    """Two rounds once, then one: also for what has a body. No proof is sent twice."""
    one, url = acceptor
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kerberos.ticket('alice')}")
    with MasterApi(url, None) as api:
        assert api.cluster() == "llama"
        assert api.scale(2) == {"name": "llama"}
        assert api.lack == ""
    assert [method for method, _ in one.said] == ["GET", "GET", "PUT"]
    proofs = [proof for _, proof in one.said]
    assert proofs[0] == ""
    assert len({*proofs}) == 3
    assert one.users == ["alice@TARN.TEST"] * 2


def test_without_a_ticket_a_person_hears_what_lacks(acceptor, monkeypatch) -> None:
    """The refusal stands, and says both what the master wants and what is missing here."""
    _, url = acceptor
    with MasterApi(url, None) as api, pytest.raises(NotAuthorizedError) as caught:
        api.status()
    assert "run `kinit`" in caught.value.next_step
    assert "Send the api token." in caught.value.next_step
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with MasterApi(url, None) as api, pytest.raises(NotAuthorizedError) as caught:
        api.status()
    assert "pip install 'tarn-orchestrator[kerberos]'" in caught.value.next_step


def test_with_an_api_token_no_ticket_is_shown(acceptor, kerberos, monkeypatch) -> None:
    """One proof is enough; and where nobody holds the token, neither is sent."""
    one, url = acceptor
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kerberos.ticket('bob')}")
    with MasterApi(url, "a-token") as api, pytest.raises(UnreachableError) as caught:
        api.status()
    assert caught.value.code == "TARN-3703"
    assert one.said == [("GET", "")]
    assert one.tokens == [None]


@pytest.mark.parametrize("proves", ["nothing", "wrong"])
def test_who_cannot_prove_to_be_the_master_is_not_believed(
    acceptor, kerberos, monkeypatch, proves
) -> None:
    """No matter what the answer says: without the key of the host anybody could have given it."""
    one, url = acceptor
    one.proves = proves
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kerberos.ticket('carol')}")
    with MasterApi(url, None) as api, pytest.raises(UnreachableError) as caught:
        api.status()
    assert caught.value.code == "TARN-3768"
    assert "HTTP/localhost" in caught.value.found


def test_a_proof_goes_to_the_host_of_the_url_alone(kerberos, monkeypatch) -> None:
    """A request that leads elsewhere is sent as it is."""
    kerberos.keytab("elsewhere", "HTTP/elsewhere.test")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kerberos.ticket('dora')}")
    proving = RequestSigner("http://localhost:1", None, KerberosTickets())
    request = httpx.Request("GET", "http://elsewhere.test/api")
    flow = proving.auth_flow(request)
    next(flow)
    wants = httpx.Response(401, headers={"WWW-Authenticate": "Negotiate"}, request=request)
    with pytest.raises(StopIteration):
        flow.send(wants)
    assert "authorization" not in request.headers


def test_an_agent_has_its_own_key_and_no_file_of_tickets(acceptor, kerberos, tmp_path) -> None:
    """Its tickets lie in its memory, and a ticket that ended is replaced by itself."""
    one, url = acceptor
    keytab = kerberos.keytab("lb", "lb/edge1", "lb")
    kerberos._admin("modprinc -maxlife 2s lb")
    before = {*tmp_path.rglob("*")}
    tickets = KerberosTickets(keytab, "lb")
    tickets.check()
    assert tickets._credentials(gssapi).lifetime <= 2
    source = AtUrl(url, "llama", None, tickets)
    for wait_s in (0.0, 2.5):
        threading.Event().wait(wait_s)
        source.open().close()
    assert one.users == ["lb@TARN.TEST"] * 2
    AtUrl(url, "llama", None, KerberosTickets(keytab)).open().close()
    assert one.users[-1] == "lb/edge1@TARN.TEST", "the first key of the keytab"
    assert {*tmp_path.rglob("*")} == before


def test_an_agent_s_keytab_is_tried_before_it_begins(kerberos, tmp_path) -> None:
    """Missing, of somebody else, or refused: each in words, and never with the key."""
    with pytest.raises(ConfigError, match="No such file") as caught:
        KerberosTickets(tmp_path / "none").check()
    assert caught.value.code == "TARN-3761"
    keytab = kerberos.keytab("edge", "edge")
    with pytest.raises(ConfigError, match="no ticket") as caught:
        KerberosTickets(keytab, "other").check()
    assert "klist -kt" in caught.value.next_step
    kerberos._admin("cpw -randkey edge")
    with pytest.raises(ConfigError, match="no ticket"):
        KerberosTickets(keytab, "edge").check()


def test_two_proofs_of_one_agent_are_refused() -> None:
    """Which of them counts, nobody could say."""
    where = ["--socket", "/s", "--url", "http://m:1"]
    for words, said in (
        (["--keytab", "k", "--token-file", "t"], "Use either --keytab or --token-file"),
        (["--principal", "lb"], "chooses a key of --keytab"),
    ):
        done = CliRunner().invoke(haproxy, [*where, *words], obj=None)
        assert done.exit_code == 2, done.output
        assert said in done.output
