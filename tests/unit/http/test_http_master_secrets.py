"""What a master makes of the files that were brought to it: what was asked for, or no master."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from tarn.domain.spec import ApiSpec, SpnegoSpec, TrustedProxy
from tarn.errors import ConfigError, LaunchError
from tarn.http.master_secrets import brought_token, holders, prepared, renewed_token, token_after
from tarn.http.request import ticket
from tarn.http.server import HttpServer

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
    monkeypatch.delitem(sys.modules, "tarn.http.spnego", raising=False)
    with pytest.raises(LaunchError, match=r"tarn-orchestrator\[kerberos\]"):
        prepared(ApiSpec(spnego=SpnegoSpec("/k")), tmp_path, b"api")


@pytest.mark.parametrize("said", [b"", b"=", b"YWxp!Y2U=", b"YWxp Y2U=", b"YWxpY2U", b"\xff"])
def test_a_ticket_is_decoded_strictly(said: bytes) -> None:
    """Python's own decoder passes over what is no base64."""
    assert ticket(said) is None
    assert ticket(b"YWxpY2U=") == b"alice"


def test_a_renewed_token_is_another_one_for_the_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask; a file that cannot be written keeps no master at work."""
    old = tmp_path / "api_token"
    old.write_bytes(b"the-old-one")
    old.chmod(0o644)
    token = renewed_token(tmp_path)
    assert token == old.read_bytes() != b"the-old-one"
    assert len(token) >= 43
    assert old.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["api_token"]
    with pytest.raises(LaunchError, match="cannot be written"):
        renewed_token(tmp_path / "nowhere")


def test_whose_program_holds_a_port_the_kernel_tells() -> None:
    """Ours, at a port that we hold; nobody's, at one that is free again."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        assert holders(port) == {os.getuid()}
    assert holders(port) == frozenset()


def test_others_at_a_port_are_told_from_us(tmp_path: Path) -> None:
    """As `/proc/net/tcp` writes it; what nobody holds any more (TIME_WAIT) says nothing."""
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    row = "   0: 0100007F:{:04X} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 {} 0 {}\n"
    rows = [(40001, "0A", 65002, 11), (40001, "06", 0, 0), (40003, "01", 7, 12)]
    (tmp_path / "tcp").write_text(head + "".join(row.format(*one) for one in rows))
    assert holders(40001, tmp_path) == {65002}
    assert holders(40002, tmp_path) == frozenset()
    assert holders(40003, tmp_path) == {7}


def test_a_connection_of_ours_that_got_the_masters_port_by_chance_is_no_stranger(
    tmp_path: Path,
) -> None:
    """The system gives any free number to a connection: the token stays."""
    (tmp_path / "api_token").write_bytes(b"the-token")
    with socket.create_server(("127.0.0.1", 0)) as somewhere:
        with socket.create_connection(somewhere.getsockname()) as ours:
            port = ours.getsockname()[1]
            with pytest.raises(LaunchError):
                HttpServer(port=port)
            assert token_after(tmp_path, "auto", port, os.getuid()) == (b"the-token", "")
            token, found = token_after(tmp_path, "auto", port, os.getuid() + 1)
    assert token == (tmp_path / "api_token").read_bytes() != b"the-token"
    assert f"holds port {port}, where the last master listened: the cluster has a new" in found
