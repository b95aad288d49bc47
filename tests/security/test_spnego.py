"""SPNEGO at a real master: what a ticket proves, and what only looks like one."""

import base64
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import httpx
import pytest
from matrix_master import API_TOKEN, KNOX, LB_TOKEN, PROXY, Alices, matrix_master
from servers.kerberos import KerberosRealm

gssapi = pytest.importorskip("gssapi")
from tickets import Caller  # noqa: E402 (it needs gssapi)

from tarn.errors import LaunchError, NotAuthorizedError  # noqa: E402
from tarn.http.spnego import KeytabTickets  # noqa: E402
from tarn.http.users import LocalNames  # noqa: E402

pytestmark = pytest.mark.security

STATUS = "/api/v1/status"
RULE = "RULE:[2:$1@$0](^svc-.*@TARN\\.TEST$)s/@.*//"


@attrs.frozen
class Scene:
    """A realm with people and services, and a master whose keytab has a key too many."""

    realm: KerberosRealm
    keytab: Path
    url: str
    authorizer: Alices

    def get(self, headers: dict[str, str], address: str = "127.0.0.1") -> httpx.Response:
        transport = httpx.HTTPTransport(local_address=address)
        with httpx.Client(transport=transport, trust_env=False) as client:
            return client.get(f"{self.url}{STATUS}", headers=headers)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root = tmp_path_factory.mktemp("realm")
    one = KerberosRealm(root, RULE)
    one.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", one.environ["KRB5_CONFIG"])
        patch.setenv("KRB5RCACHENAME", f"file2:{root}/replays")
        try:
            keytab = one.keytab("http", "HTTP/localhost", "nfs/localhost")
            with matrix_master(tmp_path_factory.mktemp("master"), keytab) as (url, authorizer):
                yield Scene(one, keytab, url, authorizer)
        finally:
            one.stop()


@pytest.fixture(scope="module")
def alice(scene: Scene) -> Caller:
    return Caller(scene.realm.ticket("alice"))


def test_who_brings_nothing_is_told_what_to_bring(scene: Scene) -> None:
    """So that browsers and curl come again with a ticket."""
    answer = scene.get({})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Negotiate"
    assert "X-TARN-Token" in answer.text


def test_the_master_proves_itself_to_who_asks(scene: Scene, alice: Caller) -> None:
    """The answer carries its half, and the client's library believes it."""
    answer = scene.get(alice.header())
    assert answer.status_code == 200
    assert alice.believes(answer.headers["www-authenticate"])
    assert scene.authorizer.asked[-1].user == "alice"
    assert scene.authorizer.asked[-1].via == "spnego"


def test_a_token_counts_once(scene: Scene, alice: Caller) -> None:
    """Somebody who listened and sends it again is refused, and told why."""
    header = alice.header()
    assert scene.get(header).status_code == 200
    answer = scene.get(header)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Negotiate")
    assert "replay" in answer.text


@pytest.mark.parametrize(
    "said",
    [
        "",
        "!!!",
        "YII",
        "YIIC AAAA",
        base64.b64encode(b"NTLMSSP\0\1\0\0\0\7\x82\x08\xa2" + bytes(24)).decode(),
        base64.b64encode(bytes(4000)).decode(),
    ],
)
def test_what_is_no_ticket_proves_nobody(scene: Scene, said: str) -> None:
    """Nonsense is never read as an empty token; NTLM is not spoken."""
    answer = scene.get({"Authorization": f"Negotiate {said}".strip()})
    assert answer.status_code == 401


def test_a_ticket_that_was_cut_or_changed_proves_nobody(scene: Scene, alice: Caller) -> None:
    """Neither its head nor its tail may be missing."""
    whole = alice.token()
    for said in (whole[:-1], whole[10:], whole[:-8] + bytes(8)):
        header = {"Authorization": f"Negotiate {base64.b64encode(said).decode()}"}
        assert scene.get(header).status_code == 401


def test_a_ticket_for_another_service_is_refused(scene: Scene) -> None:
    """Though its key stands in the keytab: nobody meant it for a web service."""
    cache = scene.realm.ticket("carol")
    other = Caller(cache, "nfs@localhost")
    answer = scene.get(other.header())
    assert answer.status_code == 401
    assert "not a web service" in answer.text


