"""Why a user's ticket is not accepted."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn_plugins.runtime.yarn.hadoop import login
from tarn_plugins.runtime.yarn.hadoop.login import Ticket


def data(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


def principal(name: str) -> bytes:
    parts, realm = name.partition("@")[0].split("/"), name.partition("@")[2]
    return struct.pack(">II", 1, len(parts)) + data(realm) + b"".join(map(data, parts))


def one(client: str, server: str, ends_at: int, version: int) -> bytes:
    """Write one ticket as MIT's library does."""
    key = struct.pack(">H", 18) * (2 if version == 3 else 1) + data("k" * 32)
    times = struct.pack(">IIII", 1, 2, ends_at, 4)
    addresses = struct.pack(">IH", 1, 2) + data("addr")
    return (
        principal(client) + principal(server) + key + times + b"\0" * 5
        + addresses + struct.pack(">I", 0) + data("ticket") + data("")
    )  # fmt: skip


def cache(version: int, *tickets: bytes) -> bytes:
    header = struct.pack(">HHHII", 12, 1, 8, 0, 0) if version == 4 else b""
    return bytes([5, version]) + header + principal("anna@R") + b"".join(tickets)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from([3, 4]))
def test_the_ticket_that_lasts_longest_is_told(first, second, version):
    """Tickets for services are passed over, and so is what the library notes beside."""
    made = cache(
        version,
        one("anna@R", "HTTP/h@R", 2**32 - 1, version),
        one("anna@R", "krbtgt/R@R", first, version),
        one("anna@R", "krb5_ccache_conf_data/x@X-CACHECONF:", 0, version),
        one("anna@R", "krbtgt/S@R", second, version),
    )
    assert login.read_ticket(made) == Ticket("anna@R", float(max(first, second)))


@given(st.binary(max_size=300), st.sampled_from([b"", b"\x05\x03", b"\x05\x04"]))
def test_rubbish_is_no_ticket(rubbish, magic):
    """Whatever lies there, no error leaves."""
    assert login.read_ticket(magic + rubbish) is None or magic


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ("", "/tmp/krb5cc_7"),
        ("FILE:/run/x", "/run/x"),
        ("/run/x:y", "/run/x:y"),
        ("KCM:", None),
        ("KEYRING:persistent:7", None),
        ("DIR:/run/d", None),
    ],
)
def test_java_reads_files_only(named, path):
    """What a desktop or Red Hat's default names, it passes over without a word."""
    environ = {"KRB5CCNAME": named} if named else {}
    assert login.ticket_file(environ, 7) == path
    said = login.why_no_ticket(environ, path, None, 1.0)
    assert (named in said and "FILE:" in said) if path is None else path in said


def test_one_that_ended_is_told_with_its_end():
    """And so is one that Hadoop does not take although it lasts."""
    old = Ticket("anna@R", 1e9)
    assert "of anna@R ended at 2001-09-09 01:46 UTC" in login.why_no_ticket({}, "/c", old, 2e9)
    assert "not accepted" in login.why_no_ticket({}, "/c", old, 1.0)
