"""43: the Java TARN believed the first address in X-Forwarded-For."""

import httpx
from fake_master import FakeMaster

from tarn.http.authenticator import KnownProxy, Proofs
from tarn.tls.contexts import network

PROXY = KnownProxy("lb1", network("10.0.0.5"), "token", b"the-token-of-lb1", users=frozenset({"*"}))
CLAIMS = {
    "X-Forwarded-For": "10.0.0.5",
    "X-Real-IP": "10.0.0.5",
    "Forwarded": "for=10.0.0.5",
    "X-TARN-Token": "the-token-of-lb1",
    "X-TARN-User": "ceo",
}


def test_an_address_in_a_header_is_nobodys() -> None:
    """With a stolen token, too: who connects is who connects."""
    with FakeMaster(proofs=Proofs((PROXY,))) as master:
        answer = httpx.get(f"{master.url}/api/v1/status", headers=CLAIMS, trust_env=False)
    assert answer.status_code == 401
