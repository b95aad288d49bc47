"""Credentials make the whole way: from a submission to the master, and no further."""

from typing import Any

import pytest
from java_stage import java

from tarn.java import load
from tarn_plugins.cli.sandbox.sandbox import Sandbox
from tarn_plugins.runtime.yarn.hadoop.configuration import configuration
from tarn_plugins.runtime.yarn.hadoop.credentials import (
    buffer,
    collect,
    ends_at,
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
    """As YARN carries them: written to a buffer, read by the master's login."""
    files = {"api_token": bytes(range(256)), "Spec.yaml": b"", "odd name/é": b"\n"}
    credentials = collect(conf, ["/"], files)
    sent = buffer(credentials)
    assert sent.remaining() > 256
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
