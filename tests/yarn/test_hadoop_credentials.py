"""Credentials make the whole way: from a submission to the master, and no further."""

from typing import Any

import pytest
from servers.yarn import java

from tarn.java import load
from tarn_plugins.cli.sandbox.sandbox import Sandbox
from tarn_plugins.runtime.yarn.hadoop import configuration
from tarn_plugins.runtime.yarn.hadoop.credentials import (
    collect,
    ends_at,
    for_containers,
    packed,
    secret_files,
)
from tarn_plugins.runtime.yarn.hadoop.login import require_ticket

pytestmark = pytest.mark.yarn


@pytest.fixture(scope="module")
def conf(shared_hadoop: Sandbox) -> Any:
    java(shared_hadoop.environ)
    return configuration()


def delegation(ends_ms: int) -> Any:
    """Make a token as a NameNode would."""
    text = load("org.apache.hadoop.io.Text")
    kind = load("org.apache.hadoop.hdfs.security.token.delegation.DelegationTokenIdentifier")
    identifier = kind(text("alice"), text("yarn"), text("alice"))
    identifier.setMaxDate(ends_ms)
    token = load("org.apache.hadoop.security.token.Token")
    name = text("HDFS_DELEGATION_TOKEN")
    return token(identifier.getBytes(), b"password", name, text(f"nn:{ends_ms}"))


def test_files_come_back_byte_for_byte(conf: Any) -> None:
    """As YARN carries them: written as bytes, read by the master's login."""
    files = {"api_token": bytes(range(256)), "Spec.yaml": b"", "odd name/é": b"\n"}
    credentials = collect(conf, ["/"], files)
    sent = packed(credentials)
    assert len(sent) > 256
    users = load("org.apache.hadoop.security.UserGroupInformation")
    users.getCurrentUser().addCredentials(credentials)
    assert {name: secret_files()[name] for name in files} == files


def test_the_first_end_counts(conf: Any) -> None:
    """Renewed or not, a delegation token ends; other kinds have no date."""
    credentials = load("org.apache.hadoop.security.Credentials")()
    text = load("org.apache.hadoop.io.Text")
    assert ends_at(credentials) is None
    odd = load("org.apache.hadoop.security.token.Token")(b"i", b"p", text("ACME"), text("x"))
    credentials.addToken(text("odd"), odd)
    assert ends_at(credentials) is None
    for ends_ms in (1_900_000_000_500, 1_800_000_000_250):
        credentials.addToken(text(str(ends_ms)), delegation(ends_ms))
    assert ends_at(credentials) == 1_800_000_000.25


def test_without_kerberos_no_ticket_is_wanted(conf: Any) -> None:
    """Simple authentication asks for nothing, and gives no tokens."""
    require_ticket({})
    assert ends_at(collect(conf, ["/"], {})) is None


def test_an_instance_is_given_no_token_that_speaks_for_the_fleet(conf: Any) -> None:
    """Nor a secret of the master's; what else a site put there goes on (contract 19)."""
    users = load("org.apache.hadoop.security.UserGroupInformation")
    text, token = (
        load("org.apache.hadoop.io.Text"),
        load("org.apache.hadoop.security.token.Token"),
    )
    master = load("org.apache.hadoop.yarn.security.AMRMTokenIdentifier").KIND_NAME
    mine = load("org.apache.hadoop.security.Credentials")()
    mine.addToken(text("rm"), token(b"i", b"p", master, text("rm:8030")))
    mine.addToken(text("acme"), token(b"i", b"p", text("ACME"), text("acme:1")))
    mine.addSecretKey(text("tarn.file.kerberos.keytab"), b"the-key")
    mine.addSecretKey(text("acme.secret"), b"theirs")
    users.getCurrentUser().addCredentials(mine)
    given = for_containers(conf, ["/"])
    assert "ACME" in {str(each.getKind()) for each in given.getAllTokens()}
    assert "YARN_AM_RM_TOKEN" not in {str(each.getKind()) for each in given.getAllTokens()}
    assert "acme.secret" in {str(key) for key in given.getAllSecretKeys()}
    assert b"the-key" not in packed(given)
    assert b"YARN_AM_RM_TOKEN" not in packed(given)
