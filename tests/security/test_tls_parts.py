"""The pure parts of HTTPS hold for whatever they are given."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.cli import _starred, secrets_in
from tarn.cluster.start.keystore import JKS, KeystoreError, opened
from tarn.tls.contexts import common_name, hosts

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@settings(deadline=None)
@given(start=st.sampled_from([b"", JKS, b"\xce\xce\xce\xce", b"\x30\x82"]), rest=st.binary())
def test_no_bytes_are_a_keystore_by_chance(start: bytes, rest: bytes) -> None:
    """No matter what a file holds, it is refused in words, and by no other error."""
    with pytest.raises(KeystoreError) as caught:
        opened(start + rest, "password-canary")
    assert "canary" not in str(caught.value)


@given(secret=st.text("abcdefgh-_0123456789", min_size=8), before=st.lists(words, max_size=3))
def test_a_token_behind_its_option_is_found_and_starred(secret: str, before: list[str]) -> None:
    """Every byte stays at its place, and other words are as they were."""
    assert secret in secrets_in([*before, "--token", secret])
    raw = secret.encode()
    for word in (raw, b"--token=" + raw, b"-t" + raw):
        starred = _starred(word, [raw])
        assert len(starred) == len(word)
        assert raw not in starred
    assert _starred(b"other" + raw, [raw]) == b"other" + raw


names = st.lists(st.tuples(st.sampled_from(["commonName", "organizationName"]), words), max_size=3)


@given(parts=names)
def test_one_common_name_counts_and_of_two_none(parts: list[tuple[str, str]]) -> None:
    """Two readers of one certificate may not see two names."""
    certificate = {"subject": tuple(((kind, value),) for kind, value in parts)}
    common = [value for kind, value in parts if kind == "commonName"]
    expected = common[0] if len(common) == 1 and common[0].isprintable() else ""
    assert common_name(certificate) == expected


def test_nobody_is_proven_by_nothing() -> None:
    """No certificate, and one without names."""
    assert common_name(None) == common_name({}) == ""
    assert hosts({}) == ()
    alternative = (("DNS", "a"), ("email", "x@y"), ("IP Address", "10.0.0.1"))
    assert hosts({"subjectAltName": alternative}) == ("a", "10.0.0.1")
