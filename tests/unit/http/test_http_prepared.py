"""What a master makes of the files that were brought to it: what was asked for, or no master."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tarn.domain.spec import ApiSpec, SpnegoSpec, TrustedProxy
from tarn.errors import ConfigError, LaunchError
from tarn.http.identity.claims import ticket
from tarn.http.identity.prepared import brought_token, prepared

LB1 = TrustedProxy("lb1", "10.0.0.5", "token", token="env:A")
LB2 = TrustedProxy("lb2", "10.0.0.6", "token", token="env:B")
ONE, TWO = "a-token-of-one-proxy", "a-token-of-another"


def brought(directory: Path, **tokens: str) -> Path:
    (directory / "proxy_tokens.json").write_text(json.dumps(tokens))
    return directory


def test_tokens_and_names_are_at_hand(tmp_path: Path) -> None:
    """Nothing brought: nobody is trusted, and people are looked up all the same."""
    api = ApiSpec(trusted_proxies=(LB1, LB2))
    proofs = prepared(api, brought(tmp_path, lb1=ONE, lb2=TWO), b"api")
    try:
        assert [one.token for one in proofs.trusted] == [ONE.encode(), TWO.encode()]
        assert asyncio.run(proofs.groups("no-such-user-here")) == frozenset()
    finally:
        proofs.close()
    assert brought_token(tmp_path) is None
    (tmp_path / "api_token").write_text("api\n")
    assert brought_token(tmp_path) == b"api"


@pytest.mark.parametrize(("lb1", "lb2"), [(ONE, ONE), (ONE, "api"), ("api", TWO)])
def test_one_token_proves_one_of_them(tmp_path: Path, lb1: str, lb2: str) -> None:
    """A proxy with the api token would be its holder, and so would all for whom it speaks."""
    with pytest.raises(ConfigError, match="two have one token") as caught:
        prepared(ApiSpec(trusted_proxies=(LB1, LB2)), brought(tmp_path, lb1=lb1, lb2=lb2), b"api")
    assert ONE not in str(caught.value)


def test_a_token_that_was_not_brought_ends_the_master(tmp_path: Path) -> None:
    """An older client, or a file that somebody removed."""
    for directory in (tmp_path, brought(tmp_path, lb1=ONE)):
        with pytest.raises(ConfigError, match="lb"):
            prepared(ApiSpec(trusted_proxies=(LB1, LB2)), directory, b"api")


def test_spnego_without_its_module_ends_the_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never goes on without what was asked for; the fix is named."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.delitem(sys.modules, "tarn.http.identity.spnego", raising=False)
    with pytest.raises(LaunchError, match=r"tarn-orchestrator\[kerberos\]"):
        prepared(ApiSpec(spnego=SpnegoSpec("/k")), tmp_path, b"api")


@pytest.mark.parametrize("said", [b"", b"=", b"YWxp!Y2U=", b"YWxp Y2U=", b"YWxpY2U", b"\xff"])
def test_a_ticket_is_decoded_strictly(said: bytes) -> None:
    """Python's own decoder passes over what is no base64."""
    assert ticket(said) is None
    assert ticket(b"YWxpY2U=") == b"alice"
