"""Whose page made a browser write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.http.asked import Asked
from tarn.http.origin import foreign

HOST = b"nm-12.example:41234"
LINES = st.lists(
    st.tuples(
        st.sampled_from([b"origin", b"host", b"sec-fetch-site", b"referer"]),
        st.sampled_from([HOST, b"http://" + HOST, b"null", b"same-origin", b"none", b"cross-site"])
        | st.binary(max_size=20),
    ),
    max_size=5,
)


def asked(*headers: tuple[bytes, bytes]) -> Asked:
    return Asked("/api/v1/down", b"", headers, "10.0.0.1")


@given(LINES)
def test_only_silence_and_the_own_origin_are_not_foreign(
    lines: list[tuple[bytes, bytes]],
) -> None:
    """Whatever else a browser says of a page, or says twice, is another site's."""
    said = {name: [v for n, v in lines if n == name] for name in (b"origin", b"host")}
    sites = {v.strip().lower() for n, v in lines if n == b"sec-fetch-site"}
    own = said[b"origin"] == [] or (
        len(said[b"origin"]) == len(said[b"host"]) == 1
        and said[b"host"][0].strip() != b""
        and said[b"origin"][0].strip().lower()
        in (s + said[b"host"][0].strip().lower() for s in (b"http://", b"https://"))
    )
    assert (foreign(asked(*lines)) == "") == (own and sites <= {b"same-origin", b"none"})


@pytest.mark.parametrize(
    "origin",
    [
        b"http://rm.example:8088",  # another application's page, shown by YARN's proxy as its own
        b"http://nm-12.example",
        b"http://nm-12.example:412340",
        b"http://evil/nm-12.example:41234",
        b"http://nm-12.example:41234@evil",
        b"",
        b"null",
    ],
)
def test_a_page_elsewhere_is_foreign(origin: bytes) -> None:
    """Also one on the same machine, at another port."""
    assert foreign(asked((b"host", HOST), (b"origin", origin))) != ""


def test_programs_say_nothing() -> None:
    """As curl, TARN's own clients and load balancers do."""
    assert foreign(asked((b"host", HOST))) == ""
    assert foreign(asked((b"host", HOST), (b"origin", b"https://NM-12.example:41234"))) == ""
