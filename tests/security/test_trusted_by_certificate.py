"""A trusted proxy that proves itself by its certificate, at a real master with TLS."""

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import httpx
import pytest
from certificates import Authority, Issued
from matrix_master import API_TOKEN, PROXY, Alices, matrix_master

pytestmark = pytest.mark.security

ALICE, BOB = {"X-TARN-User": "alice"}, {"X-TARN-User": "bob"}


@attrs.frozen
class Scene:
    url: str
    authority: Authority
    authorizer: Alices

    def status(
        self, own: Issued | None, headers: Mapping[str, str], address: str = PROXY
    ) -> httpx.Response:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        if own is not None:
            context.load_cert_chain(own.cert, own.key)
        transport = httpx.HTTPTransport(local_address=address, verify=context)
        with httpx.Client(transport=transport, trust_env=False) as client:
            return client.get(f"{self.url}/api/v1/status", headers=headers)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    master: Issued = authority.issue("master")
    files = {
        "tls.pem": master.key.read_bytes() + master.cert.read_bytes(),
        "tls_ca.pem": authority.ca.read_bytes(),
        "client_ca.pem": authority.ca.read_bytes(),
    }
    directory: Path = tmp_path_factory.mktemp("master")
    with matrix_master(directory, None, files) as (url, authorizer):
        yield Scene(url, authority, authorizer)


def test_its_certificate_and_address_prove_it(scene: Scene) -> None:
    """It names alice, and may not name bob; without a name it is itself."""
    gate = scene.authority.issue("gate", client=True)
    assert scene.status(gate, ALICE).status_code == 200
    heard = scene.authorizer.asked[-1]
    assert (heard.user, heard.via) == ("alice", "proxy")
    assert scene.status(gate, BOB).status_code == 403
    assert scene.status(gate, {}).status_code == 200


def test_without_either_a_name_is_only_a_claim(scene: Scene) -> None:
    """Another address, another name in the certificate, none at all."""
    gate = scene.authority.issue("gate", client=True)
    other = scene.authority.issue("lb1", client=True)
    assert scene.status(gate, ALICE, "127.0.0.1").status_code == 401
    assert scene.status(other, ALICE).status_code == 401
    assert scene.status(None, ALICE).status_code == 401


def test_a_certificate_that_somebody_else_signed_gets_nowhere(scene: Scene, tmp_path: Path) -> None:
    """The name is right, and that is all."""
    forged = Authority(tmp_path, "another").issue("gate", client=True)
    with pytest.raises(httpx.TransportError):
        scene.status(forged, ALICE)


def test_beside_the_api_token_it_names_nobody(scene: Scene) -> None:
    """Whom it names must not get what the token opens."""
    gate = scene.authority.issue("gate", client=True)
    token = {"X-TARN-Token": API_TOKEN}
    assert scene.status(gate, token).status_code == 200
    assert scene.status(gate, {**token, **ALICE}).status_code == 400
