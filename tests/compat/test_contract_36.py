"""36: the Java TARN's requests were whoever their header said, and billed to them."""

import httpx
import pytest
from fake_master import FakeMaster

CLAIMS = ("X-Forwarded-User", "X-TARN-User", "X-Remote-User", "Remote-User", "X-Knox-User")


@pytest.mark.parametrize("header", CLAIMS)
def test_a_name_in_a_header_is_no_credential(header: str) -> None:
    """401 to every route that asks for one, whatever it is for."""
    with FakeMaster() as master:
        for path in ("/api/v1/status", "/authorize?model=echo&action=infer", "/metrics"):
            answer = httpx.get(f"{master.url}{path}", headers={header: "ceo"}, trust_env=False)
            assert answer.status_code == 401
            assert "ceo" not in answer.text