def test_a_principal_that_no_rule_names_is_known_and_not_let_in(scene: Scene) -> None:
    """403, not 401: another ticket of theirs would change nothing."""
    answer = scene.get(Caller(scene.realm.ticket("dave/admin")).header())
    assert answer.status_code == 403
    assert "auth_to_local" in answer.text
    assert "dave" not in answer.text


def test_a_rule_of_krb5_conf_names_a_service(scene: Scene) -> None:
    """auth_to_local is asked, and no name is guessed from a principal."""
    answer = scene.get(Caller(scene.realm.ticket("svc-web/localhost")).header())
    assert (answer.status_code, scene.authorizer.asked[-1].user) == (403, "svc-web")
    names = LocalNames()
    assert names.short("alice@TARN.TEST") == "alice"
    for stranger in (
        r"alice\@OTHER.TEST@TARN.TEST",
        "alice@OTHER.TEST",
        "HTTP/localhost@TARN.TEST",
        "",
        "@",
        "a" * 5000,
        "\0",
    ):
        assert not names.short(stranger)


def test_somebody_with_a_ticket_speaks_for_nobody_else(scene: Scene, alice: Caller) -> None:
    """Also where a proxy's address is not the one it should have: it is not anonymous."""
    answer = scene.get({**alice.header(), "X-TARN-User": "bob"})
    assert answer.status_code == 403
    assert scene.get({**alice.header(), "X-TARN-User": "alice"}).status_code == 200


def test_a_token_and_a_ticket_together_are_refused(scene: Scene, alice: Caller) -> None:
    """Two proofs say two things; neither is chosen."""
    both = {**alice.header(), "X-TARN-Token": API_TOKEN}
    assert scene.get(both).status_code == 400


def test_a_trusted_proxy_proves_itself_by_its_ticket(scene: Scene) -> None:
    """From its address it speaks for those whom its rules name; from elsewhere for nobody."""
    knox = Caller(scene.realm.ticket("knox"))
    assert scene.get({**knox.header(), "X-TARN-User": "alice"}, KNOX).status_code == 200
    assert scene.authorizer.asked[-1] == attrs.evolve(
        scene.authorizer.asked[-1], user="alice", via="proxy"
    )
    assert scene.get({**knox.header(), "X-TARN-User": "bob"}, KNOX).status_code == 403
    assert scene.get(knox.header(), KNOX).status_code == 200  # itself: it may view
    for address in ("127.0.0.1", PROXY):
        assert scene.get({**knox.header(), "X-TARN-User": "alice"}, address).status_code == 403
        assert scene.get(knox.header(), address).status_code == 403  # knox, a user as any


def test_a_ticket_that_a_proxy_passed_on_is_its_users(scene: Scene, alice: Caller) -> None:
    """With the proxy's own token, too, it is not clear who asks."""
    assert scene.get(alice.header(), PROXY).status_code == 200
    assert scene.authorizer.asked[-1].via == "spnego"
    assert scene.get({**alice.header(), "X-TARN-Token": LB_TOKEN}, PROXY).status_code == 400


def test_curl_negotiates(scene: Scene) -> None:
    """The client that everybody has, as the answers 401 tell its user to call it."""
    cache = scene.realm.ticket("alice")
    environ = {**os.environ, "KRB5CCNAME": f"FILE:{cache}"}  # noqa: TID251 (KRB5_CONFIG, PATH)
    url = scene.url.replace("127.0.0.1", "localhost")
    asked = ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--noproxy", "*"]
    done = subprocess.run(
        [*asked, "--negotiate", "-u", ":", f"{url}{STATUS}"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "200"


def test_a_keytab_without_keys_starts_no_master(scene: Scene, tmp_path: Path) -> None:
    """Half closed is not closed: the master says so and ends."""
    (tmp_path / "empty.keytab").write_bytes(b"\x05\x02")
    with pytest.raises(LaunchError, match="Kerberos does not accept tickets"):
        KeytabTickets(tmp_path / "empty.keytab")
    with pytest.raises(LaunchError):
        KeytabTickets(tmp_path / "none.keytab")


def test_no_error_holds_what_was_sent(scene: Scene) -> None:
    """A ticket is a secret until it was used."""
    with pytest.raises(NotAuthorizedError) as caught:
        KeytabTickets(scene.keytab).accept(b"a-canary-in-a-ticket")
    assert "canary" not in str(caught.value) + repr(caught.value)
