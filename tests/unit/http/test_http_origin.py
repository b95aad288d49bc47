"""Whose page made a browser write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import ProxyRule
from tarn.http.request import RequestInfo, cross_site_reason, csrf_through_proxy, is_through_proxy

HOST = b"nm-12.example:41234"
LINES = st.lists(
    st.tuples(
        st.sampled_from([b"origin", b"host", b"sec-fetch-site", b"referer"]),
        st.sampled_from([HOST, b"http://" + HOST, b"null", b"same-origin", b"none", b"cross-site"])
        | st.binary(max_size=20),
    ),
    max_size=5,
)


def asked(*headers: tuple[bytes, bytes]) -> RequestInfo:
    return RequestInfo("/api/v1/down", b"", headers, "10.0.0.1")


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
    assert (cross_site_reason(asked(*lines)) == "") == (own and sites <= {b"same-origin", b"none"})


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
    assert cross_site_reason(asked((b"host", HOST), (b"origin", origin))) != ""


def test_programs_say_nothing() -> None:
    """As curl, TARN's own clients and load balancers do."""
    assert cross_site_reason(asked((b"host", HOST))) == ""
    assert (
        cross_site_reason(asked((b"host", HOST), (b"origin", b"https://NM-12.example:41234"))) == ""
    )


RULE = ProxyRule(frozenset({"10.0.0.1"}), "alice")
COOKIE = (b"cookie", b"a=b; proxy-user=alice")


def test_the_proxy_is_known_by_its_address_and_its_cookie() -> None:
    """A browser that says what its page is did not come through it: that is not handed on."""
    assert is_through_proxy(asked(COOKIE), RULE)
    assert not is_through_proxy(asked(COOKIE), None)
    assert not is_through_proxy(asked((b"cookie", b"proxy-users=alice; x=proxy-user=a")), RULE)
    assert not is_through_proxy(asked(COOKIE, (b"sec-fetch-site", b"same-origin")), RULE)
    assert not is_through_proxy(RequestInfo("/", b"", (COOKIE,), "10.0.0.2"), RULE)


def test_a_pages_proof_counts_from_the_proxy_alone() -> None:
    """From anywhere else a page has the master's own Origin, or is somebody else's."""
    sent = RequestInfo("/api/v1/down", b"csrf=x", (), "10.0.0.1")
    assert csrf_through_proxy(sent, RULE) == "x"
    assert csrf_through_proxy(sent, None) == ""
    assert csrf_through_proxy(RequestInfo("/api/v1/down", b"csrf=x", (), "10.0.0.2"), RULE) == ""
    site = ((b"sec-fetch-site", b"cross-site"),)
    assert csrf_through_proxy(RequestInfo("/api/v1/down", b"csrf=x", site, "10.0.0.1"), RULE) == ""


def test_a_machine_that_speaks_to_itself_does_so_from_any_loopback_address() -> None:
    """As where all of YARN is one machine; nobody from elsewhere is taken for it."""
    near = ProxyRule(frozenset({"127.0.1.1"}), "alice")
    for peer, good in (("127.0.0.1", True), ("127.0.1.1", True), ("10.0.0.1", False), ("", False)):
        assert (csrf_through_proxy(RequestInfo("/", b"csrf=x", (), peer), near) == "x") is good
        assert is_through_proxy(RequestInfo("/", b"", (COOKIE,), peer), near) is good
    assert not is_through_proxy(RequestInfo("/", b"", (COOKIE,), "127.0.0.1"), RULE)
