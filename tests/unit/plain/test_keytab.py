"""Reading whose keys a keytab holds."""

import contextlib
import shutil
import struct
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.plain.credentials import KeytabKey, keytab_keys, only

WORDS = st.text("abcHTTP.-0", min_size=1, max_size=8)


def counted(text: bytes, order: str) -> bytes:
    return struct.pack(f"{order}H", len(text)) + text


def entry(parts, realm, kvno, enctype, version, *, wide):
    """Write one entry as MIT's library does."""
    order = ">" if version > 1 else "<"
    count = len(parts) + (version == 1)
    body = struct.pack(f"{order}H", count) + counted(realm.encode(), order)
    body += b"".join(counted(part.encode(), order) for part in parts)
    body += struct.pack(f"{order}I", 1) if version > 1 else b""
    body += struct.pack(f"{order}IBH", 1_700_000_000, kvno & 255, enctype)
    body += counted(b"\x5a" * 32, order)
    body += struct.pack(f"{order}I", kvno) if wide else b""
    return struct.pack(f"{order}i", len(body)) + body


@given(
    st.lists(
        st.tuples(
            st.lists(WORDS, min_size=1, max_size=3), WORDS, st.integers(1, 255), st.integers(1, 20)
        ),
        max_size=4,
    ),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.integers(0, 9),
)
def test_every_key_is_told_and_holes_are_passed_over(rows, version, wide, hole):
    """Both versions, with and without the wide number, and what a removed entry leaves."""
    order = ">" if version > 1 else "<"
    data = bytes([5, version])
    for parts, realm, kvno, enctype in rows:
        data += entry(parts, realm, kvno, enctype, version, wide=wide)
        data += struct.pack(f"{order}i", -hole) + b"\0" * hole if hole else b""
    assert keytab_keys(data) == tuple(
        KeytabKey("/".join(parts) + "@" + realm, kvno, enctype)
        for parts, realm, kvno, enctype in rows
    )
    for mine in {key.principal for key in keytab_keys(data)}:
        kept = keytab_keys(only(data, mine))
        assert kept == tuple(key for key in keytab_keys(data) if key.principal == mine)
    assert keytab_keys(only(data, "nobody@NOWHERE")) == ()


def test_a_number_beyond_eight_bits_is_the_wide_one():
    """Active Directory counts far."""
    data = b"\x05\x02" + entry(["svc"], "R", 300, 18, 2, wide=True)
    assert keytab_keys(data)[0].kvno == 300


@given(st.binary(max_size=200), st.booleans())
def test_rubbish_is_refused_or_read_but_nothing_else(data, magic):
    """No error but ValueError leaves, whatever a file holds."""
    with contextlib.suppress(ValueError):
        keytab_keys(b"\x05\x02" + data if magic else data)


def test_one_that_is_cut_off_is_refused():
    """A key in part is no key."""
    data = b"\x05\x02" + entry(["svc"], "R", 3, 18, 2, wide=True)
    for cut in (len(data) - 1, len(data) // 2):
        with pytest.raises(ValueError, match="cut off"):
            keytab_keys(data[:cut])


@pytest.mark.skipif(shutil.which("ktutil") is None, reason="needs MIT's ktutil (krb5-user)")
def test_the_keytab_that_mit_s_program_writes(tmp_path):
    """The real format, not ours of it."""
    file = tmp_path / "k"
    told = "".join(
        f"addent -password -p {name} -k {kvno} -e aes256-cts\nsecret\n"
        for name, kvno in (("HTTP/n1.x@R.TEST", 2), ("svc@R.TEST", 7))
    )
    subprocess.run(["ktutil"], input=f"{told}wkt {file}\nq\n", text=True, check=True, timeout=20)
    assert keytab_keys(file.read_bytes()) == (
        KeytabKey("HTTP/n1.x@R.TEST", 2, 18),
        KeytabKey("svc@R.TEST", 7, 18),
    )
