"""A keytab, before it is used and where it goes; and why Kerberos refused."""

import struct
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import LaunchError
from tarn.plain.credentials import keytab_keys
from tarn_plugins.runtime.yarn import keytab, tokens
from tarn_plugins.runtime.yarn.keytab import Renewal

PATH = Path("/etc/svc.keytab")


def counted(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def content(*principals: str, key: bytes = b"k" * 32) -> bytes:
    """Return a keytab as MIT's library writes it."""
    data = b"\x05\x02"
    for principal in principals:
        name, _, realm = principal.partition("@")
        parts = name.split("/")
        body = struct.pack(">H", len(parts)) + counted(realm) + b"".join(map(counted, parts))
        body += struct.pack(">IIBH", 1, 0, 1, 18) + struct.pack(">H", len(key)) + key
        data += struct.pack(">i", len(body)) + body
    return data


def test_a_master_gets_the_keys_of_its_principal_alone():
    """A keytab of many holds the keys of others."""
    data = content("a@R", "svc@R", "HTTP/h@R", "svc@R")
    assert [key.principal for key in keytab_keys(keytab.excerpt(data, "svc@R", PATH))] == [
        "svc@R"
    ] * 2


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (b"not a keytab", "TARN-3761", "not a keytab"),
        (content("svc@R")[:-1], "TARN-3761", "cut off"),
        (content("a@R", "b@R"), "TARN-3762", "has no key of svc@R; it has keys of: a@R, b@R"),
        (b"\x05\x02", "TARN-3762", "it has keys of: none"),
        (content(*["svc@R"] * 2000), "TARN-3761", "KiB"),
    ],
)
def test_a_keytab_of_no_use_is_refused(data, code, said):
    """With what it holds, and never a key."""
    with pytest.raises(LaunchError, match=said) as caught:
        keytab.excerpt(data, "svc@R", PATH)
    assert caught.value.code == code
    assert str(PATH) in caught.value.where
    assert "kkkk" not in str(caught.value)


def test_one_that_cannot_be_read_is_told_apart():
    """Missing, or somebody else's."""
    missing = keytab.unreadable(PATH, FileNotFoundError(2, "No such file or directory"))
    denied = keytab.unreadable(PATH, PermissionError(13, "Permission denied"))
    assert "does not exist" in str(missing)
    assert "Permission denied" in str(denied)
    assert missing.code == denied.code == "TARN-3761"


@pytest.mark.parametrize("name", ["", "@R", "a@", "a@R@S", "a//b@R", "a/@R", "a\n@R", "a/_HOST@R"])
def test_what_is_no_principal_is_refused(name):
    """A host has no place in it: a master may run anywhere."""
    with pytest.raises(LaunchError, match="Expected") as caught:
        keytab.in_full(name, "R")
    assert caught.value.code == "TARN-3762"


def test_the_default_realm_is_added():
    """As Kerberos itself does."""
    assert keytab.in_full("svc", "R") == "svc@R"
    assert keytab.in_full("svc/x@S", "R") == "svc/x@S"
    assert keytab.in_full("svc", "") == "svc"


@pytest.mark.parametrize(
    ("kinds", "words", "code", "said"),
    [
        ((), "Checksum failed", "TARN-3765", "newer key"),
        ((), "Client not found (6) - CLIENT_NOT_FOUND", "TARN-3765", "does not know"),
        ((), "Pre-authentication information was invalid (24)", "TARN-3765", "newer key"),
        ((), "Cannot locate KDC", "TARN-3766", "realm OTHER"),
        (("java.net.PortUnreachableException",), "refused", "TARN-3766", "answers"),
        (("x.KerberosName$NoMatchingRule",), "No rules", "TARN-3764", "auth_to_local"),
        ((), "something else", "TARN-3765", "something else"),
    ],
)
def test_why_kerberos_refused_is_told_in_words(kinds, words, code, said):
    """By what Java says (seen with MIT's KDC); only a silent KDC may be better later."""
    error = keytab.refused("svc@OTHER", kinds, words)
    assert error.code == code
    assert said in str(error)
    assert error.next_step


@given(st.floats(0, 4e9), st.floats(0, 4e9), st.booleans())
def test_what_status_says_of_tokens_and_keytab(ends_at, at, helps):
    """Until when, and whether that matters; with a keytab that does not help, why."""
    renewal = Renewal("svc@R", "" if helps else "no KDC answers")
    issue = tokens.issue(ends_at, at, renewal)
    assert issue is not None
    said = issue.found
    assert tokens.day(ends_at) in said
    assert issue.code == (tokens.RENEWED if helps else tokens.NO_LOGIN)
    assert issue.until == ends_at
    assert ("svc@R gets new ones" in said) == helps
    assert ("no new instance can start" in said) == (not helps)
    assert ("no KDC answers" in said) == (not helps)
    assert ("svc@R" in tokens.note(ends_at, renewal)) == helps


def test_without_tokens_there_is_nothing_to_say_but_of_a_key_that_does_not_help():
    """A file system that wants none; no news is good news."""
    assert tokens.issue(None, 1.0, Renewal("svc@R")) is None
    refused = tokens.issue(None, 1.0, Renewal("svc@R", "no KDC answers"))
    assert refused is not None
    assert (refused.code, refused.found) == (tokens.NO_LOGIN, "no KDC answers")
    assert not Renewal().works
    assert not attrs.evolve(Renewal("a@R"), trouble="x").works
